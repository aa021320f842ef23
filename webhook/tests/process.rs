//! The receiver as a process: configured by variables, taking receipts, keeping them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use receipt::{Algorithm, Limits, SigningKey, sign_receipt};
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogInspector};
use serde_json::{Value, json};
use test_engines::{dying_with_us, free_ports, spawn};

const ENTRY: &str = "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10";

struct Receiver {
    child: Child,
    port: u16,
}

impl Receiver {
    fn start(data: &Path, entries: &Path) -> Self {
        let [port, metrics] = free_ports().unwrap();
        let mut command = dying_with_us(env!("CARGO_BIN_EXE_receipts-webhook"), "KILL");
        command
            .env("RECEIPTS_GATEWAY_LISTEN", format!("127.0.0.1:{port}"))
            .env("RECEIPTS_TELEMETRY_METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
            .env("RECEIPTS_DATA_DIR", data)
            .env("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES", "required")
            .env("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES_FILE", entries)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = spawn(command).unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            pause();
        }
        Self { child, port }
    }

    fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (
            answer.split(' ').nth(1).unwrap().parse().unwrap(),
            serde_json::from_str(body).unwrap(),
        )
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::disallowed_methods)] // Watching a real process.
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

fn receipt(key: &SigningKey, entry: &str) -> Vec<u8> {
    let receipt = json!({
        "version": "1.0.0",
        "receiptId": uuid::Uuid::new_v4(),
        "timestamp": service::instant::rfc3339_ms(service::instant::now_ms()),
        "content": {"entryId": entry, "url": "https://news.example.com/a", "contentHash": format!("sha256:{}", "ab".repeat(32)),
            "publisher": "news.example.com"},
        "client": {"id": "0b8f5a52-68a7-4c43-8a0c-6f3f6a0e6a11", "name": "reader", "version": "1", "organization": "Example AI"},
        "usage": {"purpose": "inference", "context": "an answer", "queryId": "q", "sessionId": "s"}
    });
    sign_receipt(&serde_json::to_vec(&receipt).unwrap(), key, &Limits::default()).unwrap()
}

#[test]
fn it_takes_receipts_and_keeps_them_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (data, entries) = (folder.path().join("data"), folder.path().join("entries.txt"));
    std::fs::write(&entries, format!("{ENTRY}\n")).unwrap();
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    for _ in 0..2 {
        let receiver = Receiver::start(&data, &entries);
        let (status, answer) = receiver.post("/api/service/receipt", &receipt(&key, ENTRY));
        assert_eq!((status, &answer["status"]), (200, &json!("verified")));
        let other = receipt(&key, "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11");
        let (status, answer) = receiver.post("/api/service/receipt", &other);
        assert_eq!((status, &answer["code"]), (404, &json!("entry_unknown")));
        assert_eq!(receiver.post("/api/v1/receipts", &receipt(&key, ENTRY)).0, 404);
        receiver.stop();
    }
    let log = EmbeddedLog::open(&data.join("log"), EmbeddedConfig::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let partitions = runtime.block_on(log.partitions("any")).unwrap();
    assert_eq!(partitions[0].end_offset, 2);
    log.close();
}

#[test]
fn a_file_of_entries_that_is_not_there_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let [port, metrics] = free_ports().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_receipts-webhook"))
        .env("RECEIPTS_GATEWAY_LISTEN", format!("127.0.0.1:{port}"))
        .env("RECEIPTS_TELEMETRY_METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .env("RECEIPTS_DATA_DIR", folder.path().join("data"))
        .env("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES", "required")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && told.contains("webhook_entries_file"),
        "{told}"
    );
}
