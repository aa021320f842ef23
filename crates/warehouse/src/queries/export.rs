//! All receipts of a scope, page by page in the order in which the table is sorted, so that each
//! page costs what it holds.
//!
//! The order is of what never changes about a receipt: whatever is written meanwhile, each one that
//! stood there when the first page was requested is in exactly one of them.

use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, QueryScope, TIME_MS_MAX, TIME_MS_MIN};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// A cursor between two receipts: that of the last one seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptCursor {
    /// Host of `content.url`, in lower case.
    pub publisher: String,
    /// `timestamp`, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
}

/// A receipt with all that is stored of it. An empty string is an absent one, or one that an
/// erasure has blanked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedReceipt {
    /// Key by which it is found.
    pub key: ReceiptCursor,
    /// At how many positions of the log it stands.
    pub occurrences: u64,
    /// When the gateway first took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// `content.url`.
    pub url: String,
    /// `content.contentHash`, decoded.
    pub content_hash: [u8; 32],
    /// `client.id`; nil if it was erased.
    pub client_id: Uuid,
    /// `client.name`.
    pub client_name: String,
    /// `client.version`.
    pub client_version: String,
    /// `client.organization`.
    pub organization: String,
    /// SHA-256 of the client's SPKI; zeros if it was erased.
    pub key_fingerprint: [u8; 32],
    /// Domain of the operator whose key it was on arrival; empty if the receipt is unproven.
    pub operator: String,
    /// Whether somebody had verified the publisher's domain when the receipt arrived.
    pub publisher_verified: bool,
    /// `signatureAlgorithm`.
    pub algorithm: String,
    /// `usage.purpose`.
    pub purpose: String,
    /// `usage.context`.
    pub context: String,
    /// `usage.datasetId`.
    pub dataset_id: String,
    /// `usage.modelId`.
    pub model_id: String,
    /// `usage.queryId`.
    pub query_id: String,
    /// `usage.sessionId`.
    pub session_id: String,
    /// `usage.studyId`.
    pub study_id: String,
    /// `usage.researcherId`.
    pub researcher_id: String,
}

#[derive(Row, Deserialize)]
struct KeyRow {
    name: String,
    timestamp_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt: Uuid,
    hash: [u8; 32],
}

#[derive(Row, Deserialize)]
pub(super) struct ReceiptRow {
    name: String,
    timestamp_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt: Uuid,
    hash: [u8; 32],
    occurrences: u64,
    pub(super) received_ms: i64,
    url_text: String,
    content: [u8; 32],
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    client_name_text: String,
    client_version_text: String,
    organization_text: String,
    algorithm_text: String,
    purpose_text: String,
    context_text: String,
    dataset_id_text: String,
    model_id_text: String,
    query_id_text: String,
    session_id_text: String,
    study_id_text: String,
    researcher_id_text: String,
    operator_text: String,
    fingerprint: [u8; 32],
    verified: bool,
}

pub(super) const KEY: &str = "publisher AS name, toUnixTimestamp64Milli(timestamp) AS timestamp_ms, entry_id AS entry,
    receipt_id AS receipt, payload_hash AS hash";
/// Columns that [`ReceiptRow`] has beside the key.
pub(super) const REST: &str = "length(positions) AS occurrences, toUnixTimestamp64Milli(received_at) AS received_ms,
    toString(url) AS url_text, CAST(content_hash AS FixedString(32)) AS content, CAST(client_id AS UUID) AS client,
    toString(client_name) AS client_name_text, toString(client_version) AS client_version_text,
    toString(organization) AS organization_text, toString(algorithm) AS algorithm_text,
    toString(purpose) AS purpose_text, toString(context) AS context_text,
    toString(dataset_id) AS dataset_id_text, toString(model_id) AS model_id_text,
    toString(query_id) AS query_id_text, toString(session_id) AS session_id_text,
    toString(study_id) AS study_id_text, toString(researcher_id) AS researcher_id_text,
    tupleElement(stamp, 2) AS operator_text,
    CAST(key_fingerprint AS FixedString(32)) AS fingerprint, tupleElement(stamp, 3) AS verified";
const ORDER: &str =
    "ORDER BY reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp";

/// Rows before or behind a cursor; spelled out, so that the primary key cuts it.
fn beside(cursor: &str, than: &str, last: &str) -> String {
    let time = format!("fromUnixTimestamp64Milli({{{cursor}_ms:Int64}}, 'UTC')");
    let parts = [
        ("reverse(publisher)", format!("reverse({{{cursor}_publisher:String}})")),
        ("toStartOfHour(timestamp)", format!("toStartOfHour({time})")),
        ("entry_id", format!("{{{cursor}_entry:UUID}}")),
        ("receipt_id", format!("{{{cursor}_receipt:UUID}}")),
        (
            "payload_hash",
            format!("toFixedString(unhex({{{cursor}_hash:String}}), 32)"),
        ),
        ("timestamp", time),
    ];
    let mut parts = parts.iter().rev();
    let last = parts.next().map(|(column, value)| format!("{column} {last} {value}"));
    parts.fold(last.unwrap_or_default(), |rest, (column, value)| {
        format!("({column} {than} {value} OR {column} = {value} AND {rest})")
    })
}

fn with_cursor(call: SqlStatement, names: [&'static str; 5], cursor: &ReceiptCursor) -> SqlStatement {
    let [publisher, ms, entry, receipt, hash] = names;
    call.with(publisher, cursor.publisher.clone())
        .with(ms, cursor.timestamp_ms)
        .with(entry, cursor.entry_id.to_string())
        .with(receipt, cursor.receipt_id.to_string())
        .with(hash, hex::encode(cursor.payload_hash))
}

const AFTER: [&str; 5] = [
    "after_publisher",
    "after_ms",
    "after_entry",
    "after_receipt",
    "after_hash",
];
const UPTO: [&str; 5] = ["upto_publisher", "upto_ms", "upto_entry", "upto_receipt", "upto_hash"];

impl Warehouse {
    /// At most `rows_max` receipts of these timestamps, in milliseconds since the Unix epoch, that
    /// come after `after`, or the first ones; that there are fewer doesn't mean that they are the
    /// last, that there are none does.
    pub async fn export_receipts(
        &self,
        scope: &QueryScope,
        times: &Range<i64>,
        after: Option<&ReceiptCursor>,
        rows_max: u64,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        if scope.is_empty() {
            return Ok(Vec::new());
        }
        let mut condition = format!(
            "{}
            AND timestamp >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
            AND timestamp < fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')",
            scope.condition()
        );
        if after.is_some() {
            condition = format!("{condition} AND {}", beside("after", ">", ">"));
        }
        let bound = |call: SqlStatement| {
            let call = scope
                .bind(call)
                .with("from_ms", times.start.clamp(TIME_MS_MIN, TIME_MS_MAX))
                .with("to_ms", times.end.clamp(TIME_MS_MIN, TIME_MS_MAX));
            match after {
                Some(after) => with_cursor(call, AFTER, after),
                None => call,
            }
        };
        // Stored rows are read in order and merge into at most as many receipts: where the page
        // ends is found without reading on.
        let sql = format!(
            "SELECT {KEY} FROM receipts WHERE {condition} {ORDER} LIMIT 1 OFFSET {{rows:UInt64}}
             SETTINGS optimize_read_in_order = 1"
        );
        let call = bound(SqlStatement::new(sql)).with("rows", rows_max.max(1) - 1);
        let last: Option<KeyRow> = self.rows("export_bound", call).await?.into_iter().next();
        let mut upto = String::new();
        if last.is_some() {
            upto = format!(" AND {}", beside("upto", "<", "<="));
        }
        let sql = format!(
            "SELECT {KEY}, {REST}
             FROM receipts FINAL WHERE {condition}{upto} {ORDER} {FINAL_SETTINGS}"
        );
        let mut call = bound(SqlStatement::new(sql));
        if let Some(last) = last {
            call = with_cursor(call, UPTO, &last.into());
        }
        let rows: Vec<ReceiptRow> = self.rows("export", call).await?;
        Ok(rows.into_iter().map(ExportedReceipt::from).collect())
    }
}

impl From<KeyRow> for ReceiptCursor {
    fn from(row: KeyRow) -> Self {
        Self {
            publisher: row.name,
            timestamp_ms: row.timestamp_ms,
            entry_id: row.entry,
            receipt_id: row.receipt,
            payload_hash: row.hash,
        }
    }
}

impl From<ReceiptRow> for ExportedReceipt {
    fn from(row: ReceiptRow) -> Self {
        Self {
            key: ReceiptCursor {
                publisher: row.name,
                timestamp_ms: row.timestamp_ms,
                entry_id: row.entry,
                receipt_id: row.receipt,
                payload_hash: row.hash,
            },
            occurrences: row.occurrences,
            received_at_ms: row.received_ms,
            url: row.url_text,
            content_hash: row.content,
            client_id: row.client,
            client_name: row.client_name_text,
            client_version: row.client_version_text,
            organization: row.organization_text,
            algorithm: row.algorithm_text,
            purpose: row.purpose_text,
            context: row.context_text,
            dataset_id: row.dataset_id_text,
            model_id: row.model_id_text,
            query_id: row.query_id_text,
            session_id: row.session_id_text,
            study_id: row.study_id_text,
            researcher_id: row.researcher_id_text,
            operator: row.operator_text,
            key_fingerprint: row.fingerprint,
            publisher_verified: row.verified,
        }
    }
}
