//! The way to a gateway.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use receipt::BodyKind;

use super::retrying::{Outcome, Transport, Try};
use super::submission::Submission;
use crate::failure::Failure;

/// An answer's body is a few hundred bytes; what is longer isn't read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Statuses of a gateway, or a proxy before it, that may accept the request later.
const PASSING: [StatusCode; 5] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// A client of one gateway; its connections are kept, and clones share them.
#[derive(Clone)]
pub struct GatewayClient {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    receipts: Uri,
    batches: Uri,
}

impl GatewayClient {
    /// A client of the gateway at `url`, which may end with `/api/v1/receipts` or not.
    ///
    /// # Errors
    /// `url` isn't an http URL.
    pub fn new(url: &str, connect_wait: Duration) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::Input(format!("--url {url}: {what}"));
        let base = url
            .trim_end_matches('/')
            .trim_end_matches("/batch")
            .trim_end_matches("/api/v1/receipts");
        let parsed: Uri = base.parse().map_err(|e: http::uri::InvalidUri| wrong(&e.to_string()))?;
        match parsed.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("TLS isn't spoken here; send through a proxy that does")),
            _ => return Err(wrong("must start with http://")),
        }
        let endpoint = |path: &str| format!("{base}{path}").parse().map_err(|_| wrong("isn't a URL"));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_wait));
        Ok(Self {
            http: HyperClient::builder(TokioExecutor::new()).build(connector),
            receipts: endpoint("/api/v1/receipts")?,
            batches: endpoint("/api/v1/receipts/batch")?,
        })
    }

    fn request(&self, submission: &Submission) -> Result<Request<Full<Bytes>>, http::Error> {
        let uri = match submission.kind {
            BodyKind::Receipt => &self.receipts,
            BodyKind::Batch => &self.batches,
        };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(uri.clone())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(signature) = &submission.signature {
            request = request.header("x-service-signature", signature);
        }
        if let Some(encoding) = submission.compression.name() {
            request = request.header(header::CONTENT_ENCODING, encoding);
        }
        request.body(Full::new(submission.body.clone()))
    }
}

impl Transport for GatewayClient {
    const SERVER: &'static str = "the gateway";

    async fn attempt(&mut self, submission: &Submission) -> Try {
        let request = match self.request(submission) {
            Ok(request) => request,
            Err(error) => return Try::Ended(Outcome::Unavailable(error.to_string())),
        };
        let response = match self.http.request(request).await {
            Ok(response) => response,
            Err(error) => return Try::again(innermost(&error)),
        };
        let (head, body) = response.into_parts();
        if head.status == StatusCode::ACCEPTED {
            return Try::Ended(Outcome::Accepted);
        }
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        Try::answered(head.status, &head.headers, &body, &PASSING)
    }
}

/// The last cause: "Connection refused" rather than "client error (Connect)".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
