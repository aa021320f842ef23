//! Compares the ledger with the tables, section by section in log order.
//!
//! - [`section`]: whole blocks of a partition, and what the tables store of them
//! - [`state`]: the running check's position, saved across restarts

mod section;
mod state;

pub use section::AuditedSection;
pub use state::{AuditState, SectionOffsets};

use std::collections::BTreeMap;

use serde::Serialize;

use super::FINAL_SETTINGS;
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Position behind the last committed record of a partition. The audit reads what is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset that isn't committed.
    pub next_offset: u64,
}

/// Offsets of a partition that are to be audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPartition {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset whose receipts are all within their retention. Of earlier blocks only the
    /// ledger is checked.
    pub begin: u64,
    /// The first offset whose rejected receipts are all within their retention, which is a shorter
    /// one.
    pub rejected_begin: u64,
    /// End of the committed offsets.
    pub end: u64,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFinding {
    /// `ledger_gap`, `ledger_overlap`, `ledger_line`, `accepted_sum`, `rejected_sum`, `in_both`, or
    /// `not_in_ledger`.
    pub kind: &'static str,
    /// Place and size, for people.
    pub detail: String,
}

/// Sums of ledger and tables over sections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditSums {
    /// Ledger blocks that were compared with the tables.
    pub blocks: u64,
    /// Ledger blocks before them, whose receipts may have reached their retention.
    pub blocks_past: u64,
    /// Log records in the ledger.
    pub records: u64,
    /// Receipts in, by the ledger.
    pub receipts_in: u64,
    /// Accepted, by the ledger.
    pub accepted: u64,
    /// Rejected, by the ledger.
    pub rejected: u64,
    /// Of these, rejected so long ago that they may have reached their retention.
    pub rejected_past: u64,
    /// Valid occurrences in `receipts`.
    pub stored_occurrences: u64,
    /// Rejected receipts that rows of `rejected` count, within their retention.
    pub stored_rejected: u64,
    /// Distinct receipts in `receipts`, of all positions.
    pub receipts: u64,
    /// Positions in the tables that aren't committed: blocks in progress, which is no fault.
    pub uncommitted_positions: u64,
    /// Receipts by which the tables differ from the ledger, and records that no block counts.
    #[serde(skip)]
    pub off_by: u64,
    /// The first differences of each kind.
    #[serde(skip)]
    pub findings: Vec<AuditFinding>,
    /// Further differences.
    #[serde(skip)]
    pub unnamed: u64,
}

/// Findings of a kind that are retained.
const NAMED_MAX: usize = 10;

impl AuditSums {
    /// Whether there is no difference.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds the sums of further sections.
    pub fn add(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.blocks_past += more.blocks_past;
        self.records += more.records;
        self.receipts_in += more.receipts_in;
        self.accepted += more.accepted;
        self.rejected += more.rejected;
        self.rejected_past += more.rejected_past;
        self.stored_occurrences += more.stored_occurrences;
        self.stored_rejected += more.stored_rejected;
        self.receipts += more.receipts;
        self.uncommitted_positions += more.uncommitted_positions;
        self.off_by += more.off_by;
        self.unnamed += more.unnamed;
        for finding in more.findings {
            self.find(finding.kind, finding.detail);
        }
    }

    fn find(&mut self, kind: &'static str, detail: String) {
        if self.findings.iter().filter(|finding| finding.kind == kind).count() < NAMED_MAX {
            self.findings.push(AuditFinding { kind, detail });
        } else {
            self.unnamed += 1;
        }
    }
}

/// Epoch and partition in words.
fn named(epoch: u32, partition: u32) -> String {
    format!("epoch {epoch} partition {partition}")
}

/// The first position of an offset. Epoch, partition, offset and index have 32, 32, 48 and 16 bits.
fn position(epoch: u32, partition: u32, offset: u64) -> u128 {
    (u128::from(epoch) << 96) | (u128::from(partition) << 64) | (u128::from(offset) << 16)
}

/// Days that a block must be younger than the oldest receipts: a receipt may be 30 days
/// older than its arrival, and arrive as long before its block is committed.
const LEFT_OUT_DAYS: u64 = 60;

/// Days of rejected receipts that aren't compared: a row expires by its arrival, and its block may
/// be committed so much later.
const REJECTED_LEFT_OUT_DAYS: u64 = 30;

impl Warehouse {
    /// [`Self::audit_with`] without progress.
    ///
    /// # Errors
    /// As there.
    pub async fn audit(&self, committed: &[CommittedOffset]) -> Result<AuditSums, WarehouseError> {
        self.audit_with(committed, |_, _| ()).await
    }

    /// Compares ledger and tables below the given positions, all sections in turn. `progress` is
    /// called with the number of records that were compared, and that of all.
    ///
    /// Partitions of earlier epochs, which aren't given, are compared up to the end of their
    /// ledger. While a writer works, a ledger row may be a moment behind its commit.
    ///
    /// # Errors
    /// [`WarehouseError`]; findings are no error.
    pub async fn audit_with(
        &self,
        committed: &[CommittedOffset],
        progress: impl Fn(u64, u64),
    ) -> Result<AuditSums, WarehouseError> {
        let partitions = self.audit_partitions(committed).await?;
        let records = partitions.iter().map(|partition| partition.end).sum();
        let mut sums = AuditSums::default();
        let (mut compared, mut end_of_last) = (0, 0);
        for partition in &partitions {
            let mut from = self.first_offset(partition.epoch, partition.partition).await?;
            while from < partition.end {
                let section = self.audit_section(partition, from).await?;
                sums.add(section.sums);
                compared += section.end - from;
                from = section.end;
                progress(compared, records);
            }
            let first = position(partition.epoch, partition.partition, 0);
            sums.uncommitted_positions += self.stored(end_of_last..first).await?;
            end_of_last = position(partition.epoch, partition.partition, partition.end);
        }
        sums.uncommitted_positions += self.stored(end_of_last..u128::MAX).await?;
        let receipts = format!("SELECT count() FROM receipts FINAL {FINAL_SETTINGS}");
        sums.receipts = self.one::<u64>("audit", SqlStatement::new(receipts).slow()).await?;
        Ok(sums)
    }

    /// The first offset of a partition that has a ledger line: 0 in the first shard, and in others
    /// where the shard begins, as its writer has published it.
    pub async fn first_offset(&self, epoch: u32, partition: u32) -> Result<u64, WarehouseError> {
        let published = self.progress().await?;
        if published.iter().any(|shard| shard.shard == 0) {
            return Ok(0);
        }
        let mut partitions = published.iter().flat_map(|shard| &shard.partitions);
        if let Some(one) = partitions.find(|one| (one.epoch, one.partition) == (epoch, partition)) {
            return Ok(one.first_offset);
        }
        let sql = "SELECT if(min(shard) = 0, 0, min(first_offset)) FROM ledger
             WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32}";
        let call = SqlStatement::new(sql)
            .slow()
            .with("epoch", epoch)
            .with("partition", partition);
        self.one("audit", call).await
    }

    /// Partitions of the ledger, in order of their positions, each up to its committed offset or
    /// else to the end of its ledger.
    pub async fn audit_partitions(&self, committed: &[CommittedOffset]) -> Result<Vec<AuditPartition>, WarehouseError> {
        // A line that a repair wrote since is as old as those behind it.
        let sql = "SELECT epoch, partition, max(last_offset) + 1,
                maxIf(last_offset + 1, committed_at < now64(3) - toIntervalDay({days:UInt64})),
                maxIf(last_offset + 1, committed_at < now64(3) - toIntervalDay({rejected_days:UInt64}))
             FROM ledger GROUP BY epoch, partition";
        let days = self.receipts_days_max().saturating_sub(LEFT_OUT_DAYS);
        let rejected_days = self.rejected_days_max().saturating_sub(REJECTED_LEFT_OUT_DAYS);
        let call = SqlStatement::new(sql)
            .slow()
            .with("days", days)
            .with("rejected_days", rejected_days);
        let rows: Vec<(u32, u32, u64, u64, u64)> = self.rows("audit", call).await?;
        let mut partitions = BTreeMap::new();
        for (epoch, partition, end, begin, rejected_begin) in rows {
            let offsets = AuditPartition {
                epoch,
                partition,
                begin,
                rejected_begin,
                end,
            };
            partitions.insert((epoch, partition), offsets);
        }
        for one in committed {
            let offsets = partitions.entry((one.epoch, one.partition)).or_insert(AuditPartition {
                epoch: one.epoch,
                partition: one.partition,
                begin: 0,
                rejected_begin: 0,
                end: 0,
            });
            offsets.end = one.next_offset;
        }
        Ok(partitions.into_values().collect())
    }
}
