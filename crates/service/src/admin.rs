//! The admin port: `/metrics`, `/healthz`, `/readyz`. Kept apart from the service's own port, so
//! that it answers when that one is full, and isn't reachable from outside.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::problem::{Kind, Problem};
use crate::request_id::RequestId;
use crate::telemetry::PrometheusHandle;

/// More scrapers than anyone has. One more takes the place of whichever has requested nothing the
/// longest.
const CONNECTIONS_MAX: usize = 64;
/// Time for a request's head, the wait for its first byte included.
const HEAD_READ_MAX: Duration = Duration::from_secs(5);
/// Interval at which histograms are drained between scrapes, so that they stay small when nobody
/// scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until `shutdown`. Cancel it last, after the drain: while the process drains, `/readyz`
/// must continue saying so.
pub async fn serve_admin(
    listener: TcpListener,
    metrics: PrometheusHandle,
    health: Health,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Places::default());
    let mut upkeep = tokio::time::interval(UPKEEP_EVERY);
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            _ = upkeep.tick() => { metrics.run_upkeep(); continue }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Usually too many open files: wait for some to close instead of spinning.
                    tracing::warn!(%error, "the admin port can't accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let place = Places::take(&places, shutdown.child_token());
        let (metrics, health) = (metrics.clone(), health.clone());
        tokio::spawn(async move {
            let ended = place.ended.clone();
            tokio::select! {
                () = ended.cancelled() => {}
                () = serve_connection(stream, place, metrics, health) => {}
            }
        });
    }
}

/// The open connections by their turn: the first one's last request is the longest ago.
#[derive(Default)]
struct Places(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

impl Turns {
    fn add(&mut self, ended: CancellationToken) -> u64 {
        let turn = self.next;
        self.next += 1;
        self.open.insert(turn, ended);
        turn
    }
}

/// Permit of a connection, given back when dropped.
struct Place {
    places: Arc<Places>,
    turn: Mutex<u64>,
    ended: CancellationToken,
}

impl Places {
    /// A place for a new connection, which `ended` ends. Ends another one if there is none left.
    fn take(places: &Arc<Self>, ended: CancellationToken) -> Place {
        let mut turns = places.0.lock();
        if turns.open.len() >= CONNECTIONS_MAX
            && let Some((_, oldest)) = turns.open.pop_first()
        {
            oldest.cancel();
        }
        let turn = Mutex::new(turns.add(ended.clone()));
        let places = Arc::clone(places);
        Place { places, turn, ended }
    }
}

impl Place {
    /// Notes a request.
    fn asked(&self) {
        let (mut turns, mut turn) = (self.places.0.lock(), self.turn.lock());
        if let Some(ended) = turns.open.remove(&turn) {
            *turn = turns.add(ended);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.lock().open.remove(self.turn.get_mut());
    }
}

async fn serve_connection(stream: TcpStream, place: Place, metrics: PrometheusHandle, health: Health) {
    let service = service_fn(|request| {
        place.asked();
        let response = answer(&request, &metrics, &health);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection of the admin port ended");
    }
}

fn answer(request: &Request<Incoming>, metrics: &PrometheusHandle, health: &Health) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/healthz" | "/readyz") {
        let problem = Problem::new(Kind::NotFound, "this port has /metrics, /healthz and /readyz");
        return problem.into_response(&RequestId::of(request.headers()));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let problem =
            Problem::new(Kind::MethodNotAllowed, "use GET").header(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return problem.into_response(&RequestId::of(request.headers()));
    }
    match path {
        "/healthz" => health.liveness_response(),
        "/readyz" => health.readiness_response(),
        _ => {
            let mut response = Response::new(Full::new(Bytes::from(metrics.render())));
            let headers = response.headers_mut();
            headers.insert(
                CONTENT_TYPE,
                HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
            );
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
    }
}
