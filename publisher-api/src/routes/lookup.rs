//! `/api/v1/entries`: the entry of a URL, for everybody.
//!
//! A client that is about to send receipts learns the entry ID of the content that it used. No
//! credential is needed. An answer has no more than a receipt may contain, and the title.

use std::sync::Arc;

use accounts::{ENTRY_URL_BYTES_MAX, ListedEntry, PublicEntry};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use receipt::{CanonicalUrl, canonical_url};
use serde::{Deserialize, Serialize};
use service::problem::{Kind, Problem};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::allowance::Allowance;
use web::openapi::{BodyRefusals, ProblemError, PublicRefusals};
use web::params::{InvalidQuery, Params};
use web::shares::FairSemaphoreFull;
use web::{Failure, etag, json};

use crate::state::PublisherState;

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(entry_by_url))
        .routes(routes!(entries_by_url))
}

/// The entry of a URL.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UrlEntry {
    /// The canonical URL.
    #[schema(format = "uri")]
    url: String,
    /// The ID of the entry, for `content.entryId`. Where the publisher lists none: the UUIDv5 of
    /// the canonical URL in the URL namespace (RFC 9562, section 5.5).
    #[schema(value_type = String, format = "uuid")]
    entry_id: Uuid,
    /// The verified domain that the URL belongs to; null: nobody has verified one.
    publisher: Option<String>,
    /// Whether the publisher lists the URL.
    listed: bool,
    /// Title of the listed entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl UrlEntry {
    fn new(url: &CanonicalUrl, found: ListedEntry) -> Self {
        let ListedEntry { publisher, entry } = found;
        let listed = entry.is_some();
        let (entry_id, title) = match entry {
            Some(PublicEntry { id, title }) => (id, Some(title)),
            None => (url.entry_id(), None),
        };
        Self {
            url: url.as_str().to_owned(),
            entry_id,
            publisher,
            listed,
            title,
        }
    }
}

/// URLs to look up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UrlsToLookUp {
    /// Up to 1,000 (`publisher.lookup_urls_max`) URLs of up to 2,048 bytes.
    urls: Vec<String>,
}

/// The entries of URLs.
#[derive(Debug, Serialize, ToSchema)]
struct UrlEntries {
    /// Entries in the order of the URLs; null for a faulty URL.
    entries: Vec<Option<UrlEntry>>,
    /// The fault of each faulty URL, whose pointer is into the request.
    errors: Vec<ProblemError>,
}

/// Find the entry of a URL
///
/// No credential is needed; each client address may look up so many URLs a minute
/// (`publisher.lookups_per_minute`). The URL may be in any form: entries are found by the canonical
/// form (docs/receipt-format.md). An entry is found if it is on a domain that is verified now. If
/// several accounts list the URL, the nearest verified domain's entry is found: that of the host
/// before that of a parent. Caches may keep the answer for `publisher.lookup_max_age_s`; then its
/// `X-RateLimit-*` headers are those of the first answer.
#[utoipa::path(
    get, path = "/api/v1/entries", tag = "entries", security(()),
    params(
        ("url" = String, Query, description = "The URL, percent-encoded as a value of a query; 2,048 bytes at most", format = "uri", max_length = 2048),
        ("If-None-Match" = Option<String>, Header, description = "ETags of the answers that you have"),
    ),
    responses(
        (status = 200, description = "The entry, listed or not", body = UrlEntry,
            headers(("ETag" = String, description = "Tag of the answer"), ("Cache-Control" = String, description = "How long caches may keep it"))),
        (status = 304, description = "You have this answer", headers(("ETag" = String, description = "Tag of the answer"))),
        PublicRefusals,
    ),
)]
async fn entry_by_url(State(app): State<Arc<PublisherState>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let mut allowance = allowance(&app, &head);
    let result = look_up_one(&app, &head, &mut allowance).await;
    allowance.finish(result)
}

/// Find the entries of many URLs
///
/// As `GET /api/v1/entries` for each URL; the answer isn't cached. A request counts as many
/// lookups as it has URLs. Faulty URLs don't prevent the others from being found.
#[utoipa::path(
    post, path = "/api/v1/entries/lookup", tag = "entries", security(()),
    request_body(content = UrlsToLookUp),
    responses((status = 200, description = "An entry or a fault for each URL", body = UrlEntries), PublicRefusals, BodyRefusals),
)]
async fn entries_by_url(State(app): State<Arc<PublisherState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let mut allowance = allowance(&app, &head);
    let result = look_up_many(&app, &head, body, &mut allowance).await;
    allowance.finish(result)
}

fn allowance<'a>(app: &'a PublisherState, head: &Parts) -> Allowance<'a> {
    let config = &app.config;
    Allowance::new(
        &*app.deps.limiter,
        config.lookups_per_minute,
        &config.trusted_proxies,
        head,
    )
}

async fn look_up_one(app: &PublisherState, head: &Parts, allowance: &mut Allowance<'_>) -> Result<Response, Failure> {
    allowance.charge(1).await?;
    let params = Params::parse(&head.uri, &["url"])?;
    let url = params
        .get("url")
        .ok_or_else(|| InvalidQuery::new("url", "give the URL of the content"))?;
    let url = checked(url).map_err(|detail| InvalidQuery::new("url", detail))?;
    let found = app.deps.accounts.entries_by_url(std::slice::from_ref(&url)).await?;
    let found = found.into_iter().next().ok_or_else(no_answer)?;
    let body = serde_json::to_vec(&UrlEntry::new(&url, found)).map_err(|_| no_answer())?;
    let tag = etag::strong(&body);
    let mut response = if etag::is_current(&head.headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        (
            [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body,
        )
            .into_response()
    };
    let headers = response.headers_mut();
    let max_age = format!("public, max-age={}", app.config.lookup_max_age_s);
    for (name, value) in [(header::ETAG, tag), (header::CACHE_CONTROL, max_age)] {
        headers.insert(name, HeaderValue::from_str(&value).map_err(|_| no_answer())?);
    }
    // The answer is the same for everybody.
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

async fn look_up_many(
    app: &PublisherState,
    head: &Parts,
    body: Body,
    allowance: &mut Allowance<'_>,
) -> Result<Response, Failure> {
    // Before the body is read: a client over its quota costs no more than its head.
    allowance.charge(1).await?;
    json::media(&head.headers, "application/json")?;
    let urls = {
        let _permit = app.lookup_bodies.take(&[allowance.key()]).map_err(busy)?;
        let bytes = json::read(body, app.config.lookup_bytes_max).await?;
        let UrlsToLookUp { urls } = json::parse(&bytes)?;
        urls
    };
    if urls.len() > app.config.lookup_urls_max {
        let detail = format!("{} URLs are given, at most {}", urls.len(), app.config.lookup_urls_max);
        let problem = Problem::new(Kind::InvalidBody, format!("{detail}: send them in parts"));
        return Err(problem.fault("/urls", "too_many", detail).into());
    }
    let further = u32::try_from(urls.len().saturating_sub(1)).unwrap_or(u32::MAX);
    allowance.charge(further).await?;
    let mut errors = Vec::new();
    let mut good = Vec::with_capacity(urls.len());
    let mut is_good = Vec::with_capacity(urls.len());
    for (index, url) in urls.iter().enumerate() {
        let url = checked(url);
        is_good.push(url.is_ok());
        match url {
            Ok(url) => good.push(url),
            Err(detail) => errors.push(ProblemError::new(format!("/urls/{index}"), "invalid_url", detail)),
        }
    }
    let found = app.deps.accounts.entries_by_url(&good).await?;
    let mut entries = good.iter().zip(found).map(|(url, found)| UrlEntry::new(url, found));
    let entries = is_good
        .into_iter()
        .map(|is_good| is_good.then(|| entries.next()).flatten())
        .collect();
    Ok(Json(UrlEntries { entries, errors }).into_response())
}

fn checked(url: &str) -> Result<CanonicalUrl, String> {
    if url.len() > ENTRY_URL_BYTES_MAX {
        return Err(format!("shorten the URL to {ENTRY_URL_BYTES_MAX} bytes"));
    }
    canonical_url(url).map_err(|error| error.to_string())
}

fn busy(full: FairSemaphoreFull) -> Failure {
    let who = match full {
        FairSemaphoreFull::Account => "your address sends",
        FairSemaphoreFull::All => "clients send",
    };
    let detail = format!("{who} as many bulks of URLs at one time as can be read; try again");
    Problem::new(Kind::Overloaded, detail).retry_after_s(1).into()
}

fn no_answer() -> Failure {
    Failure::internal()
}
