//! Lost rows, inserted again from the log `verdicts`: after a damaged part of a table was detached,
//! or a table was lost.
//!
//! No receipt is judged again. Everything is idempotent: equal rows merge, and ledger lines are
//! inserted only where they are missing. A repair may run beside the shard's writer, because it
//! reads only what that writer has stored. It doesn't change `usage`, which only the writer may: a
//! rebuild counts the receipts that were inserted again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use blocks::Columns;
use receipt_log::{InspectError, LogInspector, LoggedRecord, Position};
use service::cpu::{CpuError, CpuPool};
use service::instant::now_ms;
use thiserror::Error;
use warehouse::{LogBegin, ShardProgress, Warehouse, WarehouseError};

use crate::error::WriterError;
use crate::inserting::ledger_line;
use crate::reading::{ReadBlock, decode};
use crate::refusing::{accepted_without, as_rejected, insert_accepted, insert_rejections, position};

/// Bytes of `verdicts` that are read and inserted at a time.
const STEP_BYTES: usize = 16 << 20;
/// Bytes of `verdicts` that are read at a time where only headers count.
const SEARCH_BYTES: usize = 1 << 20;

/// Counts of what a repair inserted again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repaired {
    /// Records of `receipts` whose verdicts were read.
    pub records: u64,
    /// Rows inserted into the table of receipts.
    pub accepted: u64,
    /// Rows inserted into the table of rejected receipts.
    pub rejected: u64,
    /// Missing ledger lines that were inserted.
    pub ledger_lines: u64,
    /// Stored records of `receipts` whose verdicts are no longer in the log: lost rows of theirs
    /// can't be rebuilt.
    pub gone: u64,
}

impl Repaired {
    /// Adds the counts of another shard.
    pub fn add(&mut self, more: Self) {
        self.records += more.records;
        self.accepted += more.accepted;
        self.rejected += more.rejected;
        self.ledger_lines += more.ledger_lines;
        self.gone += more.gone;
    }
}

/// Whether missing ledger lines are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairLedger {
    /// Overlaps are removed.
    Fill,
    /// Overlaps stay, because the table can't be read.
    Leave,
}

/// Why a repair stopped. Everything that it inserted is right; it can be run again.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The log can't be read.
    #[error("the log verdicts: {0}")]
    Log(#[from] InspectError),
    /// The warehouse doesn't accept rows.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    /// Decoding ended unexpectedly.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A record can't be decoded.
    #[error(transparent)]
    Block(#[from] WriterError),
}

/// Dependencies of a repair.
pub struct Repair<'a> {
    /// The log `verdicts`.
    pub verdicts: &'a dyn LogInspector,
    /// Warehouse that takes the rows.
    pub warehouse: &'a Warehouse,
    /// Threads for decoding records.
    pub cpu: &'a CpuPool,
    /// Whether missing ledger lines are inserted.
    pub ledger: RepairLedger,
    /// Whether evidence is inserted: [`crate::WriterConfig::evidence`].
    pub evidence: bool,
}

/// Offsets of `receipts` by epoch and partition.
type SourceRanges = BTreeMap<(u32, u32), Range<u64>>;

impl Repair<'_> {
    /// Inserts every row again whose verdict is in the log and `stored`. `progress` receives
    /// positions in the log: those that are done, and all.
    pub async fn run(
        &self,
        stored: &ShardProgress,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Repaired, RepairError> {
        let mut repaired = Repaired::default();
        let mut begins: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        if let Some(range) = stored_range(self.verdicts, stored).await? {
            let total = range.end.saturating_sub(range.start);
            let mut offset = range.start;
            while offset < range.end {
                let records = read(self.verdicts, stored.shard, &mut offset, range.end, STEP_BYTES).await?;
                let decoded = self
                    .cpu
                    .run_waiting(move || records.iter().map(decode).collect::<Result<Vec<_>, _>>());
                let blocks = decoded.await??;
                for ((epoch, partition), range) in source_ranges(&blocks) {
                    begins.entry((epoch, partition)).or_insert(range.start);
                }
                self.step(&blocks, &mut repaired).await?;
                progress(offset.min(range.end) - range.start, total);
            }
        }
        for one in &stored.partitions {
            let begin = begins.get(&(one.epoch, one.partition)).copied();
            let first = self.warehouse.first_offset(one.epoch, one.partition).await?;
            repaired.gone += begin.unwrap_or(one.next_offset).saturating_sub(first);
        }
        Ok(repaired)
    }

    /// Inserts the rows of these blocks.
    async fn step(&self, blocks: &[ReadBlock], repaired: &mut Repaired) -> Result<(), RepairError> {
        let ranges = source_ranges(blocks);
        // A position that the verifier accepted and that is stored as rejected was refused by the
        // table.
        let mut refused = BTreeSet::new();
        for (&(epoch, partition), range) in &ranges {
            let position = |offset, index| {
                let record = Position {
                    epoch,
                    partition,
                    offset,
                };
                record.receipt(index)
            };
            let (first, last) = (
                position(range.start, 0),
                position(range.end.saturating_sub(1), u16::MAX),
            );
            let rejections = self.warehouse.standing_rejections(first, last).await?;
            refused.extend(rejections.into_iter().map(|one| one.position));
        }
        let accepted: Vec<_> = blocks
            .iter()
            .flat_map(|read| accepted_without(&read.block, &refused))
            .collect();
        if self.evidence {
            self.warehouse.insert_evidence(&accepted).await?;
        }
        let accepted_rows: u64 = accepted.iter().map(|rows| rows.num_rows() as u64).sum();
        let refused_now = insert_accepted(self.warehouse, accepted, None).await?;
        let mut rejected: Vec<_> = blocks.iter().map(|read| read.block.rejected()).collect();
        rejected.retain(|rows| rows.num_rows() > 0);
        if !refused_now.is_empty() {
            let broken = |_| WarehouseError::BadRows("refused rows can't be encoded");
            rejected.extend(as_rejected(&refused_now).map_err(broken)?);
            for one in &refused_now {
                let columns = Columns::new(&one.row).map_err(broken)?;
                refused.insert(position(&columns, 0));
            }
        }
        let rejected_rows: u64 = rejected.iter().map(|rows| rows.num_rows() as u64).sum();
        insert_rejections(self.warehouse, rejected, None).await?;
        if self.ledger == RepairLedger::Fill {
            repaired.ledger_lines += self.fill_ledger(blocks, &ranges, &refused).await?;
        }
        let lengths = ranges.values().map(|range| range.end.saturating_sub(range.start));
        repaired.records += lengths.sum::<u64>();
        repaired.accepted += accepted_rows - refused_now.len() as u64;
        repaired.rejected += rejected_rows;
        Ok(())
    }

    /// Inserts the ledger lines of these blocks that are missing, and returns how many.
    async fn fill_ledger(
        &self,
        blocks: &[ReadBlock],
        ranges: &SourceRanges,
        refused: &BTreeSet<u128>,
    ) -> Result<u64, RepairError> {
        let mut found: HashSet<(u32, u32, u64)> = HashSet::new();
        for (&(epoch, partition), range) in ranges {
            let lines = self.warehouse.ledger_bounds(epoch, partition, range.clone()).await?;
            found.extend(lines.into_iter().map(|line| (epoch, partition, line.start)));
        }
        let missing = blocks.iter().filter(|read| {
            let source = &read.block.header.source;
            !source.is_empty() && !found.contains(&(source.epoch, source.partition, source.first.offset))
        });
        let stored_at_ms = now_ms();
        let line = |read: &ReadBlock| {
            let (columns, accepted) = (read.block.columns(), read.block.accepted().num_rows());
            let in_block = (0..accepted).filter(|&row| refused.contains(&position(columns, row)));
            ledger_line(read, in_block.count() as u64, stored_at_ms)
        };
        let lines: Vec<_> = missing.map(line).collect();
        if !lines.is_empty() {
            self.warehouse.insert_ledger(&lines, None).await?;
        }
        Ok(lines.len() as u64)
    }
}

/// Begin of the verdicts that are still in the log, by partition of `receipts`: rows of earlier
/// records can't be rebuilt. Only partitions of `stored` are searched for.
pub async fn begins(verdicts: &dyn LogInspector, stored: &ShardProgress) -> Result<Vec<LogBegin>, RepairError> {
    let mut wanted: BTreeSet<(u32, u32)> = stored.partitions.iter().map(|one| (one.epoch, one.partition)).collect();
    let mut begins = Vec::new();
    let Some(range) = stored_range(verdicts, stored).await? else {
        return Ok(begins);
    };
    let mut offset = range.start;
    while offset < range.end && !wanted.is_empty() {
        let records = read(verdicts, stored.shard, &mut offset, range.end, SEARCH_BYTES).await?;
        for logged in &records {
            let source = decode(logged)?.block.header.source;
            if wanted.remove(&(source.epoch, source.partition)) {
                begins.push(LogBegin {
                    epoch: source.epoch,
                    partition: source.partition,
                    offset: source.first.offset,
                });
            }
        }
    }
    Ok(begins)
}

/// The records of `verdicts` that are in the log and stored; none if the log is another one.
async fn stored_range(verdicts: &dyn LogInspector, stored: &ShardProgress) -> Result<Option<Range<u64>>, InspectError> {
    let states = verdicts.partitions(crate::GROUP).await?;
    let state = states.into_iter().find(|state| state.partition == stored.shard);
    let state = state.filter(|state| state.epoch == stored.verdicts.epoch);
    Ok(state.map(|state| state.begin_offset..state.end_offset.min(stored.verdicts.offset)))
}

/// The next records below `end`; moves `offset` behind them.
async fn read(
    verdicts: &dyn LogInspector,
    shard: u32,
    offset: &mut u64,
    end: u64,
    bytes_max: usize,
) -> Result<Vec<LoggedRecord>, InspectError> {
    let mut records = match verdicts.read(shard, *offset, bytes_max).await {
        // Retention went on while we read.
        Err(InspectError::Gone { begin, .. }) if begin > *offset => {
            *offset = begin;
            return Ok(Vec::new());
        }
        records => records?,
    };
    records.retain(|logged| logged.position.offset < end);
    *offset = records.last().map_or(end, |last| last.position.offset + 1);
    Ok(records)
}

/// The records of `receipts` that these blocks cover.
fn source_ranges(blocks: &[ReadBlock]) -> SourceRanges {
    let mut ranges = SourceRanges::new();
    for read in blocks {
        let source = &read.block.header.source;
        let (first, end) = (source.first.offset, source.end.offset);
        let range = ranges.entry((source.epoch, source.partition)).or_insert(first..end);
        range.end = range.end.max(end);
    }
    ranges
}
