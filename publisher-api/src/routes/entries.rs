//! `/api/v1/publisher/entries`: the content that a publisher lists.
//!
//! Entries on a domain whose verification has ended are neither shown nor changed (403), but can
//! always be erased. Someone else's entry is answered exactly as one that doesn't exist.

mod bulk;
mod shape;

use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{
    AccountsError, Created, Cursor, Domain, Entry, EntryFilter, Erased, Page, Principal, Rectification, Rectified,
    Revision,
};
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{HeaderMap, StatusCode, Uri, header};
use service::problem::{Kind, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::format::Format;
use web::format::table::Table;
use web::params::{InvalidQuery, Params, parse_uuid};
use web::{Failure, json};

use self::shape::{CreateAnswer, EntryBody, EntryPatch, EntryRequest, ListAnswer};
use super::paging::cursor;
use super::times::instant;
use crate::state::PublisherState;
use web::openapi::{BodyRefusals, ProblemBody, Refusals};

const PATH: &str = "/api/v1/publisher/entries";
const PARAMETERS: &[&str] = &[
    "limit",
    "cursor",
    "domain",
    "q",
    "createdFrom",
    "createdTo",
    "updatedFrom",
    "format",
    "bom",
];
/// Entries of a page when the query gives no `limit`.
const PAGE: u32 = 100;
/// The longest `q`, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// Time in which rows search for an entry that matches.
const SEARCH_MAX: Duration = Duration::from_secs(2);
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

pub(crate) fn routes() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(entry, rectify))
}

/// Addresses that need the scope `erase`.
pub(crate) fn erasing() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::new().routes(routes!(erase))
}

/// List content
///
/// A single entry as JSON, or many as lines of JSON (`application/x-ndjson`), each of which is
/// created or refused for itself. Sending the same again changes nothing, so a bulk that ended
/// otherwise than with 200 is simply sent again. An entry without `entryId` gets the UUIDv5 of its
/// canonical URL, so it has the receipts that clients sent before it was listed. A second entry for
/// the same URL needs an `entryId` of its own.
#[utoipa::path(
    post, path = PATH, tag = "entries", security(("apiKey" = [])),
    request_body(description = "One entry, or one a line", content((EntryRequest = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 201, description = "Created", body = EntryBody,
            headers(("Location" = String, description = "Its address"), ("ETag" = String, description = "Its state"))),
        (status = 200, description = "One entry: it was there with the same content. Many: what became of each line", body = CreateAnswer),
        (status = 409, description = "The id is used, or the account has as many entries as it may have", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn create(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    if json::media(&head.headers, NDJSON).is_ok() {
        let answer = bulk::create(&app, &principal, &head.headers, body).await?;
        return Ok(Json(CreateAnswer::Many(answer)).into_response());
    }
    json::media(&head.headers, JSON)?;
    let request: EntryRequest = json::parse_body(&json::read(body, json::BYTES_MAX).await?)?;
    let new = request.checked(&principal)?;
    let actor = principal.actor.to_string();
    let accounts = &app.deps.accounts;
    let mut outcomes = accounts
        .create_entries(&principal.account_id, &actor, vec![new], app.config.entries_max)
        .await?;
    match outcomes.pop() {
        Some(Created::New(entry)) => {
            let location = format!("{PATH}/{}", entry.id);
            Ok((StatusCode::CREATED, [(header::LOCATION, location)], shown(entry)).into_response())
        }
        Some(Created::Unchanged(entry)) => {
            let tag = [(header::ETAG, tag(entry.revision))];
            Ok((tag, Json(CreateAnswer::One(entry.into()))).into_response())
        }
        Some(other) => Err(shape::Refusal::of(&other).into()),
        None => Err(Failure::new(Kind::Internal, "the account store reported no outcome")),
    }
}

/// The entries, newest first
///
/// A page may have fewer entries than `limit`, or none, and still a `nextCursor`: continue until
/// there is none. An entry that is there all the while is shown once, whatever is written
/// meanwhile. As rows (CSV, lines of JSON, Parquet), the last one has a `cursor` if there are more.
/// A page without a row has no place for it, so the service searches for an entry that matches for
/// two seconds. If it finds none, it answers 503, and `detail` has the `cursor` to continue with.
#[utoipa::path(
    get, path = PATH, tag = "entries", security(("apiKey" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Entries of a page; 100 if it isn't given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "The nextCursor of the page before", max_length = 120),
        ("domain" = Option<String>, Query, description = "Only entries on this domain or below it", max_length = 253),
        ("q" = Option<String>, Query, description = "Only entries with this in title or URL, in whatever case", min_length = 1, max_length = 200),
        ("createdFrom" = Option<String>, Query, description = "Created at this time (RFC 3339) or later", format = DateTime),
        ("createdTo" = Option<String>, Query, description = "Created before this time", format = DateTime),
        ("updatedFrom" = Option<String>, Query, description = "Created or rectified at this time or later", format = DateTime),
        ("format" = Option<String>, Query, description = "The form of the answer, whatever Accept says", pattern = "^(json|csv|ndjson|parquet)$"),
        ("bom" = Option<bool>, Query, description = "Whether csv begins with a byte order mark, by which Excel recognises UTF-8"),
    ),
    responses(
        (status = 200, description = "A page", content((ListAnswer = "application/json"), (String = "text/csv"), (String = "application/x-ndjson"), (String = "application/vnd.apache.parquet"))),
        (status = 406, description = "None of the forms is accepted", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn list(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    let params = Params::parse(&uri, PARAMETERS)?;
    let format = Format::wanted(&headers, &params)?;
    let bom = params.flag("bom")?;
    let limit = params.count("limit", accounts::ENTRY_PAGE_MAX)?.unwrap_or(PAGE);
    let after = cursor(&params)?;
    let filter = EntryFilter {
        key: principal.limit.clone(),
        ..filter(&params)?
    };
    let form = format.rows(bom);
    let (accounts, account_id, filter) = (&app.deps.accounts, &principal.account_id, &filter);
    let read =
        |after: Option<Cursor>| async move { accounts.entry_page(account_id, filter, after.as_ref(), limit).await };
    let page = match form {
        None => read(after).await?,
        Some(_) => first_filled(after, SEARCH_MAX, read).await?,
    };
    let answer = ListAnswer {
        entries: page.items.into_iter().map(EntryBody::from).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    };
    match form {
        None => Ok(Json(answer).into_response()),
        Some(form) => {
            let rows = Table::whole(form, &answer).map_err(|error| {
                tracing::error!(%error, "entries can't be written");
                Failure::internal()
            })?;
            Ok((format.file("entries"), rows).into_response())
        }
    }
}

/// The first page with an entry, or the last one: the cursor of rows is in the last row, so an
/// empty page would lose it.
///
/// # Errors
/// 503 with the cursor if none is found in `time_max`.
async fn first_filled<F: Future<Output = Result<Page<Entry>, AccountsError>>>(
    mut after: Option<Cursor>,
    time_max: Duration,
    read: impl Fn(Option<Cursor>) -> F,
) -> Result<Page<Entry>, Failure> {
    let begin = Instant::now();
    loop {
        let page = read(after).await?;
        let Some(next) = page.next.as_ref().filter(|_| page.items.is_empty()) else {
            return Ok(page);
        };
        if begin.elapsed() >= time_max {
            let detail = format!(
                "no entry matched among those that could be checked in {} s: continue with `cursor={next}`, or request \
                 JSON, whose pages may be empty",
                time_max.as_secs()
            );
            return Err(Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into());
        }
        after = page.next;
    }
}

/// Get an entry
///
/// Also while its domain isn't verified: it stays yours.
#[utoipa::path(
    get, path = "/api/v1/publisher/entries/{id}", tag = "entries", security(("apiKey" = [])),
    params(
        ("id" = String, Path, format = "uuid", description = "The entryId"),
        ("If-None-Match" = Option<String>, Header, description = "ETags of the states that you have"),
    ),
    responses(
        (status = 200, description = "The entry", body = EntryBody, headers(("ETag" = String, description = "Its state"))),
        (status = 304, description = "The entry is in a state that you have", headers(("ETag" = String, description = "Its state"))),
        (status = 404, description = "You have no such entry", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn entry(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let id = parse_uuid("id", &id)?;
    let entry = app.deps.accounts.entry(&principal.account_id, id).await?;
    let entry = entry
        .filter(|entry| principal.may_act_on(&entry.domain))
        .ok_or_else(unknown)?;
    if has(&headers, entry.revision) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag(entry.revision))]).into_response());
    }
    Ok(shown(entry))
}

/// Put an entry right
///
/// A JSON merge patch (RFC 7396) of `url`, `title` and `authors`; nothing else changes. `authors:
/// null` takes the authors away. With `If-Match` only if the entry is in that state. A new `url`
/// must be on a verified domain; the rest can be put right on any.
#[utoipa::path(
    patch, path = "/api/v1/publisher/entries/{id}", tag = "entries", security(("apiKey" = [])),
    params(
        ("id" = String, Path, format = "uuid", description = "The entryId"),
        ("If-Match" = Option<String>, Header, description = "ETags of the states in which it may be changed"),
    ),
    request_body(content((EntryPatch = "application/merge-patch+json"), (EntryPatch = "application/json"))),
    responses(
        (status = 200, description = "The entry as it is now", body = EntryBody, headers(("ETag" = String, description = "Its state"))),
        (status = 404, description = "You have no such entry", body = ProblemBody, content_type = "application/problem+json"),
        (status = 412, description = "It is in another state", body = ProblemBody, content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
async fn rectify(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let id = parse_uuid("id", &id)?;
    let (head, body) = request.into_parts();
    json::media(&head.headers, MERGE_PATCH).or_else(|_| json::media(&head.headers, JSON))?;
    let states = if_match(&head.headers);
    let patch: EntryPatch = json::parse_body(&json::read(body, json::BYTES_MAX).await?)?;
    let right: Rectification = patch.checked()?;
    let accounts = &app.deps.accounts;
    let entry = accounts.entry(&principal.account_id, id).await?;
    entry
        .filter(|entry| principal.may_act_on(&entry.domain))
        .ok_or_else(unknown)?;
    if let Some(url) = &right.url {
        covered(&principal, url.host())?;
    }
    let actor = principal.actor.to_string();
    let done = accounts
        .rectify_entry(&principal.account_id, &actor, id, right, states.as_deref())
        .await?;
    match done {
        Rectified::Done(entry) => Ok(shown(entry)),
        Rectified::Otherwise(state) => Err(otherwise(state)),
        Rectified::Unknown => Err(unknown()),
    }
}

/// Erase an entry
///
/// At once, by a key with the scope `erase`. Nothing of it is stored but its id, in your audit
/// trail. Receipts that name it stay yours, and are shown by their own URL. With `If-Match` only if
/// it is in that state.
#[utoipa::path(
    delete, path = "/api/v1/publisher/entries/{id}", tag = "entries", security(("apiKey" = [])),
    params(
        ("id" = String, Path, format = "uuid", description = "The entryId"),
        ("If-Match" = Option<String>, Header, description = "ETags of the states in which it may be erased"),
    ),
    responses(
        (status = 204, description = "It is erased"),
        (status = 404, description = "You have no such entry, or not any more", body = ProblemBody, content_type = "application/problem+json"),
        (status = 412, description = "It is in another state", body = ProblemBody, content_type = "application/problem+json"),
        Refusals,
    ),
)]
async fn erase(
    State(app): State<Arc<PublisherState>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Failure> {
    let id = parse_uuid("id", &id)?;
    let states = if_match(&headers);
    let accounts = &app.deps.accounts;
    if principal.limit.is_some() {
        let entry = accounts.entry(&principal.account_id, id).await?;
        entry
            .filter(|entry| principal.may_act_on(&entry.domain))
            .ok_or_else(unknown)?;
    }
    let done = accounts
        .erase_entry(
            &principal.account_id,
            &principal.actor.to_string(),
            id,
            states.as_deref(),
        )
        .await?;
    match done {
        Erased::Done => Ok(StatusCode::NO_CONTENT),
        Erased::Otherwise(state) => Err(otherwise(state)),
        Erased::Unknown => Err(unknown()),
    }
}

fn unknown() -> Failure {
    Failure::not_found("you have no entry of this id")
}

fn otherwise(state: Revision) -> Failure {
    let detail = format!(
        "the entry is in another state, {}: read it and decide again",
        tag(state)
    );
    Failure::new(Kind::PreconditionFailed, detail)
}

fn covered(principal: &Principal, host: &str) -> Result<(), Failure> {
    if principal.covers(host) {
        return Ok(());
    }
    Err(shape::Refusal::not_covered(principal, host).into())
}

fn shown(entry: Entry) -> Response {
    ([(header::ETAG, tag(entry.revision))], Json(EntryBody::from(entry))).into_response()
}

/// The entity tag of a state (RFC 9110 section 8.8.3).
fn tag(state: Revision) -> String {
    format!("\"{:x}-{}\"", state.created_at_ms, state.number)
}

/// The states that `If-Match` names (RFC 9110 section 13.1.1); `None`: any will do. What isn't one
/// of our strong tags is no state of any entry.
fn if_match(headers: &HeaderMap) -> Option<Vec<Revision>> {
    let mut states = None;
    for value in headers.get_all(header::IF_MATCH) {
        let value = value.to_str().unwrap_or_default();
        if value.trim() == "*" {
            return None;
        }
        states
            .get_or_insert_with(Vec::new)
            .extend(value.split(',').filter_map(state));
    }
    states
}

/// Whether `If-None-Match` names a state, by the weak comparison (RFC 9110 section 13.1.2).
fn has(headers: &HeaderMap, revision: Revision) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || state(tag.strip_prefix("W/").unwrap_or(tag)) == Some(revision)
    })
}

fn state(tag: &str) -> Option<Revision> {
    let (created, number) = tag.trim().strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
    Some(Revision {
        created_at_ms: i64::from_str_radix(created, 16).ok()?,
        number: number.parse().ok()?,
    })
}

fn filter(params: &Params) -> Result<EntryFilter, InvalidQuery> {
    let domain: Option<Domain> = params
        .get("domain")
        .map(str::parse)
        .transpose()
        .map_err(|error: accounts::DomainError| InvalidQuery::new("domain", error.to_string()))?;
    let text = params.get("q");
    if text.is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX || text.contains('\0')) {
        let detail = format!("has 1 to {TEXT_CHARS_MAX} characters, none of them NUL");
        return Err(InvalidQuery::new("q", detail));
    }
    Ok(EntryFilter {
        domain: domain.map(|domain| domain.to_string()),
        text: text.map(str::to_owned),
        created_from_ms: instant(params, "createdFrom")?,
        created_to_ms: instant(params, "createdTo")?,
        updated_from_ms: instant(params, "updatedFrom")?,
        key: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn rows_search_for_an_entry_in_bounded_time() {
        let at = |created_at_ms| Cursor {
            created_at_ms,
            id: "00000000-0000-4000-8000-000000000001".to_owned(),
        };
        // Nothing matches, however many pages are read.
        let empty = |after: Option<Cursor>| async move {
            let next = at(after.map_or(1_000, |after| after.created_at_ms) - 1);
            Ok(Page {
                items: Vec::new(),
                next: Some(next),
            })
        };
        let failure = first_filled(None, Duration::ZERO, empty).await.unwrap_err();
        assert_eq!(
            (failure.0.kind, failure.0.retry_after_s),
            (Kind::AccountsUnavailable, Some(1))
        );
        let wanted = format!("continue with `cursor={}`", at(999));
        assert!(failure.0.detail.contains(&wanted), "{}", failure.0.detail);
        // The third page is the last.
        let last = |after: Option<Cursor>| async move {
            let mut page = empty(after).await?;
            page.next = page.next.filter(|next| next.created_at_ms > 997);
            Ok(page)
        };
        let page = first_filled(None, SEARCH_MAX, last).await.unwrap();
        assert_eq!((page.items.len(), page.next), (0, None));
    }

    #[test]
    fn states_travel_as_entity_tags() {
        let state = |created_at_ms, number| Revision { created_at_ms, number };
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, value.parse().unwrap());
            }
            if_match(&headers)
        };
        let one = state(1_800_000_000_000, 12);
        assert_eq!(with(&[&tag(one)]), Some(vec![one]));
        assert_eq!(
            with(&[&format!("\"x\", {} ", tag(one)), &tag(state(1, 2))]),
            Some(vec![one, state(1, 2)])
        );
        assert_eq!(
            with(&[&format!("W/{}", tag(one))]),
            Some(vec![]),
            "weak tags don't match"
        );
        assert_eq!(with(&["*"]), None);
        assert_eq!(with(&[]), None);
        assert_eq!(with(&["nonsense"]), Some(vec![]));
    }
}
