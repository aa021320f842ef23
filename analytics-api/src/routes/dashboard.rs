//! `GET /api/v1/analytics/dashboard`: totals, of everything unless `from` or `to` is given.

use std::sync::Arc;

use accounts::Principal;
use axum::extract::State;
use axum::{Extension, Json};
use http::{HeaderMap, Uri};
use serde::Serialize;
use warehouse::DashboardStats;

use super::{ContentCount, PurposeCounts, labelled};
use crate::access::Access;
use crate::app::App;
use crate::completeness::Completeness;
use crate::format::Format;
use crate::selection::{OpenRange, filter};
use web::Failure;
use web::params::Params;

const PARAMETERS: &[&str] = &["from", "to", "tz", "purpose", "clientId", "entryId", "domain", "limit"];

/// Entries of `topContent` when the query gives no `limit`.
pub(crate) const TOP: u32 = 10;

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dashboard {
    total_receipts: u64,
    unique_clients: u64,
    top_content: Vec<ContentCount>,
    usage_by_purpose: PurposeCounts,
    from: Option<String>,
    to: Option<String>,
    #[serde(flatten)]
    completeness: Completeness,
}

pub(crate) async fn dashboard(
    State(app): State<Arc<App>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<Dashboard>, Failure> {
    Format::of(&headers, &[Format::Json])?;
    let params = Params::parse(&uri, PARAMETERS)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let filter = filter(&params, range.start_ms(), range.end_ms())?;
    let top_max = params
        .count("limit", app.config.top_max)?
        .unwrap_or(TOP.min(app.config.top_max));
    let (completeness, stats) = app.ask(app.warehouse().dashboard(&scope, &filter, top_max)).await?;
    let DashboardStats {
        total_receipts,
        unique_clients,
        top_content,
        usage_by_purpose,
    } = stats;
    let (from, to) = range.texts();
    Ok(Json(Dashboard {
        total_receipts,
        unique_clients,
        top_content: labelled(&app, &principal, top_content).await,
        usage_by_purpose: usage_by_purpose.into(),
        from,
        to,
        completeness,
    }))
}
