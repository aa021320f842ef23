//! Kind of a body, by its members: a receipt or a batch.

use receipt::BodyKind;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Differences between a batch and a receipt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    receipts: Option<IgnoredAny>,
    receipt_id: Option<IgnoredAny>,
}

/// Members of a batch that has some.
#[derive(Deserialize)]
struct Receipts {
    receipts: Vec<IgnoredAny>,
}

/// Receipts in a body, 0 if it isn't a batch.
pub(crate) fn receipt_count(body: &[u8]) -> u32 {
    let batch: Option<Receipts> = serde_json::from_slice(body).ok();
    batch.map_or(0, |batch| u32::try_from(batch.receipts.len()).unwrap_or(u32::MAX))
}

/// Whether a body is meant as a receipt or as a batch.
pub(crate) fn kind_of(body: &[u8]) -> BodyKind {
    let shape: Option<Shape> = serde_json::from_slice(body).ok();
    if shape.is_some_and(|shape| shape.receipts.is_some()) {
        BodyKind::Batch
    } else {
        BodyKind::Receipt
    }
}

/// Whether a body is meant as a receipt, whatever it lacks.
pub(crate) fn is_receipt(body: &[u8]) -> bool {
    let shape: Option<Shape> = serde_json::from_slice(body).ok();
    shape.is_some_and(|shape| shape.receipts.is_none() && shape.receipt_id.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_recognized_by_its_receipts() {
        assert_eq!(kind_of(br#"{"receipts": []}"#), BodyKind::Batch);
        for receipt in [
            "",
            "[]",
            "{}",
            r#"{"receipts": null}"#,
            r#"{"receipts": [], "receipts": []}"#,
            r#"{"receipts": ["#,
        ] {
            assert_eq!(kind_of(receipt.as_bytes()), BodyKind::Receipt, "{receipt}");
        }
    }
}
