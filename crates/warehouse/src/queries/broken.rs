//! Parts that the engine found damaged when it opened.

use clickhouse::Row;
use serde::Deserialize;

use crate::{SqlStatement, Warehouse, WarehouseError};

#[derive(Debug, Row, Deserialize)]
struct BrokenParts {
    table: String,
    parts: u64,
}

impl Warehouse {
    /// Counts the parts of our tables that ClickHouse has set aside as damaged, also as a gauge and
    /// in the log. What stood in them is missing from the tables: the audit names the difference,
    /// and the log can be read again to fill it.
    pub async fn report_broken_parts(&self) -> Result<u64, WarehouseError> {
        let mut found: Vec<BrokenParts> = Vec::new();
        for shard in self.shards() {
            let call = SqlStatement::new(
                "SELECT table, count() AS parts FROM system.detached_parts
                 WHERE database = currentDatabase()
                    AND (startsWith(reason, 'broken') OR startsWith(reason, 'unexpected'))
                 GROUP BY table ORDER BY table",
            );
            found.extend(shard.rows::<BrokenParts>("broken_parts", call).await?);
        }
        for BrokenParts { table, parts } in &found {
            tracing::error!(
                table,
                parts,
                "damaged parts were set aside; run `receipts audit` to see what is missing"
            );
        }
        let all = found.iter().map(|table| table.parts).sum();
        #[allow(clippy::cast_precision_loss)] // A gauge; the count is far below 2^53.
        metrics::gauge!("receipts_warehouse_broken_parts").set(all as f64);
        Ok(all)
    }
}
