//! Receipts to insert.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use blocks::{AcceptedRow, Rows};
use usage::{NewReceipts, Usage};
use uuid::Uuid;

/// 2026-11-15T12:00:00Z.
pub(crate) const NOON_MS: i64 = 1_794_744_000_000;

/// A receipt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt {
    pub(crate) publisher: String,
    pub(crate) timestamp_ms: i64,
    pub(crate) entry_id: Uuid,
    pub(crate) payload_hash: [u8; 32],
    pub(crate) url: String,
    pub(crate) client_id: Uuid,
    pub(crate) client_name: String,
    pub(crate) client_version: String,
    pub(crate) organization: String,
    pub(crate) purpose: String,
    pub(crate) model_id: String,
    pub(crate) key: [u8; 32],
    pub(crate) operator: String,
    pub(crate) publisher_verified: bool,
    pub(crate) received_at_ms: i64,
}

impl Receipt {
    /// A receipt that differs from others by its number only.
    pub(crate) fn new(number: u128) -> Self {
        let mut payload_hash = [0xff; 32];
        payload_hash[..16].copy_from_slice(&number.to_le_bytes());
        Self {
            publisher: "news.example".to_owned(),
            timestamp_ms: NOON_MS,
            entry_id: Uuid::from_u128(7),
            payload_hash,
            url: "https://news.example/7".to_owned(),
            client_id: Uuid::from_u128(9),
            client_name: "reader".to_owned(),
            client_version: "1.0".to_owned(),
            organization: "Readers".to_owned(),
            purpose: "training".to_owned(),
            model_id: String::new(),
            key: [4; 32],
            operator: String::new(),
            publisher_verified: true,
            received_at_ms: NOON_MS,
        }
    }

    /// The receipt's number: the hash covers the ID.
    pub(crate) fn receipt_id(&self) -> Uuid {
        Uuid::from_u128(u128::from_le_bytes(self.payload_hash[..16].try_into().unwrap()))
    }

    fn row(&self, position: u128) -> AcceptedRow<'_> {
        AcceptedRow {
            position,
            publisher: &self.publisher,
            timestamp_ms: self.timestamp_ms,
            entry_id: self.entry_id,
            receipt_id: self.receipt_id(),
            payload_hash: &self.payload_hash,
            received_at_ms: self.received_at_ms,
            url: &self.url,
            content_hash: &[3; 32],
            client_id: self.client_id,
            client_name: &self.client_name,
            client_version: &self.client_version,
            organization: &self.organization,
            key_fingerprint: &self.key,
            algorithm: "Ed25519",
            purpose: &self.purpose,
            model_id: &self.model_id,
            kind: "receipt",
            raw: b"{}",
            origin: "record",
            operator: &self.operator,
            publisher_verified: self.publisher_verified,
            ..AcceptedRow::default()
        }
    }
}

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
