//! Writing, consuming and inspecting a log. Kafka and the embedded log both implement these.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use thiserror::Error;

use crate::record::{Appended, LoggedRecord, Record};

/// Why a record was not taken.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The queue before the log is full: try again later. Nothing was written.
    #[error("the log's queue is full")]
    Busy,
    /// The log can't take records now (full disk, failed device, broker away). Whether this record
    /// will be found after recovery is not known; a retry is harmless.
    #[error("the log can't store records now: {0}")]
    Unavailable(String),
    /// The record is larger than the log takes.
    #[error("a record of {size} bytes is over the log's limit of {max} bytes")]
    TooLarge {
        /// The record's encoded size in bytes.
        size: usize,
        /// The most the log takes, in bytes.
        max: usize,
    },
    /// The log is shutting down.
    #[error("the log is closed")]
    Closed,
}

/// Appends records; the future resolves when the record is durable.
pub trait LogWriter: Send + Sync + 'static {
    /// Appends one record. `Ok` means it survives power loss (fsync, or Kafka's acks=all).
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>>;

    /// `Err` says why the log takes nothing at the moment, for readiness.
    fn writable(&self) -> Result<(), String>;
}

/// Limits of one poll.
#[derive(Debug, Clone, Copy)]
pub struct PollLimits {
    /// At most so many records.
    pub records_max: usize,
    /// At most so many bytes of bodies, but always at least one record.
    pub bytes_max: usize,
    /// Wait at most so long for the first record.
    pub wait_max: Duration,
}

/// A committed position: everything before `next_offset` is in the warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The epoch the offset belongs to.
    pub epoch: u32,
    /// The first offset not yet processed.
    pub next_offset: u64,
    /// Metadata of the commit: the ledger line of its last block (JSON), or
    /// empty.
    pub metadata: String,
}

/// A partition this consumer has just been given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The partition.
    pub partition: u32,
    /// The epoch of the log.
    pub epoch: u32,
    /// Offset at which reading continues.
    pub next_offset: u64,
    /// The last commit, if any consumer of the group ever made one.
    pub committed: Option<Committed>,
    /// Offset of the oldest record.
    pub begin_offset: u64,
}

/// Result of one poll. All three may be empty (nothing came within the wait).
#[derive(Debug, Default)]
pub struct Polled {
    /// Partitions newly given to this consumer; their first records come in this poll or later.
    pub assigned: Vec<Assignment>,
    /// Partitions taken away; blocks of theirs that are in progress must not be committed.
    pub revoked: Vec<u32>,
    /// Records in offset order within each partition; in `receipts` with no gap.
    pub records: Vec<LoggedRecord>,
}

/// Why reading failed.
#[derive(Debug, Error)]
pub enum ConsumeError {
    /// The engine can't be reached or read now: try again with a pause.
    #[error("the log can't be read now: {0}")]
    Unavailable(String),
    /// A stored record is damaged where recovery can't explain it. Needs a person.
    #[error("the log is damaged at partition {partition} offset {offset}: {detail}")]
    Damaged {
        /// The partition.
        partition: u32,
        /// The first damaged offset.
        offset: u64,
        /// Damage that was found.
        detail: String,
    },
}

/// Progress of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The partition.
    pub partition: u32,
    /// The epoch.
    pub epoch: u32,
    /// The first offset not yet processed.
    pub next_offset: u64,
    /// The ledger line of the block that ends here (JSON).
    pub metadata: String,
}

/// Why a commit was not made.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The partition belongs to another consumer by now: drop the block.
    #[error("partition {0} belongs to another consumer now")]
    Fenced(u32),
    /// The engine can't store it now: try again.
    #[error("the position can't be stored now: {0}")]
    Unavailable(String),
    /// The call can't succeed, however often it is repeated: a record over the log's limit, say.
    #[error("the call can't be stored at all: {0}")]
    Invalid(String),
}

impl CommitError {
    /// Records without a commit that would fence them.
    pub(crate) fn unfenced() -> Self {
        Self::Invalid("records need at least one commit, which fences them".to_owned())
    }
}

/// Member of a consumer group.
pub trait LogConsumer: Send + 'static {
    /// The next records of the assigned partitions.
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>>;

    /// Reads an assigned partition from `offset` on, from the next poll. Records that were fetched
    /// ahead are dropped; those that a poll has already returned are the caller's to drop. Below
    /// the oldest stored offset, and past the log's end, it is [`ConsumeError::Damaged`], and
    /// nothing moves. Commits nothing. Where the partition is another consumer's by now, it does
    /// nothing: the next poll says so.
    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>>;

    /// Commits positions durably. Positions never move backwards.
    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>>;
}

/// A consumer of the log of receipts whose output, in the log of verdicts, and progress are stored
/// together: both or neither.
pub trait LogProcessor: LogConsumer {
    /// Appends `records` (partition of `verdicts`, record; in order within a partition) and moves
    /// the positions of the consumed partitions, atomically and durably. Readers of `verdicts` see
    /// all of the records of one call or none. Records need at least one commit, because the
    /// commits are what fences a processor that lost its partitions; a commit to the present
    /// position is one. Commits need no records.
    ///
    /// | outcome | stored | next |
    /// |---|---|---|
    /// | `Ok` | all records and positions | |
    /// | `Unavailable` | nothing | repeat the call; nothing needs to be read again |
    /// | `Fenced` | nothing that others don't find, see below | drop the blocks and poll |
    /// | `Invalid` | nothing | the call is wrong |
    ///
    /// `Fenced` also covers an unknown outcome, when the engine never answered. The processor has
    /// then given its partitions up. The next poll revokes them, and whoever is assigned to them
    /// starts at the position that was stored: behind the records if they were stored, before them
    /// if not.
    ///
    /// On the embedded log the records become durable first and the position afterwards. A crash
    /// between the two leaves the position behind: after each assignment the caller compares it
    /// with the source range in the newest record of `verdicts` ([`LogInspector::last`]) and seeks
    /// behind that. `Unavailable` on the embedded log means that no reader sees the records as
    /// long as the process lives. After a crash a group that was answered `Unavailable` may be
    /// found whole, as if it had been stored, never in part.
    fn append_and_commit(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> BoxFuture<'_, Result<(), CommitError>>;
}

/// A partition as seen from outside any group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// The partition.
    pub partition: u32,
    /// The epoch of the log.
    pub epoch: u32,
    /// The oldest offset still stored (retention moves it).
    pub begin_offset: u64,
    /// The offset behind the newest durable record. In `verdicts` on Kafka the last stable offset,
    /// behind everything whose transaction has ended.
    pub end_offset: u64,
    /// The group's commit, if any.
    pub committed: Option<Committed>,
    /// Everything acknowledged before this instant precedes `committed` (milliseconds since
    /// the Unix epoch): the append time of the first uncommitted record, or, with none, an instant
    /// taken before `end_offset` was read. In `verdicts` on Kafka a transaction may be acknowledged
    /// a moment before it counts in `end_offset`; completeness there is in the records themselves.
    pub complete_through_ms: i64,
}

/// Why a look at the log failed.
#[derive(Debug, Error)]
pub enum InspectError {
    /// The engine can't be reached or read now.
    #[error("the log can't be inspected now: {0}")]
    Unavailable(String),
    /// The offset requested is no longer stored.
    #[error("partition {partition} offset {offset} is no longer stored; the oldest is {begin}")]
    Gone {
        /// The partition.
        partition: u32,
        /// The offset requested.
        offset: u64,
        /// The oldest that is stored.
        begin: u64,
    },
}

/// Looks at a log without consuming it: the watermark, the audit.
pub trait LogInspector: Send + Sync + 'static {
    /// All partitions that the log has now, in order of their number, with the group's commits.
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>>;

    /// Records of one partition from `offset` on, at most `bytes_max` bytes of bodies but at least
    /// one record; empty at the end. The next offset is one past the last record's: in `verdicts`
    /// on Kafka, offsets have gaps.
    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>>;

    /// The newest durable record of a partition; none if nothing is stored.
    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>>;
}

impl<T: LogInspector + ?Sized> LogInspector for Arc<T> {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        (**self).partitions(group)
    }

    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        (**self).read(partition, offset, bytes_max)
    }
    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        (**self).last(partition)
    }
}
