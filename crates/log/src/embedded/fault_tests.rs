//! Behaviour of the log when its disk fails in ways that no test machine's disk does on demand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rand::SeedableRng;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::StdRng;

use super::{EmbeddedConfig, EmbeddedLog, faults::InjectedFaults, segment_file::segment_bases};
use crate::{
    Topic,
    record::{Record, RecordKind},
    traits::{AppendError, Commit, CommitError, LogInspector, LogProcessor, LogWriter},
};

/// Text that can hardly be compressed.
fn noise(number: usize, bytes: usize) -> String {
    Alphanumeric.sample_string(&mut StdRng::seed_from_u64(number as u64), bytes)
}

fn record(number: usize) -> Record {
    Record {
        kind: RecordKind::Receipt,
        body: format!("{number} {}", noise(number, number * 31 % 3000)).into(),
        request_signature: None,
        request_id: number.to_string(),
        received_at_ms: 0,
        client_address: None,
        trace: None,
    }
}

fn config() -> EmbeddedConfig {
    EmbeddedConfig {
        segment_bytes: 256 << 10,
        record_bytes_max: 64 << 10,
        min_free_bytes: 0,
        ..EmbeddedConfig::default()
    }
}

/// Appends one by one; answers the numbers and offsets of what was acknowledged.
async fn append(log: &EmbeddedLog, numbers: std::ops::Range<usize>) -> Vec<(usize, u64)> {
    let mut acknowledged = Vec::new();
    for number in numbers {
        match log.append(record(number)).await {
            Ok(appended) => acknowledged.push((number, appended.position.offset)),
            Err(AppendError::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    acknowledged
}

async fn assert_exactly(log: &EmbeddedLog, acknowledged: &[(usize, u64)]) {
    let mut found = Vec::new();
    loop {
        let records = log.read(0, found.len() as u64, 1 << 20).await.unwrap();
        if records.is_empty() {
            break;
        }
        for logged in records {
            let number: usize = logged.record.request_id.parse().unwrap();
            assert_eq!(logged.record, record(number));
            found.push((number, logged.position.offset));
        }
    }
    assert_eq!(found, acknowledged);
}

async fn refuses_and_recovers(fault: impl Fn(&InjectedFaults) -> &AtomicBool) {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), config()).unwrap();
    let fault = |on: bool| fault(&log.shared().faults).store(on, Ordering::SeqCst);
    let mut acknowledged = append(&log, 0..300).await;
    assert_eq!(acknowledged.len(), 300);
    for round in 1..4 {
        fault(true);
        let first = round * 1000;
        let before_fault = append(&log, first..first + 300).await;
        assert!(
            before_fault.len() < 300,
            "the fault shows at the latest when the segment is full"
        );
        acknowledged.extend(before_fault);
        assert!(log.writable().unwrap_err().contains("os error 5"));
        let refused = log.append(record(1)).await;
        assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
        assert_exactly(&log, &acknowledged).await;
        fault(false);
        while log.writable().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let after = append(&log, first + 300..first + 320).await;
        assert_eq!(after.len(), 20);
        acknowledged.extend(after);
        assert_exactly(&log, &acknowledged).await;
    }
    log.close();
    let log = EmbeddedLog::open(dir.path(), config()).unwrap();
    assert_exactly(&log, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_never_acknowledged_later() {
    refuses_and_recovers(|faults| &faults.write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_is_never_acknowledged_later() {
    refuses_and_recovers(|faults| &faults.sync).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_cannot_be_made_stops_appends_only() {
    refuses_and_recovers(|faults| &faults.roll).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_can_t_be_stored_moves_no_position_and_is_seen_by_nobody() {
    let faults: [fn(&InjectedFaults) -> &AtomicBool; 2] = [|faults| &faults.write, |faults| &faults.sync];
    for fault in faults {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let receipts = EmbeddedLog::open(dirs[0].path(), config()).unwrap();
        let verdicts = EmbeddedLog::open_topic(Topic::Verdicts, dirs[1].path(), config()).unwrap();
        append(&receipts, 0..10).await;
        let mut processor = receipts.processor("processors", &verdicts).unwrap();
        let call = |next_offset: u64| {
            let records = (0..3).map(|part| (0, record(part))).collect();
            let commit = Commit {
                partition: 0,
                epoch: receipts.epoch(),
                next_offset,
                metadata: String::new(),
            };
            (records, vec![commit])
        };
        let (records, commits) = call(4);
        processor.append_and_commit(records, commits).await.unwrap();
        fault(&verdicts.shared().faults).store(true, Ordering::SeqCst);
        for _ in 0..2 {
            let (records, commits) = call(8);
            let refused = processor.append_and_commit(records, commits).await;
            assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
        }
        let committed = receipts.partitions("processors").await.unwrap().remove(0).committed;
        assert_eq!(committed.unwrap().next_offset, 4);
        assert_eq!(verdicts.read(0, 0, usize::MAX).await.unwrap().len(), 3);
        assert_eq!(verdicts.last(0).await.unwrap().unwrap().position.offset, 2);
        fault(&verdicts.shared().faults).store(false, Ordering::SeqCst);
        while verdicts.writable().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (records, commits) = call(8);
        processor.append_and_commit(records, commits).await.unwrap();
        assert_eq!(verdicts.last(0).await.unwrap().unwrap().position.offset, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_writing_goes_on_in_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), config()).unwrap();
    append(&log, 0..5).await;
    log.shared().faults.sync.store(true, Ordering::SeqCst);
    append(&log, 5..6).await;
    log.shared().faults.sync.store(false, Ordering::SeqCst);
    while log.writable().is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    append(&log, 6..8).await;
    assert_eq!(segment_bases(dir.path()).unwrap(), [0, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_killed_before_recovery_loses_nothing_acknowledged() {
    // The failed group's frames stand whole in the file when the process dies: they may be found,
    // in their place.
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), config()).unwrap();
    let acknowledged = append(&log, 0..20).await;
    log.shared().faults.sync.store(true, Ordering::SeqCst);
    log.shared().faults.roll.store(true, Ordering::SeqCst);
    assert!(append(&log, 20..22).await.is_empty());
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    let reopened = EmbeddedLog::open(copy.path(), config()).unwrap();
    let found = reopened.read(0, 0, usize::MAX).await.unwrap();
    assert!((20..=21).contains(&found.len()));
    for (logged, (number, offset)) in found.iter().zip(&acknowledged) {
        assert_eq!((logged.position.offset, &logged.record), (*offset, &record(*number)));
    }
}
