//! Connections: HTTP/1.1 and h2c on one port, with limits on their number, heads and idleness, and a drain at the end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use service::address::address_key;
use service::listen::connections_within;
use service::telemetry::LineLimit;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::patience::Patient;

/// One line for all the failures of a while.
static CANNOT_ACCEPT: LineLimit = LineLimit::new("api accept", Duration::from_secs(10));

/// A service's connections, and their limits.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The service, as it stands in logs.
    pub name: &'static str,
    /// Its part of the room for connections; the rest is for the others, often in the same process.
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

/// How long a peer may take nothing of what is written to it.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests of one h2c connection at one time.
const STREAMS_MAX: u32 = 128;

/// Accepts until `shutdown`, then lets requests under way end, for at most `drain_ms_max`; connections that still aren't
/// done then are dropped.
pub async fn serve(listener: TcpListener, router: Router, config: &Connections, shutdown: &CancellationToken) {
    let builder = builder(config);
    let graceful = GracefulShutdown::new();
    let room = connections_within(config.name, config.connections_max, config.files_percent);
    let places = Arc::new(Semaphore::new(room));
    let share = Share::of(room, config.address_share_percent_max);
    let head_wait_max = Duration::from_millis(config.head_wait_ms_max);
    let gone = CancellationToken::new();
    while let Some((stream, address, place)) = next(&listener, &places, shutdown).await {
        let Some(counted) = share.take(address) else {
            continue;
        };
        let started = Arc::new(AtomicBool::new(false));
        let service = {
            let (router, started) = (router.clone(), Arc::clone(&started));
            service_fn(move |request: hyper::Request<Incoming>| {
                started.store(true, Ordering::Relaxed);
                let answer = router.clone().oneshot(request.map(Body::new));
                async move { answer.await.map_err(|never: Infallible| never) }
            })
        };
        let connection = builder
            .serve_connection(TokioIo::new(Patient::new(stream, UNREAD_WAIT_MAX)), service)
            .into_owned();
        let connection = graceful.watch(connection);
        let gone = gone.clone();
        tokio::spawn(async move {
            let _held = (place, counted);
            // hyper's own head timeout starts only once it knows the protocol, which a silent peer never tells.
            let silent = async {
                tokio::time::sleep(head_wait_max).await;
                if started.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                },
                () = silent => {}
                () = gone.cancelled() => {}
            }
        });
    }
    drop(listener);
    let limit = Duration::from_millis(config.drain_ms_max);
    if let Err(late) = service::shutdown::drain(config.name, shutdown, limit, graceful.shutdown()).await {
        tracing::warn!(%late, "connections are dropped");
    }
    gone.cancel();
}

/// How many connections each address (IPv6: one /64) has.
#[derive(Clone)]
struct Share {
    max: usize,
    counts: Arc<Mutex<HashMap<u128, usize>>>,
}

/// One connection of an address; given back when dropped.
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
        // Room for a head over the limit, so that the refusal can be a problem and not hyper's bare 431.
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

    use super::*;

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
