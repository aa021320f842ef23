//! A connection: HTTP/1.1 or h2c by prior knowledge on one socket.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::config::ServerConfig;
use crate::response::{RunningRequest, TrackedBody};
use crate::socket::Socket;
use crate::state::{ConnectionState, Order};

/// The most that is read from a socket ahead of the handler, and that waits to be written, unless
/// twice the longest head is more. Large bodies arrive in pieces of this size: each costs a system
/// call, and each connection holds two.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// Bytes that an HTTP/2 peer may send ahead, in each stream and in all: a connection's worst case
/// in memory.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Streams reset by the peer before they were accepted, and by us for its errors, before the
/// connection is ended: the defences against the floods of CVE-2023-44487 and RUSTSEC-2024-0003.
const RESETS_PENDING_MAX: usize = 20;
const RESETS_FOR_ERRORS_MAX: usize = 256;

/// Interval at which an HTTP/2 peer with open requests is pinged, and time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_WAIT_MAX: Duration = Duration::from_secs(20);

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

/// Hyper's settings for every connection.
pub(crate) fn protocol(config: &ServerConfig, tasks: TaskTracker) -> Builder<Streams> {
    let mut builder = Builder::new(Streams(tasks));
    builder
        .http1()
        .timer(TokioTimer::new())
        // The reaper does this, see there.
        .header_read_timeout(None)
        .half_close(config.half_close)
        .max_buf_size(BUFFER_BYTES_MAX.max(2 * config.head_bytes_max));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.streams_max)
        .max_header_list_size(u32::try_from(config.head_bytes_max.saturating_mul(2)).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_FOR_ERRORS_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WAIT_MAX);
    builder
}

/// Serves one connection to its end, or until the reaper orders that; true if that cut a request
/// off. From [`Order::Leave`] on, answers have the client leave.
pub(crate) async fn serve<S, H, F, B>(
    stream: S,
    handler: H,
    protocol: Arc<Builder<Streams>>,
    state: Arc<ConnectionState>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let requests = Arc::clone(&state);
    let service = service_fn(move |request: Request<Incoming>| {
        let running = RunningRequest::begin(Arc::clone(&requests), request.version() == Version::HTTP_2);
        let (is_http2, state) = (request.version() == Version::HTTP_2, Arc::clone(&requests));
        let response = handler(request);
        async move {
            let mut response = response.await;
            if !is_http2 && state.order() == Order::Leave {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, running)))
        }
    });
    let socket = TokioIo::new(Socket::new(stream, Arc::clone(&state)));
    let mut connection = std::pin::pin!(protocol.serve_connection(socket, service));
    let (mut is_leaving, mut is_finishing) = (false, false);
    poll_fn(|context| {
        state.wakes(context);
        loop {
            match state.order() {
                // Hyper would close a resting connection of HTTP/1.1, or one without a request.
                Order::Leave if !is_leaving && state.is_http2() => {
                    is_leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                Order::Serve | Order::Leave => {}
                Order::Finish if is_finishing => {}
                Order::Finish => {
                    is_finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
                Order::End => return Poll::Ready(state.has_requests()),
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                }
                return Poll::Ready(false);
            }
            // This poll may have read the connection's first request.
            let must_leave = state.order() == Order::Leave && state.is_http2();
            if is_leaving || !must_leave {
                return Poll::Pending;
            }
        }
    })
    .await
}
