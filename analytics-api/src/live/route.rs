//! The address. Its answer is 200 and a stream that ends only with the key, the service or the
//! connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use accounts::Principal;
use axum::Extension;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cursors::EventId;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use service::problem::{Kind, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::params::Params;
use web::{Credential, Failure};

use super::position;
use super::subscriber::Begin;
use super::{Live, Subscription};
use crate::access::Access;
use crate::answers::Refusals;
use crate::parameters::{DOMAIN, Query, TZ};
use crate::range;
use crate::state::AnalyticsState;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Disables the buffering of answers by proxies (nginx).
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The longest silence.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) const PATH: &str = "/api/v1/analytics/live";
pub(crate) const PARAMETERS: &[&[Query]] = &[&[TZ, DOMAIN]];

pub(crate) fn routes() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::new().routes(routes!(live))
}

/// Live
///
/// Server-sent events (WHATWG HTML, section 9.2), without end. Each has the id of a moment; a
/// request with `Last-Event-ID` continues from it and gets every receipt since, once.
///
/// - `totals`: `totalReceipts`, `uniqueClients`, `usageByPurpose`, `byTrust` of the current day in
///   `tz` (the one that `completeThrough` lies in), its `from` and `to`, `completeThrough`; at
///   once, after each change, and each second as `completeThrough` moves
/// - `receipts`: `receipts`, newest first, each as in the list of receipts, since the event before;
///   `leftOut`, how many more came than are listed
/// - `reload`: more came, or changed, than is listed one by one: load what is shown again, in
///   your own time (other streams get the same event); the stream continues
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
    access: Access,
    Extension(live): Extension<Arc<Live>>,
    Extension(principal): Extension<Arc<Principal>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Failure> {
    accepted(&headers)?;
    let scope = access.scope(&params)?;
    let (zone, tz) = range::time_zone(&params)?;
    let subscription = Subscription {
        principal,
        credential: Credential::of(&headers)?,
        scope,
        zone,
        tz,
        begin: begin(&headers)?,
    };
    let subscriber = live.subscribe(subscription)?;
    let events = Sse::new(subscriber.stream::<Infallible>()).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let headers = [
        (UNBUFFERED, HeaderValue::from_static("no")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, events).into_response())
}

/// Clients that accept anything, or name the type at all, get it: there is no other.
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

/// The beginning by `Last-Event-ID`; an empty one counts as none.
fn begin(headers: &HeaderMap) -> Result<Begin, Failure> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let (first, second) = (values.next(), values.next());
    let Some(id) = first.filter(|id| !id.is_empty()) else {
        return Ok(Begin::Now);
    };
    let id = id.to_str().ok().filter(|_| second.is_none()).map(EventId::parse);
    match id {
        Some(EventId::Positions(positions)) => Ok(Begin::Position(position::of(positions))),
        Some(EventId::OtherVersion) => Ok(Begin::Unknown),
        Some(EventId::Invalid) | None => {
            let detail = "Last-Event-ID isn't an id of this stream: send the last one as it came, or none";
            let problem = Problem::new(Kind::BadRequest, detail);
            Err(problem.fault("Last-Event-ID", "invalid_header", detail).into())
        }
    }
}
