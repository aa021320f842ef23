//! Opens a stream to a URI's host, or to a proxy before it.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use parking_lot::RwLock;
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
    proxies: Option<Arc<Matcher>>,
    tls: Option<Arc<RwLock<Arc<ClientConfig>>>>,
    wait_max: Duration,
}

impl StreamConnector {
    /// Connects over TCP, with TLS for `https`, which fails without `tls`. `wait_max` is for all of
    /// it, the handshake included.
    #[must_use]
    pub fn new(tls: Option<Arc<ClientConfig>>, wait_max: Duration) -> Self {
        Self {
            socket: None,
            proxies: None,
            tls: tls.map(|tls| Arc::new(RwLock::new(tls))),
            wait_max,
        }
    }

    /// Connects through the proxies that `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`
    /// name, in either case of letters, but never to this machine.
    #[must_use]
    pub fn through_environment_proxies(mut self) -> Self {
        self.proxies = Some(Arc::new(Matcher::from_env()));
        self
    }

    /// Connects to a Unix socket, whatever the URI's host is.
    #[must_use]
    pub fn to_socket(path: PathBuf, wait_max: Duration) -> Self {
        Self {
            socket: Some(path),
            proxies: None,
            tls: None,
            wait_max,
        }
    }

    /// Has further connections, those of clones too, use `tls`. Open ones continue. Without effect
    /// on a connector without TLS.
    pub fn replace_tls(&self, tls: Arc<ClientConfig>) {
        if let Some(used) = &self.tls {
            *used.write() = tls;
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
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let proxies = self.proxies.filter(|_| !is_this_machine(host));
        let stream = match proxies.and_then(|proxies| proxies.intercept(uri)) {
            None => TcpStream::connect((host, port)).await?,
            Some(proxy) if proxy.uri().scheme_str() != Some("http") => {
                return Err(io::Error::other("the proxy's address must be http://HOST:PORT"));
            }
            Some(proxy) if is_https || proxy.basic_auth().is_some() => {
                tunnel(&proxy, format!("https://{}:{port}", uri.host().unwrap_or_default())).await?
            }
            Some(proxy) => {
                let name = proxy.uri().host().unwrap_or_default();
                let stream = TcpStream::connect((name, proxy.uri().port_u16().unwrap_or(80))).await?;
                stream.set_nodelay(true)?;
                return Ok(ClientStream::Proxy(TokioIo::new(stream)));
            }
        };
        // Without it, a request's last small piece waits for the peer's delayed acknowledgement.
        stream.set_nodelay(true)?;
        if !is_https {
            return Ok(ClientStream::Tcp(TokioIo::new(stream)));
        }
        let tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.read()));
        let tls = tls.ok_or_else(|| io::Error::other("TLS isn't configured"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Ok(ClientStream::Tls(Box::new(TokioIo::new(stream))))
    }
}

/// Opens a tunnel through a proxy to a host.
async fn tunnel(proxy: &Intercept, to: String) -> io::Result<TcpStream> {
    let to: Uri = to.parse().map_err(io::Error::other)?;
    let mut tunnel = Tunnel::new(proxy.uri().clone(), HttpConnector::new());
    if let Some(password) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(password.clone());
    }
    let opened = tunnel.call(to).await;
    let opened =
        opened.map_err(|error| io::Error::other(format!("the proxy {} opens no tunnel: {error}", proxy.uri())))?;
    Ok(opened.into_inner())
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
