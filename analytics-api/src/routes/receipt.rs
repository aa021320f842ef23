//! `GET /api/v1/receipts/{receiptId}`: what became of a receipt.
//!
//! An id that nothing is known of is 200 with status `unknown`, not 404: before `completeThrough`
//! passes the moment of its acknowledgement, the receipt may still be on its way. Another
//! publisher's receipt is `unknown` too, with no difference.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;
use warehouse::{
    PayloadCursor, ReceiptFacts, ReceiptRejection, ReceiptsOf, StoredReceipt, StreamPosition, UnlistedDay,
};

use crate::answers::{Refusals, UnlistedRejections};
use crate::cursor::ListCursor;
use crate::format::reply::{Complete, Reply};
use crate::parameters::{DOMAIN, KEY, PAYLOAD_CURSOR, Query};
use crate::selection::key_fingerprint;
use crate::sender::Caller;
use crate::signers::{Signer, Signers};
use crate::state::AnalyticsState;
use crate::waiting::PREFERENCE_APPLIED;
use web::params::{InvalidQuery, Params, parse_uuid};
use web::{Failure, rfc3339_ms};

pub(crate) const PATH: &str = "/api/v1/receipts/{receiptId}";
pub(crate) const PARAMETERS: &[&[Query]] = &[&[DOMAIN, KEY, PAYLOAD_CURSOR]];

/// The status of a receipt that isn't in the tables.
const UNKNOWN: &str = "unknown";

/// The answer. The single members are those of the page's first payload, or of the first refusal if
/// no payload is valid; counts and `conflict` are over all payloads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptStatus {
    #[schema(format = "uuid")]
    receipt_id: String,
    /// `verified`, `rejected` or `unknown`.
    #[schema(pattern = "^(verified|rejected|unknown)$")]
    status: &'static str,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Valid occurrences in the log: the first of each payload and its duplicates. For a sender
    /// only those that a signature of the request or batch binds to its key.
    occurrences: u64,
    duplicates: u64,
    /// Whether two different payloads carry this id.
    conflict: bool,
    #[schema(required = true)]
    payload_hash: Option<String>,
    #[schema(format = DateTime, required = true)]
    timestamp: Option<String>,
    #[schema(format = DateTime, required = true)]
    received_at: Option<String>,
    /// At most 100 payloads: proven ones first, each in order of arrival.
    receipts: Vec<Payload>,
    /// Begin of the next page of `receipts`; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
    rejections: Vec<Rejection>,
    /// Days of which rejected receipts are only counted, without bytes and IDs. An `unknown`
    /// receipt may be one of them; only there then.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unlisted_rejections: Vec<UnlistedRejections>,
}

/// A payload that is stored under the ID.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Payload {
    payload_hash: String,
    occurrences: u64,
    #[schema(format = DateTime)]
    timestamp: String,
    #[schema(format = DateTime)]
    received_at: String,
    publisher: String,
    entry_id: String,
    client_id: String,
    purpose: String,
    signature_algorithm: String,
    #[serde(flatten)]
    signer: Signer,
    /// Whether the receipt arrived before anybody had verified the publisher's domain. Totals
    /// exclude such receipts.
    before_verification: bool,
}

impl Payload {
    fn new(stored: StoredReceipt, signers: &Signers<'_>) -> Self {
        Self {
            payload_hash: sha256(&stored.payload_hash),
            occurrences: stored.occurrences,
            timestamp: rfc3339_ms(stored.timestamp_ms),
            received_at: rfc3339_ms(stored.received_at_ms),
            publisher: stored.publisher,
            entry_id: stored.entry_id.to_string(),
            client_id: stored.client_id.to_string(),
            purpose: stored.purpose,
            signature_algorithm: stored.algorithm,
            signer: signers.signer(stored.client_id, &stored.key_fingerprint, stored.operator),
            before_verification: !stored.publisher_verified,
        }
    }
}

/// A rejection of something that carries the ID.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Rejection {
    reason: String,
    detail: String,
    #[schema(format = DateTime)]
    received_at: String,
}

impl From<ReceiptRejection> for Rejection {
    fn from(rejected: ReceiptRejection) -> Self {
        let received_at = rfc3339_ms(rejected.received_at_ms);
        Self {
            reason: rejected.reason,
            detail: rejected.detail,
            received_at,
        }
    }
}

impl ReceiptStatus {
    fn new(receipt_id: Uuid, facts: ReceiptFacts, unlisted: Vec<UnlistedDay>, signers: &Signers<'_>) -> Self {
        let (totals, next_cursor) = (facts.totals, facts.next.map(|next| next.to_text()));
        let is_verified = totals.payloads > 0;
        let stored = facts.stored.into_iter();
        let receipts: Vec<Payload> = stored.map(|one| Payload::new(one, signers)).collect();
        let rejections: Vec<Rejection> = facts.rejected.into_iter().map(Rejection::from).collect();
        let first = receipts.first();
        // One valid occurrence decides: a tampered copy sent by someone else takes nothing from it.
        let refusal = if is_verified { None } else { rejections.first() };
        let status = match refusal {
            _ if is_verified => "verified",
            Some(_) => "rejected",
            None => UNKNOWN,
        };
        Self {
            receipt_id: receipt_id.to_string(),
            status,
            reason: refusal.map(|r| r.reason.clone()),
            detail: refusal.map(|r| r.detail.clone()),
            occurrences: totals.occurrences,
            duplicates: totals.duplicates,
            conflict: totals.conflict(),
            payload_hash: first.map(|p| p.payload_hash.clone()),
            timestamp: first.map(|p| p.timestamp.clone()),
            received_at: first
                .map(|p| p.received_at.clone())
                .or_else(|| refusal.map(|r| r.received_at.clone())),
            receipts,
            next_cursor,
            rejections,
            unlisted_rejections: unlisted.into_iter().map(UnlistedRejections::from).collect(),
        }
    }
}

/// Get the state of a receipt
///
/// An id that nothing is known of is `unknown`, and so is another publisher's: until
/// `completeThrough` passes the moment of its acknowledgement, a receipt may still be on its way.
/// `Prefer: wait=N` (RFC 7240) waits up to N seconds, 30 at most, until more is known. A sender who
/// signs the request with the key of its receipts sees those of the key, whatever publisher they
/// name. Where many payloads carry the ID, proven ones come first.
#[utoipa::path(
    get, path = PATH, tag = "receipts", security(("apiKey" = []), ("messageSignature" = [])),
    params(
        ("receiptId" = String, Path, format = "uuid", description = "The receipt"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds for the outcome"),
    ),
    responses((status = 200, description = "What is known", body = Complete<ReceiptStatus>), Refusals),
)]
pub(crate) async fn receipt(
    State(app): State<Arc<AnalyticsState>>,
    caller: Caller,
    Path(receipt_id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Failure> {
    let mut wait = app.waiting.begin(&caller.waiting_path(), &headers);
    let reply = Reply::json(headers)?;
    let receipt_id = parse_uuid("receiptId", &receipt_id)?;
    let after = PayloadCursor::read(&params)?;
    let of = match &caller {
        Caller::Publisher(access) => ReceiptsOf::Publisher(access.scope(&params)?, key_fingerprint(&params)?),
        Caller::Sender(sender) => {
            let narrowed = ["domain", "keyFingerprint"]
                .into_iter()
                .find(|name| params.get(name).is_some());
            if let Some(name) = narrowed {
                return Err(InvalidQuery::new(name, "is for API keys; a signature selects the key's receipts").into());
            }
            ReceiptsOf::Key(sender.key_fingerprint)
        }
    };
    let (status, completeness) = loop {
        let (completeness, (before, facts, unlisted)) = app
            .ask_within(&caller.query_path(), async |snapshot| {
                let before = StreamPosition::new(&snapshot.reading.shards);
                let facts = app.warehouse().receipt(&of, receipt_id, after.as_ref()).await?;
                let unlisted = if facts.is_unknown() {
                    app.warehouse().unlisted_rejections(&of).await?
                } else {
                    Vec::new()
                };
                Ok((before, facts, unlisted))
            })
            .await?;
        let rows = facts.stored.iter().map(|one| (one.client_id, one.operator.as_str()));
        let signers = Signers::of(&app, caller.trusted(), rows).await;
        let status = ReceiptStatus::new(receipt_id, facts, unlisted, &signers);
        if let Caller::Sender(sender) = &caller
            && status.status != UNKNOWN
        {
            app.cached_senders.learn(sender.key_fingerprint);
        }
        if status.status == UNKNOWN
            && let Some(wait) = &mut wait
            && wait.for_progress(&app.watermark, &before).await
        {
            continue;
        }
        break (status, completeness);
    };
    let mut response = reply.object(status, completeness);
    if let Some(applied) = wait.and_then(|wait| wait.applied()) {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// `sha256:<hex>`, as receipts write their content hash.
pub(super) fn sha256(hash: &[u8; 32]) -> String {
    format!("sha256:{}", hex::encode(hash))
}
