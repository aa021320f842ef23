//! `GET /api/v1/analytics/dashboard`: totals, of everything unless `from` or `to` is given.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use usage::DashboardStats;
use utoipa::ToSchema;
use warehouse::Filter;
use web::{Failure, rfc3339};

use super::TOP;
use super::summary::{self, SummaryRows};
use crate::answers::{ContentCount, OperatorCount, PurposeCounts, Refusals, TotalsByTrust, labelled};
use crate::format::reply::Complete;
use crate::parameters::{CLIENTS, COMPARE, DASHBOARD_LIMIT, DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS};
use crate::receipt_query::ReceiptQuery;
use crate::state::AnalyticsState;
use web::format::column::RowColumn;
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/dashboard";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[DOMAIN, DASHBOARD_LIMIT, COMPARE],
    ROWS,
];

/// The totals of a range.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dashboard {
    total_receipts: u64,
    /// Receipts of this selection that arrived before anybody had verified the publisher's domain.
    /// The other numbers exclude them, unless `beforeVerification` is given.
    receipts_before_verification: u64,
    /// Clients are pairs of ID and key.
    unique_clients: u64,
    /// The entries with the most receipts.
    top_content: Vec<ContentCount>,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
    /// The operators of the proven receipts, those with the most first.
    top_operators: Vec<OperatorCount>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
    /// Only with `compare`.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousTotals>,
}

/// The totals of the period before.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PreviousTotals {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    total_receipts: u64,
    unique_clients: u64,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
}

impl Dashboard {
    /// The totals of a range, as the account of `principal` calls its entries.
    pub(super) async fn new(
        app: &AnalyticsState,
        principal: &Principal,
        stats: DashboardStats,
        (from, to): (Option<String>, Option<String>),
    ) -> Self {
        Self {
            total_receipts: stats.total_receipts,
            receipts_before_verification: stats.receipts_before_verification,
            unique_clients: stats.unique_clients,
            top_content: labelled(app, principal, stats.top_content).await,
            usage_by_purpose: stats.usage_by_purpose.into(),
            by_trust: TotalsByTrust::new(stats.proven, stats.unproven),
            top_operators: stats.top_operators.into_iter().map(OperatorCount::from).collect(),
            from,
            to,
            previous: None,
        }
    }
}

impl Tabular for Dashboard {
    fn columns(&self) -> Vec<RowColumn> {
        summary::columns(self.previous.is_some())
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        let previous = self.previous.as_ref();
        let mut rows = SummaryRows::default();
        rows.total(
            "totalReceipts",
            self.total_receipts,
            previous.map(|one| one.total_receipts),
        );
        rows.total("receiptsBeforeVerification", self.receipts_before_verification, None);
        rows.total(
            "uniqueClients",
            self.unique_clients,
            previous.map(|one| one.unique_clients),
        );
        rows.purposes(self.usage_by_purpose, previous.map(|one| one.usage_by_purpose));
        rows.parts(&self.by_trust, previous.map(|one| one.by_trust));
        rows.operators(&self.top_operators);
        rows.content(&self.top_content);
        rows.write(table)
    }
}

/// Totals
///
/// Receipts, clients, purposes and the most used content: of everything, or of a range. As rows one
/// for each number: `measure`, `key`, `label`, `value`, and with `compare` `previous`.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The totals", body = Complete<Dashboard>),
        Refusals,
    ),
)]
pub(crate) async fn dashboard(
    State(app): State<Arc<AnalyticsState>>,
    Extension(principal): Extension<Arc<Principal>>,
    ReceiptQuery {
        access,
        params,
        reply,
        scope,
        range,
        filter,
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let before = range.previous(&params)?;
    let top_max = app.config.top_max;
    let top_max = params.integer("limit", 0..=top_max)?.unwrap_or(TOP.min(top_max));
    let (completeness, (stats, previous)) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let Some((from, to)) = before else {
                return Ok((usage.dashboard(&scope, &filter, top_max).await?, None));
            };
            let earlier = Filter {
                from_ms: from.as_millisecond(),
                to_ms: to.as_millisecond(),
                ..filter.clone()
            };
            let both = tokio::try_join!(
                usage.dashboard(&scope, &filter, top_max),
                usage.dashboard(&scope, &earlier, 0)
            );
            both.map(|(stats, earlier)| (stats, Some((from, to, earlier))))
        })
        .await?;
    let previous = previous.map(|(from, to, stats)| PreviousTotals {
        from: rfc3339(from),
        to: rfc3339(to),
        total_receipts: stats.total_receipts,
        unique_clients: stats.unique_clients,
        usage_by_purpose: stats.usage_by_purpose.into(),
        by_trust: TotalsByTrust::new(stats.proven, stats.unproven),
    });
    let answer = Dashboard {
        previous,
        ..Dashboard::new(&app, &principal, stats, range.texts()).await
    };
    Ok(reply.answer(answer, completeness))
}
