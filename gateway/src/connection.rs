//! A connection: HTTP/1.1 or h2c by prior knowledge on one socket, under a watch.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use crate::config::GatewayConfig;
use crate::exchange;
use crate::pulse::{Order, Phase, Pulse};
use crate::sender::Sender;
use crate::shared::Shared;
use crate::wire::Wire;

/// The most that is read from a socket ahead of the one who wants it, and the most that waits to be
/// written, unless twice the longest head is more. Large bodies come in pieces of this size: each
/// costs a system call, and each connection holds two.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// Bytes that an HTTP/2 peer may send ahead, in each stream and in all: a connection's worst case
/// in memory.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Streams reset by the peer before they were looked at, and by us for its errors, before the
/// connection is ended: the defences against the floods of CVE-2023-44487 and RUSTSEC-2024-0003.
const RESETS_PENDING_MAX: usize = 20;
const RESETS_FOR_ERRORS_MAX: usize = 256;

/// Interval at which an HTTP/2 peer with open requests is pinged, and time that it
/// it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_WAIT_MAX: Duration = Duration::from_secs(20);

/// Peer of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) sender: Sender,
    /// A trusted proxy, which sends for others.
    pub(crate) is_proxy: bool,
}

/// State that the requests of one connection share.
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
        // The watch does this, see there.
        .header_read_timeout(None)
        // A client may close its side after its request and wait for the answer (RFC 9112, 9.6).
        .half_close(true)
        .max_buf_size(BUFFER_BYTES_MAX.max(2 * config.head_bytes_max));
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

/// Serves one connection to its end, or until its watch orders that; true if that cut a request
/// off.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: Peer,
    shared: Arc<Shared>,
    protocol: Arc<Builder<Streams>>,
    pulse: Arc<Pulse>,
) -> bool {
    // Answers are small and complete: waiting to fill a segment only delays them.
    let _ = stream.set_nodelay(true);
    let line = Arc::new(Line {
        shared,
        peer,
        pulse: Arc::clone(&pulse),
    });
    let service = service_fn(move |request| exchange::answer(Arc::clone(&line), request));
    let wire = TokioIo::new(Wire::new(stream, Arc::clone(&pulse)));
    let mut connection = std::pin::pin!(protocol.serve_connection(wire, service));
    let mut finishing = false;
    poll_fn(|context| {
        match pulse.order(context) {
            Order::Serve => {}
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            Order::End => return Poll::Ready(pulse.phase() == Phase::Busy),
        }
        connection.as_mut().poll(context).map(|ended| {
            if let Err(error) = ended {
                tracing::debug!(peer = %peer.sender.address, error, "connection ended");
            }
            false
        })
    })
    .await
}
