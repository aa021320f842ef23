//! The address. Its answer is 200 and a stream that ends only with the key, the service or the connection.

use std::sync::Arc;

use accounts::Principal;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use service::problem::{Kind, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::Failure;

use super::Wish;
use super::listener::From;
use super::place::{self, Known};
use crate::access::Access;
use crate::app::App;
use crate::openapi::Refusals;
use crate::parameters::{self, DOMAIN, Query, TZ};
use crate::range;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies that gather answers leave this one alone (nginx).
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) const PATH: &str = "/api/v1/analytics/live";
pub(crate) const PARAMETERS: &[Query] = &[TZ, DOMAIN];

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(live))
}

/// Live
///
/// Server-sent events (WHATWG HTML, section 9.2), without end. Each has the id of a moment; a request with `Last-Event-ID` goes on from it
/// and is told every receipt since, once.
///
/// - `totals`: `totalReceipts`, `uniqueClients`, `usageByPurpose` of the current day in `tz` (the one that `completeThrough` lies in), its `from`
///   and `to`, `completeThrough`; at once, after each change, and each second as `completeThrough` moves
/// - `receipts`: `receipts`, newest first, each as in the list of receipts, since the event before; `leftOut`, how many more came than are told
/// - `reload`: more came, or changed, than is told one by one: load what is shown anew, in your own time (others are told the same); the
///   stream goes on
/// - `end`: the key doesn't hold any more or the account's domains changed; the stream ends
///
/// A comment comes after 15 seconds of silence. The stream counts once towards the quota.

#[utoipa::path(
    get, path = PATH, tag = "analytics", security(("apiKey" = [])),
    params(("Last-Event-ID" = Option<String>, Header, description = "The last event's id, to go on behind it")),
    responses(
        (status = 200, description = "Events", content((String = "text/event-stream"))),
        Refusals,
    ),
)]
pub(crate) async fn live(
    State(app): State<Arc<App>>,
    access: Access,
    Extension(principal): Extension<Arc<Principal>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Failure> {
    accepted(&headers)?;
    let params = parameters::read(&uri, PARAMETERS)?;
    let scope = access.scope(&params)?;
    let (zone, tz) = range::time_zone(&params)?;
    let wish = Wish {
        principal,
        bearer: web::bearer(&headers)?.to_owned(),
        scope,
        zone,
        tz,
        from: from(&headers)?,
    };
    let listener = app.live.listen(&app, wish)?;
    let kind = HeaderValue::from_static("text/event-stream");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (UNBUFFERED, HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::from_stream(listener.stream())).into_response())
}

/// Whoever accepts anything, or names the type at all, gets it: there is no other.
fn accepted(headers: &HeaderMap) -> Result<(), Failure> {
    let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
    let names = |line: &HeaderValue| {
        let line = line.to_str().unwrap_or("").to_ascii_lowercase();
        ["text/event-stream", "text/*", "*/*"]
            .iter()
            .any(|kind| line.contains(kind))
    };
    if lines.peek().is_none() || lines.any(names) {
        return Ok(());
    }
    Err(Failure::new(
        Kind::NotAcceptable,
        "this address answers text/event-stream",
    ))
}

/// Where `Last-Event-ID` says that the listener was; an empty one says nothing.
fn from(headers: &HeaderMap) -> Result<From, Failure> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let (first, second) = (values.next(), values.next());
    let Some(id) = first.filter(|id| !id.is_empty()) else {
        return Ok(From::Now);
    };
    let known = id.to_str().ok().filter(|_| second.is_none()).map(place::read);
    match known {
        Some(Known::Place(place)) => Ok(From::Place(place)),
        Some(Known::OtherVersion) => Ok(From::Unknown),
        Some(Known::Not) | None => {
            let detail = "Last-Event-ID isn't an id of this stream: send the last one as it came, or none";
            let problem = Problem::new(Kind::BadRequest, detail);
            Err(problem.fault("Last-Event-ID", "invalid_header", detail).into())
        }
    }
}
