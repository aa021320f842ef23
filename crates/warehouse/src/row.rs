//! Rows of the ledger, which the writer makes. Those of verdicts are `blocks::Rows`.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};

use crate::WarehouseError;
use crate::arrow::{InsertColumn, instants, lists_of_tuples};
use crate::progress::VerdictsPosition;
use crate::touched::Touched;

/// Row of the ledger: verdicts of one shard on a run of whole records of one source
/// partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset of the block.
    pub first_offset: u64,
    /// The last offset of the block, inclusive.
    pub last_offset: u64,
    /// Log records in the block.
    pub records: u64,
    /// Receipts in those records.
    pub receipts_in: u64,
    /// Number of valid receipts.
    pub accepted: u64,
    /// Number of rejected receipts.
    pub rejected: u64,
    /// Name of the verifier that wrote it.
    pub verifier: String,
    /// When the writer stored it, milliseconds since the Unix epoch.
    pub committed_at_ms: i64,
    /// The shard whose writer stored it.
    pub shard: u32,
    /// The record of `verdicts` that holds the block.
    pub verdicts: VerdictsPosition,
    /// Hours and publishers of its accepted receipts. Stored for three days.
    pub touched: Touched,
}

impl LedgerRow {
    /// The table's columns of these rows.
    pub(crate) fn columns(rows: &[Self]) -> Result<Vec<InsertColumn>, WarehouseError> {
        let u32s =
            |value: fn(&Self) -> u32| -> ArrayRef { Arc::new(UInt32Array::from_iter_values(rows.iter().map(value))) };
        let u64s =
            |value: fn(&Self) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(value))) };
        let touched_counts = rows.iter().map(|row| row.touched.pairs().count());
        let (hours, publishers): (Vec<u32>, Vec<&str>) = rows.iter().flat_map(|row| row.touched.pairs()).unzip();
        let touched: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(hours)),
            Arc::new(StringArray::from_iter_values(publishers)),
        ];
        let verifiers = rows.iter().map(|row| row.verifier.as_str());
        Ok(vec![
            ("epoch", u32s(|row| row.epoch)),
            ("partition", u32s(|row| row.partition)),
            ("first_offset", u64s(|row| row.first_offset)),
            ("last_offset", u64s(|row| row.last_offset)),
            ("records", u64s(|row| row.records)),
            ("receipts_in", u64s(|row| row.receipts_in)),
            ("accepted", u64s(|row| row.accepted)),
            ("rejected", u64s(|row| row.rejected)),
            ("verifier", Arc::new(StringArray::from_iter_values(verifiers))),
            ("committed_at", instants(rows.iter().map(|row| row.committed_at_ms))),
            ("shard", u32s(|row| row.shard)),
            ("verdicts_epoch", u32s(|row| row.verdicts.epoch)),
            ("verdicts_offset", u64s(|row| row.verdicts.offset)),
            ("touched", lists_of_tuples(touched_counts, touched)?),
        ])
    }
}
