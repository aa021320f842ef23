//! Receipts to insert.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use blocks::Rows;
use usage::{NewReceipts, Usage};

use super::receipt::Receipt;

/// Receipts as a verifier's batch; the first one has this offset.
pub(crate) fn batch(receipts: &[Receipt], offset: u64) -> RecordBatch {
    let mut rows = Rows::default();
    for (receipt, offset) in receipts.iter().zip(u128::from(offset)..) {
        rows.push_accepted(&receipt.row((1 << 96) | (offset << 16)));
    }
    rows.batches().unwrap().0
}

/// Counts batches as a writer does: those receipts that aren't counted yet.
pub(crate) async fn count(usage: &Usage, batches: &[RecordBatch]) {
    let new = NewReceipts::of(batches).unwrap();
    let counted = usage.counted(&new.keys()).await.unwrap();
    let rows = new.without(&counted).rows(200_000).unwrap();
    usage.insert(&rows, None).await.unwrap();
}

/// Adds rows that compensate those of [`count`], as a rebuild does.
pub(crate) async fn compensate(usage: &Usage, batch: RecordBatch) {
    for rows in NewReceipts::of(&[batch]).unwrap().rows(200_000).unwrap() {
        let mut columns = rows.columns().to_vec();
        let [.., receipts, first_ms, last_ms] = columns.as_mut_slice() else {
            panic!("columns of usage end with sums");
        };
        let negative = receipts
            .as_primitive::<Int64Type>()
            .iter()
            .flatten()
            .map(|count| -count);
        *receipts = Arc::new(Int64Array::from_iter_values(negative.collect::<Vec<_>>()));
        *first_ms = Arc::new(Int64Array::from_value(i64::MAX, rows.num_rows()));
        *last_ms = Arc::new(Int64Array::from_value(i64::MIN + 1, rows.num_rows()));
        let rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
        usage.insert(&[rows], None).await.unwrap();
    }
}

/// Stores receipts and counts them.
pub(crate) async fn insert(usage: &Usage, receipts: &[Receipt], offset: u64) {
    let batch = batch(receipts, offset);
    let batches = std::slice::from_ref(&batch);
    usage.warehouse().insert_accepted(batches, None).await.unwrap();
    count(usage, batches).await;
}
