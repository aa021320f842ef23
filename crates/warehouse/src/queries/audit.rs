//! The conservation ledger held against the tables.

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
    /// Ledger blocks.
    pub blocks: u64,
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
    /// What doesn't add up: the first few of each kind. Empty means the ledger is right.
    pub findings: Vec<AuditFinding>,
}

impl Warehouse {
    /// Holds ledger and tables against each other below the given commits.
    ///
    /// An (epoch, partition) that isn't given (an earlier life of the log) is looked at up to the end of its ledger.
    ///
    /// # Errors
    /// [`WarehouseError`]; findings are no error.
    pub async fn audit(&self, _committed: &[CommittedOffset]) -> Result<AuditSums, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
