//! Other programs at the topics: they read what we write, and we read what they write.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

use bytes::Bytes;
use receipt_log::{KafkaLog, LogWriter, Record, RecordKind, TraceText};
use test_engines::Kafka;

use crate::{config, contract::poll_records};

/// The example of W3C Trace Context.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn record() -> Record {
    Record {
        kind: RecordKind::Batch,
        body: Bytes::from_static(b"{\"batchId\":1}"),
        request_signature: Some("c2ln".to_owned()),
        request_id: "request-7".to_owned(),
        received_at_ms: 1_763_700_000_123,
        client_address: Some([192, 0, 2, 1].into()),
        trace: TraceText::new(TRACE.as_bytes()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_read_what_we_write() {
    let kafka = Kafka::shared().unwrap();
    let config = config(kafka.bootstrap());
    let log = KafkaLog::open(config.clone()).unwrap();
    let position = log.append(record()).await.unwrap().position;
    let read = kafka.kcat(&[
        "-C",
        "-t",
        &config.topic,
        "-o",
        "beginning",
        "-e",
        "-q",
        "-f",
        "%p %o [%k] %h %s\\n",
    ]);
    let headers = "format=1,kind=batch,request-id=request-7,received-at-ms=1763700000123,request-signature=c2ln,client-address=192.0.2.1";
    let headers = format!("{headers},traceparent={TRACE}");
    let line = format!(
        "{} {} [] {headers} {{\"batchId\":1}}\n",
        position.partition, position.offset
    );
    assert_eq!(read.unwrap(), line);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_becomes_records_for_the_verifier_to_judge() {
    let kafka = Kafka::shared().unwrap();
    let config = config(kafka.bootstrap());
    let log = KafkaLog::open(config.clone()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a receipt\n").unwrap();
    let write = |header: &[u8]| {
        let mut kcat = Command::new("kcat");
        kcat.args(["-b", kafka.bootstrap(), "-P", "-t", &config.topic, "-p", "1", "-H"]);
        kcat.arg(OsStr::from_bytes(header)).arg("-l").arg(file.path());
        assert!(kcat.status().unwrap().success());
    };
    write(b"kind=parcel");
    // A name that isn't text.
    write(b"\xff\xfe=x");
    write(b"request-signature=\xff");
    log.append(record()).await.unwrap();
    let mut consumer = log.consumer(&format!("{}-readers", config.topic)).unwrap();
    let mut records = poll_records(&mut consumer, 4).await;
    records.retain(|logged| logged.record != record());
    assert_eq!(records.len(), 3, "ours came unharmed");
    for logged in &records {
        assert_eq!(
            (logged.record.kind, &*logged.record.body),
            (RecordKind::Receipt, &b"not a receipt"[..])
        );
        assert_eq!(
            (logged.record.received_at_ms, logged.record.client_address),
            (logged.appended_at_ms, None)
        );
    }
    assert!(records[2].record.request_signature.is_some());
}
