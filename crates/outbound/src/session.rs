//! Many requests to one host, over one connection.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::Full;

use crate::Error;
use crate::connection::{Deadline, HostConnection};
use crate::error::RequestStep;
use crate::fetched::Fetched;
use crate::resources::Resources;
use crate::target::{HostName, RequestTarget};

/// Requests to one URL, one after the other, over a connection that is reused while it holds. Each
/// new connection goes to an address that was judged when it was made.
pub struct Session {
    resources: Arc<Resources>,
    target: RequestTarget,
    connection: Option<HostConnection>,
}

impl Session {
    pub(crate) fn new(resources: Arc<Resources>, target: RequestTarget) -> Self {
        Self {
            resources,
            target,
            connection: None,
        }
    }

    /// `POST` with these headers (`Host`, `User-Agent`, `Accept-Encoding` are ours) and this body;
    /// the answer's body is read up to `bytes_max` bytes. A redirect is an answer like any other:
    /// its status is handed back, nothing is followed.
    ///
    /// # Errors
    /// Every [`Error`] but those of redirects. A status is no error.
    pub async fn post(&mut self, headers: HeaderMap, body: Bytes, bytes_max: usize) -> Result<Fetched, Error> {
        let result = self.request(Method::POST, headers, body, bytes_max).await;
        self.resources.count("post", result.as_ref().err());
        result
    }

    /// `GET` with these headers; otherwise as [`Session::post`].
    ///
    /// # Errors
    /// Every [`Error`] but those of redirects. A status is no error.
    pub async fn get(&mut self, headers: HeaderMap, bytes_max: usize) -> Result<Fetched, Error> {
        let result = self.request(Method::GET, headers, Bytes::new(), bytes_max).await;
        self.resources.count("get", result.as_ref().err());
        result
    }

    async fn request(
        &mut self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
        bytes_max: usize,
    ) -> Result<Fetched, Error> {
        let deadline = Deadline::of(&self.resources.config);
        let _permit = self.resources.permit(&self.target.host(), deadline).await?;
        self.exchange(method, headers, body, bytes_max, deadline).await
    }

    /// Sends a request and reads its answer; the caller holds a permit.
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
        bytes_max: usize,
        deadline: Deadline,
    ) -> Result<Fetched, Error> {
        let mut request = self.build(method, headers, body)?;
        let host = self.target.host();
        // At most twice: a reused connection may have been closed at rest, which is noticed before
        // anything is sent on it.
        loop {
            let (mut connection, reused) = match self.connection.take().filter(HostConnection::is_open) {
                Some(connection) => (connection, true),
                None => (self.connect(deadline).await?, false),
            };
            let config = &self.resources.config;
            let answer = connection.exchange(request, &host, config, deadline, bytes_max).await;
            match answer {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(Fetched::new(answer, host, self.target.url.as_str()));
                }
                Err(failed) => match failed.unsent {
                    Some(unsent) if reused => request = unsent,
                    _ => return Err(failed.error),
                },
            }
        }
    }

    async fn connect(&self, deadline: Deadline) -> Result<HostConnection, Error> {
        let config = &self.resources.config;
        let addresses: Vec<IpAddr> = match &self.target.host {
            HostName::Address(address) => vec![*address],
            // RFC 6761, 6.3: this name is this machine, whatever the DNS says.
            HostName::Name(name) if name == "localhost" && config.loopback => {
                vec![IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()]
            }
            HostName::Name(name) => {
                let found = self.resources.resolver.addresses(name);
                deadline
                    .within(name, RequestStep::Name, config.total_wait(), found)
                    .await??
            }
        };
        self.target.judge(&addresses, config)?;
        HostConnection::open(&self.target, &addresses, &self.resources.tls, config, deadline).await
    }

    fn build(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
        let host = HeaderValue::try_from(self.target.authority())
            .map_err(|_| Error::Refused(format!("{} is no host name", self.target.host())))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.path()?;
        *request.headers_mut() = headers;
        let ours = request.headers_mut();
        ours.insert(header::HOST, host);
        ours.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        ours.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(request)
    }
}

const USER_AGENT: &str = concat!("receipts/", env!("CARGO_PKG_VERSION"));
