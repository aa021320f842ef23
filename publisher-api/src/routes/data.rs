//! `/api/v1/publisher/data`, `/export` and `/trail`: what is stored of a publisher.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use accounts::{COLLECTIONS, Principal};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{Uri, header};
use serde::Serialize;
use serde_json::{Map, Value};
use service::problem::{Kind, Problem};
use usage::Usage;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use warehouse::{BeforeVerification, Filter, RejectedFilter};
use web::format::file_name;
use web::params::{InvalidQuery, Params};
use web::{Failure, rfc3339_ms};

use super::key_domains;
use super::paging::cursor;
use super::times::range;
use crate::erasing::scope;
use crate::export::cursor::{ExportCursor, StoreCursor};
use crate::export::form::ExportFormat;
use crate::export::stream::{self, NoSlot};
use crate::export::{self, Walk};
use crate::state::PublisherState;
use web::openapi::Refusals;

const EXPORT: &str = "/api/v1/publisher/export";
/// Rows of a collection that `/data` shows.
const SHOWN_MAX: i64 = 100;
/// Entries of a page of the trail.
const PAGE: u32 = 100;
const PAGE_MAX: u32 = 1_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(data))
        .routes(routes!(export_all))
        .routes(routes!(trail))
}

/// All of a publisher's data: each collection whole or its first rows, and where to get the rest.
#[derive(Debug, Serialize, ToSchema)]
struct DataAnswer {
    /// By the collection's name: account, users, domains, challenges, keys, entries, mails,
    /// erasures.
    collections: BTreeMap<&'static str, CollectionBody>,
    /// The newest of the audit trail.
    trail: Vec<TrailBody>,
    receipts: ReceiptsBody,
    /// Everything as a stream.
    export: &'static str,
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionBody {
    /// Rows of it.
    count: u64,
    /// The first 100, oldest first.
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Map<String, Value>>,
    /// Address of further rows, if there are more.
    rest: Option<String>,
}

/// Receipts that name a verified domain of yours.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReceiptsBody {
    /// Receipts, duplicates not counted.
    total: u64,
    unique_clients: u64,
    usage_by_purpose: BTreeMap<&'static str, u64>,
    /// Rejected receipts that name such a domain.
    refused: u64,
    /// Address of all rows.
    rest: String,
}

/// A change, and who made it.
#[derive(Debug, Serialize, ToSchema)]
struct TrailBody {
    /// `trl_...`.
    id: String,
    #[schema(format = DateTime)]
    at: String,
    /// `key:<keyId>`, `user:<userId>`, `operator` or `service`.
    actor: String,
    /// Action as `<noun>.<verb>`.
    action: String,
    /// The identifier of what it was done to.
    subject: String,
    /// Further details.
    detail: String,
}

/// A page of the audit trail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TrailAnswer {
    entries: Vec<TrailBody>,
    next_cursor: Option<String>,
}

/// Access to all of your data
///
/// Data of the publisher behind the API key: account, users, domains, keys (without
/// secrets), entries, mails, erasures, the newest of the audit trail, and the totals of its
/// receipts. Of what there are many, the first rows, and where the rest is.
#[utoipa::path(
    get, path = "/api/v1/publisher/data", tag = "data", security(("apiKey" = [])),
    responses((status = 200, description = "All of it", body = DataAnswer), Refusals),
)]
async fn data(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    uri: Uri,
) -> Result<Json<DataAnswer>, Failure> {
    key_domains::allow_account(&principal, "this shows data of")?;
    Params::parse(&uri, &[])?;
    let (accounts, account_id) = (&app.deps.accounts, &principal.account_id);
    let mut collections = BTreeMap::new();
    for (number, collection) in COLLECTIONS.iter().enumerate().filter(|(_, one)| one.name != "trail") {
        let page = accounts
            .collection_page(account_id, collection, None, SHOWN_MAX)
            .await?;
        let count = accounts.collection_rows(account_id, collection).await?;
        let behind = page
            .last()
            .filter(|_| count > page.len() as u64)
            .map(|last| ExportCursor {
                collection: number,
                after: StoreCursor::Row(last.cursor.clone()),
            });
        let rest =
            |cursor: ExportCursor| format!("{EXPORT}?collection={}&cursor={}", collection.name, cursor.to_text());
        let rows = page.into_iter().map(|row| export::row_object(number, row));
        let body = CollectionBody {
            count,
            rows: rows.collect(),
            rest: behind.map(rest),
        };
        collections.insert(collection.name, body);
    }
    let trail = accounts.trail_page(account_id, None, PAGE as usize).await?;
    Ok(Json(DataAnswer {
        collections,
        trail: trail.items.into_iter().map(TrailBody::from).collect(),
        receipts: receipts(&app, &principal).await?,
        export: EXPORT,
    }))
}

async fn receipts(app: &PublisherState, principal: &Principal) -> Result<ReceiptsBody, Failure> {
    let scope = scope(&principal.coverage());
    let usage = Usage::new(app.deps.warehouse.clone());
    let stats = usage.dashboard(&scope, &of_times(i64::MIN..i64::MAX), 0).await?;
    let refused = match scope.is_empty() {
        // No names would be all names there.
        true => 0,
        false => {
            let filter = RejectedFilter {
                publishers: scope.publishers,
                below: scope.below,
                ..RejectedFilter::default()
            };
            app.deps.warehouse.rejected_count(&filter).await?
        }
    };
    let usage = stats.usage_by_purpose;
    Ok(ReceiptsBody {
        total: stats.total_receipts,
        unique_clients: stats.unique_clients,
        usage_by_purpose: usage.iter().map(|(purpose, count)| (purpose.as_str(), count)).collect(),
        refused,
        rest: format!("{EXPORT}?collection={}", export::RECEIPTS),
    })
}

/// Receipts of these times, in milliseconds since the Unix epoch, whenever the domain was verified.
fn of_times(times: Range<i64>) -> Filter {
    Filter {
        from_ms: times.start,
        to_ms: times.end,
        before_verification: BeforeVerification::Include,
        ..Filter::default()
    }
}

/// Everything, to take along
///
/// A stream of all collections in their order: account, users, domains, challenges, keys, entries,
/// mails, erasures, trail, then receipts and refusals of your verified domains. What stood in a
/// collection when the stream came to it is in it once, whatever is written meanwhile.
///
/// `ndjson`: a line is `{"collection", "row"}`, and after every 500 rows at most `{"cursor"}`; the
/// last line is `{"end": true, "rows"}`. `csv`: one collection; the last column holds the cursor
/// where there is one.
///
/// **A stream that broke off** is gone on with by the last cursor that arrived whole: what came
/// behind it comes again. Any replica continues, also after a restart. A stream breaks off after
/// ten minutes, or if nobody reads on for one; an account has one at a time, and gets 429 for a
/// second.
#[utoipa::path(
    get, path = EXPORT, tag = "data", security(("apiKey" = [])),
    params(
        ("format" = Option<String>, Query, description = "ndjson (if it isn't given) or csv", pattern = "^(ndjson|csv)$"),
        ("collection" = Option<String>, Query, description = "Only this one; csv needs it"),
        ("from" = Option<String>, Query, description = "Only receipts of this time (RFC 3339, or a date in UTC) or later, by their timestamp, or refusals by their arrival; needs `collection`"),
        ("to" = Option<String>, Query, description = "Only those before this time"),
        ("bom" = Option<bool>, Query, description = "Whether csv begins with a byte order mark, by which Excel recognises UTF-8"),
        ("cursor" = Option<String>, Query, description = "Where to go on", max_length = 8192),
    ),
    responses(
        (status = 200, description = "The stream", content((String = "application/x-ndjson"), (String = "text/csv"))),
        Refusals,
    ),
)]
async fn export_all(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    uri: Uri,
) -> Result<Response, Failure> {
    key_domains::allow_account(&principal, "this shows data of")?;
    let params = Params::parse(&uri, &["format", "collection", "from", "to", "bom", "cursor"])?;
    let bom = params.flag("bom")?;
    let forms = [("ndjson", ExportFormat::Ndjson), ("csv", ExportFormat::Csv { bom })];
    let form = params.choice("format", &forms)?.unwrap_or(ExportFormat::Ndjson);
    let numbered: Vec<(&str, usize)> = export::names().into_iter().zip(0..).collect();
    let only = params.choice("collection", &numbered)?;
    if matches!(form, ExportFormat::Csv { .. }) && only.is_none() {
        let detail = format!("csv is one table: name one of {}", export::names().join(", "));
        return Err(InvalidQuery::new("collection", detail).into());
    }
    let has_times = only.is_some_and(|only| [export::RECEIPTS, export::REFUSALS].contains(&numbered[only].0));
    let times = range(&params)?;
    if times.is_some() && !has_times {
        let detail = "from and to are of receipts and refusals: name one of these collections";
        return Err(InvalidQuery::new("collection", detail).into());
    }
    let walk = Walk {
        deps: app.deps.clone(),
        principal,
        only,
        filter: of_times(times.unwrap_or(i64::MIN..i64::MAX)),
    };
    let cursor = match params.get("cursor") {
        None => walk.begin(),
        Some(text) => export_cursor(text, only)?,
    };
    let taken = app.exports.take(&walk.principal.account_id).await.map_err(|none| {
        let kind = match none {
            NoSlot::Own => Kind::RateLimited,
            NoSlot::Any => Kind::Overloaded,
        };
        Failure::from(Problem::new(kind, none.to_string()).retry_after_s(5))
    })?;
    let head = form.begin(cursor.collection, params.get("cursor").is_some());
    // The first page before the head is sent: an engine that is away is a 503, not a stream that
    // breaks off.
    let first = walk.next(cursor).await?;
    let rows = params.get("collection").unwrap_or("export");
    let headers = [
        (header::CONTENT_TYPE, form.media().to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{}.{}\"", file_name(rows, &params), form.name()),
        ),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, stream::body(walk, form, head, first, taken)).into_response())
}

fn export_cursor(text: &str, only: Option<usize>) -> Result<ExportCursor, InvalidQuery> {
    let cursor = ExportCursor::from_text(text);
    cursor
        .filter(|cursor| only.is_none_or(|only| cursor.collection == only))
        .ok_or_else(|| InvalidQuery::new("cursor", "not a cursor of this export: hand back one that came with it"))
}

/// Audit trail
///
/// The account's audit trail, newest first.
#[utoipa::path(
    get, path = "/api/v1/publisher/trail", tag = "data", security(("apiKey" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Entries of a page; 100 if it isn't given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "The nextCursor of the page before", max_length = 120),
    ),
    responses((status = 200, description = "A page", body = TrailAnswer), Refusals),
)]
async fn trail(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    uri: Uri,
) -> Result<Json<TrailAnswer>, Failure> {
    key_domains::allow_account(&principal, "this shows data of")?;
    let params = Params::parse(&uri, &["limit", "cursor"])?;
    let limit = params.count("limit", PAGE_MAX)?.unwrap_or(PAGE);
    let after = cursor(&params)?;
    let accounts = &app.deps.accounts;
    let page = accounts
        .trail_page(&principal.account_id, after.as_ref(), limit as usize)
        .await?;
    Ok(Json(TrailAnswer {
        entries: page.items.into_iter().map(TrailBody::from).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

impl From<accounts::TrailEntry> for TrailBody {
    fn from(entry: accounts::TrailEntry) -> Self {
        Self {
            id: entry.id,
            at: rfc3339_ms(entry.at_ms),
            actor: entry.actor,
            action: entry.action,
            subject: entry.subject,
            detail: entry.detail,
        }
    }
}
