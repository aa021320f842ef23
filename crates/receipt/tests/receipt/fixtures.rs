//! Receipts to test with, built through serde_json and signed by the library.

use receipt::{Algorithm, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};

/// 2025-06-30T12:34:56.789Z, when every fixture was made and arrives.
pub(crate) const NOW_MS: i64 = 1_751_286_896_789;

/// A key of each kind. RSA keys take a while to make.
pub(crate) fn key(algorithm: Algorithm) -> &'static SigningKey {
    static KEYS: std::sync::LazyLock<[SigningKey; 3]> =
        std::sync::LazyLock::new(|| Algorithm::ALL.map(|algorithm| SigningKey::generate(algorithm).unwrap()));
    &KEYS[Algorithm::ALL.iter().position(|&a| a == algorithm).unwrap()]
}

/// A receipt without key and signature.
pub(crate) fn unsigned(n: u64) -> Value {
    json!({
        "version": "1.0.0",
        "receiptId": format!("550e8400-e29b-41d4-a716-{n:012x}"),
        "timestamp": "2025-06-30T12:34:56.789Z",
        "content": {
            "entryId": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "url": "https://news.example.com/articles/2025/06/30/how-it-works?ref=a&b=ü",
            "contentHash": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "publisher": "News.Example.com",
        },
        "client": {
            "id": "9b2d5a2e-3d9a-4a52-8f4e-1f6f1f2a3b4c",
            "name": "Example Model",
            "version": "4.1.0",
            "organization": "Example AI, Inc. \"Labs\" / R&D \u{1f600}",
        },
        "usage": {
            "purpose": "inference",
            "context": "answering a user's question\nwith sources",
            "datasetId": "ds-1",
            "modelId": "m-1",
            "queryId": "q-1",
            "sessionId": "s-1",
            "studyId": "st-1",
            "researcherId": "r-1",
        },
        "extra": {"b": [1, 2.5, 1e21, -0.0, true, null], "a": "retained, and signed over"},
    })
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

pub(crate) fn parse(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

/// A signed receipt.
pub(crate) fn signed(n: u64, algorithm: Algorithm) -> Value {
    parse(&sign_receipt(&bytes(&unsigned(n)), key(algorithm), &Limits::default()).unwrap())
}

/// A signed batch of signed receipts.
pub(crate) fn batch(count: u64, algorithm: Algorithm) -> Value {
    let receipts: Vec<Value> = (0..count).map(unsigned).collect();
    let batch = json!({"version": "1.0.0", "batchId": "batch-1", "receipts": receipts});
    parse(
        &sign_batch(
            &bytes(&batch),
            key(algorithm),
            &Limits {
                batch_bytes_max: 1 << 26,
                ..Limits::default()
            },
        )
        .unwrap(),
    )
}

/// Replaces what a JSON Pointer names; adds the member if it is new.
pub(crate) fn set(value: &mut Value, pointer: &str, to: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Array(elements) => elements[name.parse::<usize>().unwrap()] = to,
        object => object[name] = to,
    }
}

/// Removes the member that a JSON Pointer names.
pub(crate) fn remove(value: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
}
