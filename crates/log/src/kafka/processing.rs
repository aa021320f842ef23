//! Consume, process, produce: a member's positions and its output in one transaction.
//!
//! Every record of `receipts` becomes part of `verdicts` exactly once, because
//!
//! 1. records and positions are one transaction, which the brokers store whole or not at all;
//! 2. a partition's next owner reads the committed position only after no transaction is open that
//!    may move it (`isolation.level` of [`super::member`]: the group's coordinator answers
//!    `UNSTABLE_OFFSET_COMMIT` until then, KIP-447), and starts there;
//! 3. an owner that lost a partition can't commit: its positions go to the coordinator with its
//!    member ID and generation, and the coordinator refuses those of an earlier one. The positions
//!    are acknowledged before the end of the transaction is requested, so a refusal always comes
//!    first;
//! 4. readers of `verdicts` see committed transactions only (`read_committed`).
//!
//! On the member's thread polls and transactions come one after the other, and partitions are
//! taken away only within a poll, in which they leave `held`. So member ID and generation, read
//! within the transaction, are those of a membership that has every partition in `held`:
//! librdkafka doesn't join a generation in which a partition of ours may be another's before a
//! poll has given it up. When the membership itself is lost, librdkafka drops the member ID but
//! not the generation, and marks the assignment as lost; either is refused. Only a coordinator
//! that first disowned the generation and then the member, while a rebalance waits for our poll,
//! would leave neither. Kafka answers a member that it doesn't know with the latter only.
//!
//! | crash, or longer freeze | records | positions |
//! |---|---|---|
//! | 1: while records are produced | aborted | old |
//! | 2: after the positions were added | aborted | old, unreadable until the abort |
//! | 3: after the commit was requested | all or none | new or old, unreadable until then |
//! | 4: after the coordinator stored the commit | all | new |
//!
//! The coordinator aborts 1 and 2 after `transaction_wait_ms_max`, or at once when this process
//! makes its next producer. In 3 and 4 it decides, and completes what it has decided after its
//! own restart, too. A partition's next owner waits for the end of the transaction (2, 3, 4) and
//! continues from the position that it left. A process that continues after a freeze is refused:
//! its generation is old, or the coordinator has aborted its transaction and fenced its producer.
//!
//! A request for the commit that isn't answered is repeated until `transaction_wait_ms_max` is
//! over. Afterwards the outcome is unknown here. The member gives its membership up, so that the
//! partitions' next owner, which may be this process, reads the position
//! ([`CommitError::Fenced`]).

use rdkafka::{consumer::Consumer, error::RDKafkaErrorCode};

use super::{
    commits, headers,
    member::GroupMember,
    transactions::{FailedStep, UncommittedTransaction},
};
use crate::{
    record::Record,
    traits::{Commit, CommitError},
};

impl GroupMember {
    pub(super) fn append_and_commit(
        &mut self,
        records: &[(u32, Record)],
        commits: &[Commit],
    ) -> Result<(), CommitError> {
        let Some(first) = commits.first().map(|commit| commit.partition) else {
            return if records.is_empty() {
                Ok(())
            } else {
                Err(CommitError::unfenced())
            };
        };
        let positions = self.checked(commits)?;
        let Some(transactions) = &mut self.transactions else {
            return Err(CommitError::Invalid("this consumer isn't a processor".to_owned()));
        };
        let max = transactions.record_bytes_max();
        if let Some(size) = records
            .iter()
            .map(|(_, record)| headers::encoded_len_max(record))
            .find(|size| *size > max)
        {
            let detail =
                format!("a record of {size} bytes is over the limit of {max} bytes of kafka.verdicts_bytes_max");
            return Err(CommitError::Invalid(detail));
        }
        let consumer = &self.consumer;
        let membership = || {
            let metadata = consumer.group_metadata();
            // In this order: a membership that was lost before it was read is marked so by now.
            if consumer.assignment_lost() {
                let reason = "the group continued without this member".to_owned();
                return Err(FailedStep::new(Some(RDKafkaErrorCode::AssignmentLost), reason));
            }
            metadata.ok_or_else(|| FailedStep::new(None, "there is no group".to_owned()))
        };
        let failed = match transactions.run(records, &positions, membership) {
            Ok(()) => {
                self.committed(commits);
                return Ok(());
            }
            Err(UncommittedTransaction::NotStored(FailedStep { code, reason })) => {
                commits::commit_error(code, first, reason)
            }
            Err(UncommittedTransaction::Unknown(FailedStep { reason, .. })) => {
                tracing::warn!(
                    reason,
                    "the end of a transaction wasn't acknowledged; joining the group again to find out"
                );
                CommitError::Fenced(first)
            }
        };
        if let CommitError::Fenced(_) = failed {
            self.resign();
        }
        Err(failed)
    }
}
