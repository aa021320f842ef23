//! Opening, closing, rolling, retention: the life of one directory.

use std::{fs, path::Path, time::Duration};

use config::Section;
use receipt_log::{
    AppendError, Commit, CommitError, ConsumeError, EmbeddedConfig, EmbeddedLog, GroupError, InspectError, LogConsumer,
    LogInspector, LogWriter, OpenError,
};

use crate::{
    contract::{ALL, append_all, poll_records, record},
    small,
};

fn commit(log: &EmbeddedLog, next_offset: u64) -> Vec<Commit> {
    vec![Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset,
        metadata: String::new(),
    }]
}

fn segment_count(dir: &Path) -> usize {
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "segment");
    fs::read_dir(dir)
        .unwrap()
        .filter(|entry| is_segment(&entry.as_ref().unwrap().path()))
        .count()
}

#[tokio::test]
async fn is_open_once_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert!(matches!(
        EmbeddedLog::open(dir.path(), small()),
        Err(OpenError::InUse(_))
    ));
    let (clone, mut consumer) = (log.clone(), log.consumer("readers").unwrap());
    log.close();
    let again = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert_eq!(again.epoch(), clone.epoch());
    assert!(matches!(clone.append(record(1)).await, Err(AppendError::Closed)));
    assert!(clone.writable().is_err());
    assert!(matches!(consumer.poll(ALL).await, Err(ConsumeError::Unavailable(_))));
    assert!(matches!(
        consumer.commit(commit(&clone, 0)).await,
        Err(CommitError::Unavailable(_))
    ));
    assert!(matches!(clone.consumer("readers"), Err(GroupError::Unavailable(_))));
    drop(again);
    EmbeddedLog::open(dir.path(), small()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_answers_what_was_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    let waiting: Vec<_> = (0..500).map(|number| log.append(record(number))).collect();
    log.close();
    for (offset, answer) in futures_util::future::join_all(waiting).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap().position.offset, offset as u64);
    }
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert_eq!(log.partitions("readers").await.unwrap()[0].end_offset, 500);
}

#[test]
fn refuses_settings_that_contradict_each_other() {
    let dir = tempfile::tempdir().unwrap();
    assert!(EmbeddedConfig::default().checked("log").is_ok());
    let config = EmbeddedConfig {
        segment_bytes: 1 << 20,
        queue_bytes_max: 5,
        ..EmbeddedConfig::default()
    };
    let Err(OpenError::Config(error)) = EmbeddedLog::open(dir.path(), config) else {
        panic!()
    };
    assert_eq!(error.faults.len(), 2, "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(serde_json::from_str::<EmbeddedConfig>("{\"segment_bytes\":5}").is_ok());
    assert!(serde_json::from_str::<EmbeddedConfig>("{\"segment_byte\":5}").is_err());
}

#[tokio::test]
async fn group_names_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert!(matches!(log.consumer("../x"), Err(GroupError::Name(_))));
}

#[tokio::test]
async fn commits_are_bounded_in_metadata_and_by_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    append_all(&log, 0..3).await;
    let mut consumer = log.consumer("readers").unwrap();
    assert!(matches!(
        consumer.commit(commit(&log, 4)).await,
        Err(CommitError::Unavailable(_))
    ));
    let mut large = commit(&log, 3);
    large[0].metadata = "x".repeat((16 << 10) + 1);
    assert!(matches!(
        consumer.commit(large.clone()).await,
        Err(CommitError::Invalid(_))
    ));
    large[0].metadata.pop();
    consumer.commit(large.clone()).await.unwrap();
    let mut elsewhere = large;
    elsewhere[0].partition = 1;
    assert!(matches!(consumer.commit(elsewhere).await, Err(CommitError::Fenced(1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    let mut epoch = None;
    for round in 0..6 {
        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        assert_eq!(*epoch.get_or_insert(log.epoch()), log.epoch());
        let mut consumer = log.consumer("readers").unwrap();
        append_all(&log, count..count + 150).await;
        poll_records(&mut consumer, 150).await;
        count += 150;
        consumer.commit(commit(&log, count as u64)).await.unwrap();
        let mut everything = log.consumer(&format!("round-{round}")).unwrap();
        for logged in poll_records(&mut everything, count).await {
            let number = usize::try_from(logged.record.received_at_ms + 3).unwrap();
            assert_eq!(logged.record, record(number));
        }
    }
    let state = EmbeddedLog::open(dir.path(), small())
        .unwrap()
        .partitions("readers")
        .await
        .unwrap();
    assert_eq!((state[0].begin_offset, state[0].end_offset), (0, 900));
    assert_eq!(state[0].committed.as_ref().unwrap().next_offset, 900);
}

fn of_300_kib() -> EmbeddedConfig {
    EmbeddedConfig {
        retention_bytes_max: 300 << 10,
        ..small()
    }
}

/// A log of 2,000 records, which the group `fast` has committed and the group `slow` hasn't.
async fn committed_by_one_of_two_groups(dir: &Path, config: &EmbeddedConfig) -> EmbeddedLog {
    let log = EmbeddedLog::open(dir, config.clone()).unwrap();
    drop(log.consumer("slow").unwrap());
    let mut fast = log.consumer("fast").unwrap();
    for start in (0..2000).step_by(200) {
        append_all(&log, start..start + 200).await;
    }
    poll_records(&mut fast, 2000).await;
    fast.commit(commit(&log, 2000)).await.unwrap();
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_only_what_every_group_has_committed() {
    let dir = tempfile::tempdir().unwrap();
    let config = of_300_kib();
    let log = committed_by_one_of_two_groups(dir.path(), &config).await;
    // Upkeep is done before `open` returns: nothing was deleted for the slow group, not even after
    // a restart.
    drop(log);
    let log = EmbeddedLog::open(dir.path(), config.clone()).unwrap();
    let before = segment_count(dir.path());
    assert!(before > 4);
    let state = &log.partitions("slow").await.unwrap()[0];
    assert_eq!(state.begin_offset, 0);

    let mut slow = log.consumer("slow").unwrap();
    slow.commit(commit(&log, 1000)).await.unwrap();
    drop(log);
    let log = EmbeddedLog::open(dir.path(), config.clone()).unwrap();
    let state = log.partitions("slow").await.unwrap().remove(0);
    assert!((1..=1000).contains(&state.begin_offset), "{state:?}");
    assert!(segment_count(dir.path()) < before);
    assert!(matches!(log.read(0, 0, 1).await, Err(InspectError::Gone { begin, .. }) if begin == state.begin_offset));
    let mut slow = log.consumer("slow").unwrap();
    assert_eq!(poll_records(&mut slow, 1000).await[0].position.offset, 1000);
    slow.commit(commit(&log, 2000)).await.unwrap();

    // And by itself while the log is open.
    let mut newcomer = loop {
        let begin_offset = log.partitions("slow").await.unwrap()[0].begin_offset;
        if begin_offset > 1000 {
            break log.consumer("newcomer").unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let assigned = newcomer.poll(ALL).await.unwrap().assigned.remove(0);
    assert_eq!(
        assigned.next_offset,
        log.partitions("newcomer").await.unwrap()[0].begin_offset
    );
    assert!(assigned.next_offset > 1000);
    // What was deleted isn't passed over silently.
    let below = newcomer.seek(0, assigned.next_offset - 1).await;
    assert!(matches!(below, Err(ConsumeError::Damaged { .. })), "{below:?}");
    newcomer.seek(0, assigned.next_offset).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_does_not_wait_for_a_forgotten_group() {
    let dir = tempfile::tempdir().unwrap();
    let config = of_300_kib();
    let log = committed_by_one_of_two_groups(dir.path(), &config).await;
    log.forget_group("slow").unwrap();
    log.forget_group("never-there").unwrap();
    drop(log);
    let log = EmbeddedLog::open(dir.path(), config).unwrap();
    assert!(log.partitions("fast").await.unwrap()[0].begin_offset > 1000);
    assert!(!dir.path().join("positions/slow").exists());
}

#[tokio::test]
async fn a_damaged_position_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    append_all(&log, 0..3).await;
    log.consumer("readers").unwrap().commit(commit(&log, 2)).await.unwrap();
    drop(log);
    let file = dir.path().join("positions/readers");
    let mut bytes = fs::read(&file).unwrap();
    bytes[17] ^= 1;
    fs::write(&file, bytes).unwrap();
    let Err(refused) = EmbeddedLog::open(dir.path(), small()) else {
        panic!("a damaged position was taken");
    };
    assert!(
        refused.to_string().contains("Remove the file and start again"),
        "{refused}"
    );
    fs::remove_file(&file).unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert_eq!(log.append(record(1)).await.unwrap().position.offset, 3);
}

#[tokio::test]
async fn another_directory_is_another_epoch_and_positions_without_segments_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    let other = tempfile::tempdir().unwrap();
    assert_ne!(log.epoch(), EmbeddedLog::open(other.path(), small()).unwrap().epoch());
    append_all(&log, 0..3).await;
    log.consumer("readers").unwrap().commit(commit(&log, 2)).await.unwrap();
    drop(log);
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "segment") {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(matches!(
        EmbeddedLog::open(dir.path(), small()),
        Err(OpenError::Damaged { .. })
    ));
    fs::remove_dir_all(dir.path().join("positions")).unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert_eq!(log.append(record(1)).await.unwrap().position.offset, 0);
}
