//! Continuing a shard after an assignment: behind the ledger, whatever the consumer's offset
//! says.
//!
//! `receipts rewind` replaces a lost log of verdicts. It publishes progress with the new log's
//! epoch, and that epoch is the one to continue in, although the ledger ends in another.

use receipt_log::{Assignment, ConsumeError, LogConsumer};
use service::retry::{Retry, Stopped};
use tracing::info;
use warehouse::{ShardProgress, VerdictsPosition, Warehouse, WarehouseError, WriterEpoch};

use crate::error::WriterError;
use crate::sequence::Sequence;

/// State with which a new owner of a shard starts.
#[derive(Debug)]
pub struct Resumed {
    /// The right to change the shard's tables.
    pub epoch: WriterEpoch,
    /// Positions that are stored.
    pub sequence: Sequence,
    /// The next record of `verdicts`.
    pub next: VerdictsPosition,
    /// The version of the last published progress.
    pub version: u64,
}

/// Why a shard can't be taken on.
pub enum ResumeError {
    /// The writer is stopping.
    Stopped,
    /// Another writer took the shard at the same time.
    Superseded,
    /// No pause cures it.
    Failed(WriterError),
}

impl From<ResumeError> for Result<(), WriterError> {
    fn from(ended: ResumeError) -> Self {
        match ended {
            ResumeError::Stopped | ResumeError::Superseded => Ok(()),
            ResumeError::Failed(failed) => Err(failed),
        }
    }
}

impl From<Stopped> for ResumeError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Takes a shard on: becomes its writer, reads where the ledger ends, and moves the consumer there.
pub async fn resume(
    assignment: &Assignment,
    consumer: &mut dyn LogConsumer,
    warehouse: &Warehouse,
    retry: &Retry,
) -> Result<Resumed, ResumeError> {
    let shard = assignment.partition;
    let take = || warehouse.take_epoch(shard);
    let Some(epoch) = retry.until_done("warehouse", take).await? else {
        return Err(ResumeError::Superseded);
    };
    let read = || stored(warehouse, shard);
    let progress = retry.until_done("warehouse", read).await?;
    let mut next = progress.verdicts;
    if progress.partitions.is_empty() && next == VerdictsPosition::default() {
        // Nothing is stored: everything that the log holds is read.
        next = VerdictsPosition {
            epoch: assignment.epoch,
            offset: 0,
        };
    }
    let out_of_reach = |detail: String| {
        ResumeError::Failed(WriterError::OutOfReach {
            shard,
            stored_epoch: next.epoch,
            stored_end: next.offset,
            detail,
        })
    };
    if next.epoch != assignment.epoch {
        let detail = format!("the log has epoch {}", assignment.epoch);
        return Err(out_of_reach(detail));
    }
    let mut pauses = retry.pauses();
    loop {
        match consumer.seek(shard, next.offset).await {
            Ok(()) => break,
            Err(ConsumeError::Damaged { detail, .. }) => return Err(out_of_reach(detail)),
            Err(ConsumeError::Unavailable(reason)) => retry.pause("verdicts", &reason, &mut pauses).await?,
        }
    }
    info!(
        shard,
        offset = next.offset,
        writer_epoch = epoch.number,
        "the shard continues behind its ledger"
    );
    Ok(Resumed {
        epoch,
        sequence: Sequence::new(&progress),
        next,
        version: progress.version,
    })
}

/// Reads what of a shard is stored: what its writer published last, and what the ledger holds
/// beyond that.
pub async fn stored(warehouse: &Warehouse, shard: u32) -> Result<ShardProgress, WarehouseError> {
    let published = warehouse.progress().await?.into_iter().find(|one| one.shard == shard);
    // `receipts rewind` publishes the epoch of a new log, before anything of it is in the ledger.
    let since = published.as_ref().map(|published| published.verdicts);
    let ledger = warehouse.ledger_progress(shard, since).await?;
    Ok(match published {
        Some(published) => joined(published, ledger),
        None => ledger,
    })
}

/// The published progress, moved on to the end of the ledger. Both are of the same epoch of
/// `verdicts`, if the ledger has anything of it.
fn joined(mut published: ShardProgress, ledger: ShardProgress) -> ShardProgress {
    if ledger.verdicts <= published.verdicts {
        return published;
    }
    published.verdicts = ledger.verdicts;
    let source_epoch = ledger.partitions.first().map(|one| one.epoch);
    // Nothing more comes from an earlier epoch of `receipts`.
    published.partitions.retain(|one| Some(one.epoch) == source_epoch);
    for one in ledger.partitions {
        match published
            .partitions
            .iter_mut()
            .find(|stored| stored.partition == one.partition)
        {
            Some(stored) => stored.next_offset = stored.next_offset.max(one.next_offset),
            None => published.partitions.push(one),
        }
    }
    published
}

#[cfg(test)]
mod tests {
    use warehouse::PartitionProgress;

    use super::*;

    fn progress(verdicts: (u32, u64), partitions: &[(u32, u32, u64, i64)]) -> ShardProgress {
        let partition =
            |&(epoch, partition, next_offset, complete_through_ms): &(u32, u32, u64, i64)| PartitionProgress {
                epoch,
                partition,
                first_offset: 0,
                next_offset,
                complete_through_ms,
            };
        ShardProgress {
            shard: 0,
            version: 7,
            verdicts: VerdictsPosition {
                epoch: verdicts.0,
                offset: verdicts.1,
            },
            source_partitions: 2,
            shards: 1,
            partitions: partitions.iter().map(partition).collect(),
        }
    }

    #[test]
    fn the_ledger_moves_published_progress_on_and_never_back() {
        let published = progress((5, 10), &[(1, 0, 100, 8), (1, 1, 40, 9)]);
        let ledger = progress((5, 12), &[(1, 0, 120, 0)]);
        let joined_both = progress((5, 12), &[(1, 0, 120, 8), (1, 1, 40, 9)]);
        assert_eq!(joined(published.clone(), ledger), joined_both);
        assert_eq!(
            joined(published.clone(), progress((5, 9), &[(1, 0, 90, 0)])),
            published,
            "idle records since"
        );
        // A rewind: the ledger has nothing of the new epoch.
        assert_eq!(joined(published.clone(), ShardProgress::default()), published);
        // The log `receipts` was recreated, and the crash came before that was published.
        let anew = joined(published, progress((5, 11), &[(2, 0, 3, 0)]));
        assert_eq!(anew, progress((5, 11), &[(2, 0, 3, 0)]));
    }
}
