//! Connections to a gateway.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use http_client::{StreamConnector, TrustError, trust};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use receipt::BodyKind;
use tokio::sync::Mutex;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig};

use crate::acknowledgement::{KEYS_PATH, PublishedKeys, QueuedAnswer, SignedAcknowledgement};
use crate::retrying::{SubmissionOutcome, Transport, Try};
use crate::submission::{Compression, Submission};

/// Largest answer that is read: a refused batch names up to 1,000 faults.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Below what gateways keep an idle connection open, so that few requests meet a closing one.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Why a URL can't be a gateway's.
#[derive(Debug, thiserror::Error)]
pub enum GatewayUrlError {
    /// The text isn't such a URL.
    #[error("{url}: {reason}")]
    Url {
        /// The text.
        url: String,
        /// Fault of the text.
        reason: String,
    },
    /// Nobody can be trusted for `https`.
    #[error("{0}; name the certificate of the gateway's authority with --cacert FILE")]
    Trust(#[from] TrustError),
}

/// A client of one gateway. Its connections are reused, and clones share them.
#[derive(Clone)]
pub struct GatewayClient {
    http: HyperClient<StreamConnector, Full<Bytes>>,
    receipts: Uri,
    batches: Uri,
    published_keys: Uri,
    keys: Arc<Mutex<PublishedKeys>>,
    /// Whether the gateway refused a compressed body.
    is_plain: Arc<AtomicBool>,
}

impl GatewayClient {
    /// Returns a client of the gateway at `url`, which may end with `/api/v1/receipts` or not. For
    /// `https`, the authorities of `ca_file` are trusted, or the system's.
    ///
    /// # Errors
    /// `url` isn't an http or https URL, or `ca_file` can't be used.
    pub fn new(url: &str, connect_wait: Duration, ca_file: Option<&Path>) -> Result<Self, GatewayUrlError> {
        let wrong = |reason: &str| GatewayUrlError::Url {
            url: url.to_owned(),
            reason: reason.to_owned(),
        };
        let base = url
            .trim_end_matches('/')
            .trim_end_matches("/batch")
            .trim_end_matches("/api/v1/receipts");
        let connector = connector(base, connect_wait, ca_file)?;
        let endpoint = |path: &str| format!("{base}{path}").parse().map_err(|_| wrong("isn't a URL"));
        let http = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Ok(Self {
            http,
            receipts: endpoint("/api/v1/receipts")?,
            batches: endpoint("/api/v1/receipts/batch")?,
            published_keys: endpoint(KEYS_PATH)?,
            keys: Arc::default(),
            is_plain: Arc::default(),
        })
    }

    fn submission_request(&self, submission: &Submission) -> Result<Request<Full<Bytes>>, String> {
        let uri = match submission.kind {
            BodyKind::Receipt => &self.receipts,
            BodyKind::Batch => &self.batches,
        };
        let compression = match self.is_plain.load(Ordering::Relaxed) {
            true => Compression::None,
            false => submission.compression,
        };
        let mut request = Request::post(uri.clone())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(signature) = &submission.signature {
            request = request.header("x-service-signature", signature);
        }
        if let Some(encoding) = compression.name() {
            request = request.header(header::CONTENT_ENCODING, encoding);
        }
        let body = compression.apply(&submission.body).map_err(|error| error.to_string())?;
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

const USER_AGENT: &str = concat!("receipts/", env!("CARGO_PKG_VERSION"));

impl Transport for GatewayClient {
    const SERVER: &'static str = "the gateway";

    async fn attempt(&mut self, submission: &Submission) -> Try {
        let request = match self.submission_request(submission) {
            Ok(request) => request,
            Err(error) => return Try::Ended(SubmissionOutcome::Unavailable(error)),
        };
        let (status, headers, body) = match self.answer(request).await {
            Ok(answer) => answer,
            Err(failed) => return failed,
        };
        if status == StatusCode::ACCEPTED {
            return match self.verified(submission, &body).await {
                Ok(acknowledgement) => Try::Ended(SubmissionOutcome::Accepted(Some(acknowledgement))),
                Err(error) => Try::strange(format!("202, acknowledgement: {error}")),
            };
        }
        let answered = Try::answered_by_gateway(status, &headers, &body, submission.kind);
        if submission.compression != Compression::None && refuses_encoding(&body) {
            self.is_plain.store(true, Ordering::Relaxed);
        }
        answered
    }
}

impl GatewayClient {
    /// Sends a request and reads the answer, or returns how the try ended.
    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, HeaderMap, Bytes), Try> {
        let response = self.http.request(request).await.map_err(|error| {
            certificate_fault(&error).map_or_else(
                || Try::again(innermost(&error)),
                |fault| Try::Ended(SubmissionOutcome::Unavailable(fault)),
            )
        })?;
        let (head, body) = response.into_parts();
        match (head.status, Limited::new(body, ANSWER_BYTES_MAX).collect().await) {
            (status, Ok(body)) => Ok((status, head.headers, body.to_bytes())),
            (StatusCode::ACCEPTED, Err(error)) => Err(Try::again(format!("the answer was cut off: {error}"))),
            (status, Err(_)) => Ok((status, head.headers, Bytes::new())),
        }
    }

    /// Returns the acknowledgement in a 202's body. The published keys are read if it names one
    /// that isn't known yet.
    async fn verified(&self, submission: &Submission, answer: &[u8]) -> Result<SignedAcknowledgement, String> {
        let queued =
            QueuedAnswer::read(submission.kind, &submission.body, answer).map_err(|error| error.to_string())?;
        let mut keys = self.keys.lock().await;
        if !keys.has(queued.key_id()) {
            *keys = self.published_keys().await?;
        }
        queued.verified(&keys).map_err(|error| error.to_string())
    }

    async fn published_keys(&self) -> Result<PublishedKeys, String> {
        let request = Request::get(self.published_keys.clone()).header(header::USER_AGENT, USER_AGENT);
        let request = request.body(Full::default()).map_err(|error| error.to_string())?;
        match self.answer(request).await {
            Ok((StatusCode::OK, _, body)) => PublishedKeys::read(&body).map_err(|error| error.to_string()),
            Ok((status, ..)) => Err(format!("{KEYS_PATH} can't be read: status {}", status.as_u16())),
            Err(Try::Again { reason, .. } | Try::Ended(SubmissionOutcome::Unavailable(reason))) => {
                Err(format!("{KEYS_PATH} can't be read: {reason}"))
            }
            Err(Try::Ended(_)) => Err(format!("{KEYS_PATH} can't be read")),
        }
    }
}

/// Whether the gateway's problem is with the compression of the body.
fn refuses_encoding(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct CodedProblem {
        code: String,
    }
    serde_json::from_slice::<CodedProblem>(body)
        .is_ok_and(|problem| matches!(problem.code.as_str(), "unsupported_encoding" | "invalid_encoding"))
}

/// Returns connections to the base URL of a service, plain ones or with TLS, through the proxies of
/// the environment. For `https`, the authorities of `ca_file` are trusted, or the system's.
///
/// # Errors
/// `url` isn't an http or https URL, or `ca_file` can't be used.
pub fn connector(
    url: &str,
    connect_wait: Duration,
    ca_file: Option<&Path>,
) -> Result<StreamConnector, GatewayUrlError> {
    let wrong = |reason: &str| GatewayUrlError::Url {
        url: url.to_owned(),
        reason: reason.to_owned(),
    };
    let parsed: Uri = url.parse().map_err(|e: http::uri::InvalidUri| wrong(&e.to_string()))?;
    let tls = match parsed.scheme_str() {
        Some("http") if ca_file.is_some() => return Err(wrong("--cacert is for a URL with https://")),
        Some("http") => None,
        Some("https") => Some(tls_config(ca_file)?),
        _ => return Err(wrong("must start with http:// or https://")),
    };
    Ok(StreamConnector::new(tls, connect_wait).through_environment_proxies())
}

fn tls_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut config = trust::client_config(trust::roots(ca_file)?)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Describes a certificate that TLS refused. Trying again doesn't change it.
fn certificate_fault(error: &(dyn Error + 'static)) -> Option<String> {
    let refused = causes(error).find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
        match inner.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(fault) => Some(fault),
            _ => None,
        }
    })?;
    Some(match refused {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the gateway's certificate isn't trusted: its authority is unknown here; name the file of the authority's \
             certificate with --cacert FILE"
                .to_owned()
        }
        fault => format!("the gateway's certificate isn't valid: {fault}; renew it, or correct the URL's host"),
    })
}

/// The error and its causes. An I/O error hides the one it was made of from `source`.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// The last cause: "Connection refused" rather than "client error (Connect)".
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}
