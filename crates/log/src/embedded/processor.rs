//! The consumer whose output, in the log of verdicts, and position are stored together.
//!
//! The records of one call are one append: one write and one sync make them durable, and after a
//! crash all or none are found ([`super::frame`]). The position follows, under the lock that a
//! newer consumer of the group has to take before it may start, so that a fenced processor
//! appends nothing.
//!
//! | crash | `verdicts` | position |
//! |---|---|---|
//! | before the write | none of the records | old |
//! | within the write, or before its sync has ended | all records or none | old |
//! | after the sync, before the position is stored | all records | old |
//! | after the position is stored | all records | new |
//!
//! With the old position and all records, the newest record of `verdicts` shows how far its
//! processor was, and the caller seeks behind it. With none of them the block is processed again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};

use super::{consumer::EmbeddedConsumer, frame, groups::CommitOutput, segment_file::FRAMES_START, shared::LogState};
use crate::{
    record::Record,
    traits::{AppendError, Commit, CommitError, ConsumeError, LogConsumer, LogProcessor, PollLimits, Polled},
};

/// The active processor of one group, until a newer consumer of the group fences it.
#[derive(Debug)]
pub struct EmbeddedProcessor {
    consumer: EmbeddedConsumer,
    verdicts: Verdicts,
}

/// The log that the output goes to.
#[derive(Clone)]
struct Verdicts(Arc<LogState>);

impl std::fmt::Debug for Verdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Verdicts").field(&self.0.dir).finish()
    }
}

impl EmbeddedProcessor {
    pub(super) fn new(consumer: EmbeddedConsumer, verdicts: Arc<LogState>) -> Self {
        Self {
            consumer,
            verdicts: Verdicts(verdicts),
        }
    }
}

/// Records that were measured, in order.
struct Measured {
    records: Vec<(Record, usize)>,
    bytes: usize,
}

impl Verdicts {
    /// Refuses what would never fit.
    fn measure(&self, records: Vec<(u32, Record)>) -> Result<Measured, CommitError> {
        let config = &self.0.config;
        let record_bytes_max = config.record_bytes_max;
        let mut measured = Measured {
            records: Vec::with_capacity(records.len()),
            bytes: 0,
        };
        for (partition, record) in records {
            if partition != 0 {
                let detail = format!("verdicts has no partition {partition}: the embedded log has only partition 0");
                return Err(CommitError::Invalid(detail));
            }
            let bytes = frame::encoded_len(&record).filter(|bytes| *bytes <= record_bytes_max);
            let Some(bytes) = bytes else {
                let size = record.body.len();
                let detail =
                    format!("a record with a body of {size} bytes is over verdicts' limit of {record_bytes_max} bytes");
                return Err(CommitError::Invalid(detail));
            };
            measured.bytes += bytes;
            measured.records.push((record, bytes));
        }
        let segment_bytes = usize::try_from(config.segment_bytes - FRAMES_START).unwrap_or(usize::MAX);
        let bytes_max = segment_bytes.min(config.queue_bytes_max);
        if measured.bytes > bytes_max || measured.records.len() > config.queue_records_max {
            return Err(CommitError::Invalid(format!(
                "{} records of {} bytes are over what one call may append: {} records of {bytes_max} bytes \
                 (queue_records_max; queue_bytes_max and segment_bytes)",
                measured.records.len(),
                measured.bytes,
                config.queue_records_max
            )));
        }
        Ok(measured)
    }

    /// Appends all of them and waits until they are durable.
    fn append(&self, measured: Measured) -> Result<CommitOutput, CommitError> {
        let count = measured.records.len();
        if count == 0 {
            return Ok(CommitOutput::None);
        }
        let refused = |error: AppendError| CommitError::Unavailable(format!("verdicts: {error}"));
        let answer = self.0.queue.push_all(measured.records, count, measured.bytes);
        let stored = answer.map_err(refused)?.blocking_recv();
        stored.unwrap_or_else(|_| Err(super::writer_died())).map_err(refused)?;
        Ok(CommitOutput::Stored)
    }
}

impl LogConsumer for EmbeddedProcessor {
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

impl LogProcessor for EmbeddedProcessor {
    /// Dropping the future doesn't take the records back.
    fn append_and_commit(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> BoxFuture<'_, Result<(), CommitError>> {
        if commits.is_empty() && !records.is_empty() {
            return ready(Err(CommitError::unfenced())).boxed();
        }
        match self.verdicts.measure(records) {
            Ok(measured) => {
                let verdicts = self.verdicts.clone();
                self.consumer
                    .commit_with(commits, move || verdicts.append(measured))
                    .boxed()
            }
            Err(refused) => ready(Err(refused)).boxed(),
        }
    }
}
