//! `receipts trigger`: a sample to a running service, its answer, and what became of it.
//!
//! - [`sample`]: the samples, the requests of each, and what is expected of them
//! - [`outcome`]: the outcome of a receipt, by a request that the sender's key signs
//! - [`report`]: the end of a run, for people and for programs

mod outcome;
mod report;
mod sample;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use receipt::{Algorithm, BodyKind, SigningKey};
use serde_json::Value;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::key_file;
use crate::keygen::parse_algorithm;
use crate::service_address::ServiceAddress;
use crate::service_client::{Answered, ServiceClient, field};
use outcome::Outcomes;
use report::{AnsweredSample, TriggerReport};
use sample::{Sample, SampleRequest, SampleSender};

const SERVICE_SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");

/// The longest time of one request.
const REQUEST_WAIT: Duration = Duration::from_secs(30);

const AFTER_HELP: &str = "\
Without --key, a key is made for this run. With --wait, the service is asked what became of the receipt, by a request \
that the key signs (docs/outcomes.md).

The receipts name the publisher news.example. They count for it once `receipts keys create --domain news.example` has \
recorded the domain; those that arrive before aren't in its totals.

Examples:
  receipts trigger
  receipts trigger batch --count 100
  receipts trigger bad-signature --wait
  receipts keygen --out client.key
  receipts trigger duplicate --url http://127.0.0.1:8080 --key client.key
  receipts trigger --json | jq -r '.requests[0].answer.receiptId'

Exit codes:
  0  the service answered as it should to this sample
  1  it didn't, or the outcome isn't the expected one, or isn't there in time
  2  wrong usage, or the key can't be read
  3  the service can't be reached";

/// Send a good or bad sample, and show what the service answers
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct TriggerCommand {
    /// Sample to send
    #[arg(value_name = "SAMPLE", default_value = "receipt")]
    sample: Sample,
    #[command(flatten)]
    service: ServiceAddress,
    /// Address of the analytics API, if it isn't the service's: for --wait
    #[arg(long, value_name = "U", requires = "wait")]
    analytics_url: Option<String>,
    /// The private key to sign with [default: one that is made for this run]
    #[arg(long, value_name = "F", env = "RECEIPTS_KEY")]
    key: Option<PathBuf>,
    /// Algorithm of the key that is made: Ed25519, RSA-2048 or ECDSA-P256
    #[arg(long, value_name = "A", value_parser = parse_algorithm, default_value = "Ed25519")]
    algorithm: Algorithm,
    /// Publisher of the content
    #[arg(long, value_name = "D", default_value = "news.example")]
    publisher: accounts::Domain,
    /// Receipts in a batch
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(2..=1_000))]
    count: u16,
    /// Wait until the outcome is known, and show it
    #[arg(long)]
    wait: bool,
    /// Seconds that --wait may take
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Write requests, answers and outcome as JSON
    #[arg(long)]
    json: bool,
}

impl TriggerCommand {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let url = self.service.gateway()?;
        let key = match &self.key {
            Some(path) => key_file::read(path)?,
            None => SigningKey::generate(self.algorithm).map_err(CommandFailure::input)?,
        };
        let sender = SampleSender {
            key: &key,
            publisher: self.publisher.as_str(),
            count: usize::from(self.count),
        };
        let requests = self.sample.requests(&sender)?;
        crate::runtime::block_on(async {
            let client = ServiceClient::new(&url, self.service.cacert.as_deref())?;
            let mut sent = Vec::new();
            for request in requests {
                let answer = submit(&client, &request).await?;
                sent.push(AnsweredSample::new(&client, request, &answer));
            }
            let mut report = TriggerReport {
                sample: self.sample,
                publisher: self.publisher.as_str(),
                url: &url,
                key: &key,
                key_file: self.key.as_deref(),
                sent,
                outcome: None,
            };
            if self.wait
                && let Some((receipt_id, received_at)) = report.acknowledged()
            {
                let analytics = match &self.analytics_url {
                    Some(url) => url.clone(),
                    None => self.service.analytics()?,
                };
                let deadline = Instant::now() + Duration::from_secs(self.timeout);
                let outcomes = Outcomes::new(ServiceClient::new(&analytics, self.service.cacert.as_deref())?, &key);
                report.outcome = Some(outcomes.of(&receipt_id, &received_at, deadline).await?);
            }
            report.write(self.json, self.wait)
        })
    }
}

/// Sends a request once.
async fn submit(client: &ServiceClient, request: &SampleRequest) -> Result<Answered, CommandFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(signature) = &request.signature {
        headers.insert(SERVICE_SIGNATURE, field("the signature", signature)?);
    }
    let body = request.body.clone();
    client
        .exchange(Method::POST, path(request.kind), headers, body, REQUEST_WAIT)
        .await
}

/// Address of receipts or batches.
fn path(kind: BodyKind) -> &'static str {
    match kind {
        BodyKind::Receipt => "/api/v1/receipts",
        BodyKind::Batch => "/api/v1/receipts/batch",
    }
}

/// A text member of a JSON object.
fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str()
}
