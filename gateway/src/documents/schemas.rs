//! JSON Schemas (2020-12) of a receipt and a batch, with the limits of this gateway.

use receipt::{BATCH_SCHEMA, Limits, RECEIPT_SCHEMA};
use serde_json::Value;

/// Schema of a receipt.
pub(crate) fn receipt(limits: &Limits) -> Value {
    let mut schema = parsed(RECEIPT_SCHEMA);
    limit_receipt(&mut schema, limits);
    schema
}

/// Schema of a batch. It contains that of a receipt.
pub(crate) fn batch(limits: &Limits) -> Value {
    let mut schema = parsed(BATCH_SCHEMA);
    set(&mut schema, "/properties/receipts/maxItems", limits.batch_receipts_max);
    set(&mut schema, "/properties/batchId/maxLength", limits.string_bytes_max);
    if let Some(receipt) = schema.pointer_mut("/$defs/receipt") {
        limit_receipt(receipt, limits);
    }
    schema
}

/// Lengths in a schema are characters. A limit in bytes allows no more characters than bytes.
fn limit_receipt(schema: &mut Value, limits: &Limits) {
    for text in ["text", "name"] {
        set(schema, &format!("/$defs/{text}/maxLength"), limits.string_bytes_max);
    }
    set(
        schema,
        "/properties/content/properties/url/maxLength",
        limits.url_bytes_max,
    );
}

fn set(schema: &mut Value, pointer: &str, value: usize) {
    if let Some(member) = schema.pointer_mut(pointer) {
        *member = value.into();
    }
}

/// A test parses both texts.
fn parsed(schema: &str) -> Value {
    serde_json::from_str(schema).unwrap_or_default()
}
