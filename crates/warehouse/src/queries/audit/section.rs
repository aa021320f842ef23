//! A section: whole blocks of a partition in log order, compared with what the tables store of
//! their offsets.
//!
//! The cost is that of the section. Its rows are found by indexes over the smallest and the
//! greatest position of a granule, so older receipts aren't read. Rows aren't merged for it: what
//! is counted are distinct positions of distinct receipts.

use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use super::{AuditPartition, AuditSums, named, position};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Receipts of a section, but for its last block.
const RECEIPTS_MAX: u64 = 250_000;
/// Blocks of a section.
const BLOCKS_MAX: usize = 10_000;

/// Result of a section.
#[derive(Debug)]
pub struct AuditedSection {
    /// The offset behind the section.
    pub end: u64,
    /// Sums of the section.
    pub sums: AuditSums,
}

#[derive(Row, Deserialize)]
struct LedgerBlock {
    first_offset: u64,
    last_offset: u64,
    records: u64,
    receipts_in: u64,
    accepted: u64,
    rejected: u64,
}

impl Warehouse {
    /// Compares a section that begins at an offset, and at the latest ends with the partition.
    ///
    /// The ledger is read first, and all receipts of a block are stored before its row. So writers
    /// at work don't cause findings.
    ///
    /// # Errors
    /// [`WarehouseError`]; findings are no error.
    pub async fn audit_section(&self, partition: &AuditPartition, from: u64) -> Result<AuditedSection, WarehouseError> {
        let blocks = self.blocks(partition, from).await?;
        let LedgerRows { end, mut sums, is_gap } = LedgerRows::of(partition, from, &blocks);
        let location = named(partition.epoch, partition.partition);
        let at = |offset| position(partition.epoch, partition.partition, offset);
        if is_gap {
            // There may be any number of them, so they aren't counted.
            if self.has_stored(at(from)..at(end)).await? {
                let last = end - 1;
                sums.find(
                    "not_in_ledger",
                    format!("{location}: positions of offsets {from} to {last} are in no block"),
                );
            }
            return Ok(AuditedSection { end, sums });
        }
        let from = from.max(partition.begin);
        if from < end {
            let range = at(from)..at(end);
            sums.stored_occurrences = self.stored_occurrences(range.clone()).await?;
            let rejected_from = from.max(partition.rejected_begin);
            if rejected_from < end {
                sums.stored_rejected = self.stored_rejected(at(rejected_from)..at(end)).await?;
            }
            for (kind, counted, stored) in [
                ("accepted_sum", sums.accepted, sums.stored_occurrences),
                ("rejected_sum", sums.rejected - sums.rejected_past, sums.stored_rejected),
            ] {
                if counted != stored {
                    sums.off_by += counted.abs_diff(stored);
                    let last = end - 1;
                    sums.find(
                        kind,
                        format!(
                            "{location}, offsets {from} to {last}: the ledger counts {counted}, the table has {stored}"
                        ),
                    );
                }
            }
            for position in self.in_both(range).await? {
                let (offset, index) = ((position >> 16) & 0xffff_ffff_ffff, position & 0xffff);
                sums.find(
                    "in_both",
                    format!("{location} offset {offset} index {index} is both accepted and rejected"),
                );
            }
        }
        Ok(AuditedSection { end, sums })
    }

    /// Blocks from an offset on, one more than a section may have.
    async fn blocks(&self, partition: &AuditPartition, from: u64) -> Result<Vec<LedgerBlock>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT first_offset, last_offset, records, receipts_in, accepted, rejected FROM ledger FINAL
             WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32}
                AND first_offset >= {from:UInt64} AND first_offset < {end:UInt64}
             ORDER BY shard, epoch, partition, first_offset LIMIT {blocks_max:UInt64}",
        );
        let call = call
            .slow()
            .with("epoch", partition.epoch)
            .with("partition", partition.partition)
            .with("from", from)
            .with("end", partition.end)
            .with("blocks_max", BLOCKS_MAX as u64 + 1);
        self.rows("audit", call).await
    }

    /// Positions within a range, accepted and rejected. Those of rows that aren't merged yet may
    /// count twice: a range may be of any size, so they aren't held in memory.
    pub(super) async fn stored(&self, positions: Range<u128>) -> Result<u64, WarehouseError> {
        let Indexed { receipts, rejected } = Indexed::of(&positions);
        let sql = format!(
            "SELECT sum(stored) FROM (
                SELECT sum(arrayCount(position -> {WITHIN}, positions)) AS stored FROM receipts WHERE {receipts}
                UNION ALL SELECT sum(receipts) FROM rejected WHERE {rejected})"
        );
        self.one("audit_uncommitted", within(sql, &positions)).await
    }

    /// Whether any position within a range is stored.
    async fn has_stored(&self, positions: Range<u128>) -> Result<bool, WarehouseError> {
        let Indexed { receipts, rejected } = Indexed::of(&positions);
        let sql = format!(
            "SELECT count() FROM (
                SELECT 1 FROM receipts WHERE {receipts} AND arrayExists(position -> {WITHIN}, positions) LIMIT 1
                UNION ALL SELECT 1 FROM rejected WHERE {rejected} LIMIT 1)"
        );
        let found: u64 = self.one("audit_gap", within(sql, &positions)).await?;
        Ok(found > 0)
    }

    async fn stored_occurrences(&self, positions: Range<u128>) -> Result<u64, WarehouseError> {
        let Indexed { receipts, .. } = Indexed::of(&positions);
        let sql = format!(
            "SELECT uniqExact(position, publisher, receipt_id, payload_hash)
             FROM (SELECT arrayJoin(positions) AS position, publisher, receipt_id, payload_hash FROM receipts
                WHERE {receipts})
             WHERE {WITHIN}"
        );
        self.one("audit_receipts", within(sql, &positions)).await
    }

    async fn stored_rejected(&self, positions: Range<u128>) -> Result<u64, WarehouseError> {
        let Indexed { rejected, .. } = Indexed::of(&positions);
        let sql = format!(
            "SELECT sum(counted) FROM (
                SELECT any(receipts) AS counted FROM rejected WHERE {rejected}
                GROUP BY position, publisher, received_at)"
        );
        self.one("audit_rejected", within(sql, &positions)).await
    }

    /// The first positions with two outcomes.
    async fn in_both(&self, positions: Range<u128>) -> Result<Vec<u128>, WarehouseError> {
        let Indexed { receipts, rejected } = Indexed::of(&positions);
        let sql = format!(
            "SELECT DISTINCT position FROM rejected
             WHERE {rejected} AND position IN (SELECT arrayJoin(positions) FROM receipts WHERE {receipts})
             ORDER BY position LIMIT 100"
        );
        self.rows("audit_in_both", within(sql, &positions)).await
    }
}

/// A position's condition.
const WITHIN: &str = "position >= {from:UInt128} AND position < {to:UInt128}";

/// Conditions that the tables' indexes find the granules of a range by. Those of one partition are
/// also found by the low half of a position, its offset and index: granules have rows of many
/// partitions, whose offsets grow together.
struct Indexed {
    receipts: String,
    rejected: String,
}

impl Indexed {
    fn of(positions: &Range<u128>) -> Self {
        let mut receipts = "arrayMax(positions) >= {from:UInt128} AND arrayMin(positions) < {to:UInt128}".to_owned();
        let mut rejected = WITHIN.to_owned();
        if positions.start >> 64 == positions.end >> 64 {
            receipts.push_str(
                " AND arrayMax(CAST(positions, 'Array(UInt64)')) >= {low_from:UInt64}
                AND arrayMin(CAST(positions, 'Array(UInt64)')) < {low_to:UInt64}",
            );
            rejected.push_str(
                " AND CAST(position, 'UInt64') >= {low_from:UInt64} AND CAST(position, 'UInt64') < {low_to:UInt64}",
            );
        }
        Self { receipts, rejected }
    }
}

fn within(sql: String, positions: &Range<u128>) -> SqlStatement {
    #[allow(clippy::cast_possible_truncation)] // The low halves.
    let low = |position: u128| position as u64;
    SqlStatement::new(sql)
        .slow()
        .with("from", positions.start.to_string())
        .with("to", positions.end.to_string())
        .with("low_from", low(positions.start))
        .with("low_to", low(positions.end))
}

/// The ledger's part of a section.
struct LedgerRows {
    end: u64,
    sums: AuditSums,
    /// Whether the section is a gap: offsets without a block.
    is_gap: bool,
}

impl LedgerRows {
    /// Blocks must follow each other from `from` on, without gap or overlap. In each, in = accepted
    /// + rejected, and there are as many records as offsets.
    fn of(partition: &AuditPartition, from: u64, blocks: &[LedgerBlock]) -> Self {
        let location = named(partition.epoch, partition.partition);
        let mut sums = AuditSums::default();
        let gap_end = blocks.first().map_or(partition.end, |block| block.first_offset);
        if gap_end > from {
            let last = gap_end - 1;
            sums.find(
                "ledger_gap",
                format!("{location}: no block for offsets {from} to {last}"),
            );
            sums.off_by = gap_end - from;
            return Self {
                end: gap_end,
                sums,
                is_gap: true,
            };
        }
        let mut end = from;
        let mut receipts = 0;
        let mut is_whole = true;
        for (index, block) in blocks.iter().enumerate() {
            // A block that begins before the end of another belongs to the same section.
            let is_full = receipts >= RECEIPTS_MAX && block.first_offset >= end;
            if is_full || index == BLOCKS_MAX || block.first_offset > end {
                is_whole = false;
                break;
            }
            if block.first_offset < end {
                let first = block.first_offset;
                sums.find(
                    "ledger_overlap",
                    format!("{location}: a block begins at offset {first}, but the one before ends at {end}"),
                );
            }
            let is_sound = block.receipts_in == block.accepted + block.rejected
                && block.last_offset >= block.first_offset
                && block.records == block.last_offset - block.first_offset + 1;
            if !is_sound {
                let LedgerBlock {
                    first_offset,
                    last_offset,
                    records,
                    receipts_in,
                    accepted,
                    rejected,
                } = block;
                sums.find(
                    "ledger_line",
                    format!(
                        "{location}: offsets {first_offset} to {last_offset} have {records} records, {receipts_in} receipts \
                         in, {accepted} accepted, {rejected} rejected"
                    ),
                );
            }
            if block.first_offset < partition.begin {
                sums.blocks_past += 1;
            } else {
                sums.blocks += 1;
                sums.records += block.records;
                sums.receipts_in += block.receipts_in;
                sums.accepted += block.accepted;
                sums.rejected += block.rejected;
                if block.first_offset < partition.rejected_begin {
                    sums.rejected_past += block.rejected;
                }
            }
            receipts += block.receipts_in;
            end = end.max(block.last_offset.saturating_add(1));
        }
        if is_whole && end > partition.end {
            let committed = partition.end;
            sums.find(
                "ledger_overlap",
                format!("{location}: a block ends at offset {end}, the commit is at {committed}"),
            );
            end = partition.end;
        }
        // Not even a block that ends before it begins stops the audit.
        let end = end.max(from + 1);
        Self {
            end,
            sums,
            is_gap: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: AuditPartition = AuditPartition {
        epoch: 1,
        partition: 0,
        begin: 0,
        rejected_begin: 0,
        end: 40,
    };

    fn block(first_offset: u64, last_offset: u64, receipts_in: u64) -> LedgerBlock {
        LedgerBlock {
            first_offset,
            last_offset,
            records: last_offset - first_offset + 1,
            receipts_in,
            accepted: receipts_in,
            rejected: 0,
        }
    }

    /// Ends of the sections of these blocks, and kinds of findings.
    fn sections(partition: &AuditPartition, blocks: &[LedgerBlock]) -> (Vec<u64>, Vec<&'static str>) {
        let (mut from, mut ends, mut kinds) = (0, Vec::new(), Vec::new());
        while from < partition.end {
            let start = blocks.partition_point(|block| block.first_offset < from);
            let LedgerRows { end, sums, .. } = LedgerRows::of(partition, from, &blocks[start..]);
            kinds.extend(sums.findings.iter().map(|finding| finding.kind));
            ends.push(end);
            from = end;
        }
        (ends, kinds)
    }

    #[test]
    fn a_section_ends_with_a_block_once_it_has_enough_receipts() {
        let blocks = [block(0, 9, RECEIPTS_MAX), block(10, 19, 1), block(20, 39, RECEIPTS_MAX)];
        assert_eq!(sections(&PARTITION, &blocks), (vec![10, 40], vec![]));
        let blocks = [
            block(0, 9, RECEIPTS_MAX),
            block(10, 19, RECEIPTS_MAX),
            block(20, 39, RECEIPTS_MAX),
        ];
        assert_eq!(sections(&PARTITION, &blocks), (vec![10, 20, 40], vec![]));
    }

    #[test]
    fn a_block_within_another_is_in_its_section() {
        let blocks = [block(0, 9, RECEIPTS_MAX), block(5, 9, 1), block(10, 39, 1)];
        assert_eq!(sections(&PARTITION, &blocks), (vec![10, 40], vec!["ledger_overlap"]));
    }

    #[test]
    fn gaps_between_sections_and_at_the_end_are_found() {
        let blocks = [block(0, 9, RECEIPTS_MAX), block(20, 29, 1)];
        assert_eq!(
            sections(&PARTITION, &blocks),
            (vec![10, 20, 30, 40], vec!["ledger_gap", "ledger_gap"])
        );
        assert_eq!(sections(&PARTITION, &[]), (vec![40], vec!["ledger_gap"]));
    }

    #[test]
    fn a_block_beyond_the_commit_and_one_that_ends_before_it_begins_are_found() {
        let partition = AuditPartition { end: 15, ..PARTITION };
        let blocks = [block(0, 9, 1), block(10, 19, 1)];
        assert_eq!(sections(&partition, &blocks), (vec![15], vec!["ledger_overlap"]));
        let backwards = LedgerBlock {
            last_offset: 2,
            ..block(5, 5, 1)
        };
        let (ends, kinds) = sections(&PARTITION, &[block(0, 4, 1), backwards]);
        assert_eq!(
            (ends, kinds),
            (vec![5, 6, 40], vec!["ledger_line", "ledger_line", "ledger_gap"])
        );
    }
}
