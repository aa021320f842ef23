//! Opens a stream to a URI's host.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::Service;

use crate::stream::ClientStream;

/// Opens a stream for each connection of hyper's pooled client: to the URI's host and port, or
/// always to one Unix socket.
#[derive(Clone)]
pub struct StreamConnector {
    socket: Option<PathBuf>,
    tls: Option<Arc<ClientConfig>>,
    wait_max: Duration,
}

impl StreamConnector {
    /// Connects over TCP, with TLS for `https`, which fails without `tls`. `wait_max` is for all of
    /// it, the handshake included.
    #[must_use]
    pub fn new(tls: Option<Arc<ClientConfig>>, wait_max: Duration) -> Self {
        Self {
            socket: None,
            tls,
            wait_max,
        }
    }

    /// Connects to a Unix socket, whatever the URI's host is.
    #[must_use]
    pub fn to_socket(path: PathBuf, wait_max: Duration) -> Self {
        Self {
            socket: Some(path),
            tls: None,
            wait_max,
        }
    }

    async fn open(self, uri: Uri) -> io::Result<ClientStream> {
        let wait_max = self.wait_max;
        let opened = tokio::time::timeout(wait_max, self.open_in_any_time(&uri)).await;
        opened.unwrap_or_else(|_| {
            let what = format!("no connection within {} ms", wait_max.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }

    async fn open_in_any_time(self, uri: &Uri) -> io::Result<ClientStream> {
        if let Some(path) = self.socket {
            return Ok(ClientStream::Unix(TokioIo::new(UnixStream::connect(path).await?)));
        }
        let host = uri.host().ok_or_else(|| io::Error::other("the URL has no host"))?;
        // An IPv6 address is in brackets in a URL, and nowhere else.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_https = uri.scheme_str() == Some("https");
        let default_port = if is_https { 443 } else { 80 };
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(default_port))).await?;
        // Without it, a request's last small piece waits for the peer's delayed acknowledgement.
        stream.set_nodelay(true)?;
        if !is_https {
            return Ok(ClientStream::Tcp(TokioIo::new(stream)));
        }
        let tls = self.tls.ok_or_else(|| io::Error::other("TLS isn't configured"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Ok(ClientStream::Tls(Box::new(TokioIo::new(stream))))
    }
}

impl Service<Uri> for StreamConnector {
    type Response = ClientStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<ClientStream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}
