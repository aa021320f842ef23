//! Progress of the writers, as they publish it: one row per shard.

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Call;
use crate::fence::WriterEpoch;
use crate::row::put_length;
use crate::{CommittedOffset, Warehouse, WarehouseError};

/// A partition of the log `receipts`, as far as a shard's writer has stored verdicts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionProgress {
    /// The epoch of `receipts`.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
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
    /// In order of epoch and partition.
    pub partitions: Vec<PartitionProgress>,
}

#[derive(Row, Deserialize)]
struct Stored {
    shard: u32,
    version: u64,
    verdicts_epoch: u32,
    verdicts_offset: u64,
    source_partitions: u32,
    partitions: Vec<(u32, u32, u64, i64)>,
}

const COLUMNS: &str = "shard, version, verdicts_epoch, verdicts_offset, source_partitions, partitions";
const STRUCTURE: &str = "shard UInt32, version UInt64, verdicts_epoch UInt32, verdicts_offset UInt64, \
    source_partitions UInt32, partitions Array(Tuple(UInt32, UInt32, UInt64, Int64))";

impl Warehouse {
    /// Reads the progress that the writers of all shards have published, by shard.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn progress(&self) -> Result<Vec<ShardProgress>, WarehouseError> {
        let call = Call::new(format!("SELECT {COLUMNS} FROM progress FINAL ORDER BY shard"));
        let stored: Vec<Stored> = self.rows("progress", call).await?;
        Ok(stored.into_iter().map(ShardProgress::from).collect())
    }

    /// Publishes how far a shard's writer has come.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn publish_progress(
        &self,
        progress: &ShardProgress,
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let mut row = Vec::with_capacity(64 + progress.partitions.len() * 24);
        row.extend_from_slice(&progress.shard.to_le_bytes());
        row.extend_from_slice(&progress.version.to_le_bytes());
        row.extend_from_slice(&progress.verdicts.epoch.to_le_bytes());
        row.extend_from_slice(&progress.verdicts.offset.to_le_bytes());
        row.extend_from_slice(&progress.source_partitions.to_le_bytes());
        put_length(&mut row, progress.partitions.len());
        for one in &progress.partitions {
            row.extend_from_slice(&one.epoch.to_le_bytes());
            row.extend_from_slice(&one.partition.to_le_bytes());
            row.extend_from_slice(&one.next_offset.to_le_bytes());
            row.extend_from_slice(&one.complete_through_ms.to_le_bytes());
        }
        let target = crate::client::InsertTarget {
            table: "progress",
            columns: COLUMNS,
            structure: STRUCTURE,
        };
        self.insert_fenced(target, vec![row.into()], 1, epoch).await
    }
}

impl From<Stored> for ShardProgress {
    fn from(stored: Stored) -> Self {
        let partition = |(epoch, partition, next_offset, complete_through_ms)| PartitionProgress {
            epoch,
            partition,
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
            partitions,
        }
    }
}
