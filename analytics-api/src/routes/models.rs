//! `GET /api/v1/analytics/models`: usage by model.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Serialize;
use usage::Share;
use utoipa::ToSchema;
use web::Failure;

use super::top;
use crate::access::Access;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::{Complete, Reply};
use crate::format::table::{Table, Tabular};
use crate::parameters::{self, BOM, CLIENT, DOMAIN, ENTRY, FORMAT, MEMBERS, PURPOSE, Query, RANGE, TOP_LIMIT};
use crate::selection::{OpenRange, filter};
use crate::state::AnalyticsState;

pub(crate) const PATH: &str = "/api/v1/analytics/models";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    &[PURPOSE, CLIENT, ENTRY],
    MEMBERS,
    &[DOMAIN, TOP_LIMIT, FORMAT, BOM],
];

/// The models with the most receipts, most first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelList {
    /// Number of models in all, "none" among them.
    total_models: u64,
    models: Vec<ModelUsage>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A model and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ModelUsage {
    /// As the receipts name it; null for those that name none.
    #[schema(required = true)]
    model_id: Option<String>,
    receipt_count: u64,
    by_trust: ByTrust,
    unique_clients: u64,
}

impl From<Share> for ModelUsage {
    fn from(share: Share) -> Self {
        Self {
            model_id: Some(share.key).filter(|model| !model.is_empty()),
            receipt_count: share.receipt_count,
            by_trust: share.by_trust.into(),
            unique_clients: share.unique_clients,
        }
    }
}

impl Tabular for ModelList {
    fn columns(&self) -> Vec<&'static str> {
        vec!["modelId", "receiptCount", "provenReceiptCount", "uniqueClients"]
    }

    fn rows(&self, table: &mut Table) -> Result<(), serde_json::Error> {
        self.models.iter().try_for_each(|row| table.row(row, &[]))
    }
}

/// Usage by model
///
/// The models with the most receipts, those with equally many in order of their name; receipts that
/// name none are together.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The models", content((Complete<ModelList> = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"))),
        Refusals,
    ),
)]
pub(crate) async fn models(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let params = parameters::read(&uri, PARAMETERS)?;
    let reply = Reply::of(headers, &uri, &params)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let filter = filter(&access, &params, range.start_ms(), range.end_ms())?;
    let top_max = top(&app, &params)?;
    let (completeness, top) = app
        .ask(access.account_id(), async |snapshot| {
            snapshot.usage().by_model(&scope, &filter, top_max).await
        })
        .await?;
    let (from, to) = range.texts();
    let answer = ModelList {
        total_models: top.total,
        models: top.items.into_iter().map(ModelUsage::from).collect(),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
