//! The accept loop: connections up to a limit, in all and by address, and a drain at the end.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use service::telemetry::LineLimit;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::address_limit::AddressLimit;
use crate::config::{ServerConfig, WhenFull};
use crate::connection;
use crate::reaper::IdleReaper;
use crate::state::ConnectionState;

/// Pause of accepting when the system has no file or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Time for a connection that was closed to make room.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(1);

/// By how much the reaper may be late for the deadline of a drain, and streams of HTTP/2 may
/// outlive their connection, before they are dropped.
const LATE_MAX: Duration = Duration::from_secs(2);

/// A line for all failures of a while.
static CANNOT_ACCEPT: LineLimit = LineLimit::new("accept", Duration::from_secs(10));

/// Answer to a connection over a limit. Written by hand: it costs a few microseconds and no memory.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: 157\r\n\
retry-after: 1\r\nconnection: close\r\n\r\n\
{\"type\":\"/problems/overloaded\",\"title\":\"The service is at its limit\",\"status\":503,\
\"code\":\"overloaded\",\"detail\":\"as many connections are open as are allowed\"}";

/// A bound port or socket file.
pub trait Listener: Send + Sync {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts a connection, with its peer's address where it has one.
    ///
    /// # Errors
    /// As accept(2).
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;

    /// Answers 503 and closes.
    fn refuse(stream: Self::Stream);
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Answers are small and complete: waiting to fill a segment only delays them.
        let _ = stream.set_nodelay(true);
        Ok((stream, Some(peer.ip())))
    }

    /// Arrived bytes are read first: a socket closed with unread bytes is reset, and the answer
    /// lost.
    fn refuse(stream: TcpStream) {
        let Ok(mut stream) = stream.into_std() else { return };
        // Neither blocks, as tokio's sockets don't. The socket's buffer is still empty.
        let _ = stream.read(&mut [0; 2_048]);
        let _ = stream.write(FULL);
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<IpAddr>)> {
        Ok((UnixListener::accept(self).await?.0, None))
    }

    fn refuse(stream: UnixStream) {
        drop(stream);
    }
}

/// Numbers of a server's connections, for metrics.
#[derive(Debug, Default)]
pub struct OpenConnections {
    open: AtomicUsize,
    refused: AtomicU64,
}

impl OpenConnections {
    /// Open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections that were answered 503 since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// An open connection, counted until it is dropped: also when its handler panics.
struct OpenConnection(Arc<OpenConnections>);

impl OpenConnection {
    fn count(connections: &Arc<OpenConnections>) -> Self {
        connections.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts until `shutdown`, and for `drain_delay` more, in which connections are closed after
/// their answers. Then requests in progress may end, for at most `drain_wait_max`.
/// `handlers` makes the handler of a connection from its peer's address. Returns the number of
/// connections that were cut at the end.
pub async fn serve<L, M, H, F, B>(
    listener: L,
    config: ServerConfig,
    connections: Arc<OpenConnections>,
    handlers: M,
    shutdown: &CancellationToken,
) -> usize
where
    L: Listener,
    M: Fn(Option<IpAddr>) -> H,
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let tasks = TaskTracker::new();
    let protocol = Arc::new(connection::protocol(&config, tasks.clone()));
    let permits = Arc::new(Semaphore::new(config.connections_max));
    let addresses = AddressLimit::new(config.address_connections_max);
    let reaper = Arc::new(IdleReaper::new(config.clone()));
    let checks = AbortOnDropHandle::new(tokio::spawn(check_regularly(Arc::clone(&reaper))));
    let cut = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let leaving = leave(Arc::clone(&reaper), config.drain_delay, shutdown.clone(), stop.clone());
    let leaving = AbortOnDropHandle::new(tokio::spawn(leaving));
    while let Some((stream, address)) = next(&listener, &permits, &config, &stop).await {
        let limited = address.filter(|address| !config.unlimited.iter().any(|network| network.contains(*address)));
        let counted = limited.map(|address| addresses.count(address));
        let permit = permit(&permits, &config, &reaper).await;
        let (Some(permit), Some(counted)) = (permit, counted.map_or(Some(None), |counted| counted.map(Some))) else {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(server = config.name, peer = ?address, "refused: as many connections as allowed");
            L::refuse(stream);
            continue;
        };
        let state = Arc::new(ConnectionState::new());
        let registered = reaper.add(Arc::clone(&state));
        let connection = connection::serve(stream, handlers(address), Arc::clone(&protocol), state);
        let (cut, open) = (Arc::clone(&cut), OpenConnection::count(&connections));
        tasks.spawn(async move {
            if connection.await {
                cut.fetch_add(1, Ordering::Relaxed);
            }
            drop((registered, open, permit, counted));
        });
    }
    drop(listener);
    reaper.drain(Instant::now());
    tasks.close();
    let in_time = timeout(config.drain_wait_max + LATE_MAX, tasks.wait()).await.is_ok();
    drop((checks, leaving));
    cut.load(Ordering::Relaxed) + if in_time { 0 } else { tasks.len() }
}

/// Has peers leave from `shutdown` on, and stops the accept loop when `delay` is over.
async fn leave(reaper: Arc<IdleReaper>, delay: Duration, shutdown: CancellationToken, stop: CancellationToken) {
    shutdown.cancelled().await;
    reaper.leave();
    sleep(delay).await;
    stop.cancel();
}

/// The next connection; `None` once it has to stop.
async fn next<L: Listener>(
    listener: &L,
    permits: &Semaphore,
    config: &ServerConfig,
    stop: &CancellationToken,
) -> Option<(L::Stream, Option<IpAddr>)> {
    loop {
        let accepted = async {
            if config.when_full == WhenFull::Wait {
                drop(permits.acquire().await);
            }
            listener.accept().await
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => pause_if_exhausted(&error, config.name).await,
        }
    }
}

async fn permit(permits: &Arc<Semaphore>, config: &ServerConfig, reaper: &IdleReaper) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return Some(permit);
    }
    if config.when_full != WhenFull::CloseIdlest {
        return None;
    }
    reaper.close_idlest(Instant::now());
    let permit = timeout(CLOSE_WAIT_MAX, Arc::clone(permits).acquire_owned()).await;
    permit.ok()?.ok()
}

async fn check_regularly(reaper: Arc<IdleReaper>) {
    let mut checks = interval(reaper.interval());
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        checks.tick().await;
        reaper.check(Instant::now());
    }
}

async fn pause_if_exhausted(error: &io::Error, server: &str) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    // The connection died before it was accepted: that concerns nobody else.
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    ) {
        return;
    }
    if let Some(suppressed) = CANNOT_ACCEPT.pass() {
        tracing::warn!(%error, server, suppressed, "can't accept connections now");
    }
    sleep(EXHAUSTED_PAUSE).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;
    use std::net::{Ipv4Addr, SocketAddr};

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::{BodyExt, Empty, StreamBody, combinators::UnsyncBoxBody};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::DropGuard;

    use super::*;

    const WAIT: Duration = Duration::from_millis(300);
    /// Longer than anything takes here.
    const WAIT_MAX: Duration = Duration::from_secs(60);

    fn config() -> ServerConfig {
        ServerConfig {
            name: "test",
            connections_max: 10,
            when_full: WhenFull::Refuse,
            address_connections_max: 10,
            unlimited: Vec::new(),
            head_bytes_max: 16 << 10,
            streams_max: 10,
            half_close: false,
            head_wait_max: WAIT,
            idle_wait_max: WAIT,
            unread_wait_max: 2 * WAIT,
            drain_delay: Duration::ZERO,
            drain_wait_max: WAIT,
        }
    }

    /// More than all buffers between two sockets hold.
    const LARGE_BYTES: usize = 64 << 20;

    /// `/slow`: three parts, each after [`WAIT`]. `/endless`: as many bytes as the peer reads.
    fn body(path: &str) -> UnsyncBoxBody<Bytes, Infallible> {
        let part = |text: &'static [u8]| Ok(Frame::data(Bytes::from_static(text)));
        match path {
            "/slow" => StreamBody::new(stream::unfold(0, move |count| async move {
                sleep(WAIT).await;
                (count < 3).then(|| (part(b"part"), count + 1))
            }))
            .boxed_unsync(),
            "/endless" => StreamBody::new(stream::repeat_with(move || part(&[0; 4_096]))).boxed_unsync(),
            "/large" => http_body_util::Full::new(Bytes::from(vec![0; LARGE_BYTES])).boxed_unsync(),
            "/panic" => panic!("a handler panics"),
            _ => http_body_util::Full::new(Bytes::from_static(b"done")).boxed_unsync(),
        }
    }

    async fn start(config: ServerConfig) -> (SocketAddr, Arc<OpenConnections>, DropGuard) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, open) = (CancellationToken::new(), Arc::new(OpenConnections::default()));
        let (stop, connections) = (shutdown.clone(), Arc::clone(&open));
        tokio::spawn(async move {
            let handlers = |_| |request: Request<Incoming>| async move { Response::new(body(request.uri().path())) };
            serve(listener, config, connections, handlers, &stop).await
        });
        (address, open, shutdown.drop_guard())
    }

    async fn closed(open: &OpenConnections) {
        let closed = async {
            while open.open() > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(WAIT_MAX, closed).await.unwrap();
    }

    #[tokio::test]
    async fn an_idle_http2_connection_ends_and_one_with_a_request_does_not() {
        let (address, open, _running) = start(config()).await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        for (path, wanted) in [("/fast", &b"done"[..]), ("/slow", b"partpartpart")] {
            let request = Request::get(format!("http://test{path}")).body(Empty::<Bytes>::new());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), wanted);
        }
        // The client answers pings all the while.
        timeout(WAIT_MAX, connection).await.unwrap().unwrap().unwrap();
        assert!(sender.is_closed());
        closed(&open).await;
    }

    #[tokio::test]
    async fn a_silent_connection_ends() {
        let (address, open, _running) = start(config()).await;
        for begin in ["", "GET /fast HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begin.as_bytes()).await.unwrap();
            let read = timeout(WAIT_MAX, stream.read_to_end(&mut Vec::new())).await;
            assert!(read.is_ok(), "{begin}");
        }
        closed(&open).await;
    }

    #[tokio::test]
    async fn a_connection_whose_peer_reads_nothing_ends() {
        let (address, open, _running) = start(config()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        closed(&open).await;
    }

    /// The body is hyper's at once, but its bytes are still to be sent.
    #[tokio::test]
    async fn a_connection_whose_answer_is_read_late_is_not_idle() {
        let (address, _, _running) = start(ServerConfig {
            unread_wait_max: WAIT_MAX,
            ..config()
        })
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /large HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        sleep(5 * WAIT + CLOSE_WAIT_MAX).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.len() > LARGE_BYTES, "{}", answer.len());
    }

    #[tokio::test]
    async fn a_connection_whose_handler_panics_is_no_longer_open() {
        let (address, open, _running) = start(ServerConfig {
            connections_max: 1,
            ..config()
        })
        .await;
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"GET /panic HTTP/1.1\r\nhost: test\r\n\r\n")
                .await
                .unwrap();
            let read = timeout(WAIT_MAX, stream.read_to_end(&mut Vec::new())).await;
            assert!(read.is_ok());
            closed(&open).await;
        }
        assert_eq!(open.refused(), 0);
    }

    /// The socket accepts everything, but the stream's window is never opened.
    #[tokio::test]
    async fn an_http2_connection_whose_window_stays_closed_ends() {
        let (address, open, _running) = start(config()).await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1_000)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = Request::get("http://test/endless").body(Empty::<Bytes>::new());
        let unread = sender.send_request(request.unwrap()).await.unwrap();
        closed(&open).await;
        drop(unread);
    }

    #[tokio::test]
    async fn a_connection_too_many_is_refused_and_counted() {
        let (address, open, _running) = start(ServerConfig {
            address_connections_max: 1,
            idle_wait_max: WAIT_MAX,
            head_wait_max: WAIT_MAX,
            ..config()
        })
        .await;
        let _first = TcpStream::connect(address).await.unwrap();
        let mut text = String::new();
        let mut second = TcpStream::connect(address).await.unwrap();
        second.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        assert_eq!((open.open(), open.refused()), (1, 1));
    }

    #[test]
    fn the_answer_to_a_connection_too_many_is_complete() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], "overloaded");
    }
}
