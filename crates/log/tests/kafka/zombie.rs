//! A consumer whose process is frozen while the group continues.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use receipt_log::{Commit, CommitError, KafkaConfig, KafkaLog, LogConsumer, LogInspector};
use test_engines::Kafka;

use crate::{
    config,
    contract::{ALL, append_all, poll_records},
};

/// Set for the process that is frozen: the broker and the topic.
const CHILD: &str = "RECEIPT_LOG_FROZEN_CHILD";

fn config_of(brokers: &str, topic: &str) -> KafkaConfig {
    KafkaConfig {
        topic: topic.to_owned(),
        partitions: 1,
        // Only the session ends.
        poll_interval_ms_max: 600_000,
        ..config(brokers)
    }
}

fn commit(log: &KafkaLog, next_offset: u64, metadata: &str) -> Vec<Commit> {
    vec![Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset,
        metadata: metadata.to_owned(),
    }]
}

/// Not a test of its own: the process that [`a_thawed_consumer_is_fenced_and_knows_it`] freezes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(target) = std::env::var(CHILD) else { return };
    let (brokers, topic) = target.split_once(' ').unwrap();
    let log = KafkaLog::open(config_of(brokers, topic)).unwrap();
    let mut consumer = log.consumer(topic).unwrap();
    poll_records(&mut consumer, 20).await;
    consumer.commit(commit(&log, 5, "before")).await.unwrap();
    writeln!(std::io::stdout(), "said: read").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let committed = consumer.commit(commit(&log, 10, "zombie")).await;
    let fenced = matches!(committed, Err(CommitError::Fenced(0)));
    let mut revoked = Vec::new();
    while revoked.is_empty() {
        let polled = consumer.poll(ALL).await.unwrap();
        assert!(polled.records.is_empty());
        revoked = polled.revoked;
    }
    writeln!(std::io::stdout(), "said: fenced {fenced} revoked {revoked:?}").unwrap();
    let again = poll_records(&mut consumer, 5).await;
    let first = again[0].position.offset;
    writeln!(std::io::stdout(), "said: went on from {first}").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thawed_consumer_is_fenced_and_knows_it() {
    let brokers = Kafka::shared().unwrap().bootstrap();
    let topic = config(brokers).topic;
    let log = KafkaLog::open(config_of(brokers, &topic)).unwrap();
    append_all(&log, 0..20).await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["zombie::child", "--exact", "--nocapture"])
        .env(CHILD, format!("{brokers} {topic}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = move || lines.find_map(|line| line.unwrap().split_once("said: ").map(|(_, said)| said.to_owned()));
    assert_eq!(said().unwrap(), "read");
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let mut heir = log.consumer(&topic).unwrap();
    let records = poll_records(&mut heir, 15).await;
    assert_eq!(records[0].position.offset, 5, "the heir goes on behind the last commit");
    heir.commit(commit(&log, 20, "heir")).await.unwrap();
    signal("-CONT");
    writeln!(stdin, "go on").unwrap();
    assert_eq!(said().unwrap(), "fenced true revoked [0]");
    drop(heir);
    append_all(&log, 20..25).await;
    assert_eq!(said().unwrap(), "went on from 20", "it is a member again");
    assert!(child.wait().unwrap().success());
    let state = log.partitions(&topic).await.unwrap().remove(0);
    let committed = state.committed.unwrap();
    assert_eq!((committed.next_offset, committed.metadata.as_str()), (20, "heir"));
}
