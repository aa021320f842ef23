//! `GET /api/v1/client/summary`: how many of a sender's receipts are rejected, and why, and which
//! belong to no verified publisher.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Serialize;
use service::instant::now_ms;
use usage::UnattributedHost;
use utoipa::ToSchema;
use warehouse::ReasonSummary;

use crate::answers::Refusals;
use crate::format::reply::{Complete, Reply};
use crate::hints::hint;
use crate::parameters::Query;
use crate::sender::ProvenSender;
use crate::state::AnalyticsState;
use web::params::Params;
use web::{Failure, rfc3339_ms};

pub(crate) const PATH: &str = "/api/v1/client/summary";
pub(crate) const PARAMETERS: &[&[Query]] = &[];

/// Days that a summary covers.
const DAYS: i64 = 30;
const DAY_MS: i64 = 86_400_000;
/// Hosts of unattributed receipts.
const HOSTS_MAX: u32 = 100;

/// Receipts of a key that aren't counted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SenderSummary {
    /// Receipts that the gateway took from this instant on are counted.
    #[schema(format = DateTime)]
    from: String,
    /// Receipts rejected.
    rejected: u64,
    /// Most first.
    by_reason: Vec<RejectedFor>,
    /// Accepted receipts that no publisher's totals have.
    unattributed: Unattributed,
}

/// Accepted receipts whose URLs' hosts belonged to no verified domain when they arrived.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Unattributed {
    /// Receipts with timestamps since `from`, each counted once.
    receipts: u64,
    /// The hosts with most of them, at most 100.
    by_host: Vec<HostReceipts>,
}

/// Unattributed receipts of a host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HostReceipts {
    host: String,
    receipts: u64,
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

impl From<UnattributedHost> for HostReceipts {
    fn from(UnattributedHost { host, receipts, .. }: UnattributedHost) -> Self {
        Self { host, receipts }
    }
}

/// Summary of a sender's receipts that aren't counted
///
/// Receipts that the signing key sent in the last 30 days. Those that are rejected: how many for
/// each reason, and the newest one of each. Those that belong to no verified publisher: how many
/// for each host.
#[utoipa::path(
    get, path = PATH, tag = "sender", security(("messageSignature" = [])),
    responses((status = 200, description = "Rejections, and receipts without a publisher", body = Complete<SenderSummary>), Refusals),
)]
pub(crate) async fn sender_summary(
    State(app): State<Arc<AnalyticsState>>,
    sender: ProvenSender,
    headers: HeaderMap,
    _: Params,
) -> Result<Response, Failure> {
    let reply = Reply::json(headers)?;
    // Whole days, so that the answer's tag changes once a day if nothing else does.
    let from_ms = (now_ms().div_euclid(DAY_MS) - DAYS) * DAY_MS;
    let key = &sender.key_fingerprint;
    let (completeness, (reasons, hosts)) = app
        .ask_within(sender.query_path(), async |snapshot| {
            let hosts = snapshot.usage().unattributed(key, from_ms, HOSTS_MAX).await?;
            Ok((app.warehouse().sender_reasons(key, from_ms).await?, hosts))
        })
        .await?;
    if !(reasons.is_empty() && hosts.is_empty()) {
        app.cached_senders.learn(sender.key_fingerprint);
    }
    let summary = SenderSummary {
        from: rfc3339_ms(from_ms),
        rejected: reasons.iter().map(|reason| reason.receipts).sum(),
        by_reason: reasons.into_iter().map(RejectedFor::from).collect(),
        unattributed: Unattributed {
            receipts: hosts.first().map_or(0, |first| first.total),
            by_host: hosts.into_iter().map(HostReceipts::from).collect(),
        },
    };
    Ok(reply.object(summary, completeness))
}
