//! The log on a real Kafka against the contract, and against what can happen to brokers, topics and
//! consumers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::print_stderr
)]
#![allow(missing_docs, unreachable_pub, clippy::disallowed_methods)]

#[path = "../contract/mod.rs"]
mod contract;
mod foreign;
mod group;
mod outage;
mod secure;
mod topics;
mod transactions;
mod zombie;

use std::sync::atomic::{AtomicU32, Ordering};

use contract::{Engine, Settings, pipeline::Pipeline};
use futures_util::future::BoxFuture;
use receipt_log::{
    AppendError, Appended, InspectError, KafkaConfig, KafkaConsumer, KafkaLog, KafkaProcessor, LogInspector, LogWriter,
    LoggedRecord, PartitionState, Record, Topic,
};
use test_engines::Kafka;

/// A topic of a test's own, on the broker at `brokers`.
pub fn config(brokers: &str) -> KafkaConfig {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let number = TOPICS.fetch_add(1, Ordering::Relaxed);
    KafkaConfig {
        brokers: brokers.to_owned(),
        topic: format!("receipts-{number}"),
        verdicts_topic: format!("verdicts-{number}"),
        partitions: 3,
        verdicts_partitions: 2,
        replication_factor: 1,
        min_insync_replicas: 1,
        session_wait_ms_max: 6_000,
        poll_interval_ms_max: 6_000,
        ..KafkaConfig::default()
    }
}

/// The log under the contract, with so many partitions.
struct OnKafka<const PARTITIONS: u32> {
    log: Apart,
    verdicts: Apart,
}

/// A log whose groups are its own: Kafka's are the whole cluster's.
#[derive(Clone)]
struct Apart {
    log: KafkaLog,
    prefix: String,
}

impl Apart {
    fn group(&self, group: &str) -> String {
        format!("{}-{group}", self.prefix)
    }
}

impl LogWriter for Apart {
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>> {
        self.log.append(record)
    }

    fn writable(&self) -> Result<(), String> {
        self.log.writable()
    }
}

impl LogInspector for Apart {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        self.log.partitions(&self.group(group))
    }

    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        self.log.read(partition, offset, bytes_max)
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        self.log.last(partition)
    }
}

impl<const PARTITIONS: u32> Engine for OnKafka<PARTITIONS> {
    type Log = Apart;
    type Consumer = KafkaConsumer;

    fn start(settings: Settings) -> Self {
        let config = KafkaConfig {
            partitions: PARTITIONS,
            queue_records_max: settings.queue_records_max,
            record_bytes_max: settings.record_bytes_max,
            poll_interval_ms_max: settings.poll_interval_ms_max,
            verdicts_bytes_max: settings.record_bytes_max + (256 << 10),
            ..config(Kafka::shared().unwrap().bootstrap())
        };
        let prefix = config.topic.clone();
        let verdicts = Apart {
            log: KafkaLog::open_topic(Topic::Verdicts, config.clone()).unwrap(),
            prefix: prefix.clone(),
        };
        let log = KafkaLog::open(config).unwrap();
        let log = Apart { log, prefix };
        Self { log, verdicts }
    }

    fn log(&self) -> Apart {
        self.log.clone()
    }

    fn consumer(&self, group: &str) -> KafkaConsumer {
        self.log.log.consumer(&self.log.group(group)).unwrap()
    }
}

impl<const PARTITIONS: u32> Pipeline for OnKafka<PARTITIONS> {
    const SHARDS: u32 = 2;
    type Processor = KafkaProcessor;
    type Verdicts = Apart;
    type Reader = KafkaConsumer;

    fn processor(&self, group: &str) -> KafkaProcessor {
        let group = self.log.group(group);
        self.log.log.processor(&group, &self.verdicts.log).unwrap()
    }

    fn verdicts(&self) -> Apart {
        self.verdicts.clone()
    }

    fn reader(&self, group: &str) -> KafkaConsumer {
        self.verdicts.log.consumer(&self.verdicts.group(group)).unwrap()
    }
}

mod one_partition {
    crate::run_contract!(crate::OnKafka<1>);
    crate::run_pipeline_contract!(crate::OnKafka<1>);
}

mod three_partitions {
    crate::run_contract!(crate::OnKafka<3>:
        reads_every_record_once_in_order_as_it_was_appended, limits_what_one_poll_brings,
        wakes_a_waiting_poll, resumes_behind_the_commit, reads_on_from_a_given_offset, carries_metadata_with_the_commit,
        never_moves_a_commit_back, keeps_groups_apart,
        completes_through_the_first_uncommitted_record, refuses_when_the_queue_is_full,
        refuses_a_record_that_is_too_large, inspects_without_consuming);
    crate::run_pipeline_contract!(crate::OnKafka<3>:
        stores_output_and_positions_together, moves_positions_without_output, appends_output_at_the_same_position,
        stores_nothing_of_a_call_that_is_refused, shows_the_newest_verdicts, a_reader_resumes_behind_its_commit);
}
