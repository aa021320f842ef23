//! `GET /api/v1/analytics/content/{entryId}`: one entry's usage.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use http::{HeaderMap, Uri};
use serde::Serialize;

use super::PurposeCounts;
use super::dashboard::TOP;
use crate::access::Access;
use crate::app::App;
use crate::completeness::Completeness;
use crate::format::Format;
use crate::selection::{OpenRange, everything, filter, narrows};
use web::Failure;
use web::params::{Params, parse_uuid};
use web::rfc3339_ms;

const PARAMETERS: &[&str] = &["from", "to", "tz", "purpose", "clientId", "domain", "limit"];

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Content {
    entry_id: String,
    /// The first of `urls`.
    url: String,
    /// The URL until entries have titles of their own: receipts carry none.
    title: String,
    urls: Vec<String>,
    total_receipts: u64,
    unique_clients: u64,
    usage_by_purpose: PurposeCounts,
    top_clients: Vec<ClientCount>,
    first_seen: Option<String>,
    last_seen: Option<String>,
    from: Option<String>,
    to: Option<String>,
    #[serde(flatten)]
    completeness: Completeness,
}

/// A member of `topClients`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientCount {
    client_id: String,
    name: String,
    organization: String,
    receipt_count: u64,
}

pub(crate) async fn content(
    State(app): State<Arc<App>>,
    access: Access,
    Path(entry_id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<Content>, Failure> {
    Format::of(&headers, &[Format::Json])?;
    let params = Params::parse(&uri, PARAMETERS)?;
    let entry_id = parse_uuid("entryId", &entry_id)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let filter = filter(&params, range.start_ms(), range.end_ms())?;
    let top_max = params
        .count("limit", app.config.top_max)?
        .unwrap_or(TOP.min(app.config.top_max));
    let warehouse = app.warehouse();
    let (completeness, stats) = app
        .ask(async {
            let stats = warehouse.content(&scope, &filter, entry_id, top_max).await?;
            if stats.total_receipts > 0 || !narrows(&params) {
                return Ok((stats.total_receipts > 0).then_some(stats));
            }
            // None in this selection; whether there is such an entry at all takes a second look.
            let any = warehouse.content(&scope, &everything(), entry_id, 1).await?;
            Ok((any.total_receipts > 0).then_some(stats))
        })
        .await?;
    let stats = stats.ok_or_else(|| Failure::not_found("no verified receipt of your domains names this entry"))?;
    let url = stats.urls.first().cloned().unwrap_or_default();
    let (from, to) = range.texts();
    Ok(Json(Content {
        entry_id: entry_id.to_string(),
        title: url.clone(),
        url,
        urls: stats.urls,
        total_receipts: stats.total_receipts,
        unique_clients: stats.unique_clients,
        usage_by_purpose: stats.usage_by_purpose.into(),
        top_clients: stats
            .top_clients
            .into_iter()
            .map(|client| ClientCount {
                client_id: client.client_id.to_string(),
                name: client.name,
                organization: client.organization,
                receipt_count: client.receipt_count,
            })
            .collect(),
        first_seen: stats.first_seen_ms.map(rfc3339_ms),
        last_seen: stats.last_seen_ms.map(rfc3339_ms),
        from,
        to,
        completeness,
    }))
}
