//! Receipts and batches to send.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};
use uuid::Uuid;

pub const RECEIPTS: &str = "/api/v1/receipts";
pub const BATCH: &str = "/api/v1/receipts/batch";
pub const EXPLAIN: &str = "/api/v1/receipts/explain";
pub const WEBHOOK: &str = "/api/service/receipt";

/// Base64 of 64 bytes that aren't a signature. [`head_of`](crate::client::head_of) sends the body's
/// signature instead.
pub const SIGNATURE: &str = "c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlYw==";

/// The fields of every proper single submission.
pub const FIELDS: &[(&str, &str)] = &[("content-type", "application/json"), ("x-service-signature", SIGNATURE)];
pub const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

pub static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::Ed25519).unwrap());
pub static OTHER_KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::EcdsaP256).unwrap());

/// `X-Service-Signature` for a body.
pub fn signature_of(body: &[u8]) -> String {
    STANDARD.encode(KEY.sign(body).unwrap())
}

/// A receipt of now, not signed.
pub fn plain() -> Value {
    json!({
        "version": "1.0.0",
        "receiptId": Uuid::new_v4().to_string(),
        "timestamp": service::instant::rfc3339_ms(service::instant::now_ms()),
        "content": {
            "entryId": "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10",
            "url": "https://news.example.com/2026/11/an-article",
            "contentHash": format!("sha256:{}", "ab".repeat(32)),
            "publisher": "news.example.com"
        },
        "client": {
            "id": "0b8f5a52-68a7-4c43-8a0c-6f3f6a0e6a11",
            "name": "reader",
            "version": "2.1.0",
            "organization": "Example AI"
        },
        "usage": {"purpose": "inference", "context": "answering a question", "queryId": "q-1", "sessionId": "s-1"}
    })
}

pub fn signed(receipt: &Value) -> Vec<u8> {
    sign_receipt(&serde_json::to_vec(receipt).unwrap(), &KEY, &Limits::default()).unwrap()
}

/// A signed receipt, and its id.
pub fn receipt() -> (Vec<u8>, String) {
    let plain = plain();
    let id = plain["receiptId"].as_str().unwrap().to_owned();
    (signed(&plain), id)
}

/// A signed receipt as a value, to be damaged.
pub fn value() -> Value {
    serde_json::from_slice(&receipt().0).unwrap()
}

/// A signed batch of `count` receipts.
pub fn batch(count: usize) -> Vec<u8> {
    let receipts: Vec<Value> = (0..count).map(|_| plain()).collect();
    let batch = json!({"version": "1.0.0", "batchId": "batch \u{201c}7\u{201d}", "receipts": receipts});
    let limits = Limits {
        batch_receipts_max: 65_535,
        batch_bytes_max: 1 << 30,
        ..Limits::default()
    };
    sign_batch(&serde_json::to_vec(&batch).unwrap(), &KEY, &limits).unwrap()
}

/// A batch as a value, to be damaged.
pub fn batch_value(count: usize) -> Value {
    serde_json::from_slice(&batch(count)).unwrap()
}
