//! The caller's side of a processor: a member of a group that also appends.

use futures_util::future::{BoxFuture, FutureExt};

use super::consumer::KafkaConsumer;
use crate::{
    record::Record,
    traits::{Commit, CommitError, ConsumeError, LogConsumer, LogProcessor, PollLimits, Polled},
};

/// A member of a consumer group on Kafka whose output and positions are stored in one transaction.
/// Dropping it leaves the group.
#[derive(Debug)]
pub struct KafkaProcessor {
    consumer: KafkaConsumer,
}

impl KafkaProcessor {
    /// `consumer`'s member has transactions.
    pub(super) fn new(consumer: KafkaConsumer) -> Self {
        Self { consumer }
    }
}

impl LogConsumer for KafkaProcessor {
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        self.consumer.poll(limits)
    }

    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        self.consumer.seek(partition, offset)
    }

    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.consumer.commit(commits)
    }
}

impl LogProcessor for KafkaProcessor {
    /// Dropping the future doesn't stop the transaction.
    fn append_and_commit(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> BoxFuture<'_, Result<(), CommitError>> {
        self.consumer.transact(records, commits).boxed()
    }
}
