//! Rejected receipts that are only counted: nobody can look up whether one of them is theirs.

use blocks::NOT_STORED;
use clickhouse::Row;
use serde::Deserialize;

use super::receipt::ReceiptsOf;
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Days that are returned, the newest first.
const DAYS_MAX: u32 = 100;

/// Receipts of a UTC day that were rejected and are stored without bytes and IDs.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct UnlistedDay {
    /// The day, as `2026-11-25`.
    pub day_text: String,
    /// Receipts.
    pub counted: u64,
}

impl Warehouse {
    /// Rejected receipts that are only counted, by day of arrival, the newest first.
    pub async fn unlisted_rejections(&self, of: &ReceiptsOf) -> Result<Vec<UnlistedDay>, WarehouseError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let whose = of.condition();
        // Without FINAL, so that the index of a key is used; rows of one position are equal.
        let sql = format!(
            "SELECT toString(toDate(received_at)) AS day_text, sum(receipts) AS counted
             FROM (SELECT position, received_at, receipts FROM rejected
                WHERE {whose} AND origin = '{NOT_STORED}' LIMIT 1 BY position)
             GROUP BY day_text ORDER BY day_text DESC LIMIT {DAYS_MAX}"
        );
        self.rows("unlisted_rejections", of.bind(SqlStatement::new(sql))).await
    }
}
