//! The delay between a signal to stop and the end of accepting: every request is answered, and
//! every peer learns that it has to leave.

#![allow(clippy::unwrap_used)]
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use http_server::{ServerConfig, WhenFull, serve};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Duration of a request to `/slow`.
const SLOW: Duration = Duration::from_millis(300);
/// Longer than anything takes here.
const WAIT_MAX: Duration = Duration::from_secs(300);

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<usize>,
}

impl Server {
    async fn start(drain_delay: Duration) -> Self {
        let config = ServerConfig {
            name: "test",
            connections_max: 10,
            when_full: WhenFull::Refuse,
            address_connections_max: 10,
            unlimited: Vec::new(),
            head_bytes_max: 16 << 10,
            streams_max: 10,
            half_close: false,
            head_wait_max: WAIT_MAX,
            idle_wait_max: WAIT_MAX,
            unread_wait_max: WAIT_MAX,
            drain_delay,
            drain_wait_max: WAIT_MAX,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            let handlers = |_| {
                |request: Request<Incoming>| async move {
                    if request.uri().path() == "/slow" {
                        sleep(SLOW).await;
                    }
                    Response::new(Full::new(Bytes::from_static(b"done")))
                }
            };
            serve(listener, config, std::sync::Arc::default(), handlers, &stop).await
        });
        Self {
            address,
            shutdown,
            running,
        }
    }

    async fn http1(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn http2(&self) -> (SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        (sender, tokio::spawn(connection))
    }

    /// The number of connections that were cut.
    async fn ended(self) -> usize {
        timeout(WAIT_MAX, self.running).await.unwrap().unwrap()
    }
}

/// Head of the answer to a request on this connection.
async fn head(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\ndone") {
        answer.push(timeout(WAIT_MAX, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(answer).unwrap()
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    timeout(WAIT_MAX, stream.read(&mut [0; 1])).await.unwrap().unwrap() == 0
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://test{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn http1_is_answered_and_asked_to_leave_until_the_delay_is_over() {
    // Long enough for two requests on a busy machine.
    let delay = Duration::from_secs(5);
    let server = Server::start(delay).await;
    let (mut used, mut resting, mut silent) = (server.http1().await, server.http1().await, server.http1().await);
    for stream in [&mut used, &mut resting] {
        assert!(!head(stream).await.contains("connection: close"));
    }
    let begun = Instant::now();
    server.shutdown.cancel();
    // The order is given by a task.
    sleep(Duration::from_millis(100)).await;
    let mut new = server.http1().await;
    for stream in [&mut used, &mut new] {
        assert!(head(stream).await.contains("connection: close"));
        assert!(is_closed(stream).await);
    }
    assert!(begun.elapsed() < delay);
    // These had no request, so they couldn't be asked.
    for stream in [&mut resting, &mut silent] {
        assert!(is_closed(stream).await);
        assert!(begun.elapsed() >= delay);
    }
    assert!(TcpStream::connect(server.address).await.is_err());
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn http2_gets_goaway_at_once_and_its_open_streams_are_answered() {
    let server = Server::start(WAIT_MAX).await;
    let (mut old, old_connection) = server.http2().await;
    old.send_request(request("/")).await.unwrap();
    let slow = old.send_request(request("/slow"));
    // Until the request is with the server.
    let slow = tokio::spawn(slow);
    sleep(SLOW / 3).await;
    server.shutdown.cancel();
    let answer = timeout(WAIT_MAX, slow).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), &b"done"[..]);
    timeout(WAIT_MAX, old_connection).await.unwrap().unwrap().unwrap();
    assert!(old.is_closed());
    // A load balancer that hasn't noticed yet opens another one.
    let (mut new, new_connection) = server.http2().await;
    let answer = new.send_request(request("/")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), &b"done"[..]);
    timeout(WAIT_MAX, new_connection).await.unwrap().unwrap().unwrap();
}
