//! `GET /api/v1/analytics/clients`: clients and their use, page by page.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use usage::ClientUsage;
use utoipa::ToSchema;
use web::{Failure, rfc3339_ms};

use super::top;
use crate::answers::{ByTrust, Refusals};
use crate::format::reply::Complete;
use crate::parameters::{
    CLIENT_SORT, CLIENTS, CURSOR, DOMAIN, ENTRIES, MEMBERS, Query, RANGE, ROWS, SEARCH, TOP_LIMIT,
};
use crate::ranking::{CLIENT_ORDERS, RankingQuery};
use crate::receipt_query::ReceiptQuery;
use crate::signers::{Signer, Signers};
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, instant, integer, text};
use web::format::table::{Table, TableError, Tabular};

pub(crate) const PATH: &str = "/api/v1/analytics/clients";
pub(crate) const PARAMETERS: &[&[Query]] = &[
    RANGE,
    CLIENTS,
    ENTRIES,
    MEMBERS,
    &[DOMAIN, CLIENT_SORT, SEARCH, TOP_LIMIT, CURSOR],
    ROWS,
];

/// A page of clients.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopClientList {
    /// Number of clients on all pages.
    total_clients: u64,
    clients: Vec<Busy>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
}

/// A client, which is a pair of ID and key, and its use. Whoever uses another's ID has another key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClientUsage)]
struct Busy {
    #[schema(format = "uuid")]
    client_id: String,
    /// As the key's newest receipt in the selection says.
    #[serde(flatten)]
    signer: Signer,
    /// As the key's newest receipt in the selection says.
    name: String,
    /// As the key's newest receipt in the selection says.
    organization: String,
    receipt_count: u64,
    by_trust: ByTrust,
    /// The timestamp of the key's last receipt in the selection.
    #[schema(format = DateTime)]
    last_seen: String,
}

impl Busy {
    fn new(usage: ClientUsage, signers: &Signers<'_>) -> Self {
        Self {
            client_id: usage.client_id.to_string(),
            signer: signers.signer(usage.client_id, &usage.key_fingerprint, usage.operator),
            name: usage.name,
            organization: usage.organization,
            receipt_count: usage.receipt_count,
            by_trust: usage.by_trust.into(),
            last_seen: rfc3339_ms(usage.last_seen_ms),
        }
    }
}

impl Tabular for TopClientList {
    fn columns(&self) -> Vec<RowColumn> {
        vec![
            text("clientId"),
            text("keyFingerprint"),
            text("operator"),
            text("trust"),
            text("clientIdClaimedBy"),
            text("name"),
            text("organization"),
            integer("receiptCount"),
            integer("provenReceiptCount"),
            instant("lastSeen"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        table.page(&self.clients, self.next_cursor.as_deref())
    }
}

/// Clients
///
/// Clients in an order, the most receipts first unless `sort` says otherwise, equal ones in order
/// of their ids, page by page. A client is a pair of ID and key. As rows a page,
/// whose last row has a `cursor` if there are more.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The clients", body = Complete<TopClientList>),
        Refusals,
    ),
)]
pub(crate) async fn clients(
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
    let query = RankingQuery::of(&params, CLIENT_ORDERS, top(&app, &params)?)?;
    let (completeness, top) = app
        .ask(access.account_id(), async |snapshot| {
            snapshot.usage().top_clients(&scope, &filter, &query.page, None).await
        })
        .await?;
    let rows = top.items.iter().map(|one| (one.client_id, one.operator.as_str()));
    let signers = Signers::of(&app, access.trusted(), rows).await;
    let (from, to) = range.texts();
    let answer = TopClientList {
        total_clients: top.total,
        clients: top.items.into_iter().map(|one| Busy::new(one, &signers)).collect(),
        next_cursor: query.cursor(top.next),
        from,
        to,
    };
    Ok(reply.answer(answer, completeness))
}
