//! Brokers that die and brokers that are frozen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use receipt_log::{
    AppendError, CommitError, ConsumeError, InspectError, KafkaConfig, KafkaLog, LogConsumer, LogInspector, LogWriter,
    Position,
};
use test_engines::Kafka;

use crate::{
    config,
    contract::{ALL, append_all, record},
};

fn impatient(kafka: &Kafka) -> KafkaConfig {
    KafkaConfig {
        delivery_wait_ms_max: 1_500,
        request_wait_ms_max: 2_000,
        queue_records_max: 1_000,
        ..config(kafka.bootstrap())
    }
}

async fn until_writable(log: &KafkaLog, writable: bool) {
    while log.writable().is_ok() != writable {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_broker_loses_nothing_that_was_acknowledged() {
    let kafka = Kafka::start().unwrap();
    let log = KafkaLog::open(impatient(&kafka)).unwrap();
    let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients = (0..8).map(|client| {
        let (log, stop, taken) = (log.clone(), Arc::clone(&stop), Arc::clone(&taken));
        tokio::spawn(async move {
            let mut acknowledged: Vec<(Position, usize)> = Vec::new();
            let mut refused = 0;
            for number in (client..).step_by(8) {
                match log.append(record(number)).await {
                    Ok(appended) => {
                        acknowledged.push((appended.position, number));
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(AppendError::Busy | AppendError::Unavailable(_)) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            (acknowledged, refused)
        })
    });
    let clients: Vec<_> = clients.collect();
    while taken.load(Ordering::Relaxed) < 500 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kafka.kill().unwrap();
    until_writable(&log, false).await;
    assert!(matches!(log.append(record(1)).await, Err(AppendError::Unavailable(_))));
    kafka.restart().unwrap();
    until_writable(&log, true).await;
    let after = log.append(record(2)).await.unwrap().position;
    stop.store(true, Ordering::Relaxed);
    let outcomes: Vec<_> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    assert!(outcomes.iter().map(|(_, refused)| refused).sum::<usize>() > 0);
    let acknowledged: Vec<_> = outcomes
        .into_iter()
        .flat_map(|(acknowledged, _)| acknowledged)
        .collect();
    let mut stored = std::collections::HashMap::new();
    for state in log.partitions("nobody").await.unwrap() {
        let mut offset = state.begin_offset;
        while offset < state.end_offset {
            let records = log.read(state.partition, offset, 1 << 20).await.unwrap();
            offset += records.len() as u64;
            stored.extend(records.into_iter().map(|logged| (logged.position, logged.record)));
        }
    }
    for (position, number) in acknowledged {
        assert_eq!(stored[&position], record(number));
    }
    assert_eq!(stored[&after], record(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_is_reported_in_time_and_nothing_piles_up() {
    let kafka = Kafka::start().unwrap();
    // So few that none is given up before the last one was refused, on a slow machine too, and so
    // long that the records below are handed over before the broker counts as away.
    let config = KafkaConfig {
        queue_records_max: 50,
        delivery_wait_ms_max: 4_000,
        ..impatient(&kafka)
    };
    let log = KafkaLog::open(config.clone()).unwrap();
    let mut consumer = log.consumer("readers").unwrap();
    // A new broker takes its time.
    let first = loop {
        if let Ok(appended) = log.append(record(0)).await {
            break appended.position;
        }
    };
    while consumer.poll(ALL).await.unwrap().records.is_empty() {}
    kafka.freeze().unwrap();
    // Its last thread may stop a moment after the signal was sent.
    until_writable(&log, false).await;
    let outcomes = join_all((0..250).map(|number| log.append(record(number)))).await;
    let busy = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(AppendError::Busy)))
        .count();
    let given_up = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(AppendError::Unavailable(_))))
        .count();
    assert_eq!(busy + given_up, 250);
    assert!((1..=config.queue_records_max).contains(&given_up), "{given_up}");
    assert!(log.writable().is_err());
    // At last a record isn't handed over any more: its answer doesn't wait.
    while !matches!(
        log.append(record(1)).now_or_never(),
        Some(Err(AppendError::Unavailable(_)))
    ) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(
        log.partitions("readers").await,
        Err(InspectError::Unavailable(_))
    ));
    let commit = receipt_log::Commit {
        partition: first.partition,
        epoch: log.epoch(),
        next_offset: first.offset + 1,
        metadata: String::new(),
    };
    // It may be taken later; that this member can't know, so it is one no more.
    let committed = consumer.commit(vec![commit]).await;
    assert!(matches!(committed, Err(CommitError::Fenced(_))), "{committed:?}");
    kafka.thaw().unwrap();
    until_writable(&log, true).await;
    let after = append_all(&log, 100..110).await;
    let mut missing = after.len();
    while missing > 0 {
        match consumer.poll(ALL).await {
            Ok(polled) => {
                missing -= polled
                    .records
                    .iter()
                    .filter(|logged| after.contains_key(&logged.position))
                    .count();
            }
            Err(ConsumeError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(damaged) => panic!("{damaged}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_closed_answers_for_what_it_took() {
    let log = KafkaLog::open(config(Kafka::shared().unwrap().bootstrap())).unwrap();
    let mut consumer = log.consumer("of-a-closed-log").unwrap();
    let appends: Vec<_> = (0..100).map(|number| log.append(record(number))).collect();
    tokio::task::block_in_place(|| log.close());
    assert!(join_all(appends).await.into_iter().all(|outcome| outcome.is_ok()));
    assert!(matches!(log.append(record(1)).await, Err(AppendError::Closed)));
    assert!(matches!(consumer.poll(ALL).await, Err(ConsumeError::Unavailable(_))));
}

#[test]
fn brokers_that_aren_t_there_are_named() {
    let config = KafkaConfig {
        request_wait_ms_max: 1_000,
        ..config("127.0.0.1:1")
    };
    let reported = KafkaLog::open(config).unwrap_err().to_string();
    assert!(
        reported.contains("127.0.0.1:1") && reported.contains("Connection refused"),
        "{reported}"
    );
}
