//! kill -9 at random instants: whatever was acknowledged is there, exactly.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rand::RngExt;
use receipt_log::{Commit, EmbeddedLog, LogConsumer, LogInspector, LogWriter, Record, RecordKind};

use crate::{contract::ALL, small};

/// Set for the process that is killed: the log's directory.
const CHILD: &str = "RECEIPT_LOG_KILLED_CHILD";
const ROUNDS: usize = 10;

fn random_record() -> Record {
    let mut random = rand::rng();
    let mut body = vec![0; random.random_range(1..4000)];
    random.fill(body.as_mut_slice());
    Record {
        kind: RecordKind::Batch,
        body: body.into(),
        request_signature: None,
        request_id: random.random::<u64>().to_string(),
        received_at_ms: 0,
        client_address: None,
        trace: None,
    }
}

fn hash(record: &Record) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record.body), record.request_id.as_bytes())
}

/// Not a test of its own: the process that [`survives_being_killed`] starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let log = EmbeddedLog::open(Path::new(&dir), small()).unwrap();
    for _ in 0..8 {
        let log = log.clone();
        tokio::spawn(async move {
            loop {
                let record = random_record();
                let hash = hash(&record);
                let position = log.append(record).await.unwrap().position;
                writeln!(std::io::stdout().lock(), "acknowledged {} {hash}", position.offset).unwrap();
            }
        });
    }
    let mut consumer = log.consumer("readers").unwrap();
    loop {
        let polled = consumer.poll(ALL).await.unwrap();
        let Some(last) = polled.records.last() else { continue };
        let next_offset = last.position.offset + 1;
        let commit = Commit {
            partition: 0,
            epoch: log.epoch(),
            next_offset,
            metadata: format!("to {next_offset}"),
        };
        consumer.commit(vec![commit]).await.unwrap();
        writeln!(std::io::stdout().lock(), "committed {next_offset}").unwrap();
    }
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture"])
        .env(CHILD, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child for a random while after its first acknowledgement; answers what it acknowledged
/// and committed.
fn run_and_kill(dir: &Path) -> (BTreeMap<u64, u32>, u64) {
    let mut child = start(dir);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (mut acknowledged, mut committed) = (BTreeMap::new(), 0);
    let mut killer = None;
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        // A line cut off by the kill says nothing.
        if let Some(whole) = line.strip_suffix('\n') {
            let words: Vec<&str> = whole.split(' ').collect();
            match words[..] {
                ["acknowledged", offset, hash] => {
                    let before = acknowledged.insert(offset.parse().unwrap(), hash.parse().unwrap());
                    assert_eq!(before, None, "offset {offset} was given twice");
                    if killer.is_none() {
                        let id = child.id().to_string();
                        let pause = Duration::from_millis(rand::rng().random_range(0..150));
                        killer = Some(std::thread::spawn(move || {
                            std::thread::sleep(pause);
                            Command::new("kill").args(["-9", &id]).status().unwrap();
                        }));
                    }
                }
                ["committed", next_offset] => committed = next_offset.parse().unwrap(),
                _ => {} // the test harness talks too
            }
        }
        line.clear();
    }
    killer.expect("nothing was acknowledged").join().unwrap();
    assert!(!child.wait().unwrap().success());
    (acknowledged, committed)
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_being_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for round in 0..ROUNDS {
        let (mut of_round, committed) = run_and_kill(dir.path());
        let count = of_round.len();
        acknowledged.append(&mut of_round);

        let log = EmbeddedLog::open(dir.path(), small()).unwrap();
        let state = log.partitions("readers").await.unwrap().remove(0);
        if let Some(made) = &state.committed {
            assert!(made.next_offset >= committed && made.next_offset <= state.end_offset);
            assert_eq!(made.metadata, format!("to {}", made.next_offset));
        }
        assert!(committed == 0 || state.committed.is_some());
        let mut found = BTreeMap::new();
        while (found.len() as u64) < state.end_offset {
            for logged in log.read(0, found.len() as u64, 1 << 20).await.unwrap() {
                assert_eq!(logged.position.offset, found.len() as u64);
                found.insert(logged.position.offset, hash(&logged.record));
            }
        }
        let lost: Vec<_> = acknowledged
            .iter()
            .filter(|&(offset, hash)| found.get(offset) != Some(hash))
            .collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        eprintln!("round {round}: {count} acknowledged, {} stored in all", found.len());
    }
}
