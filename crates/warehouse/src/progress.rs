//! Progress of the writers, as they publish it: one row per shard, and one for its evidence.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array, UInt64Array};
use clickhouse::Row;
use serde::Deserialize;

use crate::arrow::lists_of_tuples;
use crate::fence::WriterEpoch;
use crate::{CommittedOffset, SqlStatement, Warehouse, WarehouseError};

/// A partition of the log `receipts`, as far as a shard's writer has stored verdicts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionProgress {
    /// The epoch of `receipts`.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// Offset of the first record whose verdicts the shard has: a shard that was added later
    /// doesn't begin at 0.
    pub first_offset: u64,
    /// Offset behind the last record whose verdicts are stored.
    pub next_offset: u64,
    /// Everything acknowledged before this instant is stored, milliseconds since the Unix epoch.
    pub complete_through_ms: i64,
}

impl PartitionProgress {
    /// The position in `receipts`.
    #[must_use]
    pub fn committed(&self) -> CommittedOffset {
        CommittedOffset {
            epoch: self.epoch,
            partition: self.partition,
            next_offset: self.next_offset,
        }
    }
}

/// A position in the log `verdicts`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, Deserialize)]
pub struct VerdictsPosition {
    /// The epoch of `verdicts`.
    pub epoch: u32,
    /// The offset of a record.
    pub offset: u64,
}

/// Progress of a shard's writer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardProgress {
    /// The shard.
    pub shard: u32,
    /// Counts the publications of a shard: the greatest is the newest.
    pub version: u64,
    /// The next record of `verdicts`.
    pub verdicts: VerdictsPosition,
    /// Partitions that `receipts` has. Fewer in `partitions` means that some aren't known yet.
    pub source_partitions: u32,
    /// Shards that the log `verdicts` has, as far as this one's writer knows.
    pub shards: u32,
    /// In order of epoch and partition.
    pub partitions: Vec<PartitionProgress>,
}

impl ShardProgress {
    /// The positions in `receipts` below which the shard's rows are stored.
    #[must_use]
    pub fn committed(&self) -> Vec<CommittedOffset> {
        self.partitions.iter().map(PartitionProgress::committed).collect()
    }
}

#[derive(Row, Deserialize)]
struct StoredProgress {
    shard: u32,
    version: u64,
    verdicts_epoch: u32,
    verdicts_offset: u64,
    source_partitions: u32,
    shards: u32,
    partitions: Vec<(u32, u32, u64, u64, i64)>,
}

impl Warehouse {
    /// Reads the progress that the writers of all shards have published, by shard.
    pub async fn progress(&self) -> Result<Vec<ShardProgress>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT shard, version, verdicts_epoch, verdicts_offset, source_partitions, shards, partitions
             FROM progress FINAL ORDER BY shard",
        );
        let stored: Vec<StoredProgress> = self.rows("progress", call).await?;
        Ok(stored.into_iter().map(ShardProgress::from).collect())
    }

    /// Publishes how far a shard's writer has come.
    pub async fn publish_progress(
        &self,
        progress: &ShardProgress,
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let each = progress.partitions.iter();
        let members: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(each.clone().map(|one| one.epoch))),
            Arc::new(UInt32Array::from_iter_values(each.clone().map(|one| one.partition))),
            Arc::new(UInt64Array::from_iter_values(each.clone().map(|one| one.first_offset))),
            Arc::new(UInt64Array::from_iter_values(each.clone().map(|one| one.next_offset))),
            Arc::new(Int64Array::from_iter_values(each.map(|one| one.complete_through_ms))),
        ];
        let columns = vec![
            ("shard", u32s(progress.shard)),
            ("version", u64s(progress.version)),
            ("verdicts_epoch", u32s(progress.verdicts.epoch)),
            ("verdicts_offset", u64s(progress.verdicts.offset)),
            ("source_partitions", u32s(progress.source_partitions)),
            ("shards", u32s(progress.shards)),
            ("partitions", lists_of_tuples([progress.partitions.len()], members)?),
        ];
        self.insert_columns("progress", columns, epoch).await
    }
}

impl Warehouse {
    /// The next record of `verdicts` whose evidence isn't stored yet, if any of the shard's is.
    pub async fn evidence_progress(&self, shard: u32) -> Result<Option<VerdictsPosition>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT verdicts_epoch, verdicts_offset FROM evidence_progress FINAL WHERE shard = {shard:UInt32}",
        );
        let stored: Vec<(u32, u64)> = self.rows("evidence_progress", call.with("shard", shard)).await?;
        let position = |&(epoch, offset)| VerdictsPosition { epoch, offset };
        Ok(stored.first().map(position))
    }

    /// Publishes the next record of `verdicts` whose evidence isn't stored yet.
    pub async fn publish_evidence_progress(&self, shard: u32, next: VerdictsPosition) -> Result<(), WarehouseError> {
        let columns = vec![
            ("shard", u32s(shard)),
            ("verdicts_epoch", u32s(next.epoch)),
            ("verdicts_offset", u64s(next.offset)),
        ];
        self.insert_columns("evidence_progress", columns, None).await
    }
}

fn u32s(value: u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values([value]))
}

fn u64s(value: u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values([value]))
}

impl From<StoredProgress> for ShardProgress {
    fn from(stored: StoredProgress) -> Self {
        let partition = |(epoch, partition, first_offset, next_offset, complete_through_ms)| PartitionProgress {
            epoch,
            partition,
            first_offset,
            next_offset,
            complete_through_ms,
        };
        let mut partitions: Vec<_> = stored.partitions.into_iter().map(partition).collect();
        partitions.sort_by_key(|one| (one.epoch, one.partition));
        Self {
            shard: stored.shard,
            version: stored.version,
            verdicts: VerdictsPosition {
                epoch: stored.verdicts_epoch,
                offset: stored.verdicts_offset,
            },
            source_partitions: stored.source_partitions,
            shards: stored.shards,
            partitions,
        }
    }
}
