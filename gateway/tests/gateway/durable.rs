//! Over the real embedded log: what was acknowledged is found again.

use std::sync::Arc;

use receipt::Limits;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogInspector, RecordKind};

use crate::log::{MemoryLog, Mood};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_record_is_in_the_log_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig {
        segment_bytes: 32 << 20,
        min_free_bytes: 0,
        ..EmbeddedConfig::default()
    };
    let log = EmbeddedLog::open(directory.path(), config.clone()).unwrap();
    let unused = Arc::new(MemoryLog::new(Mood::Takes));
    let gateway = Running::over(Arc::new(log.clone()), unused, Limits::default(), |_| {}).await;
    let address = gateway.address;
    let mut loads = Vec::new();
    for _ in 0..8 {
        loads.push(tokio::spawn(async move {
            let mut client = crate::client::Client::connect(address).await;
            let mut sent = Vec::new();
            for _ in 0..25 {
                let (body, _) = receipt();
                assert_eq!(client.post(RECEIPTS, FIELDS, &body).await.status, 202);
                sent.push(body);
            }
            let body = batch(20);
            assert_eq!(client.post(BATCH, JSON, &body).await.status, 202);
            sent.push(body);
            sent
        }));
    }
    let mut sent = Vec::new();
    for load in loads {
        sent.extend(load.await.unwrap());
    }
    gateway.stop().await;
    log.close();
    drop(log);
    let log = EmbeddedLog::open(directory.path(), config).unwrap();
    let mut stored = Vec::new();
    loop {
        let records = log.read(0, stored.len() as u64, 1 << 20).await.unwrap();
        if records.is_empty() {
            break;
        }
        stored.extend(records.into_iter().map(|record| record.record));
    }
    assert_eq!(
        stored.iter().filter(|record| record.kind == RecordKind::Batch).count(),
        8
    );
    let mut stored: Vec<Vec<u8>> = stored.into_iter().map(|record| record.body.to_vec()).collect();
    stored.sort();
    sent.sort();
    assert!(stored == sent);
    log.close();
}
