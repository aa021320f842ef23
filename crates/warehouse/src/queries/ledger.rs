//! The ledger's lines themselves, for who holds them against the log.

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Call;
use crate::{LedgerRow, Warehouse, WarehouseError};

#[derive(Debug, Row, Deserialize)]
struct Line {
    epoch: u32,
    partition: u32,
    first_offset: u64,
    last_offset: u64,
    records: u64,
    receipts_in: u64,
    accepted: u64,
    rejected: u64,
    verifier_name: String,
    committed_ms: i64,
}

impl Warehouse {
    /// The lines of one partition that reach `from_offset` or beyond, in log order, at most `lines_max`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ledger(
        &self,
        epoch: u32,
        partition: u32,
        from_offset: u64,
        lines_max: u64,
    ) -> Result<Vec<LedgerRow>, WarehouseError> {
        let call = Call::new(
            "SELECT epoch, partition, first_offset, last_offset, records, receipts_in, accepted, rejected,
                toString(verifier) AS verifier_name, toUnixTimestamp64Milli(committed_at) AS committed_ms
             FROM ledger FINAL
             WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32} AND last_offset >= {from_offset:UInt64}
             ORDER BY first_offset LIMIT {lines_max:UInt64}",
        )
        .with("epoch", epoch)
        .with("partition", partition)
        .with("from_offset", from_offset)
        .with("lines_max", lines_max);
        let lines: Vec<Line> = self.rows("ledger", call).await?;
        let rows = lines.into_iter().map(|line| LedgerRow {
            epoch: line.epoch,
            partition: line.partition,
            first_offset: line.first_offset,
            last_offset: line.last_offset,
            records: line.records,
            receipts_in: line.receipts_in,
            accepted: line.accepted,
            rejected: line.rejected,
            verifier: line.verifier_name,
            committed_at_ms: line.committed_ms,
        });
        Ok(rows.collect())
    }
}
