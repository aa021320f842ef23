//! A full disk under `receipts up`: what can't be stored is refused with 503, and when there is room again everything
//! acknowledged is there, once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use load_tests::http::client;
use load_tests::stack::Stack;
use tokio_util::sync::CancellationToken;

struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// A file system of so many MiB; `None` where this user may not mount.
    fn mount(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .status();
        status.is_ok_and(|status| status.success()).then(|| Self(directory))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_recovers_without_loss() {
    let Some(disk) = Tmpfs::mount(1024) else {
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    };
    let receipts = Path::new(env!("CARGO_BIN_EXE_receipts-load")).with_file_name("receipts");
    // Small steps, and no reserve: the disk itself is to say no.
    let environment = [
        ("RECEIPTS_LOG_SEGMENT_BYTES", "16777216"),
        ("RECEIPTS_LOG_MIN_FREE_BYTES", "0"),
    ];
    let mut stack = Stack::new(&receipts, &disk.0.path().join("data"), &environment).unwrap();
    stack.start().unwrap();
    stack.ready().await.unwrap();
    let key = stack.create_key("full.example").await.unwrap();
    let more = [
        "--count",
        "60000",
        "--batch",
        "20",
        "--rate",
        "1500",
        "--concurrency",
        "8",
        "--tries-max",
        "2000",
    ];
    let arguments = stack.load(&key, "full.example", &more);
    let load = tokio::spawn(load_tests::run(arguments));
    tokio::time::sleep(Duration::from_secs(4)).await;

    // Everything that is left, to the last block, and again what merges give back meanwhile.
    let filler = disk.0.path().join("filler");
    let full = CancellationToken::new();
    let filling = tokio::spawn(keep_full(filler.clone(), full.clone()));
    let refused = wait_for_refusal(&stack).await;
    full.cancel();
    filling.await.unwrap();
    assert!(
        refused,
        "a full disk must show as a log that isn't ready, and 503, in /readyz of the gateway; the end of the log:\n{}",
        stack.log_tail()
    );

    std::fs::remove_file(filler).unwrap();
    let exact = load.await.unwrap();
    assert!(
        matches!(exact, Ok(true)),
        "{exact:?}; the end of the log:
{}",
        stack.log_tail()
    );
    stack.stop().await.unwrap();
}

async fn keep_full(filler: PathBuf, full: CancellationToken) {
    while !full.is_cancelled() {
        let mut fill = tokio::process::Command::new("dd");
        fill.args(["if=/dev/zero", "bs=16k", "oflag=append", "conv=notrunc"])
            .arg(format!("of={}", filler.display()));
        assert!(
            !fill.output().await.unwrap().status.success(),
            "the disk should be full"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Until the log itself refuses: it may go on for a while in space that it has set aside.
async fn wait_for_refusal(stack: &Stack) -> bool {
    let http = client(1);
    for _ in 0..600 {
        let uri = format!("{}/readyz", stack.gateway());
        let request = http::Request::get(uri).body(Full::<Bytes>::default()).unwrap();
        if let Ok(answer) = http.request(request).await
            && answer.status() == http::StatusCode::SERVICE_UNAVAILABLE
        {
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let readiness: serde_json::Value = serde_json::from_slice(&body).unwrap();
            if readiness["components"]["log"]["status"] == "not_ready" {
                return true;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}
