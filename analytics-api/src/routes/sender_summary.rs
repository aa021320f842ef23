//! `GET /api/v1/client/summary`: how many of a sender's receipts are rejected, and why.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Serialize;
use service::instant::now_ms;
use utoipa::ToSchema;
use warehouse::ReasonSummary;

use crate::answers::Refusals;
use crate::format::reply::{Complete, Reply};
use crate::hints::hint;
use crate::parameters::{self, Query};
use crate::sender::ProvenSender;
use crate::state::AnalyticsState;
use web::{Failure, rfc3339_ms};

pub(crate) const PATH: &str = "/api/v1/client/summary";
pub(crate) const PARAMETERS: &[Query] = &[];

/// Days that a summary covers.
const DAYS: i64 = 30;
const DAY_MS: i64 = 86_400_000;

/// Rejections of a key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SenderSummary {
    /// Receipts that the gateway took from this instant on are counted.
    #[schema(format = DateTime)]
    from: String,
    /// Receipts rejected, without those that a replay has accepted since.
    rejected: u64,
    /// Most first.
    by_reason: Vec<RejectedFor>,
}

/// Receipts rejected for one reason.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RejectedFor {
    /// A stable name.
    reason: String,
    receipts: u64,
    /// Advice: what to change.
    hint: &'static str,
    newest: NewestRejection,
}

/// The newest receipt rejected for a reason.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewestRejection {
    /// Null where it couldn't be read.
    #[schema(format = "uuid", required = true)]
    receipt_id: Option<String>,
    detail: String,
    #[schema(format = DateTime)]
    received_at: String,
}

impl From<ReasonSummary> for RejectedFor {
    fn from(summary: ReasonSummary) -> Self {
        Self {
            hint: hint(&summary.reason_text),
            reason: summary.reason_text,
            receipts: summary.receipts,
            newest: NewestRejection {
                receipt_id: summary.newest_id.map(|id| id.to_string()),
                detail: summary.newest_detail,
                received_at: rfc3339_ms(summary.newest_ms),
            },
        }
    }
}

/// Summary of a sender's rejections
///
/// Receipts that the signing key sent in the last 30 days and that are rejected: how many for each
/// reason, and the newest one of each.
#[utoipa::path(
    get, path = PATH, tag = "sender", security(("messageSignature" = [])),
    responses((status = 200, description = "The rejections", body = Complete<SenderSummary>), Refusals),
)]
pub(crate) async fn sender_summary(
    State(app): State<Arc<AnalyticsState>>,
    sender: ProvenSender,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let reply = Reply::json(headers)?;
    parameters::read(&uri, PARAMETERS)?;
    // Whole days, so that the answer's tag changes once a day if nothing else does.
    let from_ms = (now_ms().div_euclid(DAY_MS) - DAYS) * DAY_MS;
    let (completeness, reasons) = app
        .ask_within(sender.query_path(), async |_| {
            app.warehouse().sender_reasons(&sender.key_fingerprint, from_ms).await
        })
        .await?;
    if !reasons.is_empty() {
        app.known_senders.learn(sender.key_fingerprint);
    }
    let summary = SenderSummary {
        from: rfc3339_ms(from_ms),
        rejected: reasons.iter().map(|reason| reason.receipts).sum(),
        by_reason: reasons.into_iter().map(RejectedFor::from).collect(),
    };
    Ok(reply.object(summary, completeness))
}
