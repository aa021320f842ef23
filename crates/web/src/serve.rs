//! A router on a port.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http_server::config::address_share;
use http_server::listen::connections_within;
use http_server::{ServerConfig, WhenFull};
use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Limits of an API's connections.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// Name in logs.
    pub name: &'static str,
    /// Share of the open files for connections; the rest is for the others, often in the same
    /// process.
    pub files_percent: u64,
    /// At one time.
    pub connections_max: usize,
    /// The part of them that one address may have, in percent.
    pub address_share_percent_max: u8,
    /// Request head, in bytes.
    pub head_bytes_max: usize,
    /// Time for a head to arrive, and for a keep-alive connection to stay idle, in milliseconds.
    pub head_wait_ms_max: u64,
    /// Time after a shutdown signal in which requests are still accepted, in milliseconds.
    pub drain_delay_ms: u64,
    /// Time to finish requests after that, in milliseconds.
    pub drain_ms_max: u64,
}

/// Time for which a peer may accept nothing of an answer.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests of one HTTP/2 connection at one time.
const STREAMS_MAX: u32 = 128;

impl Connections {
    fn server_config(self) -> ServerConfig {
        let connections_max = connections_within(self.name, self.connections_max, self.files_percent);
        let head_wait_max = Duration::from_millis(self.head_wait_ms_max);
        ServerConfig {
            name: self.name,
            connections_max,
            when_full: WhenFull::Refuse,
            address_connections_max: address_share(connections_max, self.address_share_percent_max.into()),
            unlimited: Vec::new(),
            head_bytes_max: self.head_bytes_max,
            streams_max: STREAMS_MAX,
            // Nobody needs the answer of a query whose client is gone.
            half_close: false,
            head_wait_max,
            idle_wait_max: head_wait_max,
            unread_wait_max: UNREAD_WAIT_MAX,
            drain_delay: Duration::from_millis(self.drain_delay_ms),
            drain_wait_max: Duration::from_millis(self.drain_ms_max),
        }
    }
}

/// Address of the peer of a connection, beside each of its requests. `None` on a Unix socket.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub Option<IpAddr>);

/// Answers one request of `peer`, on whatever port.
pub fn answer(
    router: &Router,
    peer: PeerAddress,
    mut request: Request<Incoming>,
) -> impl Future<Output = Response> + Send + use<> {
    request.extensions_mut().insert(peer);
    let answer = router.clone().oneshot(request.map(Body::new));
    async move { answer.await.unwrap_or_else(|never: Infallible| match never {}) }
}

/// Serves `router` until `shutdown` and for `drain_delay_ms` more, in which connections are
/// closed after their answers. Then requests in progress may end, for at most `drain_ms_max`.
pub async fn serve(listener: TcpListener, router: Router, connections: Connections, shutdown: &CancellationToken) {
    let handlers = |address| {
        let (router, peer) = (router.clone(), PeerAddress(address));
        move |request| answer(&router, peer, request)
    };
    let cut = http_server::serve(
        listener,
        connections.server_config(),
        Arc::default(),
        handlers,
        shutdown,
    )
    .await;
    if cut > 0 {
        tracing::warn!(
            server = connections.name,
            cut,
            "connections were cut at the end of the drain"
        );
    }
}
