//! A log as a topic of Kafka's.

use super::plan::TopicPlan;
use crate::Topic;
use crate::kafka_config::KafkaConfig;

/// The way in which a topic is appended to, which decides how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appends {
    /// Record by record: every offset is a record, and a missing one is damage.
    Single,
    /// In transactions: their markers and aborted records take offsets that no reader gets.
    Transactional,
}

/// A log's topic.
#[derive(Debug, Clone)]
pub(super) struct LogTopic {
    /// The log.
    pub(super) topic: Topic,
    /// The topic's name.
    pub(super) name: String,
    /// The way in which records are appended.
    pub(super) appends: Appends,
    /// The largest record in bytes.
    pub(super) record_bytes_max: usize,
    /// Shortest time for which it keeps records, in milliseconds.
    pub(super) retention_ms: u64,
    /// The settings that it must have.
    pub(super) plan: TopicPlan,
}

impl LogTopic {
    /// The topic that the configuration names for a log.
    pub(super) fn new(topic: Topic, config: &KafkaConfig) -> Self {
        match topic {
            Topic::Receipts => Self {
                topic,
                name: config.topic.clone(),
                appends: Appends::Single,
                record_bytes_max: config.record_bytes_max,
                retention_ms: config.retention_ms_max,
                plan: TopicPlan::receipts(config),
            },
            Topic::Verdicts => Self {
                topic,
                name: config.verdicts_topic.clone(),
                appends: Appends::Transactional,
                record_bytes_max: config.verdicts_bytes_max,
                retention_ms: config.verdicts_retention_ms_max,
                plan: TopicPlan::verdicts(config),
            },
        }
    }

    /// The isolation level of readers outside of any group. A topic without transactions shows the
    /// same at both levels.
    pub(super) fn isolation_level(&self) -> &'static str {
        match self.appends {
            Appends::Single => "read_uncommitted",
            Appends::Transactional => "read_committed",
        }
    }
}
