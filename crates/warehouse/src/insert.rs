//! Inserts: rows of every table travel as Arrow streams.

use arrow_array::RecordBatch;

use crate::arrow::{self, ArrowTable, InsertColumn, NamedType};
use crate::{LedgerRow, Warehouse, WarehouseError, WriterEpoch};

impl Warehouse {
    /// Inserts the accepted rows of verdicts into `receipts`, as the shard's writer if `epoch` is
    /// given. `Ok` means that they are durable, or that a later writer has superseded this one
    /// ([`Self::holds_epoch`]). Inserting the same rows again changes nothing, so an error that
    /// [may pass](WarehouseError::is_retryable) is answered by another attempt;
    /// [`WarehouseError::remedy`] says what helps against the others.
    pub async fn insert_accepted(
        &self,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        self.insert_verdicts(&arrow::RECEIPTS, verdicts, epoch).await
    }

    /// Inserts the rejected rows of verdicts into `rejected`; as
    /// [`insert_accepted`](Self::insert_accepted).
    pub async fn insert_rejections(
        &self,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        self.insert_verdicts(&arrow::REJECTED, verdicts, epoch).await
    }

    /// Inserts the bytes of accepted rows of verdicts into `evidence`. Inserting the same rows
    /// again changes nothing, so this needs no epoch.
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
    pub async fn insert_ledger(&self, rows: &[LedgerRow], epoch: Option<&WriterEpoch>) -> Result<(), WarehouseError> {
        self.insert_columns("ledger", LedgerRow::columns(rows)?, epoch).await
    }

    /// Inserts rows that are given column by column.
    pub(crate) async fn insert_columns(
        &self,
        table: &'static str,
        columns: Vec<InsertColumn>,
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
        let stream = blocks::encode_stream(batches).map_err(|_| WarehouseError::BadRows("batches of other columns"))?;
        // The embedded engine is this process's own: no other writer can insert into it.
        let epoch = epoch.filter(|_| self.is_server());
        let fields = batches.iter().take(1).flat_map(|batch| batch.schema_ref().fields());
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let sql = statement(table, &names.join(", "), structure, epoch);
        let query_id = epoch.map(WriterEpoch::query_id);
        self.insert(table, sql, rows, stream, query_id).await
    }
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
