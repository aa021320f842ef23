//! Requests of commands to a running service.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use http_client::StreamConnector;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use receipts_client::connector;
use serde_json::Value;

use crate::failure::CommandFailure;

/// The longest answer that is read, in bytes; streams aren't limited by it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest time that a connection may take.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// A client of one base URL.
pub(crate) struct ServiceClient {
    http: HyperClient<StreamConnector, Full<Bytes>>,
    base: String,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ServiceClient {
    /// A client of the service at `base`. For `https`, the authorities of `cacert` are trusted, or
    /// the system's.
    ///
    /// # Errors
    /// `base` isn't an http or https URL, or `cacert` can't be used.
    pub(crate) fn new(base: &str, cacert: Option<&Path>) -> Result<Self, CommandFailure> {
        let base = base.trim_end_matches('/');
        let connector = connector(base, CONNECT_WAIT, cacert).map_err(CommandFailure::input)?;
        Ok(Self {
            http: HyperClient::builder(TokioExecutor::new()).build(connector),
            base: base.to_owned(),
        })
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Sends a request, and returns the answer's head with a body that is still to be read.
    ///
    /// # Errors
    /// The service can't be reached.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, CommandFailure> {
        let url = self.url(path);
        let request = Request::builder().method(method).uri(&url).body(Full::new(body));
        let mut request = request.map_err(|error| CommandFailure::Input(format!("{url} isn't a URL: {error}")))?;
        *request.headers_mut() = headers;
        let answer = self.http.request(request).await;
        answer.map_err(|error| {
            CommandFailure::Unavailable(format!("{} doesn't answer: {}", self.base, innermost(&error)))
        })
    }
}

impl Answered {
    /// Reads the rest of an answer.
    ///
    /// # Errors
    /// The connection breaks, or the answer is too long.
    pub(crate) async fn read(status: StatusCode, headers: HeaderMap, body: Incoming) -> Result<Self, CommandFailure> {
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| CommandFailure::Unavailable(format!("the answer can't be read: {error}")))?;
        Ok(Self {
            status,
            headers,
            body: body.to_bytes(),
        })
    }

    /// The body as JSON; null if it is something else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The problem's `detail`, or the status in words.
    pub(crate) fn detail(&self) -> String {
        let problem = self.json();
        let text = problem["detail"].as_str().or_else(|| problem["title"].as_str());
        let text = text.or_else(|| self.status.canonical_reason()).unwrap_or("no reason");
        text.to_owned()
    }

    /// Seconds of `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse();
        seconds.ok().map(Duration::from_secs)
    }
}

/// A field's value.
///
/// # Errors
/// The text has characters that no field may have.
pub(crate) fn field(name: &str, text: &str) -> Result<HeaderValue, CommandFailure> {
    HeaderValue::from_str(text).map_err(|_| CommandFailure::Input(format!("{name} has characters that can't be sent")))
}

/// The last cause: "Connection refused" rather than "client error (Connect)".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
