//! The admin port: `/metrics`, `/healthz`, `/readyz`. Kept apart from the service's own port, so that it answers when that
//! one is full, and isn't reachable from outside.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::problem::{Kind, Problem};
use crate::request_id::RequestId;
use crate::telemetry::PrometheusHandle;

/// More scrapers than anyone has; further connections wait in the kernel.
const CONNECTIONS_MAX: usize = 64;
/// Time for a request's head.
const HEAD_READ_MAX: Duration = Duration::from_secs(10);
/// How often histograms are drained between scrapes, so that they stay small when nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until `shutdown`. Cancel it last, after the drain: while the process drains, `/readyz` must go on saying so.
pub async fn serve_admin(
    listener: TcpListener,
    metrics: PrometheusHandle,
    health: Health,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut upkeep = tokio::time::interval(UPKEEP_EVERY);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            _ = upkeep.tick() => { metrics.run_upkeep(); continue }
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let (metrics, health, shutdown) = (metrics.clone(), health.clone(), shutdown.clone());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = serve_connection(stream, metrics, health) => {}
            }
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            // Usually too many open files: wait for some to close instead of spinning.
            tracing::warn!(%error, "the admin port can't accept");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn serve_connection(stream: TcpStream, metrics: PrometheusHandle, health: Health) {
    let service = service_fn(move |request| {
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
