//! Inserts: rows of every table travel as Arrow streams.

use arrow_array::RecordBatch;

use crate::arrow::InsertColumn;
use crate::schema::{EVIDENCE, RECEIPTS, REJECTED, SchemaTable, TABLES};
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
        self.insert_verdicts(&RECEIPTS, verdicts, epoch).await
    }

    /// Inserts the rejected rows of verdicts into `rejected`; as
    /// [`insert_accepted`](Self::insert_accepted).
    pub async fn insert_rejections(
        &self,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        self.insert_verdicts(&REJECTED, verdicts, epoch).await
    }

    /// Inserts the bytes of accepted rows of verdicts into `evidence`. Inserting the same rows
    /// again changes nothing, so this needs no epoch.
    pub async fn insert_evidence(&self, verdicts: &[RecordBatch]) -> Result<(), WarehouseError> {
        self.insert_verdicts(&EVIDENCE, verdicts, None).await
    }

    /// Whether the table `receipts` accepts inserts as such: an insert of nothing.
    ///
    /// # Errors
    /// [`WarehouseError`]: why it accepts none.
    pub async fn accepts_receipts(&self) -> Result<(), WarehouseError> {
        let names: Vec<&str> = RECEIPTS.columns().map(|column| column.name).collect();
        self.takes_inserts(RECEIPTS.name, &names.join(", ")).await
    }

    async fn insert_verdicts(
        &self,
        table: &SchemaTable,
        verdicts: &[RecordBatch],
        epoch: Option<&WriterEpoch>,
    ) -> Result<(), WarehouseError> {
        let batches = verdicts.iter().map(|batch| table.project(batch));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        self.insert_arrow(table.name, &batches, epoch).await
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
        let batch =
            RecordBatch::try_from_iter(columns).map_err(|_| WarehouseError::BadRows("columns of different lengths"))?;
        self.insert_arrow(table, &[batch], epoch).await
    }

    /// Inserts batches of a table's columns as one stream, as the shard's writer if `epoch` is
    /// given. One batch becomes one block, and so one part per partition of the table.
    pub async fn insert_arrow(
        &self,
        table: &'static str,
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
        let schema = batches.first().map(RecordBatch::schema);
        let names = schema.iter().flat_map(|schema| schema.fields());
        let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
        let sql = statement(table, &names, epoch);
        let query_id = epoch.map(WriterEpoch::query_id);
        self.insert(table, sql, rows, stream, query_id).await
    }
}

/// The statement. An insert of a shard's writer changes nothing once another writer has superseded
/// it.
fn statement(table: &str, names: &[&str], epoch: Option<&WriterEpoch>) -> String {
    let columns = names.join(", ");
    let Some(epoch) = epoch else {
        return format!("INSERT INTO {table} ({columns}) FORMAT ArrowStream");
    };
    let schema = TABLES.iter().filter(|schema| schema.name == table);
    let columns_of_table = schema.flat_map(|schema| schema.columns());
    let inserted = columns_of_table.filter(|column| names.contains(&column.name));
    let structure: Vec<String> = inserted
        .map(|column| format!("{} {}", column.name, column.input_type))
        .collect();
    format!(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM input('{}') WHERE {} FORMAT ArrowStream",
        structure.join(", ").replace('\'', "\\'"),
        epoch.condition(),
    )
}
