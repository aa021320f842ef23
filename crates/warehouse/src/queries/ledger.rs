//! The ledger's lines themselves, for who holds them against the log.

use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Call;
use crate::schema::LEDGER;
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

/// Offsets that lines cover without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRun {
    /// The first offset.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The line that ends there; of several, the one that was committed last.
    pub last: LedgerRow,
}

#[derive(Debug, Row, Deserialize)]
struct Run {
    start: u64,
    end: u64,
}

impl Warehouse {
    /// The runs that one partition's lines from `from_offset` on form, in log order, at most `runs_max`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ledger_runs(
        &self,
        epoch: u32,
        partition: u32,
        from_offset: u64,
        runs_max: u64,
    ) -> Result<Vec<LedgerRun>, WarehouseError> {
        let call = Call::new(
            "SELECT min(first_offset) AS start, max(line_end) AS end FROM
             (
                SELECT first_offset, line_end, sum(begins) OVER (ORDER BY first_offset) AS run FROM
                (
                    SELECT first_offset, last_offset + 1 AS line_end, first_offset > max(last_offset + 1) OVER
                        (ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS begins
                    FROM ledger FINAL
                    WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32}
                        AND last_offset >= {from_offset:UInt64}
                )
             )
             GROUP BY run ORDER BY start LIMIT {runs_max:UInt64}",
        )
        .slow()
        .with("epoch", epoch)
        .with("partition", partition)
        .with("from_offset", from_offset)
        .with("runs_max", runs_max);
        let mut runs = Vec::new();
        for Run { start, end } in self.rows::<Run>("ledger_runs", call).await? {
            let at_end = self.ledger(epoch, partition, end - 1, 100).await?;
            let last = at_end.into_iter().filter(|line| line.last_offset + 1 == end);
            // Deleted in between, by a repair: what comes after the runs so far is not looked at.
            let Some(last) = last.max_by_key(|line| line.committed_at_ms) else {
                break;
            };
            runs.push(LedgerRun { start, end, last });
        }
        Ok(runs)
    }

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

    /// Where one partition's lines overlap: the bounds of each group of lines that do, in log order.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ledger_overlaps(&self, epoch: u32, partition: u32) -> Result<Vec<Range<u64>>, WarehouseError> {
        let call = Call::new(
            "SELECT min(first_offset) AS start, max(line_end) AS end FROM
             (
                SELECT first_offset, line_end, sum(begins) OVER (ORDER BY first_offset) AS group FROM
                (
                    SELECT first_offset, last_offset + 1 AS line_end, first_offset >= max(last_offset + 1) OVER
                        (ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS begins
                    FROM ledger FINAL WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32}
                )
             )
             GROUP BY group HAVING count() > 1 ORDER BY start LIMIT 10000",
        )
        .slow()
        .with("epoch", epoch)
        .with("partition", partition);
        let groups: Vec<Run> = self.rows("ledger_overlaps", call).await?;
        Ok(groups.into_iter().map(|Run { start, end }| start..end).collect())
    }

    /// The bounds of one partition's lines that begin in `offsets`, in log order.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ledger_bounds(
        &self,
        epoch: u32,
        partition: u32,
        offsets: Range<u64>,
    ) -> Result<Vec<Range<u64>>, WarehouseError> {
        let call = Call::new(
            "SELECT first_offset AS start, last_offset + 1 AS end FROM ledger FINAL
             WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32}
                AND first_offset >= {start:UInt64} AND first_offset < {end:UInt64}
             ORDER BY first_offset",
        )
        .slow()
        .with("epoch", epoch)
        .with("partition", partition)
        .with("start", offsets.start)
        .with("end", offsets.end);
        let lines: Vec<Run> = self.rows("ledger_bounds", call).await?;
        Ok(lines.into_iter().map(|Run { start, end }| start..end).collect())
    }

    /// Deletes one partition's lines that begin at these offsets. Only for lines that others stand for.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn delete_ledger_lines(
        &self,
        epoch: u32,
        partition: u32,
        first_offsets: &[u64],
    ) -> Result<(), WarehouseError> {
        let layout = self.layout();
        let (ledger, on_cluster) = (layout.stored(&LEDGER), layout.on_cluster());
        for offsets in first_offsets.chunks(5_000) {
            let list: Vec<String> = offsets.iter().map(ToString::to_string).collect();
            // A mutation takes no parameters; these are numbers.
            let sql = format!(
                "ALTER TABLE {ledger}{on_cluster} DELETE WHERE epoch = {epoch} AND partition = {partition}
                    AND first_offset IN ({}) SETTINGS mutations_sync = 2",
                list.join(", ")
            );
            self.execute("delete_ledger_lines", Call::new(sql).slow()).await?;
        }
        Ok(())
    }
}
