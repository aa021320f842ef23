//! Inserts: rows of every table travel as Arrow streams.

use std::time::Instant;

use arrow_array::RecordBatch;
use bytes::Bytes;

use super::{ANSWER_SLACK, Warehouse, count_error};
use crate::arrow::{self, ArrowTable, Column, NamedType};
use crate::{LedgerRow, ReplayRow, WarehouseError, WriterEpoch};

/// Bytes that are sent at a time, and compressed before for a remote server: short work between
/// two awaits.
const PIECE_BYTES: usize = 256 << 10;

/// Settings of every insert.
pub(crate) const INSERT_SETTINGS: [(&str, &str); 3] = [
    // An acknowledged insert is on disk: nothing may be gathered in memory first.
    ("async_insert", "0"),
    // A rewritten block must be written: the one of before may have been lost since.
    ("insert_deduplicate", "0"),
    // Merges unite rows of equal keys; doing it in each block as well would cost a quarter more.
    ("optimize_on_insert", "0"),
];

impl Warehouse {
    /// Inserts the accepted rows of verdicts into `receipts`, as the shard's writer if `epoch` is
    /// given. `Ok` means that they are durable, or that a later writer has superseded this one
    /// ([`Self::holds_epoch`]). Inserting the same rows again changes nothing, so an error that
    /// [may pass](WarehouseError::is_retryable) is answered by another attempt;
    /// [`WarehouseError::remedy`] says what helps against the others.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_accepted(
        &self,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        self.insert_verdicts(&arrow::RECEIPTS, verdicts, epoch).await
    }

    /// Inserts the rejected rows of verdicts into `rejected`; as
    /// [`insert_accepted`](Self::insert_accepted).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_rejections(
        &self,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        self.insert_verdicts(&arrow::REJECTED, verdicts, epoch).await
    }

    /// Inserts the bytes of accepted rows of verdicts into `evidence`. Inserting the same rows
    /// again changes nothing, so this needs no epoch.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_evidence(&self, verdicts: &[RecordBatch]) -> Result<(), WarehouseError> {
        self.insert_verdicts(&arrow::EVIDENCE, verdicts, None).await
    }

    /// Whether the table `receipts` accepts inserts as such: an insert of nothing.
    ///
    /// # Errors
    /// [`WarehouseError`]: why it accepts none.
    pub async fn accepts_receipts(&self) -> Result<(), WarehouseError> {
        let ArrowTable { name, columns } = &arrow::RECEIPTS;
        self.takes_inserts(name, &arrow::names(columns)).await
    }

    async fn insert_verdicts(
        &self,
        table: &ArrowTable,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let batches = verdicts.iter().map(|batch| table.project(batch));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let structure = arrow::structure(table.columns);
        self.insert_arrow(table.name, &structure, &batches, epoch).await
    }

    /// Inserts ledger rows; as [`insert_accepted`](Self::insert_accepted).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_ledger(&self, rows: &[LedgerRow], epoch: Option<&WriterEpoch>) -> Result<(), WarehouseError> {
        self.insert_columns("ledger", LedgerRow::columns(rows)?, epoch).await
    }

    /// Inserts replays; as [`insert_accepted`](Self::insert_accepted).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_replays(&self, rows: &[ReplayRow]) -> Result<(), WarehouseError> {
        // Queries join them by position, so any shard may have them.
        let first = self.shard(0)?;
        first.insert_columns("replays", ReplayRow::columns(rows)?, None).await
    }

    /// Inserts rows that are given column by column.
    pub(crate) async fn insert_columns(
        &self,
        table: &'static str,
        columns: Vec<Column>,
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let types: Vec<NamedType> = columns.iter().map(|(name, kind, _)| (*name, *kind)).collect();
        let batch = RecordBatch::try_from_iter(columns.into_iter().map(|(name, _, values)| (name, values)))
            .map_err(|_| WarehouseError::BadRows("columns of different lengths"))?;
        self.insert_arrow(table, &arrow::structure(&types), &[batch], epoch)
            .await
    }

    /// Inserts batches of a table's columns as one stream, as the shard's writer if `epoch` is
    /// given. `structure` has the batches' columns with their types, as `input()` takes them. One
    /// batch becomes one block, and so one part per partition of the table.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_arrow(
        &self,
        table: &'static str,
        structure: &str,
        batches: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if rows == 0 {
            return Ok(());
        }
        within("an insert's rows", rows, self.insert_rows_max)?;
        let stream = blocks::encode_stream(batches).map_err(|_| WarehouseError::BadRows("batches of other columns"))?;
        within("an insert's bytes", stream.len() as u64, self.insert_bytes_max)?;
        let started = Instant::now();
        // The embedded engine is this process's own: no other writer can insert into it.
        let epoch = epoch.filter(|_| self.is_server());
        let fields = batches.iter().take(1).flat_map(|batch| batch.schema_ref().fields());
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let sql = statement(table, &names.join(", "), structure, epoch);
        let query_id = epoch.map(WriterEpoch::query_id);
        let sent = async {
            let _place = self.place().await?;
            self.send(sql, stream, query_id).await
        };
        let result = tokio::time::timeout(self.insert_wait_max + ANSWER_SLACK, sent).await;
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the insert took too long".to_owned())));
        let result = result.map_err(|error| error.naming(self.user()));
        metrics::histogram!("receipts_warehouse_insert_seconds", "table" => table).record(started.elapsed());
        match &result {
            Ok(()) => metrics::counter!("receipts_warehouse_insert_rows_total", "table" => table).increment(rows),
            Err(error) => count_error(error),
        }
        result
    }

    async fn send(&self, sql: String, stream: Bytes, query_id: Option<String>) -> Result<(), WarehouseError> {
        let mut insert = self.client.insert_formatted_with(sql);
        for (setting, value) in INSERT_SETTINGS {
            insert = insert.with_setting(setting, value);
        }
        if let Some(query_id) = query_id {
            insert = insert.with_setting("query_id", query_id);
        }
        for start in (0..stream.len()).step_by(PIECE_BYTES) {
            let end = stream.len().min(start + PIECE_BYTES);
            // Dropping the insert after an error aborts it: nothing is stored.
            insert.send(stream.slice(start..end)).await?;
        }
        insert.end().await?;
        Ok(())
    }
}

fn within(what: &'static str, size: u64, max: u64) -> Result<(), WarehouseError> {
    if size > max {
        return Err(WarehouseError::TooLarge { what, size, max });
    }
    Ok(())
}

/// The statement. An insert of a shard's writer changes nothing once another writer has superseded
/// it.
fn statement(table: &str, columns: &str, structure: &str, epoch: Option<&WriterEpoch>) -> String {
    match epoch {
        None => format!("INSERT INTO {table} ({columns}) FORMAT ArrowStream"),
        Some(epoch) => format!(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM input('{}') WHERE {} FORMAT ArrowStream",
            structure.replace('\'', "\\'"),
            epoch.condition(),
        ),
    }
}
