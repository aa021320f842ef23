//! `GET /api/v1/analytics/content/{entryId}`: one entry's usage.

use std::sync::Arc;

use accounts::Principal;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::{HeaderMap, Uri};
use serde::Serialize;
use warehouse::ContentStats;

use super::PurposeCounts;
use super::dashboard::TOP;
use crate::access::Access;
use crate::app::App;
use crate::completeness::Completeness;
use crate::format::Format;
use crate::labels::{Labelled, Labels};
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
    /// The entry's URL; where the account lists no such entry, the first of `urls`.
    url: String,
    /// The entry's title; where the account lists no such entry, its URL.
    title: String,
    /// Whether the account lists no such entry. Left out if that couldn't be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_entry: Option<bool>,
    /// The URLs that its receipts have.
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
    Extension(principal): Extension<Arc<Principal>>,
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
    let mut labels = Labels::of(&app, &principal, &[entry_id]).await;
    let urls = stats.as_ref().map_or(&[][..], |stats| stats.urls.as_slice());
    let Labelled { url, title, unknown } = labels.of_entry(entry_id, urls.first().cloned().unwrap_or_default());
    // What the account lists is there, used or not.
    let stats = stats
        .or_else(|| (unknown == Some(false)).then(ContentStats::default))
        .ok_or_else(|| {
            Failure::not_found("no verified receipt of your domains names this entry, and you list no such entry")
        })?;
    let (from, to) = range.texts();
    Ok(Json(Content {
        entry_id: entry_id.to_string(),
        url,
        title,
        unknown_entry: unknown,
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
