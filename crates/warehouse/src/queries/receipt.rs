//! State of a receipt.

use std::collections::BTreeSet;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::sender::{OF_KEY, SIGNED_POSITIONS, bind_key};
use super::{FINAL_SETTINGS, OPERATOR, QueryScope, REJECTED_SETTINGS, VERIFIED};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Payloads of an ID that one query returns.
const PAYLOADS_MAX: usize = 100;

/// Receipts that an ID is searched among.
#[derive(Debug, Clone)]
pub enum ReceiptsOf {
    /// Receipts that name a publisher's domains; only those of a key, if one is given: SHA-256 of
    /// its SPKI.
    Publisher(QueryScope, Option<[u8; 32]>),
    /// Receipts that this key sent. Occurrences that no signature binds to it don't count.
    Key([u8; 32]),
}

impl ReceiptsOf {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Publisher(scope, _) if scope.is_empty())
    }

    pub(super) fn condition(&self) -> String {
        match self {
            Self::Publisher(scope, None) => scope.condition(),
            Self::Publisher(scope, Some(_)) => format!("{} AND {OF_KEY}", scope.condition()),
            Self::Key(_) => OF_KEY.to_owned(),
        }
    }

    pub(super) fn bind(&self, call: SqlStatement) -> SqlStatement {
        match self {
            Self::Publisher(scope, None) => scope.bind(call),
            Self::Publisher(scope, Some(key)) => bind_key(scope.bind(call), key),
            Self::Key(key) => bind_key(call, key),
        }
    }

    /// The positions that count as occurrences.
    fn positions(&self) -> &'static str {
        match self {
            Self::Publisher(..) => "positions",
            Self::Key(_) => SIGNED_POSITIONS,
        }
    }
}

/// A position in the list of an ID's payloads: behind the payload that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadCursor {
    /// Whether the payload is unproven: those come last.
    pub is_unproven: bool,
    /// The payload's first position in the log.
    pub first_position: u128,
}

/// A payload that is stored under a receipt's ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// In how many places of the log it stands: 1 is `verified`, each further one a `duplicate`.
    /// 0 of a key's receipt that only others delivered.
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
}

/// All that is known of a receipt's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptFacts {
    /// A page of valid payloads, at most 100: proven ones first, each in order of its first
    /// position. More than one hash is a conflict.
    pub stored: Vec<StoredReceipt>,
    /// The last payload of the page, if there are more.
    pub next: Option<PayloadCursor>,
    /// Counts of all payloads.
    pub totals: PayloadTotals,
    /// Refusals in log order, at most 100.
    pub rejected: Vec<ReceiptRejection>,
}

impl ReceiptFacts {
    /// Whether nothing has the ID.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.totals.payloads == 0 && self.rejected.is_empty()
    }
}

/// Counts of all valid payloads under an ID, whatever page is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Row, Deserialize)]
pub struct PayloadTotals {
    /// Distinct payloads.
    pub payloads: u64,
    /// Sum of their occurrences.
    pub occurrences: u64,
    /// Occurrences behind the first one of each payload.
    pub duplicates: u64,
}

impl PayloadTotals {
    /// Whether two different payloads carry the ID.
    #[must_use]
    pub fn conflict(&self) -> bool {
        self.payloads > 1
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
    /// Everything stored or refused under one receipt id; of its payloads those behind `after`.
    pub async fn receipt(
        &self,
        of: &ReceiptsOf,
        receipt_id: Uuid,
        after: Option<&PayloadCursor>,
    ) -> Result<ReceiptFacts, WarehouseError> {
        if of.is_empty() {
            return Ok(ReceiptFacts::default());
        }
        let (stored, next) = self.payloads(of, receipt_id, after, PAYLOADS_MAX).await?;
        let totals = if after.is_none() && next.is_none() {
            totals(&stored)
        } else {
            self.payload_totals(of, receipt_id).await?
        };
        let whose = of.condition();
        let call = |sql: String| {
            of.bind(SqlStatement::new(sql))
                .with("receipt_id", receipt_id.to_string())
        };
        let sql = format!(
            "SELECT toString(reason) AS reason_text, detail, toUnixTimestamp64Milli(received_at) AS received_ms, position,
                publisher
             FROM rejected FINAL
             WHERE {whose} AND receipt_id = {{receipt_id:UUID}}
             ORDER BY position LIMIT 100 {REJECTED_SETTINGS}"
        );
        let rejected: Vec<ReceiptRejectionRow> = self.rows("receipt_rejected", call(sql)).await?;
        Ok(ReceiptFacts {
            stored,
            next,
            totals,
            rejected: rejected.into_iter().map(rejected_receipt).collect(),
        })
    }

    /// A page of the payloads under an ID: proven ones first, so that no number of strangers'
    /// payloads hides them.
    pub(super) async fn payloads(
        &self,
        of: &ReceiptsOf,
        receipt_id: Uuid,
        after: Option<&PayloadCursor>,
        payloads_max: usize,
    ) -> Result<(Vec<StoredReceipt>, Option<PayloadCursor>), WarehouseError> {
        if of.is_empty() {
            return Ok(Default::default());
        }
        let behind = after.map_or_else(String::new, |after| {
            let (unproven, position) = (u8::from(after.is_unproven), after.first_position);
            format!("AND (operator = '', first_position) > ({unproven}, toUInt128('{position}'))")
        });
        let sql = format!(
            "SELECT payload_hash AS hash, length({}) AS occurrences, arrayMin(positions) AS first_position,
                toUnixTimestamp64Milli(received_at) AS received_ms, toUnixTimestamp64Milli(timestamp) AS timestamp_ms,
                publisher, entry_id AS entry, CAST(client_id AS UUID) AS client, toString(purpose) AS purpose_text,
                toString(algorithm) AS algorithm_text,
                CAST(key_fingerprint AS FixedString(32)) AS fingerprint, {OPERATOR} AS operator,
                {VERIFIED} AS verified
             FROM receipts FINAL
             WHERE {} AND receipt_id = {{receipt_id:UUID}} {behind}
             ORDER BY operator = '', first_position LIMIT {} {FINAL_SETTINGS}",
            of.positions(),
            of.condition(),
            payloads_max + 1,
        );
        let call = of
            .bind(SqlStatement::new(sql))
            .with("receipt_id", receipt_id.to_string());
        let rows: Vec<StoredRow> = self.rows("receipt", call).await?;
        let mut page: Vec<StoredReceipt> = rows.into_iter().map(stored_receipt).collect();
        let has_more = page.len() > payloads_max;
        page.truncate(payloads_max);
        let next = page.last().filter(|_| has_more).map(|last| PayloadCursor {
            is_unproven: last.operator.is_empty(),
            first_position: last.first_position,
        });
        Ok((page, next))
    }

    async fn payload_totals(&self, of: &ReceiptsOf, receipt_id: Uuid) -> Result<PayloadTotals, WarehouseError> {
        let sql = format!(
            "SELECT uniqExact(payload_hash) AS payloads, sum(length({0})) AS occurrences,
                toUInt64(sum(greatest(length({0}), 1) - 1)) AS duplicates
             FROM receipts FINAL
             WHERE {1} AND receipt_id = {{receipt_id:UUID}} {FINAL_SETTINGS}",
            of.positions(),
            of.condition(),
        );
        let call = of
            .bind(SqlStatement::new(sql))
            .with("receipt_id", receipt_id.to_string());
        self.one("receipt_totals", call).await
    }
}

fn totals(stored: &[StoredReceipt]) -> PayloadTotals {
    let hashes: BTreeSet<&[u8; 32]> = stored.iter().map(|payload| &payload.payload_hash).collect();
    let occurrences = || stored.iter().map(|payload| payload.occurrences);
    PayloadTotals {
        payloads: hashes.len() as u64,
        occurrences: occurrences().sum(),
        duplicates: occurrences().map(|count| count.saturating_sub(1)).sum(),
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
    }
}
