//! A judged address to an HTTP/1.1 connection, and an exchange over it.
//!
//! The protocol is hyper's. `reqwest` has no limit on an answer's head, and calls its resolver for
//! names only, not for a host that is an address. hyper-util's pooled client, which `reqwest` is
//! built on, hides the steps that have time limits of their own, and what failed in which.

use std::error::Error as _;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::error::RequestStep;
use crate::target::RequestTarget;
use crate::{Config, Error};

/// Addresses tried one after the other; the others are judged all the same.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Bytes that hyper reads ahead, unless the head may be longer.
const READ_BUFFER_BYTES: usize = 64 * 1024;

const FIELDS_MAX: usize = 100;

/// When all of a request must be over.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    total_ms: u64,
}

impl Deadline {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            at: Instant::now() + config.total_wait(),
            total_ms: config.total_ms_max,
        }
    }

    /// `work`, for at most `wait`, and not beyond the deadline.
    pub(crate) async fn within<T>(
        self,
        host: &str,
        step: RequestStep,
        wait: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let end = Instant::now() + wait;
        let late = |step, wait_ms_max| Error::TimedOut {
            host: host.to_owned(),
            step,
            wait_ms_max,
        };
        if end < self.at {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            timeout_at(end, work).await.map_err(|_| late(step, wait_ms))
        } else {
            timeout_at(self.at, work)
                .await
                .map_err(|_| late(RequestStep::Body, self.total_ms))
        }
    }

    /// `work`, up to the deadline.
    pub(crate) async fn all<T>(self, host: &str, step: RequestStep, work: impl Future<Output = T>) -> Result<T, Error> {
        timeout_at(self.at, work).await.map_err(|_| Error::TimedOut {
            host: host.to_owned(),
            step,
            wait_ms_max: self.total_ms,
        })
    }
}

/// An open connection to one host. Dropping it closes it.
pub(crate) struct HostConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

/// Answer, read whole.
pub(crate) struct WholeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why an exchange failed, with the request if nothing of it was sent.
pub(crate) struct FailedExchange {
    pub(crate) error: Error,
    pub(crate) unsent: Option<Request<Full<Bytes>>>,
}

impl From<Error> for FailedExchange {
    fn from(error: Error) -> Self {
        Self { error, unsent: None }
    }
}

impl HostConnection {
    /// Connects to the first of `addresses` that takes a connection. They are judged, and nothing
    /// is resolved again.
    pub(crate) async fn open(
        target: &RequestTarget,
        addresses: &[IpAddr],
        tls: &TlsConnector,
        config: &Config,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let host = target.host();
        let mut last = None;
        for address in addresses.iter().take(ADDRESSES_TRIED_MAX) {
            let dial = dial(target, SocketAddr::new(*address, target.port), tls, config);
            match deadline
                .within(&host, RequestStep::Connect, config.connect_wait(), dial)
                .await
            {
                Ok(Ok(connection)) => return Ok(connection),
                // The next address may be alive; a wrong certificate is the host's everywhere.
                Ok(Err(error @ Error::Unreachable { .. })) | Err(error) => last = Some(error),
                Ok(Err(error)) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| unreachable(&host, "it has no address")))
    }

    /// Whether another request may be sent on it.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends `request` and reads the answer: its body up to `body_bytes_max`, no more than that of
    /// it is ever held.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        host: &str,
        config: &Config,
        deadline: Deadline,
        body_bytes_max: usize,
    ) -> Result<WholeAnswer, FailedExchange> {
        let sent = async {
            if self.sender.ready().await.is_err() {
                return Err(FailedExchange {
                    error: unreachable(host, "it closed the connection"),
                    unsent: Some(request),
                });
            }
            self.sender
                .try_send_request(request)
                .await
                .map_err(|mut error| FailedExchange {
                    unsent: error.take_message(),
                    error: broken(host, error.error(), config),
                })
        };
        let response = deadline
            .within(host, RequestStep::Head, config.head_wait(), sent)
            .await??;
        let (head, body) = response.into_parts();
        // We said `Accept-Encoding: identity`; inflating what a stranger sends would need limits of
        // its own.
        let plain = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !head.headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
            let what = "it answered with a Content-Encoding, though asked not to".to_owned();
            let host = host.to_owned();
            return Err(Error::BadAnswer { host, what }.into());
        }
        let body = deadline
            .all(host, RequestStep::Body, read(body, host, body_bytes_max))
            .await??;
        Ok(WholeAnswer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

async fn dial(
    target: &RequestTarget,
    address: SocketAddr,
    tls: &TlsConnector,
    config: &Config,
) -> Result<HostConnection, Error> {
    let host = target.host();
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| unreachable(&host, &error.to_string()))?;
    // A request goes out in one write; without this a small one may wait for the last one's
    // acknowledgement.
    let _ = stream.set_nodelay(true);
    if !target.tls {
        return handshake(stream, &host, config).await;
    }
    let stream = tls
        .connect(target.server_name()?, stream)
        .await
        .map_err(|error| Error::Tls {
            host: host.clone(),
            what: error.to_string(),
        })?;
    handshake(stream, &host, config).await
}

async fn handshake<S>(stream: S, host: &str, config: &Config) -> Result<HostConnection, Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(config.head_bytes_max.max(READ_BUFFER_BYTES))
        .max_header_size(config.head_bytes_max)
        .max_headers(FIELDS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(host, &error.to_string()))?;
    let driver = tokio::spawn(async move {
        // Its end is seen by whoever waits for an answer.
        let _ = connection.await;
    });
    Ok(HostConnection {
        sender,
        _driver: AbortOnDropHandle::new(driver),
    })
}

async fn read(mut body: Incoming, host: &str, bytes_max: usize) -> Result<Bytes, Error> {
    let too_large = || Error::TooLarge {
        host: host.to_owned(),
        part: "body",
        bytes_max,
    };
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    if body.size_hint().lower() > limit {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreachable(host, &format!("the answer broke off: {}", cause(&error))))?;
        // Trailers are no part of what was requested.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > bytes_max - whole.len() {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn broken(host: &str, error: &hyper::Error, config: &Config) -> Error {
    let host = host.to_owned();
    if error.is_parse_too_large() {
        return Error::TooLarge {
            host,
            part: "head",
            bytes_max: config.head_bytes_max,
        };
    }
    if error.is_parse() {
        let what = format!("what it sent isn't an HTTP/1.1 answer ({})", cause(error));
        return Error::BadAnswer { host, what };
    }
    unreachable(&host, &cause(error))
}

fn unreachable(host: &str, what: &str) -> Error {
    Error::Unreachable {
        host: host.to_owned(),
        what: what.to_owned(),
    }
}

/// hyper's error with what it wraps.
fn cause(error: &hyper::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
