//! `GET /api/v1/analytics/content/{entryId}`: one entry's usage.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use usage::ContentStats;
use utoipa::ToSchema;
use web::openapi::ProblemBody;
use web::params::parse_uuid;
use web::{Failure, rfc3339_ms};

use super::summary::{self, SummaryRows};
use super::top;
use crate::answers::{ClientCount, PurposeCounts, Refusals, TotalsByTrust};
use crate::format::reply::Complete;
use crate::labels::{Labelled, Labels};
use crate::parameters::{CLIENTS, DOMAIN, MEMBERS, Query, RANGE, ROWS, TOP_LIMIT};
use crate::receipt_query::ReceiptQuery;
use crate::selection::everything;
use crate::signers::Signers;
use crate::state::AnalyticsState;
use web::format::column::RowColumn;
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/content/{entryId}";
pub(crate) const PARAMETERS: &[&[Query]] = &[RANGE, CLIENTS, MEMBERS, &[DOMAIN, TOP_LIMIT], ROWS];

/// Usage of an entry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[schema(format = "uuid")]
    entry_id: String,
    /// The entry's URL; where the account lists no such entry, the first of `urls`.
    url: String,
    /// The entry's title; where the account lists no such entry, its URL.
    title: String,
    /// Whether the account lists no such entry. Left out if that couldn't be checked.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_entry: Option<bool>,
    /// The URLs that its receipts have, 100 at most.
    urls: Vec<String>,
    total_receipts: u64,
    unique_clients: u64,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
    /// The clients with the most receipts.
    top_clients: Vec<ClientCount>,
    /// The timestamp of its first receipt in the selection.
    #[schema(format = DateTime, required = true)]
    first_seen: Option<String>,
    /// That of its last.
    #[schema(format = DateTime, required = true)]
    last_seen: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

impl Tabular for Entry {
    fn columns(&self) -> Vec<RowColumn> {
        summary::columns(false)
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        let mut rows = SummaryRows::default();
        rows.total("totalReceipts", self.total_receipts, None);
        rows.total("uniqueClients", self.unique_clients, None);
        rows.purposes(self.usage_by_purpose, None);
        rows.parts(&self.by_trust, None);
        rows.clients(&self.top_clients);
        rows.write(table)
    }
}

/// Get the usage of an entry
///
/// 404 if no receipt of your domains names it and you list no such entry; zeros if only the
/// selection, `domain` included, leaves nothing.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    params(("entryId" = String, Path, format = "uuid", description = "The entry")),
    responses(
        (status = 200, description = "Its usage", body = Complete<Entry>),
        (status = 404, description = "There is no such entry", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(crate) async fn entry(
    State(app): State<Arc<AnalyticsState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(entry_id): Path<String>,
    ReceiptQuery {
        access,
        params,
        reply,
        scope,
        range,
        filter,
    }: ReceiptQuery,
) -> Result<Response, Failure> {
    let entry_id = parse_uuid("entryId", &entry_id)?;
    let top_max = top(&app, &params)?;
    let (completeness, stats) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let stats = usage.content(&scope, &filter, entry_id, top_max).await?;
            if stats.total_receipts > 0 {
                return Ok(Some(stats));
            }
            // None in this selection; whether there is such an entry at all takes a second look.
            let any = usage.content(&access.whole(), &everything(), entry_id, 1).await?;
            Ok((any.total_receipts > 0).then_some(stats))
        })
        .await?;
    let labels = Labels::of(&app, &principal, &[entry_id]).await;
    let urls = stats.as_ref().map_or(&[][..], |stats| stats.urls.as_slice());
    let Labelled { url, title, unknown } = labels.of_entry(entry_id, urls.first().cloned().unwrap_or_default());
    // What the account lists is there, used or not.
    let stats = match (stats, unknown) {
        (Some(stats), _) => stats,
        (None, Some(false)) => ContentStats::default(),
        (None, Some(true)) => {
            let detail = "no verified receipt of your domains names this entry, and you list no such entry";
            return Err(Failure::not_found(detail));
        }
        (None, None) => return Err(Labels::away()),
    };
    let rows = stats.top_clients.iter();
    let rows = rows.map(|client| (client.client_id, client.operator.as_str()));
    let signers = Signers::of(&app, access.trusted(), rows).await;
    let top_clients = stats.top_clients.into_iter();
    let top_clients = top_clients.map(|client| ClientCount::new(client, &signers)).collect();
    let (from, to) = range.texts();
    let answer = Entry {
        entry_id: entry_id.to_string(),
        url,
        title,
        unknown_entry: unknown,
        urls: stats.urls,
        total_receipts: stats.total_receipts,
        unique_clients: stats.unique_clients,
        usage_by_purpose: stats.usage_by_purpose.into(),
        by_trust: TotalsByTrust::new(stats.proven, stats.unproven),
        top_clients,
        first_seen: stats.first_seen_ms.map(rfc3339_ms),
        last_seen: stats.last_seen_ms.map(rfc3339_ms),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
