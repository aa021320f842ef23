//! One request to a gateway, tried until it has an answer or its tries are used up.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use indicatif::ProgressBar;
use rand::RngExt;
use receipt::BodyKind;
use serde::Deserialize;

use super::submission::Submission;
use crate::failure::Failure;

/// An answer's body is a few hundred bytes; what is longer isn't read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The first pause lasts up to this long; it doubles from try to try.
const PAUSE_MS_FIRST: u64 = 100;
/// The longest pause of our own choosing.
const PAUSE_MS_MAX: u64 = 5_000;
/// The longest Retry-After that is waited for, in seconds.
const RETRY_AFTER_S_MAX: u64 = 60;

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries for each request.
    pub attempts_max: u32,
    /// How long one try may take.
    pub timeout: Duration,
}

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The gateway holds it durably.
    Accepted,
    /// The gateway won't have it, however often it is sent.
    Refused(Refusal),
    /// The tries are used up. Whether the gateway has it isn't known.
    Unavailable(String),
}

/// Why the gateway refused a request.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The problem's code.
    pub code: String,
    /// Where, as a JSON Pointer; empty for the whole body.
    pub pointer: String,
    /// What to change.
    pub detail: String,
}

/// A client of one gateway; its connections are kept and shared.
pub struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    receipts: Uri,
    batches: Uri,
    policy: RetryPolicy,
}

/// How one try ended.
enum Try {
    Ended(Outcome),
    Again { reason: String, after: Option<Duration> },
}

impl Client {
    /// A client of the gateway at `url`, which may end with `/api/v1/receipts` or not.
    ///
    /// # Errors
    /// `url` isn't an http URL.
    pub fn new(url: &str, policy: RetryPolicy) -> Result<Self, Failure> {
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
        connector.set_connect_timeout(Some(policy.timeout));
        Ok(Self {
            http: HyperClient::builder(TokioExecutor::new()).build(connector),
            receipts: endpoint("/api/v1/receipts")?,
            batches: endpoint("/api/v1/receipts/batch")?,
            policy,
        })
    }

    /// Submits until there is an answer; also returns how many further tries that took.
    pub async fn submit(&self, submission: &Submission, progress: &ProgressBar) -> (Outcome, u64) {
        let mut attempt = 1;
        loop {
            let (reason, after) = match self.attempt(submission).await {
                Try::Ended(outcome) => return (outcome, u64::from(attempt - 1)),
                Try::Again { reason, after } => (reason, after),
            };
            if attempt >= self.policy.attempts_max {
                let reason = format!("the gateway stays unavailable after {attempt} tries: {reason}");
                return (Outcome::Unavailable(reason), u64::from(attempt - 1));
            }
            if attempt == 3 {
                super::notice(progress, &format!("trying again: {reason}"));
            }
            tokio::time::sleep(pause(attempt).max(after.unwrap_or_default())).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, submission: &Submission) -> Try {
        let uri = match submission.kind {
            BodyKind::Receipt => &self.receipts,
            BodyKind::Batch => &self.batches,
        };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-service-signature", &submission.signature);
        if let Some(encoding) = submission.compression.name() {
            request = request.header(header::CONTENT_ENCODING, encoding);
        }
        let request = match request.body(Full::new(submission.body.clone())) {
            Ok(request) => request,
            Err(error) => return Try::Ended(Outcome::Unavailable(error.to_string())),
        };
        match tokio::time::timeout(self.policy.timeout, self.exchange(request)).await {
            Ok(ended) => ended,
            Err(_) => Try::Again {
                reason: format!("no answer within {:?}", self.policy.timeout),
                after: None,
            },
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Try {
        let again = |reason: String| Try::Again { reason, after: None };
        let response = match self.http.request(request).await {
            Ok(response) => response,
            Err(error) => return again(innermost(&error)),
        };
        let (head, body) = response.into_parts();
        if head.status == StatusCode::ACCEPTED {
            return Try::Ended(Outcome::Accepted);
        }
        let retry_after = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let after = retry_after.map(|seconds: u64| Duration::from_secs(seconds.min(RETRY_AFTER_S_MAX)));
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let refusal = Refusal::read(head.status, &body);
        match head.status {
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Try::Again {
                reason: format!("{} {}: {}", refusal.status, refusal.code, refusal.detail),
                after,
            },
            _ => Try::Ended(Outcome::Refused(refusal)),
        }
    }
}

/// Between half of and the whole of a doubling pause.
fn pause(attempt: u32) -> Duration {
    let longest_ms = PAUSE_MS_FIRST
        .saturating_mul(1 << (attempt - 1).min(16))
        .min(PAUSE_MS_MAX);
    Duration::from_millis(rand::rng().random_range(longest_ms / 2..=longest_ms))
}

/// The last cause: "Connection refused" rather than "client error (Connect)".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

impl Refusal {
    /// Reads problem+json (RFC 9457) with a list of faults; makes do with less.
    fn read(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Problem {
            code: Option<String>,
            title: Option<String>,
            detail: Option<String>,
            pointer: Option<String>,
            errors: Vec<Fault>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Fault {
            code: Option<String>,
            pointer: String,
            detail: Option<String>,
        }
        let mut problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        let first = if problem.errors.is_empty() {
            Fault::default()
        } else {
            problem.errors.swap_remove(0)
        };
        let reason = || status.canonical_reason().unwrap_or("unknown").to_owned();
        Self {
            status: status.as_u16(),
            code: first
                .code
                .or(problem.code)
                .unwrap_or_else(|| format!("http_{}", status.as_u16())),
            pointer: if first.pointer.is_empty() {
                problem.pointer.unwrap_or_default()
            } else {
                first.pointer
            },
            detail: first.detail.or(problem.detail).or(problem.title).unwrap_or_else(reason),
        }
    }
}
