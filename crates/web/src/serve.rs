//! Connections: HTTP/1.1 and h2c on one port, with limits on their number, heads and idleness, and
//! a drain at the end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use service::address::address_key;
use service::listen::connections_within;
use service::telemetry::LineLimit;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::idle::{Answer, Requests};
use crate::patience::Patient;

/// A line for all the failures of a while.
static CANNOT_ACCEPT: LineLimit = LineLimit::new("api accept", Duration::from_secs(10));

/// A service's connections, and their limits.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The service, as it is in logs.
    pub name: &'static str,
    /// Share of the room for connections; the rest is for the others, often in the same process.
    pub files_percent: u64,
    /// At one time; more wait to be accepted.
    pub connections_max: usize,
    /// The part of them that one address may have, in percent; more are closed at once.
    pub address_share_percent_max: u8,
    /// Request head, in bytes.
    pub head_bytes_max: usize,
    /// Time for a head to arrive, and for a kept-alive connection to stay idle, in milliseconds.
    pub head_wait_ms_max: u64,
    /// Time to finish requests after a shutdown signal, in milliseconds.
    pub drain_ms_max: u64,
}

/// Time for which a peer may take nothing of what is written to it.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests of one h2c connection at one time.
const STREAMS_MAX: u32 = 128;

/// Accepts until `shutdown`, then lets requests in progress end, for at most `drain_ms_max`;
/// connections that still aren't done then are dropped.
pub async fn serve(listener: TcpListener, router: Router, config: &Connections, shutdown: &CancellationToken) {
    let builder = builder(config);
    let running = TaskTracker::new();
    let room = connections_within(config.name, config.connections_max, config.files_percent);
    let places = Arc::new(Semaphore::new(room));
    let share = Share::of(room, config.address_share_percent_max);
    let head_wait_max = Duration::from_millis(config.head_wait_ms_max);
    let gone = CancellationToken::new();
    while let Some((stream, address, place)) = next(&listener, &places, shutdown).await {
        let Some(counted) = share.take(address) else {
            continue;
        };
        let requests = Requests::default();
        let service = {
            let (router, requests) = (router.clone(), requests.clone());
            service_fn(move |request: hyper::Request<Incoming>| {
                let running = requests.begin();
                let answer = router.clone().oneshot(request.map(Body::new));
                async move {
                    let answer = answer.await.map_err(|never: Infallible| never)?;
                    Ok::<_, Infallible>(answer.map(|body| Answer {
                        body,
                        _running: running,
                    }))
                }
            })
        };
        let connection = builder
            .serve_connection(TokioIo::new(Patient::new(stream, UNREAD_WAIT_MAX)), service)
            .into_owned();
        let (gone, shutdown) = (gone.clone(), shutdown.clone());
        running.spawn(async move {
            let _held = (place, counted);
            let mut connection = pin!(connection);
            // hyper's own limit on heads begins only once it knows the protocol, which a silent
            // peer never tells, and it has none on idle HTTP/2 connections.
            let finish = async {
                tokio::select! {
                    () = requests.none_for(head_wait_max) => {}
                    () = shutdown.cancelled() => {}
                }
            };
            let ended = async {
                tokio::select! {
                    ended = connection.as_mut() => return ended,
                    () = finish => connection.as_mut().graceful_shutdown(),
                }
                connection.await
            };
            tokio::select! {
                ended = ended => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                },
                () = gone.cancelled() => {}
            }
        });
    }
    drop(listener);
    running.close();
    let limit = Duration::from_millis(config.drain_ms_max);
    if let Err(late) = service::shutdown::drain(config.name, shutdown, limit, running.wait()).await {
        tracing::warn!(%late, "connections are dropped");
    }
    gone.cancel();
}

/// Number of connections that each address (IPv6: one /64) has.
#[derive(Clone)]
struct Share {
    max: usize,
    counts: Arc<Mutex<HashMap<u128, usize>>>,
}

/// A counted connection of an address; given back when dropped.
struct Counted {
    share: Share,
    key: u128,
}

impl Share {
    fn of(room: usize, percent: u8) -> Self {
        Self {
            max: (room * usize::from(percent) / 100).max(1),
            counts: Arc::default(),
        }
    }

    /// `None` if the address has all that it may have.
    fn take(&self, address: IpAddr) -> Option<Counted> {
        let key = address_key(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Counted {
            share: self.clone(),
            key,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.share.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// The next connection and its place among `connections_max`, or none once shutting down.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, IpAddr, tokio::sync::OwnedSemaphorePermit)> {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return None,
            accepted = async {
                let place = Arc::clone(places).acquire_owned().await.ok()?;
                Some((listener.accept().await, place))
            } => accepted?,
        };
        match accepted {
            (Ok((stream, peer)), place) => {
                // Answers are small and whole: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                return Some((stream, peer.ip(), place));
            }
            (Err(error), _) => {
                if let Some(suppressed) = CANNOT_ACCEPT.pass() {
                    tracing::warn!(%error, suppressed, "can't accept a connection");
                }
                // Out of file descriptors, most likely: some must close first.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn builder(config: &Connections) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let head_wait_max = Duration::from_millis(config.head_wait_ms_max);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_wait_max)
        // Room for a head over the limit, so that the refusal can be a problem and not hyper's bare
        // 431.
        .max_buf_size(config.head_bytes_max.saturating_mul(2));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(config.head_bytes_max.saturating_mul(2)).unwrap_or(u32::MAX))
        .keep_alive_interval(head_wait_max)
        .keep_alive_timeout(head_wait_max);
    builder
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;
    use std::time::Instant;

    use axum::body::Bytes;
    use axum::routing::get;
    use futures_util::stream;
    use http_body_util::{BodyExt, Empty};
    use tokio::io::AsyncReadExt;

    use super::*;

    const WAIT: Duration = Duration::from_millis(300);
    /// Longer than anything takes here.
    const WAIT_MAX: Duration = Duration::from_secs(60);

    /// A server that ends idle connections after [`WAIT`].
    async fn start() -> (std::net::SocketAddr, tokio_util::sync::DropGuard) {
        // It takes three times as long as a connection may be idle.
        let slow = async || {
            let parts = stream::unfold(0, |part| async move {
                tokio::time::sleep(WAIT).await;
                (part < 3).then(|| (Ok::<_, Infallible>(Bytes::from_static(b"part")), part + 1))
            });
            Body::from_stream(parts)
        };
        let router = Router::new()
            .route("/fast", get(async || "done"))
            .route("/slow", get(slow));
        let config = Connections {
            name: "test",
            files_percent: 10,
            connections_max: 10,
            address_share_percent_max: 100,
            head_bytes_max: 16 << 10,
            head_wait_ms_max: u64::try_from(WAIT.as_millis()).unwrap(),
            drain_ms_max: 1_000,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        tokio::spawn(async move { serve(listener, router, &config, &stop).await });
        (address, shutdown.drop_guard())
    }

    #[tokio::test]
    async fn an_idle_http2_connection_ends_and_one_with_a_request_does_not() {
        let (address, _running) = start().await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        for (path, wanted) in [("/fast", &b"done"[..]), ("/slow", b"partpartpart")] {
            let request = http::Request::get(format!("http://test{path}")).body(Empty::<Bytes>::new());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), wanted);
        }
        let ended = Instant::now();
        // The client answers pings all the while.
        tokio::time::timeout(WAIT_MAX, connection)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert!(ended.elapsed() > WAIT / 2);
        assert!(sender.is_closed());
    }

    #[tokio::test]
    async fn a_silent_connection_ends() {
        let (address, _running) = start().await;
        for begun in ["", "GET /fast HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, begun.as_bytes())
                .await
                .unwrap();
            let mut rest = Vec::new();
            let read = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut rest)).await;
            assert!(read.is_ok(), "{begun}");
        }
    }

    #[test]
    fn one_address_has_its_share_and_gets_it_back() {
        let share = Share::of(5, 50);
        let [one, other] = [1, 2].map(|last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let held = [share.take(one), share.take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(share.take(one).is_none());
        assert!(share.take(other).is_some(), "another address isn't kept out");
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|text| share.take(text.parse().unwrap()));
        assert!(network[1].is_some() && network[2].is_none(), "a /64 is one sender");
        drop(network);
        drop(held);
        assert!(share.take(one).is_some());
        assert_eq!(share.counts.lock().map(|counts| counts.len()).ok(), Some(0));
    }
}
