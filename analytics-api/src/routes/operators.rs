//! `GET /api/v1/analytics/operators`: usage by operator.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use usage::Share;
use utoipa::ToSchema;
use warehouse::Trust;
use web::Failure;

use super::top;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::Complete;
use crate::parameters::{
    CLIENTS, CURSOR, DOMAIN, ENTRIES, MEMBERS, OPERATOR_SORT, Query, RANGE, ROWS, SEARCH, TOP_LIMIT,
};
use crate::ranking::{OPERATOR_ORDERS, RankingQuery};
use crate::receipt_query::ReceiptQuery;
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, integer, text};
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/operators";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[DOMAIN, OPERATOR_SORT, SEARCH, TOP_LIMIT, CURSOR],
    ROWS,
];

/// A page of operators.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorList {
    /// Number of operators on all pages, "none" among them.
    total_operators: u64,
    operators: Vec<OperatorRow>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// An operator and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperatorUsage)]
struct OperatorRow {
    /// The operator's domain; null for receipts whose key was no operator's on arrival.
    #[schema(required = true)]
    operator: Option<String>,
    /// `proven` or `unproven`. Without an operator that the account trusts it is `unproven`.
    #[schema(pattern = "^(proven|unproven)$")]
    trust: &'static str,
    receipt_count: u64,
    by_trust: ByTrust,
    /// Distinct pairs of client ID and key.
    unique_clients: u64,
}

impl OperatorRow {
    /// As an account that trusts these operators sees it.
    fn new(share: Share, trusted: &[String]) -> Self {
        Self {
            trust: Trust::of(&share.key, trusted).as_str(),
            operator: Some(share.key).filter(|operator| !operator.is_empty()),
            receipt_count: share.receipt_count,
            by_trust: share.by_trust.into(),
            unique_clients: share.unique_clients,
        }
    }
}

impl Tabular for OperatorList {
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("operator"),
            text("trust"),
            integer("receiptCount"),
            integer("provenReceiptCount"),
            integer("uniqueClients"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        table.page(&self.operators, self.next_cursor.as_deref())
    }
}

/// Usage by operator
///
/// The companies that used content, by their proven domains, in an order: the most receipts first
/// unless `sort` says otherwise, equal ones in order of their domains, page by page. Receipts whose
/// key was no operator's are together. As rows a page, whose last row has a
/// `cursor` if there are more.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The operators", body = Complete<OperatorList>),
        Refusals,
    ),
)]
pub(crate) async fn operators(
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
    let query = RankingQuery::of(&params, OPERATOR_ORDERS, top(&app, &params)?)?;
    let (completeness, top) = app
        .ask(access.account_id(), async |snapshot| {
            snapshot.usage().by_operator(&scope, &filter, &query.page).await
        })
        .await?;
    let rows = top
        .items
        .into_iter()
        .map(|share| OperatorRow::new(share, access.trusted()));
    let (from, to) = range.texts();
    let answer = OperatorList {
        total_operators: top.total,
        operators: rows.collect(),
        next_cursor: query.cursor(top.next),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
