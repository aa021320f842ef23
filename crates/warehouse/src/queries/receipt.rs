//! State of a receipt.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::sender::{OF_KEY, bind_key};
use super::{FINAL_SETTINGS, OPERATOR, QueryScope, REJECTED_SETTINGS, Replay, VERIFIED};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Receipts that an ID is looked up among.
#[derive(Debug, Clone)]
pub enum ReceiptsOf {
    /// Receipts that name a publisher's domains.
    Publisher(QueryScope),
    /// Receipts that this key sent: SHA-256 of its SPKI.
    Key([u8; 32]),
}

impl ReceiptsOf {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Publisher(scope) if scope.is_empty())
    }

    fn condition(&self) -> String {
        match self {
            Self::Publisher(scope) => scope.condition(),
            Self::Key(_) => OF_KEY.to_owned(),
        }
    }

    fn bind(&self, call: SqlStatement) -> SqlStatement {
        match self {
            Self::Publisher(scope) => scope.bind(call),
            Self::Key(key) => bind_key(call, key),
        }
    }
}

/// A payload that is stored under a receipt's ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// In how many places of the log it stands: 1 is `verified`, each further one a `duplicate`.
    pub occurrences: u64,
    /// The first of those places.
    pub first_position: u128,
    /// When the gateway first took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The receipt's own timestamp, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Host of `content.url`, in lower case.
    pub publisher: String,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `client.id`.
    pub client_id: Uuid,
    /// `usage.purpose`.
    pub purpose: String,
    /// `signatureAlgorithm`.
    pub algorithm: String,
    /// SHA-256 of the key's SPKI.
    pub key_fingerprint: [u8; 32],
    /// Domain of the operator whose key it was on arrival; empty if the receipt is unproven.
    pub operator: String,
    /// Whether somebody had verified the publisher's domain when the receipt arrived.
    pub publisher_verified: bool,
}

/// A rejection of something that carries a receipt's ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRejection {
    /// The reason, one of `receipt::RejectReason`.
    pub reason: String,
    /// Finding in detail.
    pub detail: String,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// Position in the log.
    pub position: u128,
    /// The publisher it names.
    pub publisher: String,
    /// When a replay made it count, milliseconds since the Unix epoch.
    pub replayed_at_ms: Option<i64>,
}

/// All that is known of a receipt's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptFacts {
    /// Valid payloads in order of their first position, at most 100. More than one hash is a
    /// conflict.
    pub stored: Vec<StoredReceipt>,
    /// Refusals in log order, at most 100.
    pub rejected: Vec<ReceiptRejection>,
}

impl ReceiptFacts {
    /// Whether two different payloads carry this id.
    #[must_use]
    pub fn conflict(&self) -> bool {
        self.stored
            .iter()
            .any(|one| one.payload_hash != self.stored[0].payload_hash)
    }
}

#[derive(Row, Deserialize)]
struct StoredRow {
    hash: [u8; 32],
    occurrences: u64,
    first_position: u128,
    received_ms: i64,
    timestamp_ms: i64,
    publisher: String,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    purpose_text: String,
    algorithm_text: String,
    fingerprint: [u8; 32],
    operator: String,
    verified: bool,
}

#[derive(Row, Deserialize)]
struct ReceiptRejectionRow {
    reason_text: String,
    detail: String,
    received_ms: i64,
    position: u128,
    publisher: String,
}

impl Warehouse {
    /// Everything stored or refused under one receipt id.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn receipt(&self, of: &ReceiptsOf, receipt_id: Uuid) -> Result<ReceiptFacts, WarehouseError> {
        if of.is_empty() {
            return Ok(ReceiptFacts::default());
        }
        let whose = of.condition();
        let call = |sql: String| {
            of.bind(SqlStatement::new(sql))
                .with("receipt_id", receipt_id.to_string())
        };
        let sql = format!(
            "SELECT payload_hash AS hash, length(positions) AS occurrences, arrayMin(positions) AS first_position,
                toUnixTimestamp64Milli(received_at) AS received_ms, toUnixTimestamp64Milli(timestamp) AS timestamp_ms,
                publisher, entry_id AS entry, CAST(client_id AS UUID) AS client, toString(purpose) AS purpose_text,
                toString(algorithm) AS algorithm_text,
                CAST(key_fingerprint AS FixedString(32)) AS fingerprint, {OPERATOR} AS operator,
                {VERIFIED} AS verified
             FROM receipts FINAL
             WHERE {whose} AND receipt_id = {{receipt_id:UUID}}
             ORDER BY first_position LIMIT 100 {FINAL_SETTINGS}"
        );
        let stored: Vec<StoredRow> = self.rows("receipt", call(sql)).await?;
        let sql = format!(
            "SELECT toString(reason) AS reason_text, detail, toUnixTimestamp64Milli(received_at) AS received_ms, position,
                publisher
             FROM rejected FINAL
             WHERE {whose} AND receipt_id = {{receipt_id:UUID}}
             ORDER BY position LIMIT 100 {REJECTED_SETTINGS}"
        );
        let rejected: Vec<ReceiptRejectionRow> = self.rows("receipt_rejected", call(sql)).await?;
        let replays = self.replays(rejected.iter().map(|row| row.position).collect()).await?;
        let replayed_at_ms = |position| replays.get(&position).map(|replay: &Replay| replay.replayed_at_ms);
        Ok(ReceiptFacts {
            stored: stored.into_iter().map(stored_receipt).collect(),
            rejected: rejected
                .into_iter()
                .map(|row| ReceiptRejection {
                    replayed_at_ms: replayed_at_ms(row.position),
                    ..rejected_receipt(row)
                })
                .collect(),
        })
    }
}

fn stored_receipt(row: StoredRow) -> StoredReceipt {
    StoredReceipt {
        payload_hash: row.hash,
        occurrences: row.occurrences,
        first_position: row.first_position,
        received_at_ms: row.received_ms,
        timestamp_ms: row.timestamp_ms,
        publisher: row.publisher,
        entry_id: row.entry,
        client_id: row.client,
        purpose: row.purpose_text,
        algorithm: row.algorithm_text,
        key_fingerprint: row.fingerprint,
        operator: row.operator,
        publisher_verified: row.verified,
    }
}

fn rejected_receipt(row: ReceiptRejectionRow) -> ReceiptRejection {
    ReceiptRejection {
        reason: row.reason_text,
        detail: row.detail,
        received_at_ms: row.received_ms,
        position: row.position,
        publisher: row.publisher,
        replayed_at_ms: None,
    }
}
