//! The ledger's lines themselves, for who holds them against the log.

use std::collections::BTreeMap;
use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use crate::schema::LEDGER;
use crate::{LedgerRow, PartitionProgress, ShardProgress, SqlStatement, VerdictsPosition, Warehouse, WarehouseError};

/// A block's lines of all shards.
#[derive(Debug, Row, Deserialize)]
struct LedgerLine {
    first_offset: u64,
    last_offset: u64,
    all_records: u64,
    all_receipts: u64,
    all_accepted: u64,
    all_rejected: u64,
    verifier_name: String,
    committed_ms: i64,
    first_shard: u32,
    first_verdicts_epoch: u32,
    first_verdicts_offset: u64,
    all_touched: Vec<(u32, String)>,
}

#[derive(Debug, Row, Deserialize)]
struct LedgerRun {
    start: u64,
    end: u64,
}

/// The end of a partition's lines that come from one epoch of `verdicts`.
#[derive(Debug, Row, Deserialize)]
struct LedgerEnd {
    epoch: u32,
    partition: u32,
    verdicts_epoch: u32,
    begin_offset: u64,
    next_offset: u64,
    newest_verdicts: u64,
    newest_ms: i64,
}

impl Warehouse {
    /// Reads where a shard's ledger ends: the next record of `verdicts`, and of each partition of
    /// the newest epoch of `receipts`. Its instants are 0, because the ledger doesn't have them.
    ///
    /// With `since`, only lines from that position on are read, and there is no progress without
    /// any. Otherwise the whole ledger is read, and the latest line's epoch of `verdicts` counts.
    pub async fn ledger_progress(
        &self,
        shard: u32,
        since: Option<VerdictsPosition>,
    ) -> Result<ShardProgress, WarehouseError> {
        let newer = match since {
            Some(_) => "AND verdicts_epoch = {verdicts_epoch:UInt32} AND verdicts_offset >= {verdicts_offset:UInt64}",
            None => "",
        };
        let call = SqlStatement::new(format!(
            "SELECT epoch, partition, verdicts_epoch, min(first_offset) AS begin_offset,
                max(last_offset) + 1 AS next_offset, max(verdicts_offset) AS newest_verdicts, toUnixTimestamp64Milli(max(committed_at)) AS newest_ms
             FROM ledger WHERE shard = {{shard:UInt32}} {newer} GROUP BY epoch, partition, verdicts_epoch",
        ));
        let mut call = call.slow().with("shard", shard);
        if let Some(VerdictsPosition { epoch, offset }) = since {
            call = call.with("verdicts_epoch", epoch).with("verdicts_offset", offset);
        }
        let ends: Vec<LedgerEnd> = self.rows("ledger_progress", call).await?;
        Ok(progress(shard, &ends))
    }

    /// The lines of one partition that reach `from_offset` or beyond, in log order, at most
    /// `lines_max`. A block's lines of several shards are added up.
    pub async fn ledger(
        &self,
        epoch: u32,
        partition: u32,
        from_offset: u64,
        lines_max: u64,
    ) -> Result<Vec<LedgerRow>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT first_offset, last_offset, max(records) AS all_records, sum(receipts_in) AS all_receipts,
                sum(accepted) AS all_accepted, sum(rejected) AS all_rejected, any(toString(verifier)) AS verifier_name,
                toUnixTimestamp64Milli(max(committed_at)) AS committed_ms, min(shard) AS first_shard,
                min(verdicts_epoch) AS first_verdicts_epoch, min(verdicts_offset) AS first_verdicts_offset,
                groupArrayArray(touched) AS all_touched
             FROM ledger FINAL
             WHERE epoch = {epoch:UInt32} AND partition = {partition:UInt32} AND last_offset >= {from_offset:UInt64}
             GROUP BY first_offset, last_offset ORDER BY first_offset, last_offset LIMIT {lines_max:UInt64}",
        )
        .with("epoch", epoch)
        .with("partition", partition)
        .with("from_offset", from_offset)
        .with("lines_max", lines_max);
        let lines: Vec<LedgerLine> = self.rows("ledger", call).await?;
        let rows = lines.into_iter().map(|line| LedgerRow {
            epoch,
            partition,
            first_offset: line.first_offset,
            last_offset: line.last_offset,
            records: line.all_records,
            receipts_in: line.all_receipts,
            accepted: line.all_accepted,
            rejected: line.all_rejected,
            verifier: line.verifier_name,
            committed_at_ms: line.committed_ms,
            shard: line.first_shard,
            verdicts: VerdictsPosition {
                epoch: line.first_verdicts_epoch,
                offset: line.first_verdicts_offset,
            },
            touched: line.all_touched.into_iter().collect(),
        });
        Ok(rows.collect())
    }

    /// Overlaps of one partition's lines: the bounds of each group of lines that overlap, in log
    /// order.
    pub async fn ledger_overlaps(&self, epoch: u32, partition: u32) -> Result<Vec<Range<u64>>, WarehouseError> {
        let call = SqlStatement::new(
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
        let groups: Vec<LedgerRun> = self.rows("ledger_overlaps", call).await?;
        Ok(groups.into_iter().map(|LedgerRun { start, end }| start..end).collect())
    }

    /// The bounds of one partition's lines that begin in `offsets`, in log order.
    pub async fn ledger_bounds(
        &self,
        epoch: u32,
        partition: u32,
        offsets: Range<u64>,
    ) -> Result<Vec<Range<u64>>, WarehouseError> {
        let call = SqlStatement::new(
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
        let lines: Vec<LedgerRun> = self.rows("ledger_bounds", call).await?;
        Ok(lines.into_iter().map(|LedgerRun { start, end }| start..end).collect())
    }

    /// Deletes one partition's lines that begin at these offsets. Only for lines that others stand
    /// for.
    pub async fn delete_ledger_lines(
        &self,
        epoch: u32,
        partition: u32,
        first_offsets: &[u64],
    ) -> Result<(), WarehouseError> {
        let ledger = self.layout().name(&LEDGER);
        for offsets in first_offsets.chunks(5_000) {
            let list: Vec<String> = offsets.iter().map(ToString::to_string).collect();
            // A mutation takes no parameters; these are numbers.
            let sql = format!(
                "ALTER TABLE {ledger} DELETE WHERE epoch = {epoch} AND partition = {partition}
                    AND first_offset IN ({}) SETTINGS mutations_sync = 2",
                list.join(", ")
            );
            self.execute("delete_ledger_lines", SqlStatement::new(sql).slow())
                .await?;
        }
        Ok(())
    }
}

/// Epochs are random numbers, so only instants order them; within one, offsets do.
fn progress(shard: u32, ends: &[LedgerEnd]) -> ShardProgress {
    let latest = ends.iter().max_by_key(|end| end.newest_ms);
    let current = latest.map(|end| end.verdicts_epoch);
    let of_current = ends.iter().filter(|end| Some(end.verdicts_epoch) == current);
    let Some(newest) = of_current.max_by_key(|end| end.newest_verdicts) else {
        return ShardProgress {
            shard,
            ..ShardProgress::default()
        };
    };
    let mut partitions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for end in ends.iter().filter(|end| end.epoch == newest.epoch) {
        let offsets = partitions.entry(end.partition).or_insert((u64::MAX, 0));
        *offsets = (end.begin_offset.min(offsets.0), end.next_offset.max(offsets.1));
    }
    let partition = |(partition, (first_offset, next_offset))| PartitionProgress {
        epoch: newest.epoch,
        partition,
        first_offset,
        next_offset,
        complete_through_ms: 0,
    };
    ShardProgress {
        shard,
        version: 0,
        verdicts: VerdictsPosition {
            epoch: newest.verdicts_epoch,
            offset: newest.newest_verdicts + 1,
        },
        source_partitions: 0,
        shards: 0,
        partitions: partitions.into_iter().map(partition).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(
        partition: u32,
        next_offset: u64,
        (verdicts_epoch, newest_verdicts): (u32, u64),
        newest_ms: i64,
    ) -> LedgerEnd {
        LedgerEnd {
            epoch: 5,
            partition,
            verdicts_epoch,
            begin_offset: 0,
            next_offset,
            newest_verdicts,
            newest_ms,
        }
    }

    #[test]
    fn a_recreated_log_of_verdicts_may_have_any_epoch() {
        // Epoch 9 came first, then 3; partition 1 had nothing since.
        let ends = [
            end(0, 10, (9, 70), 1_000),
            end(1, 4, (9, 71), 1_000),
            end(0, 12, (3, 0), 2_000),
        ];
        let found = progress(0, &ends);
        assert_eq!(found.verdicts, VerdictsPosition { epoch: 3, offset: 1 });
        let ends: Vec<_> = found
            .partitions
            .iter()
            .map(|one| (one.partition, one.next_offset))
            .collect();
        assert_eq!(ends, [(0, 12), (1, 4)]);
        assert_eq!(progress(0, &[]).partitions, []);
    }
}
