//! `GET /api/v1/analytics/refusals`: what was refused and why, by the time the gateway took it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;
use warehouse::{Refusal, RefusalCursor, RefusalFilter};

use super::TOP;
use crate::access::Access;
use crate::answers;
use crate::cursor::ListCursor;
use crate::format::reply::{Complete, Reply};
use crate::parameters::{BY_REASON, CURSOR, DOMAIN, Query, RANGE, REASON, REFUSALS_LIMIT, ROWS};
use crate::selection::OpenRange;
use crate::state::AnalyticsState;
use web::format::column::{RowColumn, instant, integer, text};
use web::format::table::{Table, TableError, Tabular};
use web::params::{InvalidQuery, Params};
use web::{Failure, rfc3339_ms};

/// Refusals of a page at most.
const PAGE_MAX: u32 = 1_000;

pub(crate) const PATH: &str = "/api/v1/analytics/refusals";
pub(crate) const PARAMETERS: &[&[Query]] = &[RANGE, &[REASON, DOMAIN, BY_REASON, REFUSALS_LIMIT, CURSOR], ROWS];

/// Rejected receipts and their reasons.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusals {
    total_refused: u64,
    /// Reason to count, most first.
    #[serde(serialize_with = "as_map")]
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    by_reason: Vec<(String, u64)>,
    /// Clients that they name, which isn't proven; the 100 with the most, most first.
    #[schema(max_items = 100)]
    by_client: Vec<RefusedOfClient>,
    /// A page of them, newest first; none with `groupBy`.
    newest: Vec<Refused>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    #[schema(format = DateTime, required = true)]
    to: Option<String>,
    /// Whether rows are those of the counts.
    #[serde(skip)]
    grouped: bool,
}

/// The number of rejected receipts of a client.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RefusedOfClient {
    /// Null for those of which it couldn't be read.
    #[schema(format = "uuid", required = true)]
    client_id: Option<String>,
    refusals: u64,
}

/// A rejected receipt. Members that couldn't be read are null.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Refused {
    #[schema(format = "uuid", required = true)]
    receipt_id: Option<String>,
    /// A stable name.
    reason: String,
    detail: String,
    #[schema(format = DateTime)]
    received_at: String,
    publisher: String,
    #[schema(format = "uuid", required = true)]
    client_id: Option<String>,
    request_id: String,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            receipt_id: refusal.receipt_id.map(|id| id.to_string()),
            reason: refusal.reason,
            detail: refusal.detail,
            received_at: rfc3339_ms(refusal.received_at_ms),
            publisher: refusal.publisher,
            client_id: refusal.client_id.map(|id| id.to_string()),
            request_id: refusal.request_id,
        }
    }
}

impl From<(Option<Uuid>, u64)> for RefusedOfClient {
    fn from((client_id, refusals): (Option<Uuid>, u64)) -> Self {
        Self {
            client_id: client_id.map(|id| id.to_string()),
            refusals,
        }
    }
}

impl Tabular for Refusals {
    fn columns(&self) -> Vec<RowColumn> {
        if self.grouped {
            return vec![text("reason"), integer("refusals")];
        }
        vec![
            instant("receivedAt"),
            text("reason"),
            text("detail"),
            text("receiptId"),
            text("publisher"),
            text("clientId"),
            text("requestId"),
            text("cursor"),
        ]
    }

    fn rows(&self, table: &mut Table) -> Result<(), TableError> {
        for (reason, count) in self.by_reason.iter().filter(|_| self.grouped) {
            table.row(&json!({"reason": reason, "refusals": *count}), &[])?;
        }
        table.page(&self.newest, self.next_cursor.as_deref())
    }
}

/// Reason to count, most first.
fn as_map<S: Serializer>(counts: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(counts.len()))?;
    for (reason, count) in counts {
        map.serialize_entry(reason, count)?;
    }
    map.end()
}

/// Refusals
///
/// Rejected receipts, by the time of their arrival: counts by reason and by client, and a page of
/// them, newest first. As rows the page, whose last row has a `cursor` if there are more, or
/// with `groupBy=reason` the counts.
#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    responses(
        (status = 200, description = "The refusals", body = Complete<Refusals>),
        answers::Refusals,
    ),
)]
pub(crate) async fn refusals(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    headers: HeaderMap,
    params: Params,
    uri: Uri,
) -> Result<Response, Failure> {
    let reply = Reply::of(headers, &uri, &params)?;
    let scope = access.scope(&params)?;
    let range = OpenRange::of(&params)?;
    let grouped = params.choice("groupBy", &[("reason", ())])?.is_some();
    for paging in ["limit", "cursor"] {
        if grouped && params.get(paging).is_some() {
            return Err(InvalidQuery::new(paging, "is of the page; with groupBy there is none").into());
        }
    }
    let limit = params.count("limit", PAGE_MAX)?.unwrap_or(TOP);
    let filter = RefusalFilter {
        from_ms: range.start_ms(),
        to_ms: range.end_ms(),
        reason: reason(&params)?,
        after: RefusalCursor::read(&params)?,
    };
    // One more than wanted: the page says whether there are more.
    let rows = if grouped { 0 } else { limit + 1 };
    let (completeness, mut stats) = app
        .ask(access.account_id(), async |_| {
            app.warehouse().refusals_of(&scope, &filter, rows).await
        })
        .await?;
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = stats.newest.len() > page;
    stats.newest.truncate(page);
    let next = stats.newest.last().filter(|_| more).map(RefusalCursor::from);
    let (from, to) = range.texts();
    let answer = Refusals {
        total_refused: stats.by_reason.iter().map(|(_, count)| count).sum(),
        by_reason: stats.by_reason,
        by_client: stats.by_client.into_iter().map(RefusedOfClient::from).collect(),
        newest: stats.newest.into_iter().map(Refused::from).collect(),
        next_cursor: next.map(|next| next.to_text()),
        from,
        to,
        grouped,
    };
    Ok(reply.answer(answer, completeness))
}

/// Any name of the form that reasons have: those of a later version too.
fn reason(params: &Params) -> Result<Option<String>, InvalidQuery> {
    let Some(reason) = params.get("reason") else {
        return Ok(None);
    };
    let named = |text: &str| text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if !named(reason) {
        let detail = "not the name of a reason, such as bad_signature";
        return Err(InvalidQuery::new("reason", detail));
    }
    Ok(Some(reason.to_owned()))
}
