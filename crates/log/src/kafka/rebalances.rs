//! Notification of a member about rebalances.

use parking_lot::Mutex;
use rdkafka::{
    ClientContext, Statistics, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
    types::RDKafkaRespErr,
};

use super::{MEMBER, client::Events, log_topic::LogTopic, offsets, role::Role};

/// Change by a rebalance, in order.
pub(super) enum RebalanceChange {
    Assigned(Vec<u32>),
    Revoked { partitions: Vec<u32>, lost: bool },
}

/// Hears of rebalances, within a poll and on its thread.
pub(super) struct Rebalances {
    pub(super) events: Events,
    topic: String,
    changes: Mutex<Vec<RebalanceChange>>,
}

impl ClientContext for Rebalances {
    fn log(&self, level: RDKafkaLogLevel, kind: &str, message: &str) {
        self.events.log(level, kind, message);
    }

    fn stats(&self, statistics: Statistics) {
        self.events.stats(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.events.error(error, reason);
    }
}

impl Rebalances {
    pub(super) fn new(topic: &LogTopic) -> Self {
        let role = Role {
            client: MEMBER,
            topic: topic.topic,
        };
        Self {
            events: Events::new(role),
            topic: topic.name.clone(),
            changes: Mutex::default(),
        }
    }

    /// Changes since the last call.
    pub(super) fn take(&self) -> Vec<RebalanceChange> {
        std::mem::take(&mut *self.changes.lock())
    }

    fn partitions(&self, list: &TopicPartitionList) -> Vec<u32> {
        let ours = list.elements_for_topic(&self.topic);
        ours.iter()
            .filter_map(|element| u32::try_from(element.partition()).ok())
            .collect()
    }
}

impl ConsumerContext for Rebalances {
    /// Answers the group at once. Reading of a new partition starts later, from where
    /// [`super::member::GroupMember`] says; a partition that was never read isn't in librdkafka's
    /// assignment, so only the others are taken out of it.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let partitions = self.partitions(list);
        let answered = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.changes.lock().push(RebalanceChange::Assigned(partitions));
            consumer.incremental_assign(&TopicPartitionList::new())
        } else {
            let lost = consumer.assignment_lost();
            let read = consumer
                .assignment()
                .map(|read| self.partitions(&read))
                .unwrap_or_default();
            let leaving = partitions.iter().copied().filter(|partition| read.contains(partition));
            let leaving = offsets::list(&self.topic, leaving);
            self.changes.lock().push(RebalanceChange::Revoked { partitions, lost });
            consumer.incremental_unassign(&leaving)
        };
        if let Err(error) = answered {
            tracing::error!(%error, "a rebalance could not be answered");
        }
    }
}
