//! `traceparent`: a valid one of the request is retained with its record, and no other costs a
//! receipt.

use std::sync::Arc;

use receipt::Limits;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogInspector};

use crate::log::{MemoryLog, Mood};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, WEBHOOK, batch, receipt};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// `fields` and these traceparents.
fn traced<'a>(fields: &[(&'a str, &'a str)], traces: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let traces = traces.iter().map(|trace| ("traceparent", *trace));
    fields.iter().copied().chain(traces).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_traceparent_comes_out_of_the_embedded_log_again() {
    let directory = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig {
        segment_bytes: 32 << 20,
        min_free_bytes: 0,
        ..EmbeddedConfig::default()
    };
    let log = EmbeddedLog::open(directory.path(), config.clone()).unwrap();
    let unused = Arc::new(MemoryLog::new(Mood::Takes));
    let gateway = Running::over(Arc::new(log.clone()), unused, Limits::default(), |_| {}).await;
    let requests = [
        (RECEIPTS, FIELDS, receipt().0),
        (BATCH, JSON, batch(2)),
        (WEBHOOK, JSON, receipt().0),
    ];
    let mut ids = Vec::new();
    for (path, fields, body) in &requests {
        let answer = gateway.post(path, &traced(fields, &[TRACE]), body).await;
        assert!(matches!(answer.status, 200 | 202), "{path}: {answer:?}");
        ids.push(answer.field("x-request-id").to_owned());
        assert!(matches!(gateway.post(path, fields, body).await.status, 200 | 202));
    }
    gateway.stop().await;
    log.close();
    drop(log);
    let log = EmbeddedLog::open(directory.path(), config).unwrap();
    let records = log.read(0, 0, 1 << 20).await.unwrap();
    assert_eq!(records.len(), 6);
    for (pair, id) in records.chunks(2).zip(&ids) {
        let [with, without] = [&pair[0].record, &pair[1].record];
        assert_eq!(with.trace.unwrap().as_str(), TRACE);
        assert_eq!((&with.request_id, without.trace), (id, None));
    }
    log.close();
}

#[tokio::test]
async fn what_is_no_traceparent_is_left_out_and_the_receipt_taken() {
    let gateway = Running::start().await;
    let shouting = TRACE.to_uppercase();
    let cases: [&[&str]; 5] = [&[""], &["nonsense"], &[&shouting], &[TRACE, TRACE], &[&TRACE[..54]]];
    for traces in cases {
        let answer = gateway.post(RECEIPTS, &traced(FIELDS, traces), &receipt().0).await;
        assert_eq!(answer.status, 202, "{traces:?}");
    }
    // Of a version that isn't known yet, what is known of all.
    let later = format!("{}-more", TRACE.replacen("00", "cc", 1));
    let answer = gateway.post(RECEIPTS, &traced(FIELDS, &[&later]), &receipt().0).await;
    assert_eq!(answer.status, 202);
    let retained: Vec<_> = gateway.records().into_iter().map(|record| record.trace).collect();
    assert_eq!(retained[..5], [None; 5]);
    assert_eq!(retained[5].unwrap().as_str(), TRACE);
    gateway.stop().await;
}
