//! The stream below HTTP: a Unix socket or TCP.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

/// Where the warehouse answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The embedded engine's Unix socket, in this process or another.
    Socket(PathBuf),
    /// `http://host:port` of a ClickHouse server, or of an embedded engine's TCP endpoint.
    Url(String),
}

impl Target {
    /// Opens a stream. `authority` is the host and port of the request, which a socket ignores.
    pub(crate) async fn open(self, authority: Option<String>) -> io::Result<Stream> {
        match self {
            Self::Socket(path) => Ok(Stream::Unix(TokioIo::new(UnixStream::connect(path).await?))),
            Self::Url(_) => {
                let authority = authority.ok_or_else(|| io::Error::other("the warehouse's address has no host"))?;
                let stream = TcpStream::connect(authority).await?;
                // Without it, an insert's last small piece waits for the peer's delayed acknowledgement.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(TokioIo::new(stream)))
            }
        }
    }
}

/// A connection of either kind.
pub(crate) enum Stream {
    Unix(TokioIo<UnixStream>),
    Tcp(TokioIo<TcpStream>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
