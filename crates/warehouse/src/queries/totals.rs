//! Sums over everything, for tests and load tests.

use clickhouse::Row;
use serde::Deserialize;

use super::FINAL_SETTINGS;
use crate::{SqlStatement, Warehouse, WarehouseError};

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

#[derive(Row, Deserialize)]
struct ReceiptsRow {
    receipts: u64,
    occurrences: u64,
}

#[derive(Row, Deserialize)]
struct ReasonRow {
    reason_text: String,
    counted: u64,
}

impl Warehouse {
    /// Sums over everything, of all publishers.
    pub async fn totals(&self) -> Result<Totals, WarehouseError> {
        let sql = format!(
            "SELECT count() AS receipts, sum(length(positions)) AS occurrences FROM receipts FINAL {FINAL_SETTINGS}"
        );
        let stored: ReceiptsRow = self.one("totals", SqlStatement::new(sql).slow()).await?;
        let sql = format!(
            "SELECT toString(reason) AS reason_text, sum(receipts) AS counted FROM rejected FINAL
             GROUP BY reason_text ORDER BY reason_text {FINAL_SETTINGS}"
        );
        let reasons: Vec<ReasonRow> = self.rows("totals_rejected", SqlStatement::new(sql).slow()).await?;
        let sql = "SELECT count() FROM
             (SELECT receipt_id FROM receipts GROUP BY receipt_id 
                HAVING min(reinterpretAsUInt256(payload_hash)) != max(reinterpretAsUInt256(payload_hash)))";
        let conflicts = self
            .one::<u64>("totals_conflicts", SqlStatement::new(sql).slow())
            .await?;
        Ok(Totals {
            receipts: stored.receipts,
            occurrences: stored.occurrences,
            rejected: reasons.iter().map(|row| row.counted).sum(),
            rejected_by_reason: reasons.into_iter().map(|row| (row.reason_text, row.counted)).collect(),
            conflicts,
        })
    }
}
