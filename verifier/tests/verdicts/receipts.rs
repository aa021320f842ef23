//! Signed receipts and batches.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use receipt::{Algorithm, Limits, SigningKey};
use receipt_log::{Record, RecordKind};
use uuid::Uuid;

pub(crate) fn generate() -> SigningKey {
    SigningKey::generate(Algorithm::Ed25519).unwrap()
}

/// The ID of the receipt of this number, of its entry and of its client.
pub(crate) fn id(number: usize) -> Uuid {
    Uuid::from_u128(0x1234_0000_0000_4000_8000_0000_0000_0000 + number as u128)
}

pub(crate) fn unsigned(key: &SigningKey, number: usize, client: Uuid) -> String {
    let id = id(number);
    let timestamp = service::instant::rfc3339_ms(service::instant::now_ms());
    let pem = serde_json::to_string(key.public_key_pem()).unwrap();
    format!(
        r#"{{"version":"1.0.0","receiptId":"{id}","timestamp":"{timestamp}","content":{{"entryId":"{id}","url":"https://example.com/a","contentHash":"sha256:{number:064x}","publisher":"example.com"}},"client":{{"id":"{client}","name":"Reader","version":"1","organization":"Org","publicKey":{pem}}},"usage":{{"purpose":"training","context":"a context"}}}}"#
    )
}

/// A signed receipt of a client.
pub(crate) fn signed(key: &SigningKey, number: usize, client: Uuid) -> Vec<u8> {
    receipt::sign_receipt(unsigned(key, number, client).as_bytes(), key, &Limits::default()).unwrap()
}

/// A signed receipt; `number` makes it differ from others.
pub(crate) fn single(key: &SigningKey, number: usize) -> Vec<u8> {
    signed(key, number, id(number))
}

/// A batch of these receipts, signed.
pub(crate) fn batch_of(key: &SigningKey, receipts: &[String]) -> Record {
    let receipts = receipts.join(",");
    let json = format!(r#"{{"version":"1.0.0","batchId":"batch_1","receipts":[{receipts}]}}"#);
    let body = receipt::sign_batch(json.as_bytes(), key, &Limits::default()).unwrap();
    Record {
        kind: RecordKind::Batch,
        ..record(&body, None)
    }
}

/// A signed batch of signed receipts.
pub(crate) fn batch(key: &SigningKey, numbers: Range<usize>) -> Record {
    let text = |number| String::from_utf8(single(key, number)).unwrap();
    batch_of(key, &numbers.map(text).collect::<Vec<_>>())
}

/// Replaces a text of a record.
pub(crate) fn tampered(mut record: Record, from: &str, to: &str) -> Record {
    let text = String::from_utf8(record.body.to_vec()).unwrap();
    assert!(text.contains(from));
    record.body = text.replace(from, to).into();
    record
}

/// A body as the gateway would append it, with a request signature by `key`.
pub(crate) fn record(body: &[u8], key: Option<&SigningKey>) -> Record {
    Record {
        kind: RecordKind::Receipt,
        body: Bytes::copy_from_slice(body),
        request_signature: key.map(|key| STANDARD.encode(key.sign(body).unwrap())),
        request_id: "request".to_owned(),
        received_at_ms: service::instant::now_ms(),
        client_address: Some("192.0.2.1".parse().unwrap()),
        trace: None,
    }
}
