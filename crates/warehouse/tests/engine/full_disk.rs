//! A full disk: a clear error that may pass, nothing half written, and all is well once there is
//! room again.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use warehouse::{EmbeddedEngine, Warehouse, WarehouseConfig, WarehouseError};

use crate::harness::{Receipt, accepted, position, spawn_child};

/// Inserts a block of receipts whose URLs don't compress.
async fn insert(warehouse: &Warehouse, block: u64) -> Result<(), WarehouseError> {
    insert_rows(warehouse, block, 200).await
}

async fn insert_rows(warehouse: &Warehouse, block: u64, rows: u64) -> Result<(), WarehouseError> {
    let receipt = |n: u64| {
        let url = (0..4_000).map(|_| char::from(rand::random_range(b'!'..b'~'))).collect();
        let receipt = Receipt {
            url,
            ..Receipt::new(u128::from(block * rows + n))
        };
        (receipt, position(0, block, n as u16))
    };
    let rows: Vec<_> = (0..rows).map(receipt).collect();
    warehouse.insert_accepted(&[accepted(&rows)], None).await
}

/// The child, where no file may grow beyond 256 KiB: `write` fails there as on a full disk,
/// whatever room there is.
pub(crate) async fn write_too_much(dir: &Path) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    let error = insert_rows(&warehouse, 0, 200).await.unwrap_err();
    println!("{error}");
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(warehouse.totals().await.unwrap().receipts, 0);
    // Each fits; merged they don't.
    for block in 1..12 {
        insert_rows(&warehouse, block, 20).await.unwrap();
    }
    let merged = execute(&dir.join("w.sock"), "OPTIMIZE TABLE receipts.receipts FINAL");
    assert!(!merged.starts_with("HTTP/1.1 200"), "{merged}");
    for block in 12..24 {
        insert_rows(&warehouse, block, 20).await.unwrap();
        assert_eq!(warehouse.totals().await.unwrap().receipts, block * 20);
    }
    for part in warehouse.parts().await.unwrap() {
        assert_eq!(warehouse.check_part(&part).await.unwrap(), None, "{part:?}");
    }
    engine.stop().await;
    println!("nothing lost");
}

/// A statement as it is; the whole answer.
fn execute(socket: &Path, statement: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{statement}", statement.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_write_that_fails_is_never_taken_for_one_that_succeeded() {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 512; exec \"$0\" --exact harness::in_a_child --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env("RECEIPTS_TEST_CHILD", "write_too_much")
        .env("DIR", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("nothing lost"), "{text}");
}

/// The child, in a file system of a few megabytes.
pub(crate) async fn fill_the_disk(dir: &Path) {
    // Nothing is left alone: the disk itself is to say no.
    let config = WarehouseConfig {
        min_free_bytes: 0,
        ..WarehouseConfig::default()
    };
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![7; 8 << 20]).unwrap();
    let mut stored = 0;
    let error = loop {
        match insert(&warehouse, stored).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "the disk never filled");
    };
    println!("full after {stored} blocks: {error}");
    assert!(error.is_retryable(), "{error:?}");
    for _ in 0..5 {
        assert!(insert(&warehouse, stored).await.is_err());
    }
    let totals = warehouse.totals().await.unwrap();
    assert_eq!(
        totals.receipts,
        stored * 200,
        "all that was acknowledged, and no part of what was not"
    );
    std::fs::remove_file(&ballast).unwrap();
    insert(&warehouse, stored).await.unwrap();
    assert_eq!(warehouse.totals().await.unwrap().receipts, (stored + 1) * 200);
    engine.stop().await;
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    assert_eq!(engine.warehouse().totals().await.unwrap().receipts, (stored + 1) * 200);
    assert_eq!(engine.warehouse().report_broken_parts().await.unwrap(), 0);
    engine.stop().await;
    println!("recovered");
}

/// The child, in a file system with less room than is to be left alone.
pub(crate) async fn leave_some_free(dir: &Path) {
    let mut config = WarehouseConfig {
        min_free_bytes: 8 << 20,
        ..WarehouseConfig::default()
    };
    let (data, socket) = (dir.join("warehouse"), dir.join("w.sock"));
    let engine = EmbeddedEngine::start(&config, &data, &socket).await.unwrap();
    insert(&engine.warehouse(), 0).await.unwrap();
    engine.stop().await;
    config.min_free_bytes = 64 << 20;
    let engine = EmbeddedEngine::start(&config, &data, &socket).await.unwrap();
    let error = insert(&engine.warehouse(), 1).await.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("Code: 243"),
        "{error:?}"
    );
    assert_eq!(engine.warehouse().totals().await.unwrap().receipts, 200);
    engine.stop().await;
    println!("left some free");
}

#[test]
fn some_of_the_disk_is_left_alone() {
    on_a_small_disk("leave_some_free", "left some free");
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    on_a_small_disk("fill_the_disk", "recovered");
}

fn on_a_small_disk(name: &str, at_the_end: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=40m", "tmpfs"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("not run: this user can't mount a small file system");
        return;
    }
    let out = spawn_child(name, &[("DIR", dir.path().to_str().unwrap())])
        .wait_with_output()
        .unwrap();
    let unmounted = Command::new("umount").arg(dir.path()).status().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains(at_the_end), "{text}");
    assert!(unmounted.success());
    println!("{text}");
}
