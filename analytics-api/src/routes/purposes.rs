//! `GET /api/v1/analytics/purposes`: usage by purpose.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use web::Failure;

use crate::answers::{ByTrust, Refusals};
use crate::format::reply::Complete;
use crate::parameters::{CLIENTS, DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS};
use crate::receipt_query::ReceiptQuery;
use crate::selection;
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, integer, text};
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/purposes";
pub(crate) const PARAMETERS: &[&[Query]] = &[RANGE, CLIENTS, ENTRIES, MEMBERS, &[DOMAIN], ROWS];

/// Usage by purpose, also of those without receipts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PurposeList {
    purposes: Vec<PurposeUsage>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A purpose and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PurposeUsage {
    /// `usage.purpose` of the receipts.
    purpose: &'static str,
    receipt_count: u64,
    by_trust: ByTrust,
    unique_clients: u64,
}

impl Tabular for PurposeList {
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("purpose"),
            integer("receiptCount"),
            integer("provenReceiptCount"),
            integer("uniqueClients"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        self.purposes.iter().try_for_each(|row| table.row(row, &[]))
    }
}

/// Usage by purpose
///
/// All purposes there are, also those without receipts.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The purposes", body = Complete<PurposeList>),
        Refusals,
    ),
)]
pub(crate) async fn purposes(
    State(app): State<Arc<AnalyticsState>>,
    ReceiptQuery {
        access,
        reply,
        scope,
        range,
        filter,
        ..
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let (completeness, found) = app
        .ask(access.account_id(), async |snapshot| {
            snapshot.usage().by_purpose(&scope, &filter).await
        })
        .await?;
    let usage = |purpose: &'static str| {
        let share = found.iter().find(|share| share.key == purpose);
        PurposeUsage {
            purpose,
            receipt_count: share.map_or(0, |share| share.receipt_count),
            by_trust: share.map_or(ByTrust::default(), |share| share.by_trust.into()),
            unique_clients: share.map_or(0, |share| share.unique_clients),
        }
    };
    let (from, to) = range.texts();
    let answer = PurposeList {
        purposes: selection::purposes().into_iter().map(usage).collect(),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
