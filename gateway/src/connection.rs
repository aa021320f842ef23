//! A connection: HTTP/1.1 or h2c by prior knowledge on one socket, with a timer for its patience.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::GatewayConfig;
use crate::exchange;
use crate::pulse::{Due, Patience, Pulse};
use crate::rate::address_key;
use crate::shared::Shared;
use crate::wire::Wire;

/// The most that is read from a socket ahead of the one who wants it, and the most that waits to be written. Large bodies come
/// in pieces of this size.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// What an HTTP/2 peer may send ahead, in each stream and in all: a connection's worst case in memory.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Streams reset by the peer before they were looked at, and by us for its errors, before the connection is ended: the
/// defences against the floods of CVE-2023-44487 and RUSTSEC-2024-0003.
const RESETS_PENDING_MAX: usize = 20;
const RESETS_FOR_ERRORS_MAX: usize = 256;

/// How often an HTTP/2 peer that has requests open is asked whether it is still there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_WAIT_MAX: Duration = Duration::from_secs(20);

/// What a connection whose patience is over has left to end in order.
const FAREWELL: Duration = Duration::from_secs(1);

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Its key in the rate limiter.
    pub(crate) key: u128,
}

/// What the requests of one connection share.
pub(crate) struct Line {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Peer,
    pub(crate) pulse: Arc<Pulse>,
}

/// Spawns the streams of HTTP/2 connections where a drain waits for them.
#[derive(Clone)]
pub(crate) struct Streams(TaskTracker);

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

/// Hyper's side of every connection.
pub(crate) fn protocol(config: &GatewayConfig, tasks: TaskTracker) -> Builder<Streams> {
    let mut builder = Builder::new(Streams(tasks));
    builder
        .http1()
        .timer(TokioTimer::new())
        // Pulse does this, see there.
        .header_read_timeout(None)
        // A client may close its side after its request and wait for the answer (RFC 9112, 9.6).
        .half_close(true)
        .max_buf_size(BUFFER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.streams_max)
        .max_header_list_size(u32::try_from(config.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_FOR_ERRORS_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WAIT_MAX);
    builder
}

/// Serves one connection to its end. After `drain` it takes no new requests and has `drain_ms_max` left; `cut` counts those
/// that were ended with a request under way.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    protocol: Arc<Builder<Streams>>,
    drain: CancellationToken,
    cut: Arc<AtomicUsize>,
) {
    let patience = Patience {
        head: shared.config.head_wait(),
        idle: shared.config.idle_wait(),
    };
    let drain_wait = shared.config.drain_wait();
    // Answers are small and complete: waiting to fill a segment only delays them.
    let _ = stream.set_nodelay(true);
    let now = Instant::now();
    let pulse = Arc::new(Pulse::new(now.into_std()));
    let address = peer.ip().to_canonical();
    let peer = Peer {
        address,
        key: address_key(address),
    };
    let line = Arc::new(Line {
        shared,
        peer,
        pulse: Arc::clone(&pulse),
    });
    let service = service_fn(move |request| exchange::answer(Arc::clone(&line), request));
    let wire = TokioIo::new(Wire::new(stream, Arc::clone(&pulse)));
    let mut connection = std::pin::pin!(protocol.serve_connection(wire, service));
    let mut timer = std::pin::pin!(sleep_until(now + patience.head));
    let mut last = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(peer = %address, error, "connection ended");
                }
                return;
            }
            () = drain.cancelled(), if !last => {
                last = true;
                connection.as_mut().graceful_shutdown();
                timer.as_mut().reset(Instant::now() + drain_wait);
            }
            () = timer.as_mut() => {
                if last {
                    if pulse.is_busy() {
                        cut.fetch_add(1, Ordering::Relaxed);
                    }
                    return;
                }
                match pulse.due(Instant::now().into_std(), patience) {
                    Due::At(then) => timer.as_mut().reset(Instant::from_std(then)),
                    Due::Now => {
                        last = true;
                        connection.as_mut().graceful_shutdown();
                        timer.as_mut().reset(Instant::now() + FAREWELL);
                    }
                }
            }
        }
    }
}
