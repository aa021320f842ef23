//! HTTP clients for tests, and the [`Answer`] that they return.
//!
//! [`HttpClient`] is asynchronous and keeps its connections. [`exchange`] and [`request`] block,
//! use a connection once, and send the head that they get.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// An answer as it came.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body, without chunks.
    pub body: Bytes,
}

#[allow(clippy::expect_used)]
impl Answer {
    /// JSON of the body.
    ///
    /// # Panics
    ///
    /// The body isn't JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Text of the body.
    ///
    /// # Panics
    ///
    /// The body isn't UTF-8.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("a text")
    }

    /// A header field, or an empty text.
    ///
    /// # Panics
    ///
    /// The field isn't ASCII.
    #[must_use]
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("an ASCII field"))
    }

    /// JSON of an answer with this status.
    ///
    /// # Panics
    ///
    /// The status is another.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// A problem with this status and code.
    ///
    /// # Panics
    ///
    /// The answer is another, or the problem isn't whole.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(body["status"], status, "{body}");
        assert_eq!(body["requestId"], self.header("x-request-id"), "{body}");
        assert_ne!(body["detail"].as_str().unwrap_or_default(), "", "{body}");
        body
    }

    /// Reads an answer in the form of HTTP/1.
    ///
    /// # Errors
    ///
    /// The bytes are no answer.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.context("no whole head")?;
        let head = std::str::from_utf8(&bytes[..end])?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.context("no status")?.parse()?;
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value.trim())?);
        }
        let mut body = &bytes[end + 4..];
        let mut whole = Vec::new();
        if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            // An answer that was cut off ends within a chunk.
            while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
                let length = usize::from_str_radix(std::str::from_utf8(&body[..end])?, 16)?;
                body = &body[end + 2..];
                whole.extend_from_slice(&body[..length.min(body.len())]);
                body = body.get(length + 2..).unwrap_or_default();
            }
        } else {
            whole.extend_from_slice(body);
        }
        Ok(Self {
            status,
            headers,
            body: whole.into(),
        })
    }
}

/// A client that keeps its connections.
#[derive(Debug, Clone)]
pub struct HttpClient(Client<HttpConnector, Full<Bytes>>);

impl Default for HttpClient {
    fn default() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

#[allow(clippy::expect_used)]
impl HttpClient {
    /// A client that speaks HTTP/2 from the beginning.
    #[must_use]
    pub fn h2c() -> Self {
        Self(Client::builder(TokioExecutor::new()).http2_only(true).build_http())
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// # Panics
    ///
    /// No whole answer comes.
    pub async fn send(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{address}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let (parts, body) = self.0.request(request).await.expect("an answer").into_parts();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.expect("a whole body").to_bytes(),
        }
    }

    /// Sends a GET with an API key.
    ///
    /// # Panics
    ///
    /// No whole answer comes.
    pub async fn get(&self, address: SocketAddr, path: &str, key: &str, headers: &[(&str, &str)]) -> Answer {
        let bearer = format!("Bearer {key}");
        let mut headers = headers.to_vec();
        headers.push(("authorization", &bearer));
        self.send(address, "GET", path, &headers, Bytes::new()).await
    }
}

/// Sends a request, and reads the answer to the end of the connection. `head` is the request line
/// and header fields, each with its line's end, without `Connection` and `Content-Length`.
///
/// # Errors
///
/// No whole answer comes.
pub fn exchange(mut stream: impl Read + Write, head: &str, body: &[u8]) -> anyhow::Result<Answer> {
    let length = body.len();
    let head = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    // The answer may come before the body is read, and the connection end with a reset.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Answer::parse(&answer)
}

/// Sends a request to a base address. `line` is method and path; each of `headers` is a line with
/// its end.
///
/// # Errors
///
/// Nobody listens, or no whole answer comes.
pub fn request(url: &str, line: &str, headers: &str, body: &[u8]) -> anyhow::Result<Answer> {
    let host = url.strip_prefix("http://").context("an address with http://")?;
    exchange(
        TcpStream::connect(host)?,
        &format!("{line} HTTP/1.1\r\nHost: {host}\r\n{headers}"),
        body,
    )
}

/// Body of the answer of a server of this machine, which must be a 200.
///
/// # Errors
///
/// No answer, or a status other than 200: the error contains the body.
pub(crate) fn query(port: u16, line: &str, body: &str) -> anyhow::Result<String> {
    let answer = request(
        &format!("http://{}:{port}", Ipv4Addr::LOCALHOST),
        line,
        "",
        body.as_bytes(),
    )?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if answer.status != 200 {
        bail!("{}: {}", answer.status, text.trim_end());
    }
    Ok(text)
}
