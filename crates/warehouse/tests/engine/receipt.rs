//! A receipt to insert, for the tests of the warehouse and of `usage`.

use blocks::AcceptedRow;
use uuid::Uuid;

/// 2026-11-15T12:00:00Z.
pub(crate) const NOON_MS: i64 = 1_794_744_000_000;

/// A receipt whose parts differ only where the test says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt {
    pub(crate) publisher: String,
    pub(crate) timestamp_ms: i64,
    pub(crate) entry_id: Uuid,
    pub(crate) receipt_id: Uuid,
    pub(crate) payload_hash: [u8; 32],
    pub(crate) received_at_ms: i64,
    pub(crate) url: String,
    pub(crate) client_id: Uuid,
    pub(crate) client_name: String,
    pub(crate) client_version: String,
    pub(crate) organization: String,
    pub(crate) purpose: String,
    pub(crate) model_id: String,
    pub(crate) operator: String,
}

impl Receipt {
    /// A receipt that differs from others by its number only.
    pub(crate) fn new(number: u128) -> Self {
        let mut payload_hash = [0; 32];
        payload_hash[..16].copy_from_slice(&number.to_le_bytes());
        payload_hash[31] = 0xff;
        Self {
            publisher: "news.example".to_owned(),
            timestamp_ms: NOON_MS,
            entry_id: Uuid::from_u128(7),
            receipt_id: Uuid::from_u128(number),
            payload_hash,
            received_at_ms: NOON_MS + 1_000,
            url: "https://news.example/7".to_owned(),
            client_id: Uuid::from_u128(9),
            client_name: "reader".to_owned(),
            client_version: "1.0".to_owned(),
            organization: "Readers".to_owned(),
            purpose: "training".to_owned(),
            model_id: String::new(),
            operator: String::new(),
        }
    }

    pub(crate) fn row(&self, position: u128) -> AcceptedRow<'_> {
        AcceptedRow {
            publisher: &self.publisher,
            timestamp_ms: self.timestamp_ms,
            entry_id: self.entry_id,
            receipt_id: self.receipt_id,
            payload_hash: &self.payload_hash,
            position,
            received_at_ms: self.received_at_ms,
            url: &self.url,
            content_hash: &[3; 32],
            client_id: self.client_id,
            client_name: &self.client_name,
            client_version: &self.client_version,
            organization: &self.organization,
            key_fingerprint: &[4; 32],
            operator: &self.operator,
            publisher_verified: true,
            algorithm: "Ed25519",
            purpose: &self.purpose,
            context: "test",
            dataset_id: "d",
            model_id: &self.model_id,
            request_id: "request",
            client_address: "127.0.0.1",
            kind: "receipt",
            raw: b"{}",
            origin: "record",
            ..AcceptedRow::default()
        }
    }
}
