//! `GET /api/v1/analytics/refusals`: what was refused and why, by the time the gateway took it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use warehouse::Refusal;

use super::csv;
use super::dashboard::TOP;
use crate::access::Access;
use crate::app::App;
use crate::completeness::Completeness;
use crate::format::{Csv, Format};
use crate::selection::OpenRange;
use web::Failure;
use web::params::Params;
use web::rfc3339_ms;

const PARAMETERS: &[&str] = &["from", "to", "tz", "domain", "limit"];

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusals {
    total_refused: u64,
    #[serde(serialize_with = "as_map")]
    by_reason: Vec<(String, u64)>,
    newest: Vec<Refused>,
    from: Option<String>,
    to: Option<String>,
    #[serde(flatten)]
    completeness: Completeness,
}

/// A member of `newest`. What couldn't be read out of the receipt is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    receipt_id: Option<String>,
    reason: String,
    detail: String,
    received_at: String,
    publisher: String,
    client_id: Option<String>,
    request_id: String,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            receipt_id: refusal.receipt_id.map(|id| id.to_string()),
            reason: refusal.reason,
            detail: refusal.detail,
            received_at: rfc3339_ms(refusal.received_at_ms),
            publisher: refusal.publisher,
            client_id: refusal.client_id.map(|id| id.to_string()),
            request_id: refusal.request_id,
        }
    }
}

/// Reason to count, most first.
fn as_map<S: Serializer>(counts: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(counts.len()))?;
    for (reason, count) in counts {
        map.serialize_entry(reason, count)?;
    }
    map.end()
}

pub(crate) async fn refusals(
    State(app): State<Arc<App>>,
    access: Access,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let format = Format::of(&headers, &[Format::Json, Format::Csv])?;
    let params = Params::parse(&uri, PARAMETERS)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let newest_max = params
        .count("limit", app.config.top_max)?
        .unwrap_or(TOP.min(app.config.top_max));
    let query = app
        .warehouse()
        .refusals(&scope, range.start_ms(), range.end_ms(), newest_max);
    let (completeness, stats) = app.ask(query).await?;
    let newest: Vec<Refused> = stats.newest.into_iter().map(Refused::from).collect();
    if format == Format::Csv {
        return Ok(csv(table(&newest), &completeness));
    }
    let (from, to) = range.texts();
    let answer = Refusals {
        total_refused: stats.by_reason.iter().map(|(_, count)| count).sum(),
        by_reason: stats.by_reason,
        newest,
        from,
        to,
        completeness,
    };
    Ok(Json(answer).into_response())
}

fn table(newest: &[Refused]) -> Csv {
    let mut csv = Csv::new(&[
        "receivedAt",
        "reason",
        "detail",
        "receiptId",
        "publisher",
        "clientId",
        "requestId",
    ]);
    for refused in newest {
        csv.row(&[
            refused.received_at.as_str(),
            &refused.reason,
            &refused.detail,
            refused.receipt_id.as_deref().unwrap_or_default(),
            &refused.publisher,
            refused.client_id.as_deref().unwrap_or_default(),
            &refused.request_id,
        ]);
    }
    csv
}
