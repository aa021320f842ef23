//! `GET /api/v1/analytics/content`: the entries with the most receipts.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Serialize;
use usage::EntryUsage;
use utoipa::ToSchema;
use web::{Failure, rfc3339_ms};

use super::top;
use crate::access::Access;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::{Complete, Reply};
use crate::format::table::{Table, Tabular};
use crate::labels::{Labelled, Labels};
use crate::parameters::{self, BOM, CLIENT, DOMAIN, ENTRY, FORMAT, MEMBERS, PURPOSE, Query, RANGE, TOP_LIMIT};
use crate::selection::{OpenRange, filter};
use crate::state::AnalyticsState;

pub(crate) const PATH: &str = "/api/v1/analytics/content";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    &[PURPOSE, CLIENT, ENTRY],
    MEMBERS,
    &[DOMAIN, TOP_LIMIT, FORMAT, BOM],
];

/// The entries with the most receipts, most first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopContentList {
    /// Number of entries in all.
    total_content: u64,
    content: Vec<ContentUsage>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// An entry and its use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ContentUsage {
    #[schema(format = "uuid")]
    entry_id: String,
    /// The entry's title; where the account lists no such entry, its URL.
    title: String,
    /// The entry's URL; where the account lists no such entry, the newest receipt's.
    url: String,
    receipt_count: u64,
    by_trust: ByTrust,
    unique_clients: u64,
    /// The timestamp of its last receipt in the selection.
    #[schema(format = DateTime)]
    last_seen: String,
    /// Whether the account lists no such entry. Left out if that couldn't be checked.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_entry: Option<bool>,
}

impl Tabular for TopContentList {
    fn columns(&self) -> Vec<&'static str> {
        vec![
            "entryId",
            "title",
            "url",
            "receiptCount",
            "provenReceiptCount",
            "uniqueClients",
            "lastSeen",
            "unknownEntry",
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), serde_json::Error> {
        self.content.iter().try_for_each(|row| table.row(row, &[]))
    }
}

/// Top content
///
/// The entries with the most receipts, those with equally many in order of their id.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The entries", content((Complete<TopContentList> = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"))),
        Refusals,
    ),
)]
pub(crate) async fn content(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
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
            snapshot.usage().top_content(&scope, &filter, top_max).await
        })
        .await?;
    let ids: Vec<_> = top.items.iter().map(|one| one.content.entry_id).collect();
    let labels = Labels::of(&app, &principal, &ids).await;
    let usage = |EntryUsage {
                     content,
                     unique_clients,
                 }: EntryUsage| {
        let Labelled { url, title, unknown } = labels.of_entry(content.entry_id, content.url);
        ContentUsage {
            entry_id: content.entry_id.to_string(),
            title,
            url,
            receipt_count: content.receipt_count,
            by_trust: content.by_trust.into(),
            unique_clients,
            last_seen: rfc3339_ms(content.last_seen_ms),
            unknown_entry: unknown,
        }
    };
    let (from, to) = range.texts();
    let answer = TopContentList {
        total_content: top.total,
        content: top.items.into_iter().map(usage).collect(),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
