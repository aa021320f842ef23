//! The way to a publisher's webhook.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use outbound::{Config, Error, OutboundClient, Session};
use receipts_client::retrying::{SubmissionOutcome, Transport, Try};
use receipts_client::submission::Submission;

use crate::failure::CommandFailure;

/// The answer to the largest batch names each of its 10,000 receipts.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A connection to a webhook, recreated when it ends.
pub struct WebhookClient {
    session: Session,
}

impl WebhookClient {
    /// So many ways to `url`. To be called on a tokio runtime.
    ///
    /// # Errors
    /// A URL that isn't asked, or a system without DNS servers.
    pub fn many(url: &str, config: &Config, count: u16) -> Result<Vec<Self>, CommandFailure> {
        let client = OutboundClient::new(config).map_err(CommandFailure::unavailable)?;
        let session = || client.session(url).map(|session| Self { session });
        let made: Result<Vec<Self>, Error> = (0..count).map(|_| session()).collect();
        made.map_err(|error| CommandFailure::Input(format!("--webhook: {error}")))
    }
}

impl Transport for WebhookClient {
    const SERVER: &'static str = "the webhook";

    async fn attempt(&mut self, submission: &Submission) -> Try {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self
            .session
            .post(headers, submission.body.clone(), ANSWER_BYTES_MAX)
            .await
        {
            Ok(answer) if answer.status.is_success() => Try::Ended(SubmissionOutcome::Accepted(None)),
            Ok(answer) => Try::answered(answer.status, &answer.headers, &answer.body),
            Err(error) if error.may_pass() => Try::again(error.to_string()),
            // A private address, a wrong certificate: it will be the same for every receipt.
            Err(error) => Try::Ended(SubmissionOutcome::Unavailable(format!(
                "the webhook can't be delivered to: {error}"
            ))),
        }
    }
}
