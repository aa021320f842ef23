//! Crashes and bad disks: the acknowledged prefix survives if its bytes are
//! intact, a torn tail goes, and damage is never mistaken for one.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proptest::{prelude::*, sample::Index};
use receipt_log::{Commit, EmbeddedLog, LogConsumer, LogInspector, LogWriter, LoggedRecord, OpenError};

use crate::{
    contract::{ALL, append_all, record},
    small,
};

const HEADER: usize = 4096;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A frame as it is in a file, read by the documented format and not by the code under test.
#[derive(Debug, Clone, Copy)]
struct Frame {
    start: usize,
    /// End of what the CRC covers.
    end: usize,
    group_base: usize,
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut frames = Vec::new();
    let mut start = HEADER;
    while start + 8 <= bytes.len() && number(start) > 0 {
        let end = start + 8 + number(start);
        frames.push(Frame {
            start,
            end,
            group_base: number(start + 24),
        });
        start = end.next_multiple_of(8);
    }
    frames
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "segment"));
    paths.sort();
    paths
}

async fn read_all(log: &impl LogInspector) -> Vec<LoggedRecord> {
    let mut records = Vec::new();
    loop {
        let more = log.read(0, records.len() as u64, 1 << 20).await.unwrap();
        if more.is_empty() {
            return records;
        }
        records.extend(more);
    }
}

/// A closed log of 24 records: eight groups of one, then groups of several.
fn written() -> (tempfile::TempDir, Vec<LoggedRecord>) {
    let dir = tempfile::tempdir().unwrap();
    let records = block_on(async {
        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        for number in 0..8 {
            log.append(record(number)).await.unwrap();
        }
        append_all(&log, 8..16).await;
        append_all(&log, 16..24).await;
        log.close();
        read_all(&log).await
    });
    assert_eq!(records.len(), 24);
    (dir, records)
}

/// Opens a log. A process that another test is starting may still have the lock of a closed one.
async fn opened(dir: &Path) -> EmbeddedLog {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        match EmbeddedLog::open(dir, small()) {
            Err(OpenError::InUse(_)) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(5)).await,
            opened => return opened.unwrap(),
        }
    }
}

/// Opens the changed log and checks that exactly the first `survivors` are there, and that it works
/// on.
fn assert_survivors(dir: &Path, records: &[LoggedRecord], survivors: usize) {
    block_on(async {
        for round in 0..2 {
            let log = opened(dir).await;
            let found = read_all(&log).await;
            assert_eq!(found.len(), survivors + round);
            assert!(found[..survivors] == records[..survivors]);
            let position = log.append(record(1000)).await.unwrap().position;
            assert_eq!(position.offset, (survivors + round) as u64);
            log.close();
        }
    });
}

fn assert_damaged(dir: &Path, at: usize) {
    match EmbeddedLog::open(dir, small()) {
        Err(OpenError::Damaged { file, at: found, .. }) => {
            assert_eq!(&file, segments(dir).first().unwrap());
            assert_eq!(found, at as u64);
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_file_keeps_every_whole_record(cut in any::<Index>()) {
        let (dir, records) = written();
        let path = &segments(dir.path())[0];
        let bytes = fs::read(path).unwrap();
        let frames = frames(&bytes);
        prop_assert_eq!(frames.len(), 24);
        let length = HEADER + cut.index(frames[23].end - HEADER + 1);
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length as u64).unwrap();
        let survivors = frames.iter().filter(|frame| frame.end <= length).count();
        assert_survivors(dir.path(), &records, survivors);
    }

    #[test]
    fn a_changed_byte_is_a_torn_tail_in_the_last_group_and_damage_before(
        position in any::<Index>(), bits in 1..=255_u8,
    ) {
        let (dir, records) = written();
        let path = &segments(dir.path())[0];
        let mut bytes = fs::read(path).unwrap();
        let frames = frames(&bytes);
        let at = HEADER + position.index(frames[23].end - HEADER);
        bytes[at] ^= bits;
        fs::write(path, &bytes).unwrap();
        match frames.iter().position(|frame| (frame.start..frame.end).contains(&at)) {
            None => assert_survivors(dir.path(), &records, 24), // padding between frames
            Some(hit) if frames.iter().any(|frame| frame.group_base > hit) => {
                assert_damaged(dir.path(), frames[hit].start);
                prop_assert_eq!(fs::read(path).unwrap(), bytes, "a refused log is left as it was");
            }
            Some(hit) => assert_survivors(dir.path(), &records, hit),
        }
    }

    #[test]
    fn garbage_behind_the_tail_is_no_record(
        garbage in prop::collection::vec(any::<u8>(), 1..9000), aligned: bool, copied: bool,
    ) {
        let (dir, records) = written();
        let path = &segments(dir.path())[0];
        let mut bytes = fs::read(path).unwrap();
        let frames = frames(&bytes);
        let end = frames[23].end.next_multiple_of(8);
        if aligned {
            bytes.truncate(end);
        }
        if copied {
            // Stale frames of the same log, as recycled space would hold them.
            let stale = bytes[frames[3].start..frames[12].start].to_vec();
            bytes.extend(stale);
        }
        bytes.extend(garbage);
        fs::write(path, &bytes).unwrap();
        assert_survivors(dir.path(), &records, 24);
    }
}

#[test]
fn a_sealed_segment_must_be_whole() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        for start in (0..1000).step_by(100) {
            append_all(&log, start..start + 100).await;
        }
    });
    let paths = segments(dir.path());
    assert!(paths.len() >= 3, "{paths:?}");
    let whole = fs::read(&paths[0]).unwrap();
    let frames = frames(&whole);
    let last = *frames.last().unwrap();
    for at in [last.end - 1, last.start, frames[10].start + 60] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&paths[0], &bytes).unwrap();
        let hit = frames.iter().find(|frame| at < frame.end).unwrap();
        assert_damaged(dir.path(), hit.start);
    }
    let mut bytes = whole.clone();
    bytes[20] ^= 1;
    fs::write(&paths[0], &bytes).unwrap();
    assert_damaged(dir.path(), 0);
    fs::write(&paths[0], &whole).unwrap();
    let log = EmbeddedLog::open(dir.path(), small()).unwrap();
    assert_eq!(block_on(read_all(&log)).len(), 1000);
    log.close();

    let held_back = fs::read(&paths[1]).unwrap();
    fs::remove_file(&paths[1]).unwrap();
    assert!(matches!(
        EmbeddedLog::open(dir.path(), small()),
        Err(OpenError::Damaged { .. })
    ));
    fs::write(&paths[1], held_back).unwrap();
    EmbeddedLog::open(dir.path(), small()).unwrap();
}

#[test]
fn damage_in_an_old_segment_that_opening_does_not_check_shows_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = receipt_log::EmbeddedConfig {
        open_check_bytes_max: 0,
        ..small()
    };
    block_on(async {
        let log = EmbeddedLog::open(dir.path(), config.clone()).unwrap();
        for start in (0..500).step_by(100) {
            append_all(&log, start..start + 100).await;
        }
        log.close();
        let path = &segments(dir.path())[0];
        let mut bytes = fs::read(path).unwrap();
        let hit = frames(&bytes)[20].start;
        bytes[hit + 70] ^= 1;
        fs::write(path, bytes).unwrap();

        let log = EmbeddedLog::open(dir.path(), config).unwrap();
        let mut consumer = log.consumer("readers").unwrap();
        let mut read = 0;
        let damaged = loop {
            match consumer.poll(ALL).await {
                Ok(polled) => read += polled.records.len(),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(damaged, receipt_log::ConsumeError::Damaged { offset: 20, .. }),
            "{damaged}"
        );
        assert!(read <= 20);
        assert!(log.read(0, 21, 1).await.is_err(), "the segment can't be indexed");
        assert!(!log.read(0, 499, 1).await.unwrap().is_empty(), "other segments can");
    });
}

#[test]
fn a_tail_shorter_than_a_commit_is_damage() {
    let (dir, _) = written();
    block_on(async {
        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        let mut consumer = log.consumer("readers").unwrap();
        let commit = Commit {
            partition: 0,
            epoch: log.epoch(),
            next_offset: 20,
            metadata: String::new(),
        };
        consumer.commit(vec![commit]).await.unwrap();
        log.close();
    });
    let path = &segments(dir.path())[0];
    let frames = frames(&fs::read(path).unwrap());
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(frames[20].start as u64).unwrap();
    EmbeddedLog::open(dir.path(), small()).unwrap().close();
    file.set_len(frames[19].end as u64 - 1).unwrap();
    assert_damaged(dir.path(), frames[19].start);
}

#[test]
fn a_byte_that_changes_under_an_open_log_is_never_handed_out() {
    let (dir, records) = written();
    let path = &segments(dir.path())[0];
    block_on(async {
        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        let reader = EmbeddedLog::open_read_only(dir.path()).unwrap();
        let mut bytes = fs::read(path).unwrap();
        let hit = frames(&bytes)[9];
        bytes[hit.end - 3] ^= 8;
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        file.sync_all().unwrap();
        let mut consumer = log.consumer("readers").unwrap();
        assert!(matches!(
            consumer.poll(ALL).await,
            Err(receipt_log::ConsumeError::Damaged { offset: 9, .. })
        ));
        assert!(log.read(0, 9, 1).await.is_err());
        assert!(reader.read(0, 9, 1).await.is_err());
        assert!(log.read(0, 8, 1).await.unwrap() == records[8..9]);
    });
}
