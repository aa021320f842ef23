//! The admin port: `/metrics`, `/healthz`, `/readyz`. Separate from the service's own port, so that
//! it answers when that one is full, and isn't reachable from outside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use service::health::Health;
use service::problem::{Kind, Problem};
use service::process;
use service::request_id::RequestId;
use service::telemetry::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::config::{ServerConfig, WhenFull};
use crate::listen::{ListenError, bind};
use crate::server::{OpenConnections, serve};

/// Key of the admin port's address.
const KEY: &str = "telemetry.metrics_listen";
/// Interval at which histograms are drained between scrapes, so that they stay small when nobody
/// scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// More scrapers than anyone has. One more closes the connection whose last request is the longest
/// ago: silent ones must not keep out a probe, which would have the process killed.
const CONFIG: ServerConfig = ServerConfig {
    name: "admin",
    connections_max: 64,
    when_full: WhenFull::CloseIdlest,
    address_connections_max: usize::MAX,
    unlimited: Vec::new(),
    head_bytes_max: 16 << 10,
    streams_max: 16,
    half_close: true,
    head_wait_max: Duration::from_secs(5),
    idle_wait_max: Duration::from_secs(120),
    unread_wait_max: Duration::from_secs(10),
    drain_delay: Duration::ZERO,
    drain_wait_max: Duration::ZERO,
};

/// The running admin port of a process.
#[derive(Debug)]
pub struct AdminPort {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl AdminPort {
    /// Binds `telemetry.metrics_listen` and serves it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// As [`bind`].
    pub fn start(address: SocketAddr, metrics: PrometheusHandle, health: Health) -> Result<Self, ListenError> {
        Ok(Self::serve(bind(KEY, address)?, metrics, health))
    }

    /// Serves a bound port.
    #[must_use]
    pub fn serve(listener: TcpListener, metrics: PrometheusHandle, health: Health) -> Self {
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let task = tokio::spawn(async move {
            let upkeep = async {
                let mut upkeep = interval(UPKEEP_INTERVAL);
                loop {
                    upkeep.tick().await;
                    metrics.run_upkeep();
                }
            };
            let handlers = |_| {
                let (metrics, health) = (metrics.clone(), health.clone());
                move |request| std::future::ready(answer(&request, &metrics, &health))
            };
            tokio::select! {
                _ = serve(listener, CONFIG, Arc::new(OpenConnections::default()), handlers, &stop) => {}
                () = upkeep => {}
            }
        });
        Self { shutdown, task }
    }

    /// Stops it. Call this last, after the drain: while the process drains, `/readyz` reports that.
    pub async fn stop(self) {
        self.shutdown.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the admin port ended early");
        }
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
            let mut response = Response::new(Full::new(Bytes::from(metrics.render() + &process::metrics_text())));
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
