//! A processor's output and position when the disk fails between them.

use std::{fs, path::Path, time::Duration};

use receipt_log::{
    EmbeddedConfig, EmbeddedLog, EmbeddedProcessor, LogConsumer, LogInspector, LogProcessor, OpenError, PollLimits,
    Topic,
};

use crate::{
    contract::{
        ALL, append_all,
        pipeline::{Run, output, read_all, runs},
    },
    small,
};

/// Records of one call, each for the same run.
const PARTS: usize = 3;

fn open(dir: &Path) -> (EmbeddedLog, EmbeddedLog) {
    let config = || EmbeddedConfig {
        segment_bytes: 1 << 20,
        ..small()
    };
    let open = |topic, name| loop {
        match EmbeddedLog::open_topic(topic, &dir.join(name), config()) {
            // A process that another test is starting has this one's files until it has started.
            Err(OpenError::InUse(_)) => std::thread::sleep(Duration::from_millis(5)),
            opened => return opened.unwrap(),
        }
    };
    (open(Topic::Receipts, "log"), open(Topic::Verdicts, "verdicts"))
}

/// The processor at the position that the newest verdicts say, as a verifier does it.
async fn assigned(receipts: &EmbeddedLog, verdicts: &EmbeddedLog) -> (EmbeddedProcessor, u64, u64) {
    let mut processor = receipts.processor("processors", verdicts).unwrap();
    let assignment = crate::contract::assignments(&mut processor).await.remove(0);
    let newest = verdicts.last(0).await.unwrap();
    let done = newest.map_or(0, |newest| Run::parse(&newest.record.body).0.next);
    assert!(assignment.next_offset <= done, "a position without its output");
    processor.seek(0, done).await.unwrap();
    (processor, assignment.next_offset, done)
}

/// Processes one poll; answers its run.
async fn step(processor: &mut EmbeddedProcessor, records_max: usize) -> Option<Run> {
    let limits = PollLimits { records_max, ..ALL };
    let polled = processor.poll(limits).await.unwrap();
    let epoch = polled.records.first()?.position.epoch;
    let run = runs(&polled.records).remove(0);
    let (records, commits) = output(&[run; PARTS], 1, epoch, 3_000);
    processor
        .append_and_commit(records, commits[..1].to_vec())
        .await
        .unwrap();
    Some(run)
}

/// Checks that `verdicts` has all parts of each run and the runs without a gap; answers their end.
async fn assert_whole(verdicts: &EmbeddedLog) -> u64 {
    let all = read_all(verdicts, 0).await;
    assert_eq!(all.len() % PARTS, 0, "a call was stored in part");
    let mut next = 0;
    for parts in all.chunks(PARTS) {
        let run = Run::parse(&parts[0].record.body).0;
        assert!(parts.iter().all(|part| Run::parse(&part.record.body).0 == run));
        assert_eq!(run.first, next, "a gap or an overlap");
        next = run.next;
    }
    next
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_can_t_be_written_is_found_in_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let (receipts, verdicts) = open(dir.path());
    append_all(&receipts, 0..9).await;
    let (mut processor, ..) = assigned(&receipts, &verdicts).await;
    assert_eq!(step(&mut processor, 3).await.unwrap().next, 3);
    // No file can be made under this name.
    let obstacle = dir.path().join("log/positions/.processors.tmp");
    fs::create_dir(&obstacle).unwrap();
    assert_eq!(step(&mut processor, 3).await.unwrap().next, 6, "the output is stored");
    let committed = || async {
        let state = receipts.partitions("processors").await.unwrap().remove(0);
        state.committed.unwrap().next_offset
    };
    assert_eq!(committed().await, 6);
    // Without output it is the position that counts.
    let (_, commits) = output(
        &[Run {
            partition: 0,
            first: 6,
            next: 7,
        }],
        1,
        receipts.epoch(),
        0,
    );
    let refused = processor.append_and_commit(Vec::new(), commits).await;
    assert!(
        matches!(refused, Err(receipt_log::CommitError::Unavailable(_))),
        "{refused:?}"
    );
    assert_eq!(committed().await, 6);
    receipts.close();
    verdicts.close();
    fs::remove_dir(&obstacle).unwrap();

    // Looked at from outside, and opened again.
    let outside = EmbeddedLog::open_read_only(&dir.path().join("verdicts")).unwrap();
    let newest = outside.last(0).await.unwrap().unwrap();
    assert_eq!(Run::parse(&newest.record.body).0.next, 6);
    let (receipts, verdicts) = open(dir.path());
    let (mut processor, committed, done) = assigned(&receipts, &verdicts).await;
    assert_eq!((committed, done), (3, 6));
    assert_eq!(
        step(&mut processor, 100).await.unwrap(),
        Run {
            partition: 0,
            first: 6,
            next: 9
        }
    );
    assert_eq!(assert_whole(&verdicts).await, 9);
}

/// Retention may delete everything but the newest record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_record_outlives_retention() {
    let dir = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig {
        retention_bytes_max: 0,
        ..small()
    };
    let log = EmbeddedLog::open_topic(Topic::Verdicts, dir.path(), config.clone()).unwrap();
    append_all(&log, 0..1000).await;
    let mut consumer = log.consumer("readers").unwrap();
    let state = log.partitions("readers").await.unwrap().remove(0);
    let commit = receipt_log::Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset: state.end_offset,
        metadata: String::new(),
    };
    consumer.commit(vec![commit]).await.unwrap();
    drop(consumer);
    log.close();
    let log = EmbeddedLog::open_topic(Topic::Verdicts, dir.path(), config).unwrap();
    assert!(log.partitions("readers").await.unwrap()[0].begin_offset > 0);
    assert_eq!(log.last(0).await.unwrap().unwrap().position.offset, 999);
}
