//! Sums over everything, for tests and load tests.

use crate::{Warehouse, WarehouseError};

/// Sums over everything that is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Distinct receipts: `count()` over FINAL.
    pub receipts: u64,
    /// Valid occurrences in the log: the sum of `length(positions)` over FINAL.
    pub occurrences: u64,
    /// Refused receipts.
    pub rejected: u64,
    /// Refused receipts per reason, in order of the reason.
    pub rejected_by_reason: Vec<(String, u64)>,
    /// Receipt ids with more than one payload hash.
    pub conflicts: u64,
}

impl Warehouse {
    /// Sums over everything, of all publishers.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn totals(&self) -> Result<Totals, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
