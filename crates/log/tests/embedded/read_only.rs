//! Looking into a log beside the process that writes it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use receipt_log::{Commit, EmbeddedLog, InspectError, LogConsumer, LogInspector, LogWriter, OpenError};

use crate::{
    contract::{ALL, append_all, now_ms, record},
    small,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sees_what_was_acknowledged_and_committed_while_another_writes() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        EmbeddedLog::open_read_only(dir.path()),
        Err(OpenError::Missing(_))
    ));
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    let reader = EmbeddedLog::open_read_only(dir.path()).unwrap();
    assert_eq!(reader.epoch(), log.epoch());
    let before_ms = now_ms();
    let state = reader.partitions("readers").await.unwrap().remove(0);
    assert_eq!((state.begin_offset, state.end_offset, state.committed), (0, 0, None));
    assert!(state.complete_through_ms >= before_ms);

    let (acknowledged, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writing = tokio::spawn({
        let (log, acknowledged, done) = (log.clone(), Arc::clone(&acknowledged), Arc::clone(&done));
        async move {
            let mut consumer = log.consumer("readers").unwrap();
            for start in (0..3000).step_by(30) {
                append_all(&log, start..start + 30).await;
                acknowledged.store(start as u64 + 30, Ordering::SeqCst);
                let polled = consumer.poll(ALL).await.unwrap();
                if let Some(last) = polled.records.last() {
                    let next_offset = last.position.offset + 1;
                    let commit = Commit {
                        partition: 0,
                        epoch: log.epoch(),
                        next_offset,
                        metadata: next_offset.to_string(),
                    };
                    consumer.commit(vec![commit]).await.unwrap();
                }
            }
            done.store(true, Ordering::SeqCst);
        }
    });
    let (mut read, mut committed, mut last_look) = (0, 0, false);
    loop {
        let is_done = done.load(Ordering::SeqCst);
        let least = acknowledged.load(Ordering::SeqCst);
        let state = reader.partitions("readers").await.unwrap().remove(0);
        assert!(state.end_offset >= least, "{} < {least}", state.end_offset);
        if let Some(made) = state.committed {
            assert!(made.next_offset >= committed && made.next_offset <= state.end_offset);
            assert_eq!(made.metadata, made.next_offset.to_string());
            committed = made.next_offset;
        }
        while read < state.end_offset {
            for logged in reader.read(0, read, 50_000).await.unwrap() {
                assert_eq!(logged.position.offset, read);
                let number = usize::try_from(logged.record.received_at_ms + 3).unwrap();
                assert_eq!(logged.record, record(number));
                read += 1;
            }
        }
        if last_look {
            break;
        }
        last_look = is_done;
    }
    writing.await.unwrap();
    assert_eq!((read, committed), (3000, 3000));

    // The writer goes away and comes back.
    log.close();
    assert_eq!(reader.partitions("readers").await.unwrap()[0].end_offset, 3000);
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    let position = log.append(record(7)).await.unwrap().position;
    let state = reader.partitions("readers").await.unwrap().remove(0);
    assert_eq!(state.end_offset, 3001);
    let logged = reader.read(0, position.offset, 1).await.unwrap().remove(0);
    assert_eq!(logged.record, record(7));
    assert_eq!(state.complete_through_ms, logged.appended_at_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_retention() {
    let dir = tempfile::tempdir().unwrap();
    let config = receipt_log::EmbeddedConfig {
        retention_bytes_max: 0,
        ..small()
    };
    let log = EmbeddedLog::open(dir.path(), config.clone()).unwrap();
    for start in (0..1000).step_by(100) {
        append_all(&log, start..start + 100).await;
    }
    let reader = EmbeddedLog::open_read_only(dir.path()).unwrap();
    assert!(!reader.read(0, 0, 1).await.unwrap().is_empty());
    // This one doesn't list the segments again before it reads.
    let stale = EmbeddedLog::open_read_only(dir.path()).unwrap();
    let mut consumer = log.consumer("readers").unwrap();
    let commit = Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset: 1000,
        metadata: String::new(),
    };
    consumer.commit(vec![commit]).await.unwrap();
    drop((log, consumer));
    let log = EmbeddedLog::open(dir.path(), config).unwrap();
    let begin_offset = log.partitions("readers").await.unwrap()[0].begin_offset;
    assert!(begin_offset > 0);
    assert_eq!(
        reader.partitions("readers").await.unwrap()[0].begin_offset,
        begin_offset
    );
    for reader in [reader, stale] {
        assert!(matches!(reader.read(0, 0, 1).await, Err(InspectError::Gone { begin, .. }) if begin == begin_offset));
    }
}
