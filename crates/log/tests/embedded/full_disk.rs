//! A disk that fills up, and file systems of other kinds: on small mounts of their own, where the
//! test may mount.

use std::{fs, path::Path, process::Command, time::Duration};

use receipt_log::{
    AppendError, Commit, EmbeddedConfig, EmbeddedLog, LogConsumer, LogInspector, LogWriter, LoggedRecord,
};

use crate::{
    contract::{append_all, record},
    small,
};

/// A mounted file system, unmounted when dropped.
struct Mount {
    dir: tempfile::TempDir,
}

impl Mount {
    /// `None`, with the reason printed, where mounting isn't allowed.
    fn new(kind: &str, options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", options, "receipt-log-test"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { dir }),
            Ok(output) => {
                eprintln!(
                    "skipped, can't mount {kind}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                eprintln!("skipped, can't mount {kind}: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

async fn read_from(log: &EmbeddedLog, begin: u64) -> Vec<LoggedRecord> {
    let mut records: Vec<LoggedRecord> = Vec::new();
    loop {
        let more = log.read(0, begin + records.len() as u64, 1 << 20).await.unwrap();
        if more.is_empty() {
            return records;
        }
        records.extend(more);
    }
}

/// Appends until the log refuses; answers (offset, number) of all that was acknowledged.
async fn fill(log: &EmbeddedLog, from: usize) -> Vec<(u64, usize)> {
    let mut acknowledged = Vec::new();
    for start in (from..).step_by(20) {
        let answers =
            futures_util::future::join_all((start..start + 20).map(|number| log.append(record(number)))).await;
        let mut refused = false;
        for (number, answer) in (start..).zip(answers) {
            match answer {
                Ok(appended) => acknowledged.push((appended.position.offset, number)),
                Err(AppendError::Unavailable(_)) => refused = true,
                Err(other) => panic!("{other}"),
            }
        }
        if refused {
            return acknowledged;
        }
    }
    unreachable!()
}

async fn assert_stored(log: &EmbeddedLog, acknowledged: &[(u64, usize)]) {
    let begin = log.partitions("readers").await.unwrap()[0].begin_offset;
    let records = read_from(log, begin).await;
    for &(offset, number) in acknowledged.iter().filter(|&&(offset, _)| offset >= begin) {
        let logged = &records[(offset - begin) as usize];
        assert_eq!((logged.position.offset, &logged.record), (offset, &record(number)));
    }
}

async fn until_writable(log: &EmbeddedLog) {
    while log.writable().is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_recovers_when_space_returns() {
    let Some(mount) = Mount::new("tmpfs", "size=4m") else {
        return;
    };
    let dir = mount.path().join("log");
    let filler = mount.path().join("filler");
    let log = EmbeddedLog::open(&dir, small()).unwrap();
    fs::write(&filler, vec![1; 2 << 20]).unwrap();
    let mut acknowledged = fill(&log, 0).await;
    assert!(acknowledged.len() > 100);
    let reason = log.writable().unwrap_err();
    assert!(reason.contains("No space left"), "{reason}");
    assert!(matches!(log.append(record(1)).await, Err(AppendError::Unavailable(_))));
    assert_stored(&log, &acknowledged).await;
    let consumed = log.consumer("readers").unwrap();
    drop(consumed);

    // Opening with a full disk works: what is there can be consumed.
    log.close();
    let log = EmbeddedLog::open(&dir, small()).unwrap();
    assert_stored(&log, &acknowledged).await;
    acknowledged.extend(fill(&log, 10_000).await);
    assert_stored(&log, &acknowledged).await;

    fs::remove_file(&filler).unwrap();
    until_writable(&log).await;
    let again = append_all(&log, 20_000..20_100).await;
    acknowledged.extend(again.into_iter().map(|(position, number)| (position.offset, number)));
    assert_stored(&log, &acknowledged).await;
    drop(log);
    let log = EmbeddedLog::open(&dir, small()).unwrap();
    assert_stored(&log, &acknowledged).await;
    assert_eq!(log.partitions("readers").await.unwrap()[0].end_offset, {
        let (last, _) = acknowledged.iter().max().unwrap();
        last + 1
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn committing_and_retention_free_a_full_disk() {
    let Some(mount) = Mount::new("tmpfs", "size=2m") else {
        return;
    };
    let dir = mount.path().join("log");
    let config = EmbeddedConfig {
        retention_bytes_max: 256 << 10,
        ..small()
    };
    let log = EmbeddedLog::open(&dir, config).unwrap();
    let mut consumer = log.consumer("readers").unwrap();
    let acknowledged = fill(&log, 0).await;
    let end_offset = log.partitions("readers").await.unwrap()[0].end_offset;
    assert_stored(&log, &acknowledged).await;
    let commit = Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset: end_offset,
        metadata: String::new(),
    };
    // The position needs a block too: on a disk without one the verifier tries again, as this does.
    let mut tries = 0;
    while let Err(error) = consumer.commit(vec![commit.clone()]).await {
        tries += 1;
        assert!(tries < 200, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_writable(&log).await;
    let again = append_all(&log, 5000..5050).await;
    let state = log.partitions("readers").await.unwrap().remove(0);
    assert!(state.begin_offset > 0);
    assert!(again.keys().all(|position| position.offset >= end_offset));
    assert_eq!(state.committed.unwrap().next_offset, end_offset);
}

#[tokio::test]
async fn too_little_free_space_refuses_before_the_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig {
        min_free_bytes: u64::MAX,
        ..small()
    };
    let log = EmbeddedLog::open(dir.path(), config).unwrap();
    assert!(log.writable().unwrap_err().contains("are free"));
    assert!(matches!(log.append(record(1)).await, Err(AppendError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_segments_leave_the_wanted_space_free() {
    let Some(mount) = Mount::new("tmpfs", "size=4m") else {
        return;
    };
    let config = EmbeddedConfig {
        min_free_bytes: 2 << 20,
        ..small()
    };
    let log = EmbeddedLog::open(&mount.path().join("log"), config).unwrap();
    let acknowledged = fill(&log, 0).await;
    let found = rustix::fs::statvfs(mount.path()).unwrap();
    assert!(
        found.f_bavail * found.f_frsize >= 2 << 20,
        "{} blocks are free",
        found.f_bavail
    );
    assert!(log.writable().unwrap_err().contains("are free"));
    assert_stored(&log, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_reserves_no_space_is_written() {
    // ramfs knows no fallocate, on no kernel.
    let Some(mount) = Mount::new("ramfs", "mode=700") else {
        return;
    };
    let log = EmbeddedLog::open(mount.path(), small()).unwrap();
    let acknowledged: Vec<_> = append_all(&log, 0..700)
        .await
        .into_iter()
        .map(|(position, number)| (position.offset, number))
        .collect();
    assert_stored(&log, &acknowledged).await;
    drop(log);
    let log = EmbeddedLog::open(mount.path(), small()).unwrap();
    assert_stored(&log, &acknowledged).await;
    assert_eq!(
        EmbeddedLog::open_read_only(mount.path())
            .unwrap()
            .partitions("x")
            .await
            .unwrap()[0]
            .end_offset,
        700
    );
}
