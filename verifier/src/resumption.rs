//! Continuing to read after an assignment.
//!
//! On Kafka the committed position and the verdicts are one transaction, so the position is right.
//! The embedded log stores the position after the verdicts: a crash in between leaves it behind,
//! and the last record of `verdicts` says how far behind. A position that was deleted or set back
//! is found the same way on both engines.

use std::ops::Range;

use blocks::{Block, BlockError, Header, SourceRange};
use receipt_log::{Assignment, Commit, CommitError, ConsumeError, InspectError, LogConsumer, LogInspector};
use service::retry::{Retry, Stopped};
use thiserror::Error;
use tracing::warn;

use crate::error::VerifierError;

/// Newest records of `verdicts` that are searched for a partition's last range, further back with
/// each step. An idle partition has a range every few seconds.
const SEARCHED: [u64; 4] = [1, 256, 4_096, 20_000];
/// Bytes of `verdicts` read at a time.
const READ_BYTES: usize = 8 << 20;

/// Why the last range of a partition wasn't found.
#[derive(Debug, Error)]
pub enum FindError {
    /// The log can't be read now.
    #[error(transparent)]
    Log(#[from] InspectError),
    /// A record of `verdicts` can't be decoded.
    #[error("a record of the log verdicts can't be decoded: {0}")]
    Block(#[from] BlockError),
}

/// The header of the last range of a partition of `receipts` among the newest records of
/// `verdicts`. On the embedded log, whose logs have one partition each, it is the newest record; on
/// Kafka an active partition is among the newest hundreds.
pub async fn last_range(verdicts: &dyn LogInspector, epoch: u32, partition: u32) -> Result<Option<Header>, FindError> {
    let mut last: Option<Header> = None;
    for state in verdicts.partitions(crate::GROUP).await? {
        let mut end = state.end_offset;
        for searched in SEARCHED {
            let begin = state.begin_offset.max(state.end_offset.saturating_sub(searched));
            let found = search(verdicts, state.partition, begin..end, |source| {
                source.epoch == epoch && source.partition == partition
            });
            if let Some(found) = found.await? {
                if last.as_ref().is_none_or(|last| last.source.end < found.source.end) {
                    last = Some(found);
                }
                break;
            }
            end = begin;
        }
    }
    Ok(last)
}

/// The last header in a range of offsets that fits.
async fn search(
    verdicts: &dyn LogInspector,
    partition: u32,
    offsets: Range<u64>,
    fits: impl Fn(&SourceRange) -> bool,
) -> Result<Option<Header>, FindError> {
    let (mut offset, mut last) = (offsets.start, None);
    while offset < offsets.end {
        let records = verdicts.read(partition, offset, READ_BYTES).await?;
        let Some(next) = records.last().map(|logged| logged.position.offset + 1) else {
            break;
        };
        offset = next;
        for logged in records.iter().filter(|logged| logged.position.offset < offsets.end) {
            let header = Block::decode(&logged.record.body)?.header;
            if fits(&header.source) {
                last = Some(header);
            }
        }
    }
    Ok(last)
}

/// Position where an assigned partition continues.
pub struct ResumedPartition {
    /// The first record without a verdict.
    pub next_offset: u64,
    /// Version of the shard map that assigned the partition's last verdicts to shards.
    pub shard_map_version: u32,
}

/// Why a partition can't be taken on.
pub enum PartitionResumeError {
    /// The verifier is stopping.
    Stopped,
    /// No pause cures it.
    Failed(VerifierError),
}

impl From<PartitionResumeError> for Result<(), VerifierError> {
    fn from(ended: PartitionResumeError) -> Self {
        match ended {
            PartitionResumeError::Stopped => Ok(()),
            PartitionResumeError::Failed(failed) => Err(failed),
        }
    }
}

impl From<Stopped> for PartitionResumeError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Finds the first record of an assigned partition without a verdict. Moves the consumer there if
/// its position is behind; whether it moved says that records which came with the assignment come
/// again.
pub async fn resume(
    assignment: &Assignment,
    consumer: &mut dyn LogConsumer,
    source: &dyn LogInspector,
    verdicts: &dyn LogInspector,
    retry: &Retry,
) -> Result<ResumedPartition, PartitionResumeError> {
    let Assignment {
        partition,
        epoch,
        next_offset,
        ..
    } = *assignment;
    let find = || last_range(verdicts, epoch, partition);
    let Some(last) = retry.until_done("verdicts", find).await? else {
        return Ok(ResumedPartition {
            next_offset,
            shard_map_version: 0,
        });
    };
    let verdicts_end = last.source.end.offset;
    let resumed = ResumedPartition {
        next_offset: next_offset.max(verdicts_end),
        shard_map_version: last.shard_map_version,
    };
    if verdicts_end <= next_offset {
        return Ok(resumed);
    }
    warn!(
        partition,
        next_offset, verdicts_end, "the committed position is behind the log verdicts; reading continues behind it"
    );
    metrics::counter!("receipts_verifier_positions_behind_total").increment(1);
    let mut pauses = retry.pauses();
    loop {
        match consumer.seek(partition, verdicts_end).await {
            Ok(()) => break,
            Err(ConsumeError::Damaged { detail, .. }) => return Err(set_back(&last, detail)),
            Err(ConsumeError::Unavailable(reason)) => retry.pause("log", &reason, &mut pauses).await?,
        }
    }
    check_not_replaced(source, &last, retry).await?;
    let position = Commit {
        partition,
        epoch,
        next_offset: verdicts_end,
        metadata: String::new(),
    };
    store_position(consumer, position, retry).await?;
    Ok(resumed)
}

/// Commits the position that was found: new records may not come for long, and until then the
/// partition wouldn't be idle and retention would keep its records.
async fn store_position(consumer: &mut dyn LogConsumer, position: Commit, retry: &Retry) -> Result<(), Stopped> {
    let mut pauses = retry.pauses();
    loop {
        match consumer.commit(vec![position.clone()]).await {
            Err(CommitError::Unavailable(reason)) => retry.pause("log", &reason, &mut pauses).await?,
            // The next poll revokes a partition that belongs to another verifier by now.
            Ok(()) | Err(CommitError::Fenced(_) | CommitError::Invalid(_)) => return Ok(()),
        }
    }
}

/// Compares the last record that has a verdict with the log: a log that was restored from an older
/// copy holds a younger record there, and its new records have the offsets of others.
async fn check_not_replaced(
    source: &dyn LogInspector,
    last: &Header,
    retry: &Retry,
) -> Result<(), PartitionResumeError> {
    let offset = last.source.end.offset.saturating_sub(1);
    let mut pauses = retry.pauses();
    let record = loop {
        match source.read(last.source.partition, offset, 1).await {
            Ok(records) => break records.into_iter().next(),
            // Retention has removed it.
            Err(InspectError::Gone { .. }) => return Ok(()),
            Err(InspectError::Unavailable(reason)) => retry.pause("log", &reason, &mut pauses).await?,
        }
    };
    // By a clock that was ahead, an instant that hasn't come says nothing of the record's age.
    let comes_ms = service::instant::now_ms() + service::instant::CLOCKS_APART_MS_MAX;
    match record {
        Some(record) if (last.complete_through_ms + 1..=comes_ms).contains(&record.appended_at_ms) => {
            let detail = format!("its record at offset {offset} is younger than the verdict on it");
            Err(set_back(last, detail))
        }
        _ => Ok(()),
    }
}

fn set_back(last: &Header, detail: String) -> PartitionResumeError {
    PartitionResumeError::Failed(VerifierError::SetBack {
        partition: last.source.partition,
        verdicts_end: last.source.end.offset,
        detail,
    })
}
