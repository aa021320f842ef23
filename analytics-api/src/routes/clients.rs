//! `GET /api/v1/analytics/clients/{clientId}`: one client's activity.

use std::sync::Arc;

use accounts::Principal;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::{HeaderMap, Uri};
use serde::Serialize;

use super::dashboard::TOP;
use super::{ContentCount, PurposeCounts, labelled};
use crate::access::Access;
use crate::app::App;
use crate::completeness::Completeness;
use crate::format::Format;
use crate::selection::{OpenRange, everything, filter, narrows};
use web::Failure;
use web::params::{Params, parse_uuid};
use web::rfc3339_ms;

const PARAMETERS: &[&str] = &["from", "to", "tz", "purpose", "entryId", "domain", "limit"];

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Client {
    client_id: String,
    name: String,
    organization: String,
    versions: Vec<String>,
    total_receipts: u64,
    unique_content: u64,
    usage_by_purpose: PurposeCounts,
    top_content: Vec<ContentCount>,
    first_seen: Option<String>,
    last_seen: Option<String>,
    from: Option<String>,
    to: Option<String>,
    #[serde(flatten)]
    completeness: Completeness,
}

pub(crate) async fn client(
    State(app): State<Arc<App>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
    Path(client_id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<Client>, Failure> {
    Format::of(&headers, &[Format::Json])?;
    let params = Params::parse(&uri, PARAMETERS)?;
    let client_id = parse_uuid("clientId", &client_id)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let filter = filter(&params, range.start_ms(), range.end_ms())?;
    let top_max = params
        .count("limit", app.config.top_max)?
        .unwrap_or(TOP.min(app.config.top_max));
    let warehouse = app.warehouse();
    let (completeness, stats) = app
        .ask(async {
            let stats = warehouse.client(&scope, &filter, client_id, top_max).await?;
            if stats.total_receipts > 0 || !narrows(&params) {
                return Ok((stats.total_receipts > 0).then_some(stats));
            }
            // None in this selection; whether there is such a client at all takes a second look.
            let any = warehouse.client(&scope, &everything(), client_id, 1).await?;
            Ok((any.total_receipts > 0).then_some(stats))
        })
        .await?;
    let stats = stats.ok_or_else(|| Failure::not_found("no verified receipt of your domains names this client"))?;
    let (from, to) = range.texts();
    Ok(Json(Client {
        client_id: client_id.to_string(),
        name: stats.name,
        organization: stats.organization,
        versions: stats.versions,
        total_receipts: stats.total_receipts,
        unique_content: stats.unique_content,
        usage_by_purpose: stats.usage_by_purpose.into(),
        top_content: labelled(&app, &principal, stats.top_content).await,
        first_seen: stats.first_seen_ms.map(rfc3339_ms),
        last_seen: stats.last_seen_ms.map(rfc3339_ms),
        from,
        to,
        completeness,
    }))
}
