//! `GET /api/v1/analytics/models`: usage by model.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use usage::Share;
use utoipa::ToSchema;
use web::Failure;

use super::top;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::Complete;
use crate::parameters::{CLIENTS, CURSOR, DOMAIN, ENTRIES, MEMBERS, MODEL_SORT, Query, RANGE, ROWS, SEARCH, TOP_LIMIT};
use crate::ranking::{MODEL_ORDERS, RankingQuery};
use crate::receipt_query::ReceiptQuery;
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, integer, text};
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/models";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[DOMAIN, MODEL_SORT, SEARCH, TOP_LIMIT, CURSOR],
    ROWS,
];

/// A page of models.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelList {
    /// Number of models on all pages, "none" among them.
    total_models: u64,
    models: Vec<ModelUsage>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
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
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("modelId"),
            integer("receiptCount"),
            integer("provenReceiptCount"),
            integer("uniqueClients"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        table.page(&self.models, self.next_cursor.as_deref())
    }
}

/// Usage by model
///
/// Models in an order, the most receipts first unless `sort` says otherwise, equal ones in order of
/// their names, page by page; receipts that name none are together. As rows a page,
/// whose last row has a `cursor` if there are more.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The models", body = Complete<ModelList>),
        Refusals,
    ),
)]
pub(crate) async fn models(
    State(app): State<Arc<AnalyticsState>>,
    ReceiptQuery {
        access,
        params,
        reply,
        scope,
        range,
        filter,
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let query = RankingQuery::of(&params, MODEL_ORDERS, top(&app, &params)?)?;
    let (completeness, top) = app
        .ask(access.account_id(), async |snapshot| {
            snapshot.usage().by_model(&scope, &filter, &query.page).await
        })
        .await?;
    let (from, to) = range.texts();
    let answer = ModelList {
        total_models: top.total,
        models: top.items.into_iter().map(ModelUsage::from).collect(),
        next_cursor: query.cursor(top.next),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
