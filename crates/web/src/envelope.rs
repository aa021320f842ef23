//! Envelope of every answer: a request ID, problem bodies, no caching unless the handler
//! says otherwise, metrics, and no panic that ends a connection.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use service::host;
use service::problem::Kind;
use service::request_id::{HEADER as REQUEST_ID, RequestId};
use service::telemetry::is_slow;
use service::trace::{self, TraceParent};
use tracing::Instrument;

use crate::{Failure, compress};

/// API that answers, and its limit on heads.
#[derive(Debug, Clone, Copy)]
pub struct Envelope {
    /// The label `api` of its metrics: `analytics`, `publisher`.
    pub api: &'static str,
    /// Request head, in bytes.
    pub head_bytes_max: usize,
}

/// Statuses of answers that are our fault.
const FAULTS: [&str; 2] = ["500", "503"];

impl Envelope {
    /// Publishes the counts of answers that are our fault at 0, for each of `routes`, the patterns
    /// of the addresses.
    pub fn start_at_zero<'a>(self, routes: impl IntoIterator<Item = &'a String>) {
        for route in routes {
            for status in FAULTS {
                let labels = [
                    ("api", self.api.to_owned()),
                    ("route", route.clone()),
                    ("status", status.to_owned()),
                ];
                metrics::counter!("receipts_api_requests_total", &labels).increment(0);
            }
        }
    }
}

/// The outermost layer.
pub async fn envelope(
    State(api): State<Envelope>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    let trace = TraceParent::of(request.headers());
    // The pattern, never the path itself: identifiers must not become labels.
    let route = path.map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let takes_gzip = compress::takes_gzip(request.headers());
    let response = if head_bytes(&request) > api.head_bytes_max {
        let detail = format!("the request head is over the limit of {} bytes", api.head_bytes_max);
        Failure::new(Kind::HeadTooLarge, detail).into_response()
    } else if !host::is_right(request.version(), request.headers()) {
        Failure::new(Kind::BadRequest, host::WANTED).into_response()
    } else {
        let span = tracing::info_span!("request", request_id = %id, trace_id = trace::field(trace), route);
        AssertUnwindSafe(next.run(request).instrument(span))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                tracing::error!(request_id = %id, trace_id = trace::field(trace), route, "a handler panicked");
                Failure::internal().into_response()
            })
    };
    let response = finished(response, &id);
    let response = if takes_gzip {
        compress::compressed(response)
    } else {
        response
    };
    let (status, took) = (response.status().as_u16(), started.elapsed());
    if is_slow(took) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(
            request_id = %id, trace_id = trace::field(trace), api = api.api, route, status, took_ms,
            "slow request: lines with its request_id name slow questions"
        );
    }
    let status = status.to_string();
    metrics::counter!("receipts_api_requests_total", "api" => api.api, "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("receipts_api_request_seconds", "api" => api.api, "route" => route).record(took);
    response
}

/// Writes the problem that a handler left in the extensions, and the headers of every answer.
fn finished(mut response: Response, id: &RequestId) -> Response {
    let failure = response.extensions_mut().remove::<Failure>();
    if let Some(Failure(mut problem)) = failure.or_else(|| axums_own(&response)) {
        // Headers set on the way, such as the quota's and axum's Allow.
        for (name, value) in response.headers() {
            if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
                problem.headers.entry(name).or_insert_with(|| value.clone());
            }
        }
        response = problem.into_response(id).map(Body::new);
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.header_value());
    // For no one's cache, unless the handler knows better.
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    let vary = HeaderValue::from_static("accept, accept-encoding, authorization, cookie");
    headers.entry(header::VARY).or_insert(vary);
    // An answer is no page, unless the handler knows better: nothing is loaded by it, and nothing
    // shows it in a frame.
    let no_page = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(no_page);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A rejection that axum made by itself, as text, said as a problem.
fn axums_own(response: &Response) -> Option<Failure> {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    // A handler's own: JSON for programs, or a page for people.
    let is_ours = kind.is_some_and(|kind| kind.ends_with(b"json") || kind.starts_with(b"text/html"));
    let status = response.status();
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    Some(if status.is_client_error() {
        Failure::new(
            Kind::BadRequest,
            "the address isn't valid: percent-encoded UTF-8 is needed",
        )
    } else {
        Failure::internal()
    })
}

fn head_bytes(request: &Request) -> usize {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum::<usize>()
        + path
}

/// Whether a person's browser sends the request: it names HTML, programs name JSON or nothing.
#[must_use]
pub fn is_browser(headers: &HeaderMap) -> bool {
    let mut accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok());
    accepted.any(|line| line.to_ascii_lowercase().contains("text/html"))
}

/// No route.
pub async fn not_found(uri: Uri) -> Failure {
    let path = crate::params::shortened(uri.path());
    Failure::not_found(format!("there is no {path}; GET / lists the addresses"))
}

/// A route, but not with this method; axum adds `Allow`.
pub async fn method_not_allowed(method: Method) -> Failure {
    let method = crate::params::shortened(method.as_str());
    Failure::new(
        Kind::MethodNotAllowed,
        format!("{method} isn't possible here; the header Allow lists what is"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_distinguished_from_programs() {
        let is_browser_of = |accepted: &'static str| {
            is_browser(&HeaderMap::from_iter([(
                header::ACCEPT,
                HeaderValue::from_static(accepted),
            )]))
        };
        assert!(is_browser_of(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        ));
        assert!(!is_browser_of("*/*") && !is_browser_of("application/json"));
        assert!(!is_browser(&HeaderMap::new()));
    }
}
