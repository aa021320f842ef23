//! Requirements of a topic, and logs whose topic is recreated.

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
};
use receipt_log::{Commit, ConsumeError, KafkaConfig, KafkaLog, KafkaOpenError, LogConsumer, LogInspector, LogWriter};
use test_engines::Kafka;

use crate::{
    config,
    contract::{ALL, append_all, poll_records, record},
};

pub fn admin() -> AdminClient<DefaultClientContext> {
    let brokers = Kafka::shared().unwrap().bootstrap();
    ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap()
}

async fn create(topic: &str, settings: &[(&str, &str)]) {
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
    let new = settings.iter().fold(new, |new, (key, value)| new.set(key, value));
    let created = admin().create_topics([&new], &AdminOptions::new()).await.unwrap();
    created.into_iter().next().unwrap().unwrap();
}

fn shared() -> KafkaConfig {
    config(Kafka::shared().unwrap().bootstrap())
}

fn wrong_settings(config: &KafkaConfig) -> (Vec<String>, String) {
    match KafkaLog::open(config.clone()) {
        Err(KafkaOpenError::Settings { wrong, command, .. }) => {
            (wrong.into_iter().map(|wrong| wrong.name).collect(), command)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_topic_is_refused_until_the_command_that_is_reported_has_been_given() {
    let config = shared();
    let as_wanted = [
        ("message.timestamp.type", "LogAppendTime"),
        ("max.message.bytes", "9000000"),
    ];
    create(&config.topic, &as_wanted).await;
    let (wrong, _) = wrong_settings(&config);
    assert_eq!(
        wrong,
        ["retention.bytes", "delete.retention.ms"].map(str::to_owned)[1..]
    );

    let config = KafkaConfig {
        retention_ms_max: 30 * 24 * 3_600_000,
        ..shared()
    };
    create(
        &config.topic,
        &[
            ("cleanup.policy", "compact"),
            ("unclean.leader.election.enable", "true"),
        ],
    )
    .await;
    let (wrong, command) = wrong_settings(&config);
    let all = [
        "cleanup.policy",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "max.message.bytes",
        "retention.ms",
        "delete.retention.ms",
    ];
    assert_eq!(wrong, all);
    let start = format!(
        "kafka-configs.sh --bootstrap-server {} --alter --entity-type topics --entity-name {} --add-config ",
        config.brokers, config.topic
    );
    let settings = command.strip_prefix(&start).unwrap();
    let resource = ResourceSpecifier::Topic(&config.topic);
    let change = settings.split(',').map(|setting| setting.split_once('=').unwrap());
    let change = change.fold(AlterConfig::new(resource), |change, (key, value)| {
        change.set(key, value)
    });
    let changed = admin().alter_configs([&change], &AdminOptions::new()).await.unwrap();
    changed.into_iter().next().unwrap().unwrap();
    let log = KafkaLog::open(config.clone()).unwrap();
    let epoch: u32 = settings.rsplit_once("delete.retention.ms=").unwrap().1.parse().unwrap();
    assert_eq!(log.epoch(), epoch);

    let (wrong, command) = wrong_settings(&KafkaConfig {
        replication_factor: 2,
        ..config
    });
    assert_eq!(wrong, ["replication factor"]);
    assert!(command.starts_with("kafka-reassign-partitions.sh "), "{command}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_created_only_by_who_may() {
    let config = KafkaConfig {
        create_topic: false,
        ..shared()
    };
    for refused in [KafkaLog::open(config.clone()), KafkaLog::open_to_look(shared())] {
        let Err(KafkaOpenError::Missing { command, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            command.contains("--partitions 3 --replication-factor 1 --config cleanup.policy=delete"),
            "{command}"
        );
    }
    let may = KafkaConfig {
        create_topic: true,
        ..config.clone()
    };
    let log = KafkaLog::open(may).unwrap();
    assert_eq!(KafkaLog::open(config.clone()).unwrap().epoch(), log.epoch());
    assert_eq!(KafkaLog::open_to_look(config).unwrap().epoch(), log.epoch());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_topic_is_another_log() {
    let config = KafkaConfig {
        partitions: 1,
        ..shared()
    };
    let group = format!("{}-readers", config.topic);
    let before = KafkaLog::open(config.clone()).unwrap();
    append_all(&before, 0..5).await;
    let mut old = before.consumer(&group).unwrap();
    poll_records(&mut old, 5).await;
    let commit = |epoch, next_offset| Commit {
        partition: 0,
        epoch,
        next_offset,
        metadata: "line".to_owned(),
    };
    old.commit(vec![commit(before.epoch(), 3)]).await.unwrap();

    admin()
        .delete_topics(&[&config.topic], &AdminOptions::new())
        .await
        .unwrap();
    let after = loop {
        // The brokers need a moment to forget.
        match KafkaLog::open(config.clone()) {
            Ok(log) if log.epoch() != before.epoch() => break log,
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    append_all(&after, 0..5).await;
    // Whether the broker still takes this one or not, it is of another life.
    let _ = old.commit(vec![commit(before.epoch(), 4)]).await;
    let state = after.partitions(&group).await.unwrap().remove(0);
    assert_eq!(
        (state.epoch, state.committed, state.end_offset),
        (after.epoch(), None, 5)
    );
    drop(old);
    let mut new = after.consumer(&group).unwrap();
    let records = poll_records(&mut new, 5).await;
    assert_eq!(records[0].position.epoch, after.epoch());
    new.commit(vec![commit(after.epoch(), 5)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_deleted_before_they_were_verified_are_never_skipped() {
    let config = KafkaConfig {
        partitions: 1,
        ..shared()
    };
    let group = format!("{}-readers", config.topic);
    let log = KafkaLog::open(config.clone()).unwrap();
    append_all(&log, 0..20).await;
    let mut consumer = log.consumer(&group).unwrap();
    poll_records(&mut consumer, 20).await;
    let commit = Commit {
        partition: 0,
        epoch: log.epoch(),
        next_offset: 5,
        metadata: String::new(),
    };
    consumer.commit(vec![commit]).await.unwrap();
    drop(consumer);
    let mut upto = rdkafka::TopicPartitionList::new();
    upto.add_partition_offset(&config.topic, 0, rdkafka::Offset::Offset(10))
        .unwrap();
    admin().delete_records(&upto, &AdminOptions::new()).await.unwrap();

    let mut consumer = log.consumer(&group).unwrap();
    let damaged = loop {
        match consumer.poll(ALL).await {
            Ok(polled) => assert!(polled.records.is_empty(), "{polled:?}"),
            Err(error) => break error,
        }
    };
    let ConsumeError::Damaged {
        partition: 0,
        offset: 5,
        detail,
    } = &damaged
    else {
        panic!("{damaged}")
    };
    assert!(detail.contains("the oldest is 10"), "{detail}");
    let gone = log.read(0, 5, 1).await;
    assert!(
        matches!(gone, Err(receipt_log::InspectError::Gone { begin: 10, .. })),
        "{gone:?}"
    );
    let below = consumer.seek(0, 9).await;
    assert!(matches!(below, Err(ConsumeError::Damaged { .. })), "{below:?}");
    // Told where to read on, it does.
    consumer.seek(0, 10).await.unwrap();
    assert_eq!(poll_records(&mut consumer, 10).await[0].position.offset, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_8_mib_passes_a_broker_that_takes_1_by_itself() {
    let log = KafkaLog::open(shared()).unwrap();
    let mut body = vec![0; 8 << 20];
    rand::fill(body.as_mut_slice());
    let large = receipt_log::Record {
        body: body.into(),
        ..record(5)
    };
    let position = log.append(large.clone()).await.unwrap().position;
    let read = log.read(position.partition, position.offset, 1).await.unwrap();
    assert!(read[0].record == large);
    let mut consumer = log.consumer("of-8-mib").unwrap();
    assert!(poll_records(&mut consumer, 1).await[0].record == large);
}
