//! `GET /api/v1/client/outcomes`: a sender's receipts that aren't simply counted.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use utoipa::ToSchema;
use warehouse::{ReceiptsOf, SenderOccurrence, SenderOutcome};

use crate::answers::{Refusals, UnlistedRejections};
use crate::completeness::Completeness;
use crate::hints::hint;
use crate::log_cursor::{self, LogCursor};
use crate::parameters::{AFTER, OUTCOMES_LIMIT, OUTCOMES_MAX, Query};
use crate::sender::ProvenSender;
use crate::state::AnalyticsState;
use web::format::Format;
use web::params::Params;
use web::{Failure, rfc3339_ms};

pub(crate) const PATH: &str = "/api/v1/client/outcomes";
pub(crate) const PARAMETERS: &[&[Query]] = &[&[AFTER, OUTCOMES_LIMIT]];

/// Outcomes of a page without `limit`.
const PAGE: u32 = 100;

/// A line: one occurrence of a receipt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutcomeLine {
    /// `rejected`, `duplicate`, `conflict`, or `unattributed`: accepted, and its URL's host
    /// belonged to no verified domain.
    #[schema(pattern = "^(rejected|duplicate|conflict|unattributed)$")]
    outcome: &'static str,
    /// Null where it couldn't be read.
    #[schema(format = "uuid", required = true)]
    receipt_id: Option<String>,
    log_position: LogPosition,
    /// Why it was rejected: a stable name.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Finding in detail.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Advice: what to change.
    hint: &'static str,
    /// Receipts that the line counts, if it was rejected; several only where more were rejected
    /// than are stored of a day: see `unlistedRejections`.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    receipts: Option<u32>,
    /// When the gateway took it, if it was rejected.
    #[schema(format = DateTime, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    received_at: Option<String>,
    /// The request's ID, if it was rejected.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Continues behind this line.
    cursor: String,
}

/// Position of a receipt in the log `receipts`; that of its acknowledgement, and the index in the
/// batch.
#[derive(Debug, Serialize, ToSchema)]
struct LogPosition {
    epoch: u32,
    partition: u32,
    offset: u64,
    index: u16,
}

/// The last line.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndLine {
    /// Continues behind this page.
    cursor: String,
    /// Whether there may be more now.
    more: bool,
    /// Whether outcomes behind `after` are left out, because they are too old.
    truncated: bool,
    /// Days of which rejected receipts are only counted, without bytes and IDs. Only there if there
    /// are any.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unlisted_rejections: Vec<UnlistedRejections>,
    #[serde(flatten)]
    completeness: Completeness,
}

impl OutcomeLine {
    fn new(one: SenderOccurrence, cursor: &LogCursor) -> Self {
        let (epoch, partition, offset, index) = log_cursor::parts(one.position);
        let outcome = match one.outcome {
            SenderOutcome::Rejected { .. } => "rejected",
            SenderOutcome::Duplicate => "duplicate",
            SenderOutcome::Conflict => "conflict",
            SenderOutcome::Unattributed => "unattributed",
        };
        let mut line = Self {
            outcome,
            receipt_id: one.receipt_id.map(|id| id.to_string()),
            log_position: LogPosition {
                epoch,
                partition,
                offset,
                index,
            },
            reason: None,
            detail: None,
            hint: hint(outcome),
            receipts: None,
            received_at: None,
            request_id: None,
            cursor: cursor.to_text(),
        };
        if let SenderOutcome::Rejected {
            reason,
            detail,
            request_id,
            received_at_ms,
            receipts,
        } = one.outcome
        {
            line.hint = hint(&reason);
            line.reason = Some(reason);
            line.detail = Some(detail);
            line.receipts = Some(receipts);
            line.received_at = Some(rfc3339_ms(received_at_ms));
            line.request_id = Some(request_id);
        }
        line
    }
}

/// Outcomes of a sender's receipts
///
/// Receipts that the signing key sent and that are rejected, duplicates, conflict with another
/// receipt of the same ID, or belong to no verified publisher: one line each, in the order of each
/// partition of the log, and a last line with `completeThrough` and the cursor to continue with.
/// Everything is covered that the cursor passes, through the last million records of each
/// partition.
#[utoipa::path(
    get, path = PATH, tag = "sender", security(("messageSignature" = [])),
    responses((status = 200, description = "The outcomes (OutcomeLine), and a last line (EndLine)", content((String = "application/x-ndjson"))), Refusals),
)]
pub(crate) async fn outcomes(
    State(app): State<Arc<AnalyticsState>>,
    sender: ProvenSender,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Failure> {
    Format::of(&headers, &[Format::Ndjson])?;
    let mut cursor = params
        .get("after")
        .map(LogCursor::read)
        .transpose()?
        .unwrap_or_default();
    let limit = params.count("limit", OUTCOMES_MAX)?.unwrap_or(PAGE);
    let (completeness, (search, page, unlisted)) = app
        .ask_within(sender.query_path(), async |snapshot| {
            let search = cursor.search(&snapshot.reading.shards);
            let key = &sender.key_fingerprint;
            let page = app.warehouse().sender_outcomes(key, &search.ranges, limit).await?;
            let unlisted = app.warehouse().unlisted_rejections(&ReceiptsOf::Key(*key)).await?;
            Ok((search, page, unlisted))
        })
        .await?;
    if page.has_receipts {
        app.cached_senders.learn(sender.key_fingerprint);
    }
    let mut lines = Vec::new();
    for one in page.occurrences {
        cursor.pass(one.position);
        push(&mut lines, &OutcomeLine::new(one, &cursor))?;
    }
    cursor.finish(&search.ranges, page.next);
    let end = EndLine {
        cursor: cursor.to_text(),
        more: page.next.is_some(),
        truncated: search.is_truncated,
        unlisted_rejections: unlisted.into_iter().map(UnlistedRejections::from).collect(),
        completeness,
    };
    push(&mut lines, &end)?;
    let mut response = ([(header::CONTENT_TYPE, Format::Ndjson.content_type())], lines).into_response();
    let cache = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    Ok(response)
}

fn push<T: Serialize>(lines: &mut Vec<u8>, line: &T) -> Result<(), Failure> {
    serde_json::to_writer(&mut *lines, line).map_err(|error| {
        tracing::error!(%error, "a line can't be written as JSON");
        Failure::internal()
    })?;
    lines.push(b'\n');
    Ok(())
}
