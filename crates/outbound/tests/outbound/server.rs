//! An HTTPS server that says what a test wants said.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::world::World;

/// A connection after the handshake.
pub type Socket = TlsStream<TcpStream>;

/// Stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    /// Connections taken, also those whose handshake failed.
    pub connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// On 127.0.0.1 with a certificate for `good.test` and `alias.test`; `serve` gets each
    /// connection.
    pub async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(Socket) -> F + Clone + Send + 'static,
    ) -> Self {
        Self::with(
            "127.0.0.1:0",
            World::get().tls(&["good.test", "alias.test", "half.test"]),
            serve,
        )
        .await
    }

    pub async fn with<F: Future<Output = ()> + Send + 'static>(
        address: &str,
        tls: TlsAcceptor,
        serve: impl Fn(Socket) -> F + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut under_way = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let (tls, serve) = (tls.clone(), serve.clone());
                under_way.spawn(async move {
                    if let Ok(socket) = tls.accept(stream).await {
                        serve(socket).await;
                    }
                });
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    /// Every request of a connection gets what `answer` makes of its head.
    pub async fn answering(answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Self {
        Self::start(move |mut socket| {
            let answer = answer.clone();
            async move {
                while let Some((head, _)) = request(&mut socket).await {
                    if socket.write_all(answer(&head).as_bytes()).await.is_err() {
                        return;
                    }
                    let _ = socket.flush().await;
                }
                let _ = socket.shutdown().await;
            }
        })
        .await
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The next request's head and body; `None` at the end of the connection.
pub async fn request(socket: &mut Socket) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = read.split_off(end);
    let head = String::from_utf8(read).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    while body.len() < length.unwrap_or(0) {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, body))
}

/// A whole answer.
pub fn answer(status: &str, fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{fields}\r\n{body}",
        body.len()
    )
}
