//! JSON Schemas of receipts and batches, for tools. The parser in this crate is what decides.

/// JSON Schema 2020-12 of a receipt, with the default limits.
pub const RECEIPT_SCHEMA: &str = include_str!("../schemas/receipt.json");

/// JSON Schema 2020-12 of a batch, with the default limits. It refers to that of a receipt.
pub const BATCH_SCHEMA: &str = include_str!("../schemas/batch.json");
