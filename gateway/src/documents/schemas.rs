//! JSON Schemas (2020-12) of a receipt and a batch, with the limits of this gateway.

use receipt::{BATCH_SCHEMA, Limits, RECEIPT_SCHEMA};
use serde_json::{Value, json};

/// Schema of a receipt.
pub(crate) fn receipt(limits: &Limits) -> Value {
    let mut schema = parsed(RECEIPT_SCHEMA);
    // Lengths in a schema are characters. A limit in bytes allows no more characters than bytes.
    for text in ["text", "name"] {
        set(
            &mut schema,
            &format!("/$defs/{text}/maxLength"),
            limits.string_bytes_max,
        );
    }
    let url = "/properties/content/properties/url/maxLength";
    set(&mut schema, url, limits.url_bytes_max);
    schema
}

/// Schema of a batch. It contains that of a receipt.
pub(crate) fn batch(limits: &Limits) -> Value {
    let mut schema = parsed(BATCH_SCHEMA);
    set(&mut schema, "/properties/receipts/maxItems", limits.batch_receipts_max);
    set(&mut schema, "/properties/batchId/maxLength", limits.string_bytes_max);
    schema["$defs"] = json!({"receipt": receipt(limits)});
    schema
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
