//! Everything that is stored of a publisher, page by page, in an order that never changes.
//!
//! An export goes through the collections one after the other: those of the account store, then
//! receipts and refusals of its verified domains from the warehouse. Each is in an order of what
//! never changes about a row, so the cursor behind a page is all that is needed to continue, in
//! whatever process: nothing is retained between requests, and what stood there when a collection
//! was begun is in exactly one page, whatever is written meanwhile. One page is in memory at a
//! time.

pub(crate) mod cursor;
pub(crate) mod form;
pub(crate) mod stream;

use std::sync::Arc;

use accounts::{COLLECTIONS, ExportValue, ExportedRow, Principal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use warehouse::{ExportLimits, ExportedReceipt, Filter, Rejected, RejectedFilter, RejectedOrder, StoredEvidence};
use web::{Failure, rfc3339_ms};

use crate::Deps;
use crate::erasing::scope;
use cursor::{ExportCursor, StoreCursor};

/// Page of receipts. Each page costs three queries, whatever its rows: with half as many rows, a
/// receipt takes half as long again.
const RECEIPT_LIMITS: ExportLimits = ExportLimits {
    rows_max: 2_000,
    ..ExportLimits::DEFAULT
};
/// Refusals in one page.
const REFUSALS_MAX: u64 = 200;
/// Rows of another collection in one page.
const ROWS_MAX: i64 = 500;

/// Receipts, in the warehouse.
pub(crate) const RECEIPTS: &str = "receipts";
/// Rejected receipts that name a domain of the publisher's, without their bytes: those are whoever
/// sent them's word.
pub(crate) const REFUSALS: &str = "refusals";

/// A receipt and its evidence.
type ReceiptWithEvidence = (ExportedReceipt, StoredEvidence);

/// Name of a column, and its value in a row.
type ExportColumn<T> = (&'static str, fn(&T) -> Value);

/// Columns of receipts, each with its value. An empty text is an absent one, and bytes of evidence
/// are in base64.
const RECEIPT_COLUMNS: [ExportColumn<ReceiptWithEvidence>; 28] = [
    ("receiptId", |(receipt, _)| json!(receipt.key.receipt_id)),
    ("publisher", |(receipt, _)| json!(receipt.key.publisher)),
    ("timestamp", |(receipt, _)| json!(rfc3339_ms(receipt.key.timestamp_ms))),
    ("entryId", |(receipt, _)| json!(receipt.key.entry_id)),
    ("payloadHash", |(receipt, _)| {
        json!(hex::encode(receipt.key.payload_hash))
    }),
    ("occurrences", |(receipt, _)| json!(receipt.occurrences)),
    ("receivedAt", |(receipt, _)| json!(rfc3339_ms(receipt.received_at_ms))),
    ("url", |(receipt, _)| stated(&receipt.url)),
    ("contentHash", |(receipt, _)| {
        json!(format!("sha256:{}", hex::encode(receipt.content_hash)))
    }),
    ("clientId", |(receipt, _)| json!(receipt.client_id)),
    ("clientName", |(receipt, _)| stated(&receipt.client_name)),
    ("clientVersion", |(receipt, _)| stated(&receipt.client_version)),
    ("organization", |(receipt, _)| stated(&receipt.organization)),
    ("keyFingerprint", |(receipt, _)| {
        json!(hex::encode(receipt.key_fingerprint))
    }),
    ("operator", |(receipt, _)| stated(&receipt.operator)),
    ("beforeVerification", |(receipt, _)| json!(!receipt.publisher_verified)),
    ("signatureAlgorithm", |(receipt, _)| stated(&receipt.algorithm)),
    ("purpose", |(receipt, _)| stated(&receipt.purpose)),
    ("context", |(receipt, _)| stated(&receipt.context)),
    ("datasetId", |(receipt, _)| stated(&receipt.dataset_id)),
    ("modelId", |(receipt, _)| stated(&receipt.model_id)),
    ("queryId", |(receipt, _)| stated(&receipt.query_id)),
    ("sessionId", |(receipt, _)| stated(&receipt.session_id)),
    ("studyId", |(receipt, _)| stated(&receipt.study_id)),
    ("researcherId", |(receipt, _)| stated(&receipt.researcher_id)),
    ("receivedBytes", |(_, evidence)| {
        stated(&STANDARD.encode(&evidence.received))
    }),
    ("batchPayloadHash", |(_, evidence)| {
        json!(evidence.batch.as_ref().map(|batch| hex::encode(batch.payload_hash)))
    }),
    ("batchSignature", |(_, evidence)| {
        let signature = evidence
            .batch
            .as_ref()
            .and_then(|batch| hex::decode(&batch.signature_hex).ok());
        json!(signature.map(|signature| STANDARD.encode(signature)))
    }),
];
/// Columns of refusals, each with its value.
const REFUSAL_COLUMNS: [ExportColumn<Rejected>; 9] = [
    ("position", |refusal| json!(refusal.position.to_string())),
    ("publisher", |refusal| json!(refusal.publisher)),
    ("receivedAt", |refusal| json!(rfc3339_ms(refusal.received_at_ms))),
    ("reason", |refusal| json!(refusal.reason)),
    ("detail", |refusal| json!(refusal.detail)),
    ("receiptId", |refusal| json!(refusal.receipt_id)),
    ("clientId", |refusal| json!(refusal.client_id)),
    ("entryId", |refusal| json!(refusal.entry_id)),
    ("payloadHash", |refusal| json!(refusal.payload_hash.map(hex::encode))),
];

/// A text of a receipt, unless it is absent.
fn stated(text: &str) -> Value {
    json!(Some(text).filter(|text| !text.is_empty()))
}

fn row<T>(columns: &[ExportColumn<T>], of: &T) -> Vec<Value> {
    columns.iter().map(|(_, value)| value(of)).collect()
}

/// The names of all collections, in their order.
pub(crate) fn names() -> Vec<&'static str> {
    let stored = COLLECTIONS.iter().map(|collection| collection.name);
    stored.chain([RECEIPTS, REFUSALS]).collect()
}

/// The columns of the collection of this number.
pub(crate) fn columns(collection: usize) -> Vec<&'static str> {
    match COLLECTIONS.get(collection) {
        Some(stored) => stored.columns.iter().map(|column| column.name).collect(),
        None if collection == COLLECTIONS.len() => RECEIPT_COLUMNS.map(|(name, _)| name).to_vec(),
        None => REFUSAL_COLUMNS.map(|(name, _)| name).to_vec(),
    }
}

/// A part of a collection.
#[derive(Debug)]
pub(crate) struct Page {
    /// Index of the collection.
    pub(crate) collection: usize,
    /// Each with a value for every column.
    pub(crate) rows: Vec<Vec<Value>>,
    /// The cursor behind it.
    pub(crate) next: ExportCursor,
}

/// Account of an export, and the part of it.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) deps: Deps,
    pub(crate) principal: Arc<Principal>,
    /// Only this collection.
    pub(crate) only: Option<usize>,
    /// Only these receipts, and refusals that arrived in its range.
    pub(crate) filter: Filter,
}

impl Walk {
    /// Begin of an export.
    pub(crate) fn begin(&self) -> ExportCursor {
        ExportCursor::begin(self.only.unwrap_or(0))
    }

    /// The next page with rows from `cursor` on; none at the end.
    ///
    /// # Errors
    /// An engine doesn't answer.
    pub(crate) async fn next(&self, mut cursor: ExportCursor) -> Result<Option<Page>, Failure> {
        let end = self.only.map_or_else(|| names().len(), |only| only + 1);
        while cursor.collection < end {
            let (rows, after) = self.rows(&cursor).await?;
            if let Some(after) = after {
                let collection = cursor.collection;
                return Ok(Some(Page {
                    collection,
                    rows,
                    next: ExportCursor { collection, after },
                }));
            }
            cursor = ExportCursor::begin(cursor.collection + 1);
        }
        Ok(None)
    }

    /// The rows behind a cursor, and the cursor behind them if there are any.
    async fn rows(&self, cursor: &ExportCursor) -> Result<(Vec<Vec<Value>>, Option<StoreCursor>), Failure> {
        match COLLECTIONS.get(cursor.collection) {
            Some(stored) => {
                let after = match &cursor.after {
                    StoreCursor::Row(after) => Some(after),
                    _ => None,
                };
                let accounts = &self.deps.accounts;
                let page = accounts.collection_page(&self.principal.account_id, stored, after, ROWS_MAX);
                let page = page.await?;
                let after = page.last().map(|row| StoreCursor::Row(row.cursor.clone()));
                let rows = page.into_iter().map(|row| row.cells.into_iter().map(value).collect());
                Ok((rows.collect(), after))
            }
            None if cursor.collection == COLLECTIONS.len() => self.receipts(cursor).await,
            None => self.refusals(cursor).await,
        }
    }

    async fn receipts(&self, cursor: &ExportCursor) -> Result<(Vec<Vec<Value>>, Option<StoreCursor>), Failure> {
        let after = match &cursor.after {
            StoreCursor::Receipt(after) => Some(after),
            _ => None,
        };
        let scope = scope(&self.principal.coverage());
        let mut after = after.cloned();
        loop {
            let warehouse = &self.deps.warehouse;
            let page = warehouse.export_page(&scope, &self.filter, after.as_ref(), RECEIPT_LIMITS);
            let Some(page) = page.await? else {
                return Ok((Vec::new(), None));
            };
            if !page.receipts.is_empty() {
                let rows = page.receipts.iter().map(|receipt| row(&RECEIPT_COLUMNS, receipt));
                return Ok((rows.collect(), Some(StoreCursor::Receipt(page.end))));
            }
            after = Some(page.end);
        }
    }

    async fn refusals(&self, cursor: &ExportCursor) -> Result<(Vec<Vec<Value>>, Option<StoreCursor>), Failure> {
        let after = match &cursor.after {
            StoreCursor::Refusal(after) => Some(after),
            _ => None,
        };
        let scope = scope(&self.principal.coverage());
        if scope.is_empty() {
            // No names would be all names there.
            return Ok((Vec::new(), None));
        }
        let filter = RejectedFilter {
            publishers: scope.publishers,
            below: scope.below,
            from_ms: Some(self.filter.from_ms),
            to_ms: Some(self.filter.to_ms),
            ..RejectedFilter::default()
        };
        let warehouse = &self.deps.warehouse;
        let keys = warehouse
            .rejected_keys(&filter, RejectedOrder::Stored, after, REFUSALS_MAX)
            .await?;
        let after = keys.last().map(|key| StoreCursor::Refusal(key.clone()));
        let rows = warehouse.rejected(&keys).await?;
        Ok((
            rows.iter().map(|refusal| row(&REFUSAL_COLUMNS, refusal)).collect(),
            after,
        ))
    }
}

/// A row with its columns' names.
pub(crate) fn object(collection: usize, row: Vec<Value>) -> Map<String, Value> {
    columns(collection).into_iter().map(str::to_owned).zip(row).collect()
}

/// A row of the account store with its columns' names.
pub(crate) fn row_object(collection: usize, row: ExportedRow) -> Map<String, Value> {
    object(collection, row.cells.into_iter().map(value).collect())
}

fn value(cell: ExportValue) -> Value {
    match cell {
        ExportValue::Absent => Value::Null,
        ExportValue::Text(text) => text.into(),
        ExportValue::Instant(at_ms) => rfc3339_ms(at_ms).into(),
        ExportValue::Number(number) => number.into(),
        ExportValue::Flag(flag) => flag.into(),
        ExportValue::List(texts) => texts.into(),
    }
}
