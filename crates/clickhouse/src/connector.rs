//! The stream below HTTP: a Unix socket, TCP, or TLS over TCP.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::WarehouseConfig;

/// Address of the warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The embedded engine's Unix socket, in this process or another.
    Socket(PathBuf),
    /// `http://host:port` or `https://host:port` of a ClickHouse server, or of an embedded engine's
    /// TCP endpoint.
    Url(String),
}

impl Target {
    /// The server that `config` names, or the embedded engine of the process that has the data
    /// directory `data`.
    #[must_use]
    pub fn of(config: &WarehouseConfig, data: &Path) -> Self {
        match &config.url {
            Some(url) => Self::Url(url.clone()),
            None => Self::Socket(data.join("warehouse.sock")),
        }
    }
}

/// Opens streams to one target.
#[derive(Clone)]
pub(crate) struct Connector {
    /// Address.
    pub(crate) target: Target,
    /// For `https`.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Time for all of it, TLS included.
    pub(crate) wait_max: Duration,
}

impl Connector {
    /// Opens a stream. Host and port are the request's, which a socket ignores.
    pub(crate) async fn open(self, uri: http::Uri) -> io::Result<ServerStream> {
        let wait_max = self.wait_max;
        let opened = tokio::time::timeout(wait_max, self.open_in_any_time(&uri)).await;
        opened.unwrap_or_else(|_| {
            let what = format!("no connection within {} ms", wait_max.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }

    async fn open_in_any_time(self, uri: &http::Uri) -> io::Result<ServerStream> {
        if let Target::Socket(path) = self.target {
            return Ok(ServerStream::Unix(TokioIo::new(UnixStream::connect(path).await?)));
        }
        let host = uri.host();
        let host = host.ok_or_else(|| io::Error::other("the warehouse's address has no host"))?;
        // An IPv6 address is in brackets in a URL, and nowhere else.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(default_port))).await?;
        // Without it, an insert's last small piece waits for the peer's delayed acknowledgement.
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls else {
            return Ok(ServerStream::Tcp(TokioIo::new(stream)));
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Ok(ServerStream::Tls(Box::new(TokioIo::new(stream))))
    }
}

/// A connection of any kind.
pub(crate) enum ServerStream {
    Unix(TokioIo<UnixStream>),
    Tcp(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for ServerStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for ServerStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl Write for ServerStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
