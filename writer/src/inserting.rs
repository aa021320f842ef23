//! A batch into the tables.
//!
//! | crash after | stored | what the next owner does |
//! |---|---|---|
//! | nothing | nothing | inserts the batch |
//! | `receipts` | some or all occurrences | inserts them again: equal rows merge |
//! | `rejected` | and rejections | inserts them again: equal positions replace each other |
//! | `usage` | and counted receipts | finds them counted and counts none twice |
//! | the ledger | everything | continues behind the batch |
//! | progress | and readers know | continues behind the batch |
//!
//! After a statement whose result is unknown the writer takes a new epoch, which ends that
//! statement, before it tries again.
//!
//! A batch that the warehouse has too little memory for is inserted in runs of fewer blocks, down
//! to one. Each run has the steps above, and progress is published behind the last one. So a crash
//! between two runs is one after a ledger row.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use arrow_array::RecordBatch;
use blocks::{Block, Columns, SourceRange};
use metrics::{counter, histogram};
use receipt_log::Position;
use service::cpu::CpuPool;
use service::retry::{Retry, Stopped};
use tokio::time::Instant;
use tracing::warn;
use usage::Usage;
use warehouse::{CommittedOffset, LedgerRow, REFUSED_BY_WAREHOUSE, Touched, Warehouse, WarehouseError, WriterEpoch};

use crate::counting::uncounted;
use crate::reading::{ReadBatch, ReadBlock};
use crate::refusing::{RefusedRow, accepted_without, as_rejected, insert_accepted, insert_rejections, position, uuid};

/// Stored refusals that are read: more than a batch can have.
const REFUSED_MAX: u64 = 1_000_000;

/// Inserts batches of one shard, in order.
pub struct Inserter {
    warehouse: Warehouse,
    usage: Usage,
    cpu: CpuPool,
    retry: Retry,
    epoch: WriterEpoch,
    /// Positions at or above the end of the ledger whose rows the table refused, before or in this
    /// run.
    refused: BTreeSet<u128>,
    /// Rejections of rows that were refused in this run. They are a part of each attempt.
    rejections: Vec<RecordBatch>,
    /// Partitions of `receipts`, as epoch and number, whose stored refusals were read.
    begun: BTreeSet<(u32, u32)>,
    /// Blocks of one run: fewer after the warehouse lacked memory, twice as many after each batch.
    run_blocks_max: usize,
}

/// A batch that is stored.
#[derive(Debug)]
#[must_use = "progress must be published"]
pub struct InsertedBatch {
    /// The batch.
    pub batch: ReadBatch,
    /// Receipts by outcome, after refusals.
    pub accepted: u64,
    /// Receipts by outcome, after refusals.
    pub rejected: u64,
}

/// Why a batch wasn't inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotInserted {
    /// The writer is stopping.
    Stopped,
    /// Another writer owns the shard.
    Superseded,
}

impl From<Stopped> for NotInserted {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

enum InsertAttempt {
    Superseded,
    Failed(WarehouseError),
}

impl From<WarehouseError> for InsertAttempt {
    fn from(error: WarehouseError) -> Self {
        Self::Failed(error)
    }
}

impl Inserter {
    /// Inserts as the writer with this epoch.
    #[must_use]
    pub fn new(warehouse: Warehouse, cpu: CpuPool, retry: Retry, epoch: WriterEpoch) -> Self {
        Self {
            usage: Usage::new(warehouse.clone()),
            warehouse,
            cpu,
            retry,
            epoch,
            refused: BTreeSet::new(),
            rejections: Vec::new(),
            begun: BTreeSet::new(),
            run_blocks_max: usize::MAX,
        }
    }

    /// The current epoch.
    #[must_use]
    pub fn epoch(&self) -> &WriterEpoch {
        &self.epoch
    }

    /// Inserts a batch, and repeats until it is stored.
    pub async fn insert(&mut self, batch: ReadBatch) -> Result<InsertedBatch, NotInserted> {
        let started = Instant::now();
        let mut pauses = self.retry.pauses();
        let (mut accepted, mut rejected) = (0, 0);
        let mut left = &batch.blocks[..];
        while !left.is_empty() {
            let (run, behind) = left.split_at(self.run_blocks_max.min(left.len()));
            match self.attempt(run).await {
                Ok(counts) => {
                    accepted += counts.0;
                    rejected += counts.1;
                    self.forget_refusals(run);
                    left = behind;
                    pauses = self.retry.pauses();
                }
                Err(InsertAttempt::Superseded) => return Err(NotInserted::Superseded),
                Err(InsertAttempt::Failed(error)) => {
                    counter!("receipts_writer_insert_failures_total").increment(1);
                    if error.is_out_of_memory() && run.len() > 1 {
                        self.run_blocks_max = run.len() / 2;
                        warn!(blocks = self.run_blocks_max, %error, "the insert is halved");
                    } else {
                        self.retry.pause("warehouse", &error, &mut pauses).await?;
                    }
                    if error.is_retryable() {
                        self.renew_epoch().await?;
                    }
                }
            }
        }
        self.run_blocks_max = self.run_blocks_max.saturating_mul(2);
        self.retry.parts.recovered("warehouse");
        histogram!("receipts_writer_stage_seconds", "stage" => "insert").record(started.elapsed().as_secs_f64());
        Ok(InsertedBatch {
            batch,
            accepted,
            rejected,
        })
    }

    /// Takes a new epoch, which ends statements of this process whose result is unknown.
    pub(crate) async fn renew_epoch(&mut self) -> Result<(), NotInserted> {
        let held = || self.warehouse.holds_epoch(&self.epoch);
        if !self.retry.until_done("warehouse", held).await? {
            return Err(NotInserted::Superseded);
        }
        let take = || self.warehouse.take_epoch(self.epoch.shard);
        match self.retry.until_done("warehouse", take).await? {
            Some(epoch) => {
                self.epoch = epoch;
                Ok(())
            }
            None => Err(NotInserted::Superseded),
        }
    }

    async fn attempt(&mut self, blocks: &[ReadBlock]) -> Result<(u64, u64), InsertAttempt> {
        self.read_refusals(blocks).await?;
        // At the same time, because the lookup reads another table. An insert of an earlier attempt
        // whose result is unknown has ended: a new epoch was taken since.
        let accepted = self.accepted(blocks);
        let (refused, usage_rows) = tokio::join!(
            insert_accepted(&self.warehouse, accepted.clone(), Some(&self.epoch)),
            uncounted(&self.usage, &self.cpu, accepted),
        );
        let (refused, mut usage_rows) = (refused?, usage_rows?);
        let mut rejected: Vec<RecordBatch> = blocks.iter().map(|read| read.block.rejected()).collect();
        if !refused.is_empty() {
            let rejections = self.refuse(refused).await?;
            self.rejections.extend(rejections);
            usage_rows = uncounted(&self.usage, &self.cpu, self.accepted(blocks)).await?;
        }
        rejected.extend(self.rejections.iter().cloned());
        insert_rejections(&self.warehouse, rejected, Some(&self.epoch)).await?;
        self.usage.insert(&usage_rows, Some(&self.epoch)).await?;
        let lines = self.ledger(blocks);
        self.warehouse.insert_ledger(&lines, Some(&self.epoch)).await?;
        // Superseded inserts write nothing and report success.
        if !self.warehouse.holds_epoch(&self.epoch).await? {
            return Err(InsertAttempt::Superseded);
        }
        let sum = |count: fn(&LedgerRow) -> u64| lines.iter().map(count).sum();
        Ok((sum(|line| line.accepted), sum(|line| line.rejected)))
    }

    /// Accepted rows without those that the table refused.
    fn accepted(&self, blocks: &[ReadBlock]) -> Vec<RecordBatch> {
        let rows = |read: &ReadBlock| accepted_without(&read.block, &self.refused);
        blocks.iter().flat_map(rows).collect()
    }

    /// Reads which rows of these blocks and later ones an earlier writer stored as refused, once a
    /// partition. That writer may have made larger batches, and may have stopped before the
    /// partition was in the ledger.
    async fn read_refusals(&mut self, blocks: &[ReadBlock]) -> Result<(), WarehouseError> {
        let mut begins = BTreeMap::new();
        for ReadBlock { block, .. } in blocks {
            let source = &block.header.source;
            let partition = (source.epoch, source.partition);
            if !self.begun.contains(&partition) {
                begins.entry(partition).or_insert(source.first.offset);
            }
        }
        if begins.is_empty() {
            return Ok(());
        }
        let begin = |(&(epoch, partition), &next_offset)| CommittedOffset {
            epoch,
            partition,
            next_offset,
        };
        let begin_offsets: Vec<_> = begins.iter().map(begin).collect();
        let refused = self
            .warehouse
            .refused_above(&begin_offsets, &[REFUSED_BY_WAREHOUSE], REFUSED_MAX)
            .await?;
        self.refused.extend(refused);
        self.begun.extend(begins.into_keys());
        Ok(())
    }

    /// Notes refused rows, without those that are stored from an earlier attempt, and returns their
    /// rejections.
    async fn refuse(&mut self, mut refused: Vec<RefusedRow>) -> Result<Vec<RecordBatch>, InsertAttempt> {
        let occurrence = |one: &RefusedRow| {
            let columns = Columns::new(&one.row).ok()?;
            Some((uuid(columns.receipt_id.value(0)), position(&columns, 0)))
        };
        let occurrences: Vec<_> = refused.iter().filter_map(occurrence).collect();
        let stored: BTreeSet<u128> = self
            .warehouse
            .standing_positions(&occurrences)
            .await?
            .into_iter()
            .collect();
        refused.retain(|one| occurrence(one).is_some_and(|(_, position)| !stored.contains(&position)));
        self.refused
            .extend(refused.iter().filter_map(occurrence).map(|(_, position)| position));
        warn!(
            rows = refused.len(),
            "a table refuses rows; they are rejected with the reason refused_by_warehouse"
        );
        as_rejected(&refused)
            .map_err(|_| InsertAttempt::Failed(WarehouseError::BadRows("refused rows can't be encoded")))
    }

    fn ledger(&self, blocks: &[ReadBlock]) -> Vec<LedgerRow> {
        let stored_at_ms = service::instant::now_ms();
        let lines = blocks.iter().filter(|read| !read.block.header.source.is_empty());
        lines
            .map(|read| {
                let refused = self.refused.range(positions(&read.block.header.source)).count();
                ledger_line(read, refused as u64, stored_at_ms)
            })
            .collect()
    }

    /// Forgets refusals of these blocks, which are in the ledger.
    fn forget_refusals(&mut self, blocks: &[ReadBlock]) {
        self.rejections.clear();
        for read in blocks.iter().filter(|read| !read.block.header.source.is_empty()) {
            let positions: Vec<u128> = self
                .refused
                .range(positions(&read.block.header.source))
                .copied()
                .collect();
            for position in positions {
                self.refused.remove(&position);
            }
        }
    }
}

/// The positions of a range that isn't empty.
fn positions(source: &SourceRange) -> RangeInclusive<u128> {
    let position = |offset| Position {
        epoch: source.epoch,
        partition: source.partition,
        offset,
    };
    position(source.first.offset).receipt(0)..=position(source.end.offset - 1).receipt(u16::MAX)
}

/// The ledger line of a block with source records, of whose accepted rows the table refused so
/// many.
#[must_use]
pub fn ledger_line(ReadBlock { position, block, .. }: &ReadBlock, refused: u64, stored_at_ms: i64) -> LedgerRow {
    let (source, counts) = (&block.header.source, &block.header.shard_counts);
    LedgerRow {
        epoch: source.epoch,
        partition: source.partition,
        first_offset: source.first.offset,
        last_offset: source.end.offset - 1,
        records: source.end.offset - source.first.offset,
        receipts_in: counts.received,
        accepted: counts.accepted - refused,
        rejected: counts.rejected + refused,
        verifier: block.header.verifier.clone(),
        committed_at_ms: stored_at_ms,
        shard: block.header.shard,
        verdicts: *position,
        touched: touched(block),
    }
}

/// Hours and publishers of a block's accepted rows.
fn touched(block: &Block) -> Touched {
    let (columns, mut touched) = (block.columns(), Touched::default());
    for row in 0..block.accepted().num_rows() {
        touched.add(columns.timestamp.value(row), columns.publisher.value(row));
    }
    touched
}

#[cfg(test)]
mod tests {
    use blocks::SourceIndex;

    use super::*;

    #[test]
    fn positions_of_a_range_are_those_of_its_records_only() {
        let source = SourceRange {
            epoch: 7,
            partition: 2,
            first: SourceIndex { offset: 4, index: 0 },
            end: SourceIndex { offset: 6, index: 0 },
        };
        let position = |epoch, partition, offset, index| {
            let record = Position {
                epoch,
                partition,
                offset,
            };
            record.receipt(index)
        };
        let range = positions(&source);
        for inside in [(4, 0), (4, u16::MAX), (5, 0), (5, u16::MAX)] {
            assert!(range.contains(&position(7, 2, inside.0, inside.1)), "{inside:?}");
        }
        for outside in [
            position(7, 2, 3, u16::MAX),
            position(7, 2, 6, 0),
            position(7, 1, 5, 0),
            position(7, 3, 5, 0),
            position(8, 2, 5, 0),
        ] {
            assert!(!range.contains(&outside));
        }
    }
}
