//! Receipts to count.

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use usage::Usage;
use uuid::Uuid;
use warehouse::SqlStatement;

/// Fields that distinguish the receipts of these tests.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) position: u128,
    pub(crate) timestamp_ms: i64,
    pub(crate) receipt_id: Uuid,
    pub(crate) payload_hash: [u8; 32],
}

/// A receipt of its own for each number.
pub(crate) fn unseen(number: u64, timestamp_ms: i64) -> Receipt {
    let mut payload_hash = [7; 32];
    // The beginning of a hash is evenly distributed.
    payload_hash[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    Receipt {
        position: u128::from(number) << 16,
        timestamp_ms,
        receipt_id: Uuid::from_u128(u128::from(number)),
        payload_hash,
    }
}

/// The receipts as accepted rows of verdicts.
pub(crate) fn batch(receipts: &[Receipt]) -> RecordBatch {
    let mut rows = Rows::default();
    for receipt in receipts {
        let number = receipt.receipt_id.as_u128();
        rows.push_accepted(&AcceptedRow {
            position: receipt.position,
            publisher: ["a.example", "b.example"][usize::try_from(number % 2).unwrap()],
            timestamp_ms: receipt.timestamp_ms,
            entry_id: Uuid::from_u128(number % 50),
            receipt_id: receipt.receipt_id,
            payload_hash: &receipt.payload_hash,
            received_at_ms: receipt.timestamp_ms,
            url: "https://a.example/",
            content_hash: &[1; 32],
            client_id: Uuid::from_u128(number % 3),
            client_name: "Client",
            client_version: "1.0.0",
            organization: "Organization",
            key_fingerprint: &[2; 32],
            algorithm: "Ed25519",
            purpose: ["training", "inference"][usize::try_from(number % 2).unwrap()],
            model_id: "model",
            kind: "receipt",
            origin: "record",
            ..AcceptedRow::default()
        });
    }
    rows.batches().unwrap().0
}

/// The sum of each grain, in the grains' order.
pub(crate) async fn stored(usage: &Usage) -> [i64; 5] {
    let call = SqlStatement::new("SELECT sum(receipts) FROM usage GROUP BY grain ORDER BY grain");
    let sums: Vec<i64> = usage.warehouse().rows("sums", call).await.unwrap();
    sums.try_into().unwrap()
}
