//! `GET /api/v1/analytics/content`: entries and their use, page by page.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use usage::EntryUsage;
use utoipa::ToSchema;
use web::{Failure, rfc3339_ms};

use super::top;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::Complete;
use crate::labels::{Labelled, Labels};
use crate::parameters::{
    CLIENTS, CONTENT_SORT, CURSOR, DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS, SEARCH, TOP_LIMIT,
};
use crate::ranking::{CONTENT_ORDERS, EntrySearch, RankingQuery, too_many_found};
use crate::receipt_query::ReceiptQuery;
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, flag, instant, integer, text};
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/content";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[DOMAIN, CONTENT_SORT, SEARCH, TOP_LIMIT, CURSOR],
    ROWS,
];

/// A page of entries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopContentList {
    /// Number of entries on all pages.
    total_content: u64,
    content: Vec<ContentUsage>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
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
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("entryId"),
            text("title"),
            text("url"),
            integer("receiptCount"),
            integer("provenReceiptCount"),
            integer("uniqueClients"),
            instant("lastSeen"),
            flag("unknownEntry"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        table.page(&self.content, self.next_cursor.as_deref())
    }
}

/// Content
///
/// Entries in an order, the most receipts first unless `sort` says otherwise, equal ones in order
/// of their id, page by page. As rows a page, whose last row has a `cursor` if
/// there are more.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The entries", body = Complete<TopContentList>),
        Refusals,
    ),
)]
pub(crate) async fn content(
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
    let query = RankingQuery::of(&params, CONTENT_ORDERS, top(&app, &params)?)?;
    let search = EntrySearch::of(&app, &principal, &query.page).await?;
    let (completeness, top) = app
        .ask(access.account_id(), async |snapshot| {
            let usage = snapshot.usage();
            let found = match &search {
                Some(search) => match search.found(usage, &scope).await? {
                    Some(found) => Some(found),
                    None => return Ok(None),
                },
                None => None,
            };
            let top = usage.top_content(&scope, &filter, &query.page, found.as_deref());
            top.await.map(Some)
        })
        .await?;
    let top = top.ok_or_else(too_many_found)?;
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
        next_cursor: query.cursor(top.next),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
