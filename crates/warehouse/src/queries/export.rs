//! All receipts of a scope with their evidence, page by page in the order in which both tables are
//! sorted, so that each page costs what it holds.
//!
//! The order is of what never changes about a receipt: whatever is written meanwhile, each one that
//! stood there when the first page was requested is in exactly one of them.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::evidence::{ARRIVAL, EvidenceRow};
use super::receipt_key::{KEY, ReceiptCursor};
use super::{BeforeVerification, FINAL_SETTINGS, Filter, QueryScope, StoredEvidence, receipts_condition, scoped};
use crate::{SqlStatement, Warehouse, WarehouseError};

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

/// Largest page of an export.
#[derive(Debug, Clone, Copy)]
pub struct ExportLimits {
    /// Receipts.
    pub rows_max: u32,
    /// Bytes of the receipts' texts, and of their evidence. The receipt that exceeds them is the
    /// page's last one.
    pub bytes_max: u64,
}

impl ExportLimits {
    /// Limits of every export: a page has some MiB, and formatting it takes some 20 ms.
    pub const DEFAULT: Self = Self {
        rows_max: 1_000,
        bytes_max: 4 << 20,
    };
}

/// A page of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPage {
    /// Each with its evidence, which has empty bytes if none is stored. A page may have no
    /// receipts although there are more behind it.
    pub receipts: Vec<(ExportedReceipt, StoredEvidence)>,
    /// Position at which the next page begins.
    pub end: ReceiptCursor,
}

#[derive(Row, Deserialize)]
struct SizeRow {
    name: String,
    timestamp_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt: Uuid,
    hash: [u8; 32],
    bytes: u64,
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
/// Bytes of a row's texts of any length.
const BYTES: &str = "length(url) + length(client_name) + length(client_version) + length(organization)
    + length(context) + length(dataset_id) + length(model_id) + length(query_id) + length(session_id)
    + length(study_id) + length(researcher_id) AS bytes";
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

/// A range of the order of both tables: behind one receipt, up to another.
#[derive(Clone, Copy)]
struct KeyRange<'a> {
    after: Option<&'a ReceiptCursor>,
    upto: Option<&'a ReceiptCursor>,
}

impl KeyRange<'_> {
    fn condition(self) -> String {
        let after = self.after.map(|_| format!(" AND {}", beside("after", ">", ">")));
        let upto = self.upto.map(|_| format!(" AND {}", beside("upto", "<", "<=")));
        after.into_iter().chain(upto).collect()
    }

    fn bind(self, call: SqlStatement) -> SqlStatement {
        let ends = [(AFTER, self.after), (UPTO, self.upto)];
        ends.into_iter().fold(call, |call, (names, cursor)| match cursor {
            Some(cursor) => with_cursor(call, names, cursor),
            None => call,
        })
    }
}

impl Warehouse {
    /// The page of receipts behind `after`, or the first one; `None` if there are no more.
    pub async fn export_page(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        after: Option<&ReceiptCursor>,
        limits: ExportLimits,
    ) -> Result<Option<ExportPage>, WarehouseError> {
        if scope.is_empty() || limits.rows_max == 0 {
            return Ok(None);
        }
        let last = self.export_bound(scope, filter, after, limits).await?;
        let range = KeyRange {
            after,
            upto: last.as_ref(),
        };
        let evidence = self.export_evidence(scope, filter, range, limits.bytes_max).await?;
        let bytes: u64 = evidence.iter().map(|row| row.received.len() as u64).sum();
        let full = evidence.last().filter(|_| bytes >= limits.bytes_max);
        let last = full.map(EvidenceRow::key).or(last);
        let range = KeyRange {
            after,
            upto: last.as_ref(),
        };
        let receipts = self.export_receipts(scope, filter, range).await?;
        let end = last.or_else(|| receipts.last().map(|receipt| receipt.key.clone()));
        let evidence = evidence.into_iter().map(|row| (row.key(), row.into()));
        let mut evidence: HashMap<ReceiptCursor, StoredEvidence> = evidence.collect();
        let receipts = receipts.into_iter().map(|receipt| {
            let evidence = evidence.remove(&receipt.key).unwrap_or_default();
            (receipt, evidence)
        });
        Ok(end.map(|end| ExportPage {
            receipts: receipts.collect(),
            end,
        }))
    }

    /// The stored row with which a page is full; `None` if there are fewer rows. They are read in
    /// order and merge into at most as many receipts, so nothing behind the page is read.
    async fn export_bound(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        after: Option<&ReceiptCursor>,
        limits: ExportLimits,
    ) -> Result<Option<ReceiptCursor>, WarehouseError> {
        let range = KeyRange { after, upto: None };
        let sql = format!(
            "SELECT {KEY}, {BYTES} FROM receipts WHERE {}{} {ORDER} LIMIT {{rows:UInt32}}
             SETTINGS optimize_read_in_order = 1",
            receipts_condition(scope, filter),
            range.condition(),
        );
        let call = range.bind(scoped(sql, scope, filter)).with("rows", limits.rows_max);
        let rows: Vec<SizeRow> = self.rows("export_bound", call).await?;
        let (mut left, mut bytes) = (limits.rows_max, 0);
        let full = rows.into_iter().find(|row| {
            left -= 1;
            bytes += row.bytes;
            left == 0 || bytes >= limits.bytes_max
        });
        Ok(full.map(ReceiptCursor::from))
    }

    /// Evidence of a range, up to the row with which it has `bytes_max` bytes.
    async fn export_evidence(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        range: KeyRange<'_>,
        bytes_max: u64,
    ) -> Result<Vec<EvidenceRow>, WarehouseError> {
        let times = Filter {
            from_ms: filter.from_ms,
            to_ms: filter.to_ms,
            before_verification: BeforeVerification::Include,
            ..Filter::default()
        };
        let sql = format!(
            "SELECT * EXCEPT (rows_before, bytes_before)
             FROM (SELECT {KEY}, {ARRIVAL}, count() OVER preceding AS rows_before,
                    sum(length(received)) OVER preceding AS bytes_before
                FROM evidence FINAL WHERE {}{}
                WINDOW preceding AS ({ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
             WHERE bytes_before < {{bytes_max:UInt64}} ORDER BY rows_before {FINAL_SETTINGS}",
            receipts_condition(scope, &times),
            range.condition(),
        );
        let call = range.bind(scoped(sql, scope, &times)).with("bytes_max", bytes_max);
        self.rows("export_evidence", call).await
    }

    async fn export_receipts(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        range: KeyRange<'_>,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        let sql = format!(
            "SELECT {KEY}, {REST} FROM receipts FINAL WHERE {}{} {ORDER} {FINAL_SETTINGS}",
            receipts_condition(scope, filter),
            range.condition(),
        );
        let call = range.bind(scoped(sql, scope, filter));
        let rows: Vec<ReceiptRow> = self.rows("export", call).await?;
        Ok(rows.into_iter().map(ExportedReceipt::from).collect())
    }
}

impl From<SizeRow> for ReceiptCursor {
    fn from(row: SizeRow) -> Self {
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
