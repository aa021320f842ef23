//! Several consumers of one group.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rdkafka::{
    ClientConfig,
    producer::{BaseRecord, Producer, ThreadedProducer},
};
use receipt_log::{
    Commit, CommitError, KafkaConfig, KafkaConsumer, KafkaLog, LogConsumer, LogInspector, LogWriter, PollLimits,
};
use test_engines::Kafka;

use crate::{
    config,
    contract::{ALL, append_all, poll_records, record},
};

const PARTITIONS: u32 = 6;

/// Commits of the group that the log took, each checked against the one before it.
#[derive(Default)]
struct Journal {
    /// Offset behind the last committed one, by partition.
    done: BTreeMap<u32, u64>,
    records: u64,
}

/// Processes records in blocks, as a verifier does, until `stop`.
async fn work(mut consumer: KafkaConsumer, journal: Arc<Mutex<Journal>>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let limits = PollLimits {
            records_max: 50,
            wait_max: Duration::from_millis(50),
            ..ALL
        };
        let polled = consumer.poll(limits).await.unwrap();
        let mut blocks: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for logged in &polled.records {
            let offset = logged.position.offset;
            blocks.entry(logged.position.partition).or_insert((offset, offset)).1 = offset;
        }
        let epoch = polled.records.first().map_or(0, |logged| logged.position.epoch);
        for (partition, (first, last)) in blocks {
            let commit = Commit {
                partition,
                epoch,
                next_offset: last + 1,
                metadata: format!("{first}"),
            };
            let mut committed = consumer.commit(vec![commit.clone()]).await;
            // As during a rebalance.
            while let Err(CommitError::Unavailable(_)) = committed {
                tokio::time::sleep(Duration::from_millis(10)).await;
                committed = consumer.commit(vec![commit.clone()]).await;
            }
            match committed {
                Ok(()) => {
                    let mut journal = journal.lock();
                    let before = journal.done.insert(partition, last + 1).unwrap_or(0);
                    assert_eq!(before, first, "partition {partition} was done by two");
                    journal.records += last + 1 - first;
                }
                Err(CommitError::Fenced(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_come_and_go_do_every_record_once() {
    let config = KafkaConfig {
        partitions: PARTITIONS,
        ..config(Kafka::shared().unwrap().bootstrap())
    };
    let group = format!("{}-readers", config.topic);
    let log = KafkaLog::open(config).unwrap();
    let journal = Arc::new(Mutex::new(Journal::default()));
    let start = || {
        let stop = Arc::new(AtomicBool::new(false));
        let consumer = log.consumer(&group).unwrap();
        (
            tokio::spawn(work(consumer, Arc::clone(&journal), Arc::clone(&stop))),
            stop,
        )
    };
    let mut running = vec![start()];
    let mut appended = 0;
    for round in 0..8 {
        append_all(&log, 0..500).await;
        appended += 500;
        match round % 4 {
            0 | 1 => running.push(start()),
            _ => {
                let (leaving, stop) = running.remove(0);
                stop.store(true, Ordering::Relaxed);
                leaving.await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    while journal.lock().records < appended {
        assert!(running.iter().all(|(work, _)| !work.is_finished()), "a consumer ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (work, stop) in running {
        stop.store(true, Ordering::Relaxed);
        work.await.unwrap();
    }
    for state in log.partitions(&group).await.unwrap() {
        let next_offset = state.committed.map_or(0, |made| made.next_offset);
        assert_eq!(next_offset, state.end_offset);
        assert_eq!(
            journal.lock().done.get(&state.partition).copied().unwrap_or(0),
            next_offset
        );
    }
    assert_eq!(journal.lock().records, appended);
}

/// A commit that crosses the answer to a join has the generation before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_under_way_fences_nobody() {
    let config = KafkaConfig {
        poll_interval_ms_max: 60_000,
        ..config(Kafka::shared().unwrap().bootstrap())
    };
    let topic = config.topic.clone();
    let log = KafkaLog::open(config).unwrap();
    append_all(&log, 0..60).await;
    for round in 0..8 {
        let group = format!("{topic}-{round}");
        let mut first = log.consumer(&group).unwrap();
        let records = poll_records(&mut first, 60).await;
        let last = records.last().unwrap().position;
        let commit = Commit {
            partition: last.partition,
            epoch: last.epoch,
            next_offset: last.offset + 1,
            metadata: String::new(),
        };
        let second = log.consumer(&group).unwrap();
        // It doesn't poll, so nothing is taken from it, but the group goes from one generation to
        // the next.
        let until = tokio::time::Instant::now() + Duration::from_secs(4);
        while tokio::time::Instant::now() < until {
            match first.commit(vec![commit.clone()]).await {
                Ok(()) | Err(CommitError::Unavailable(_)) => {}
                Err(fenced) => panic!("{fenced}"),
            }
        }
        first.commit(vec![commit]).await.unwrap();
        drop(second);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_partition_doesn_t_keep_the_others_waiting() {
    let config = config(Kafka::shared().unwrap().bootstrap());
    let group = format!("{}-readers", config.topic);
    let log = KafkaLog::open(config.clone()).unwrap();
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &config.brokers)
        .set("queue.buffering.max.kbytes", "1000000");
    let producer: ThreadedProducer<rdkafka::producer::DefaultProducerContext> = settings.create().unwrap();
    let body = vec![b'x'; 100_000];
    for (partition, count) in [(0, 400), (1, 3), (2, 3)] {
        for _ in 0..count {
            let message = BaseRecord::<(), [u8]>::to(&config.topic)
                .partition(partition)
                .payload(&body);
            producer.send(message).unwrap();
        }
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    let mut consumer = log.consumer(&group).unwrap();
    let (mut long, mut short) = (0, 0);
    while short < 6 {
        for logged in consumer.poll(ALL).await.unwrap().records {
            *(if logged.position.partition == 0 {
                &mut long
            } else {
                &mut short
            }) += 1;
        }
    }
    assert!(long < 300, "{long} records of the long partition came first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_that_was_dropped_loses_nothing() {
    let config = config(Kafka::shared().unwrap().bootstrap());
    let group = format!("{}-readers", config.topic);
    let log = KafkaLog::open(config).unwrap();
    let mut consumer = log.consumer(&group).unwrap();
    let (mut seen, mut appended) = (0, 0);
    while appended < 40 {
        let poll = consumer.poll(ALL);
        if let Ok(polled) = tokio::time::timeout(Duration::from_millis(7), poll).await {
            seen += polled.unwrap().records.len();
        }
        log.append(record(appended)).await.unwrap();
        appended += 1;
    }
    while seen < appended {
        seen += consumer.poll(ALL).await.unwrap().records.len();
    }
    assert_eq!(seen, appended);
    assert!(consumer.poll(ALL).await.unwrap().records.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_set_once_a_stopped_member_is_gone() {
    let kafka = Kafka::shared().unwrap();
    let one = KafkaConfig {
        partitions: 1,
        ..config(kafka.bootstrap())
    };
    let log = KafkaLog::open(one).unwrap();
    log.append(record(0)).await.unwrap();
    let mut consumer = log.consumer("stopped").unwrap();
    poll_records(&mut consumer, 1).await;
    let rewinding = log.clone();
    let setting = tokio::task::spawn_blocking(move || rewinding.rewind("stopped", &[(0, 0)]));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!setting.is_finished(), "the group has a member");
    drop(consumer);
    setting.await.unwrap().unwrap();
}
