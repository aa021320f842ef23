//! The conservation ledger held against the tables.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;

use super::FINAL_SETTINGS;
use crate::client::Call;
use crate::{Warehouse, WarehouseError};

/// How far a partition is committed: the audit looks only below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset that isn't committed.
    pub next_offset: u64,
}

/// One thing that doesn't add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFinding {
    /// What kind: `ledger_gap`, `ledger_overlap`, `ledger_line`, `accepted_sum`, `rejected_sum`, `in_both`,
    /// `not_in_ledger`.
    pub kind: &'static str,
    /// Where and by how much, for people.
    pub detail: String,
}

/// What the ledger and the tables say, below the committed offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSums {
    /// Ledger blocks that are held against the tables.
    pub blocks: u64,
    /// Ledger blocks before them, whose receipts may have grown too old: only their offsets are looked at.
    pub blocks_past: u64,
    /// Log records in the ledger.
    pub records: u64,
    /// Receipts in, by the ledger.
    pub receipts_in: u64,
    /// Accepted, by the ledger.
    pub accepted: u64,
    /// Rejected, by the ledger.
    pub rejected: u64,
    /// Valid occurrences in the receipts table.
    pub stored_occurrences: u64,
    /// Rows of the rejected table.
    pub stored_rejected: u64,
    /// Distinct receipts in the receipts table (of all positions).
    pub receipts: u64,
    /// Positions in the tables at or above the committed offsets: blocks under way, no fault.
    pub uncommitted_positions: u64,
    /// Receipts by which the tables differ from the ledger, too few or too many, and records that no block counts.
    pub off_by: u64,
    /// What doesn't add up: the first few of each kind. Empty means the ledger is right.
    pub findings: Vec<AuditFinding>,
}

/// Findings of one kind that are named in full.
const NAMED_MAX: usize = 10;
/// Gaps that positions are looked for in.
const GAPS_MAX: usize = 1_000;

/// Partition and epoch in one number, as they stand in a position's high half.
fn key(epoch: u32, partition: u32) -> u64 {
    (u64::from(epoch) << 32) | u64::from(partition)
}

/// A key in words.
fn named(key: u64) -> String {
    format!("epoch {} partition {}", key >> 32, key & u64::from(u32::MAX))
}

/// The ledger of one partition below its limit.
#[derive(Row, Deserialize)]
struct LedgerSums {
    key: u64,
    blocks: u64,
    past: u64,
    records: u64,
    receipts_in: u64,
    accepted: u64,
    rejected: u64,
    end: u64,
}

/// A line that doesn't begin where the one before ended.
#[derive(Row, Deserialize)]
struct Seam {
    key: u64,
    expected: u64,
    first_offset: u64,
}

/// A line that is wrong in itself.
#[derive(Row, Deserialize)]
struct Line {
    key: u64,
    first_offset: u64,
    last_offset: u64,
    records: u64,
    receipts_in: u64,
    accepted: u64,
    rejected: u64,
}

/// Positions of one partition in one table.
#[derive(Row, Deserialize)]
struct Positions {
    key: u64,
    below: u64,
    above: u64,
}

/// Limits per key, as the arrays that `transform` takes.
struct Limits {
    keys: Vec<u64>,
    /// The first offset of each that the tables may have let go of nothing of.
    begins: Vec<u64>,
    ends: Vec<u64>,
}

impl Limits {
    fn call(&self, sql: String) -> Call {
        Call::new(sql)
            .slow()
            .with("keys", self.keys.clone())
            .with("begins", self.begins.clone())
            .with("ends", self.ends.clone())
    }
}

/// The limit of the key at hand; a key without one has 0.
const LIMIT: &str = "transform(key, {keys:Array(UInt64)}, {ends:Array(UInt64)}, toUInt64(0))";
/// Where the key at hand begins to be held against the tables.
const BEGIN: &str = "transform(key, {keys:Array(UInt64)}, {begins:Array(UInt64)}, toUInt64(0))";
/// How much younger than the oldest receipts a block must be, in days: a receipt may be 30 days older than its arrival, which may be
/// so long before its block's commit.
const LEFT_OUT_DAYS: u64 = 60;
/// The ledger with its key.
const LEDGER: &str =
    "(SELECT bitOr(bitShiftLeft(toUInt64(epoch), 32), toUInt64(partition)) AS key, * FROM ledger FINAL)";
/// The offset in a position.
const OFFSET: &str = "toUInt64(bitAnd(bitShiftRight(position, 16), toUInt128(281474976710655)))";
/// The key in a position.
const KEY: &str = "toUInt64(bitShiftRight(position, 64))";
/// Every position of the receipts table.
const STORED: &str = "(SELECT arrayJoin(positions) AS position FROM receipts FINAL)";

impl Warehouse {
    /// Holds ledger and tables against each other below the given commits.
    ///
    /// An (epoch, partition) that isn't given (an earlier life of the log) is looked at up to the end of its ledger.
    /// While a verifier runs, a commit's ledger row may be a moment behind the commit: look again before believing a
    /// gap at the end. Of blocks so old that the tables may have let go of their receipts, only the offsets are looked at.
    ///
    /// # Errors
    /// [`WarehouseError`]; findings are no error.
    pub async fn audit(&self, committed: &[CommittedOffset]) -> Result<AuditSums, WarehouseError> {
        let (mut sums, limits, gaps) = self.books(committed).await?;
        self.strays(&limits, &gaps, &mut sums).await?;
        let receipts = format!("SELECT count() FROM receipts FINAL {FINAL_SETTINGS}");
        sums.receipts = self.one::<u64>("audit", Call::new(receipts).slow()).await?;
        Ok(sums)
    }

    /// The part of [`audit`](Self::audit) that is cheap enough to be run again and again: the ledger's lines, and their
    /// sums against the tables'. It doesn't look for positions outside the ledger or with two outcomes.
    ///
    /// The ledger is read first, and everything that a line counts stood in the tables before the line did; so writers at
    /// work change nothing about what is found.
    ///
    /// # Errors
    /// [`WarehouseError`]; findings are no error.
    pub async fn balance(&self, committed: &[CommittedOffset]) -> Result<AuditSums, WarehouseError> {
        self.books(committed).await.map(|(sums, ..)| sums)
    }

    async fn books(
        &self,
        committed: &[CommittedOffset],
    ) -> Result<(AuditSums, Limits, Vec<(u64, u64, u64)>), WarehouseError> {
        let mut ends = self.ledger_ends().await?;
        for one in committed {
            ends.insert(key(one.epoch, one.partition), one.next_offset);
        }
        let begins = self.ledger_begins().await?;
        let mut limits = Limits {
            keys: ends.keys().copied().collect(),
            begins: ends.keys().map(|key| begins.get(key).copied().unwrap_or(0)).collect(),
            ends: ends.values().copied().collect(),
        };
        // `transform` takes no empty arrays; this key stands nowhere.
        limits.keys.push(u64::MAX);
        limits.begins.push(0);
        limits.ends.push(0);

        let mut sums = AuditSums::default();
        let ledger = self.ledger_sums(&limits, &mut sums).await?;
        let gaps = self.ledger_seams(&limits, &ends, &ledger, &mut sums).await?;
        self.ledger_lines(&limits, &mut sums).await?;
        self.stored_sums(&limits, &ledger, &mut sums).await?;
        sums.off_by += gaps.iter().map(|(_, start, end)| end - start).sum::<u64>();
        Ok((sums, limits, gaps))
    }

    async fn ledger_ends(&self) -> Result<BTreeMap<u64, u64>, WarehouseError> {
        let sql = format!("SELECT key, max(last_offset) + 1 FROM {LEDGER} GROUP BY key");
        let rows: Vec<(u64, u64)> = self.rows("audit", Call::new(sql).slow()).await?;
        Ok(rows.into_iter().collect())
    }

    /// Behind the last block that was committed so long ago that receipts of it may be gone. A line that a repair wrote since counts
    /// by those behind it.
    async fn ledger_begins(&self) -> Result<BTreeMap<u64, u64>, WarehouseError> {
        let sql = format!(
            "SELECT key, max(last_offset) + 1 FROM {LEDGER}
             WHERE committed_at < now64(3) - toIntervalDay({{days:UInt64}}) GROUP BY key"
        );
        let days = self.receipts_days_max().saturating_sub(LEFT_OUT_DAYS);
        let rows: Vec<(u64, u64)> = self.rows("audit", Call::new(sql).slow().with("days", days)).await?;
        Ok(rows.into_iter().collect())
    }

    async fn ledger_sums(
        &self,
        limits: &Limits,
        sums: &mut AuditSums,
    ) -> Result<BTreeMap<u64, LedgerSums>, WarehouseError> {
        let sql = format!(
            "SELECT key, countIf(counts) AS blocks, countIf(NOT counts) AS past, sumIf(records, counts) AS records,
                sumIf(receipts_in, counts) AS receipts_in, sumIf(accepted, counts) AS accepted,
                sumIf(rejected, counts) AS rejected, max(last_offset) + 1 AS end
             FROM (SELECT *, first_offset >= {BEGIN} AS counts FROM {LEDGER} WHERE first_offset < {LIMIT})
             GROUP BY key"
        );
        let rows: Vec<LedgerSums> = self.rows("audit", limits.call(sql)).await?;
        for row in &rows {
            sums.blocks += row.blocks;
            sums.blocks_past += row.past;
            sums.records += row.records;
            sums.receipts_in += row.receipts_in;
            sums.accepted += row.accepted;
            sums.rejected += row.rejected;
        }
        Ok(rows.into_iter().map(|row| (row.key, row)).collect())
    }

    /// Blocks must follow each other without gap or overlap, from 0 to the commit. Returns the gaps.
    async fn ledger_seams(
        &self,
        limits: &Limits,
        ends: &BTreeMap<u64, u64>,
        ledger: &BTreeMap<u64, LedgerSums>,
        sums: &mut AuditSums,
    ) -> Result<Vec<(u64, u64, u64)>, WarehouseError> {
        let sql = format!(
            "SELECT key, expected, first_offset FROM
             (
                SELECT key, first_offset, lagInFrame(last_offset + 1, 1, toUInt64(0)) OVER
                    (PARTITION BY key ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS expected
                FROM {LEDGER} AS ledger WHERE first_offset < {LIMIT}
             )
             WHERE first_offset != expected ORDER BY key, first_offset LIMIT {GAPS_MAX}"
        );
        let seams: Vec<Seam> = self.rows("audit", limits.call(sql)).await?;
        let mut gaps = Vec::new();
        let mut overlaps = Vec::new();
        for seam in seams {
            if seam.first_offset > seam.expected {
                gaps.push((seam.key, seam.expected, seam.first_offset));
            } else {
                overlaps.push(format!(
                    "{}: a block begins at offset {}, but the one before ends at {}",
                    named(seam.key),
                    seam.first_offset,
                    seam.expected
                ));
            }
        }
        for (&key, &committed) in ends {
            let end = ledger.get(&key).map_or(0, |ledger| ledger.end);
            if end < committed {
                gaps.push((key, end, committed));
            } else if end > committed {
                overlaps.push(format!(
                    "{}: a block ends at offset {end}, the commit is at {committed}",
                    named(key)
                ));
            }
        }
        let gap = |&(key, start, end): &(u64, u64, u64)| {
            format!("{}: no block for offsets {start} to {}", named(key), end - 1)
        };
        add(sums, "ledger_gap", gaps.iter().map(gap).collect());
        add(sums, "ledger_overlap", overlaps);
        Ok(gaps)
    }

    /// In = accepted + rejected on every line, and as many records as offsets.
    async fn ledger_lines(&self, limits: &Limits, sums: &mut AuditSums) -> Result<(), WarehouseError> {
        let sql = format!(
            "SELECT key, first_offset, last_offset, records, receipts_in, accepted, rejected
             FROM {LEDGER} AS ledger
             WHERE first_offset < {LIMIT} AND (receipts_in != accepted + rejected OR last_offset < first_offset
                OR records != last_offset - first_offset + 1)
             ORDER BY key, first_offset LIMIT {GAPS_MAX}"
        );
        let lines: Vec<Line> = self.rows("audit", limits.call(sql)).await?;
        let line = |line: Line| {
            format!(
                "{}: offsets {} to {} hold {} records, {} receipts in, {} accepted, {} rejected",
                named(line.key),
                line.first_offset,
                line.last_offset,
                line.records,
                line.receipts_in,
                line.accepted,
                line.rejected
            )
        };
        add(sums, "ledger_line", lines.into_iter().map(line).collect());
        Ok(())
    }

    /// What the ledger counted must stand in the tables, partition by partition.
    async fn stored_sums(
        &self,
        limits: &Limits,
        ledger: &BTreeMap<u64, LedgerSums>,
        sums: &mut AuditSums,
    ) -> Result<(), WarehouseError> {
        for (kind, table) in [
            ("accepted_sum", STORED),
            ("rejected_sum", "(SELECT position FROM rejected FINAL)"),
        ] {
            let sql = format!(
                "SELECT {KEY} AS key, countIf({OFFSET} < {LIMIT} AND {OFFSET} >= {BEGIN}) AS below, countIf({OFFSET} >= {LIMIT}) AS above
                 FROM {table} GROUP BY key ORDER BY key {FINAL_SETTINGS}"
            );
            let rows: Vec<Positions> = self.rows("audit", limits.call(sql)).await?;
            let accepted = kind == "accepted_sum";
            let mut differences: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            for (key, line) in ledger {
                differences.entry(*key).or_default().0 = if accepted { line.accepted } else { line.rejected };
            }
            for row in rows {
                differences.entry(row.key).or_default().1 = row.below;
                sums.uncommitted_positions += row.above;
                *(if accepted {
                    &mut sums.stored_occurrences
                } else {
                    &mut sums.stored_rejected
                }) += row.below;
            }
            let differing = differences
                .into_iter()
                .filter(|(_, (counted, stored))| counted != stored);
            let differing: Vec<_> = differing.collect();
            sums.off_by += differing
                .iter()
                .map(|(_, (counted, stored))| counted.abs_diff(*stored))
                .sum::<u64>();
            let difference = |(key, (counted, stored))| {
                format!("{}: the ledger counts {counted}, the table holds {stored}", named(key))
            };
            add(sums, kind, differing.into_iter().map(difference).collect());
        }
        Ok(())
    }

    /// A position has one outcome, and stands in a block of the ledger.
    async fn strays(
        &self,
        limits: &Limits,
        gaps: &[(u64, u64, u64)],
        sums: &mut AuditSums,
    ) -> Result<(), WarehouseError> {
        let sql = "SELECT DISTINCT arrayJoin(positions) AS position FROM receipts
             WHERE position IN (SELECT position FROM rejected) ORDER BY position LIMIT 1000";
        let both: Vec<u128> = self.rows("audit", Call::new(sql).slow()).await?;
        let place = |position: u128| {
            #[allow(clippy::cast_possible_truncation)] // The parts of a position are 64, 48 and 16 bits.
            let (key, offset, index) = (
                (position >> 64) as u64,
                (position >> 16) as u64 & 0xffff_ffff_ffff,
                position as u16,
            );
            format!(
                "{} offset {offset} index {index} is both accepted and rejected",
                named(key)
            )
        };
        add(sums, "in_both", both.into_iter().map(place).collect());
        if gaps.is_empty() {
            return Ok(());
        }
        let starts: Vec<u64> = gaps.iter().map(|gap| gap.1).collect();
        let gap_ends: Vec<u64> = gaps.iter().map(|gap| gap.2).collect();
        for table in [STORED, "(SELECT position FROM rejected FINAL)"] {
            let sql = format!(
                "SELECT {KEY} AS key, count() FROM {table}
                 WHERE {OFFSET} < {LIMIT} AND arrayExists((gap_key, start, end) -> gap_key = key AND {OFFSET} >= start
                    AND {OFFSET} < end, {{gap_keys:Array(UInt64)}}, {{starts:Array(UInt64)}}, {{gap_ends:Array(UInt64)}})
                 GROUP BY key ORDER BY key {FINAL_SETTINGS}"
            );
            let call = limits
                .call(sql)
                .with("gap_keys", gaps.iter().map(|gap| gap.0).collect::<Vec<_>>())
                .with("starts", starts.clone())
                .with("gap_ends", gap_ends.clone());
            let rows: Vec<(u64, u64)> = self.rows("audit", call).await?;
            let stray = |(key, count)| format!("{}: {count} positions stand in no block", named(key));
            add(sums, "not_in_ledger", rows.into_iter().map(stray).collect());
        }
        Ok(())
    }
}

/// Adds findings of one kind, the first few in full.
fn add(sums: &mut AuditSums, kind: &'static str, mut details: Vec<String>) {
    let more = details.len().saturating_sub(NAMED_MAX);
    details.truncate(NAMED_MAX);
    if more > 0 {
        details.push(format!("and at least {more} more"));
    }
    sums.findings
        .extend(details.into_iter().map(|detail| AuditFinding { kind, detail }));
}
