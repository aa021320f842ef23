//! The outcome of a receipt. The sender's key signs the request (RFC 9421, docs/outcomes.md).

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use receipt::SigningKey;
use serde_json::Value;

use super::text;
use crate::failure::CommandFailure;
use crate::service_client::{Answered, ServiceClient, field};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PUBLIC_KEY: HeaderName = HeaderName::from_static("x-client-public-key");
const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// Seconds for which a signature holds.
const SIGNATURE_S: i64 = 60;
/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest time of one request; the service waits up to 5 s.
const REQUEST_WAIT: Duration = Duration::from_secs(15);

/// Outcomes of a key's receipts.
pub(super) struct Outcomes<'a> {
    client: ServiceClient,
    key: &'a SigningKey,
}

impl<'a> Outcomes<'a> {
    /// At an analytics API.
    pub(super) fn new(client: ServiceClient, key: &'a SigningKey) -> Self {
        Self { client, key }
    }

    /// The outcome of a receipt, once everything that arrived with it is counted; null if that
    /// isn't so by the deadline.
    ///
    /// # Errors
    /// The service can't be reached, or doesn't answer with an outcome.
    pub(super) async fn of(
        &self,
        receipt_id: &str,
        received_at: &str,
        deadline: Instant,
    ) -> Result<Value, CommandFailure> {
        let received_at: Option<Timestamp> = received_at.parse().ok();
        loop {
            let answer = self.once(receipt_id).await?;
            let outcome = answer.json();
            let through = text(&outcome, "completeThrough").and_then(|through| through.parse::<Timestamp>().ok());
            // Occurrences that were sent later would be missing before.
            if through.is_some() && through > received_at {
                return Ok(outcome);
            }
            if Instant::now() >= deadline {
                return Ok(Value::Null);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn once(&self, receipt_id: &str) -> Result<Answered, CommandFailure> {
        let path = format!("/api/v1/receipts/{receipt_id}");
        let headers = self.signed(&self.client.url(&path))?;
        let answer = self
            .client
            .exchange(Method::GET, &path, headers, Bytes::new(), REQUEST_WAIT);
        let answer = answer.await?;
        let status = answer.status.as_u16();
        match answer.status {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Err(CommandFailure::Input(format!(
                "{status}: there is no analytics API at {}: name it with --analytics-url",
                self.client.url("")
            ))),
            _ => Err(CommandFailure::Unavailable(format!(
                "the outcome can't be read: {status}: {}",
                answer.detail()
            ))),
        }
    }

    fn signed(&self, url: &str) -> Result<HeaderMap, CommandFailure> {
        let created = Timestamp::now().as_second();
        let expires = created + SIGNATURE_S;
        let params = format!(r#"("@method" "@target-uri");created={created};expires={expires}"#);
        let base = format!("\"@method\": GET\n\"@target-uri\": {url}\n\"@signature-params\": {params}");
        let signature = STANDARD.encode(self.key.sign(base.as_bytes()).map_err(CommandFailure::input)?);
        let public_key: String = self
            .key
            .public_key_pem()
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .collect();
        let mut headers = HeaderMap::new();
        headers.insert(PREFER, HeaderValue::from_static("wait=5"));
        headers.insert(PUBLIC_KEY, field("the public key", &public_key)?);
        headers.insert(SIGNATURE_INPUT, field("the signature", &format!("sig1={params}"))?);
        headers.insert(SIGNATURE, field("the signature", &format!("sig1=:{signature}:"))?);
        Ok(headers)
    }
}
