//! `receipts send`: receipts over HTTP, with retries and a summary.
//!
//! ```text
//! input ── read, group, sign (one thread, rayon) ──> queue ──> N senders (tokio) ──> summary
//! ```
//!
//! - [`grouping`]: requests, each made of one document or a group of them
//! - [`run`]: the whole way of the input, over any transport
//! - [`gateway_arg`]: the options that name a gateway
//! - [`webhook_client`]: the way to a publisher's webhook, through `outbound`
//! - [`summary`]: what became of everything
//!
//! `receipts_client` has the connections to a gateway, and a request with its retries.

pub mod gateway_arg;
pub mod grouping;
pub mod run;
pub mod summary;
pub mod webhook_client;

use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use receipts_client::retrying::{RetryPauses, RetryPolicy};
use receipts_client::submission::Compression;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::InputArg;
use crate::key_file;
use crate::service_address::ServiceAddress;
use crate::terminal::note;
use gateway_arg::GatewayArg;
use grouping::Grouping;
use run::SendSettings;
use webhook_client::WebhookClient;

/// Pauses between tries, of which a person waits for the end.
pub const PAUSES: RetryPauses = RetryPauses {
    min: Duration::from_millis(200),
    max: Duration::from_secs(10),
};

const AFTER_HELP: &str = "\
Receipts go as they stand: `receipts sign` signs them. The key makes the request's X-Service-Signature, and with \
--batch the batches' own signatures, so it must be the key in the receipts' client.publicKey. A document that is \
a batch already is submitted as a batch.

Only the gateway's own refusal ends a request, and only a signed acknowledgement of its bytes, by a published key of the \
gateway, is success. Everything else, such as a proxy's page, is tried again after growing, jittered pauses, and not before a \
Retry-After of up to a minute. A receipt sent twice is counted once, so a retry is harmless, and so is running it all again.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name proxies; this machine is never behind one.

With --webhook, receipts go to a publisher's own address instead: without X-Service-Signature, and 2xx is success. The URL is \
the publisher's, so it isn't trusted: only https:// at port 443, only public addresses, no redirects and no proxies.

Examples:
  receipts send --key client.key signed.ndjson
  receipts send --url http://127.0.0.1:8080 --key client.key \\
    --batch 1000 --zstd signed.ndjson
  receipts send --url https://receipts.example.com --cacert ca.pem \\
    --key client.key signed.ndjson
  receipts sign --key client.key new.ndjson |
    receipts send --url http://127.0.0.1:8080 --key client.key --json
  receipts send signed.ndjson \\
    --webhook https://news.example.com/api/service/receipt

Exit codes:
  0  everything was accepted
  1  something was refused; the summary says what and why
  2  wrong usage, a webhook that isn't asked, or the input can't be read or is empty
  3  the server couldn't be reached or stayed unavailable; the summary says how far it got";

/// Submit receipts and batches to a gateway or a webhook
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Send {
    #[command(flatten)]
    service: ServiceAddress,
    /// A publisher's webhook, instead of a gateway
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    #[command(flatten)]
    webhook_access: WebhookAccess,
    /// The private key, for requests and batches: PKCS#8 in PEM
    #[arg(long, value_name = "F", env = "RECEIPTS_KEY", required_unless_present = "webhook")]
    key: Option<PathBuf>,
    /// Put single receipts together into signed batches of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    batch: Option<u32>,
    /// Requests at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    concurrency: u16,
    /// Tries for each request
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    attempts: u32,
    /// Seconds one try may take
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
    /// Seconds all tries of a request may take, pauses included [default: no limit]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    give_up: Option<u64>,
    /// Compress bodies with gzip
    #[arg(long, conflicts_with_all = ["zstd", "webhook"])]
    gzip: bool,
    /// Compress bodies with zstd
    #[arg(long, conflicts_with = "webhook")]
    zstd: bool,
    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArg,
}

/// Addresses of webhooks beside public ones at port 443.
#[derive(Debug, clap::Args)]
struct WebhookAccess {
    /// Another port than 443 that the webhook's URL may name; may be given more than once
    #[arg(long, value_name = "PORT", requires = "webhook", value_parser = clap::value_parser!(u16).range(1..))]
    allow_port: Vec<u16>,
    /// Send to a webhook on this machine too, also over plain HTTP and at any port
    #[arg(long, requires = "webhook")]
    allow_loopback: bool,
}

impl Send {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.key.as_deref().map(key_file::read).transpose()?;
        if key.is_none() && self.batch.is_some() {
            return Err(CommandFailure::Input(
                "--batch needs --key, which signs the batches".to_owned(),
            ));
        }
        let compression = match (self.gzip, self.zstd) {
            (true, _) => Compression::Gzip,
            (_, true) => Compression::Zstd,
            _ => Compression::None,
        };
        let grouping = Grouping::new(key, self.batch.map(|n| n as usize), compression);
        let timeout = Duration::from_secs(self.timeout);
        let run = SendSettings {
            concurrency: self.concurrency,
            policy: RetryPolicy {
                attempts_max: self.attempts,
                timeout,
                total_max: self.give_up.map(Duration::from_secs),
                pauses: PAUSES,
            },
            json: self.json,
        };
        let input = self.input.open()?;
        if let Some(webhook) = self.webhook {
            let outbound = self.webhook_access.outbound(timeout, self.concurrency);
            return run.all(input, grouping, || {
                WebhookClient::many(&webhook, &outbound, self.concurrency)
            });
        }
        let gateway = GatewayArg {
            url: self.service.gateway()?,
            cacert: self.service.cacert,
        };
        let client = gateway.client(timeout)?;
        run.all(input, grouping.signing_requests(), || {
            Ok(vec![client; usize::from(self.concurrency)])
        })
    }
}

impl WebhookAccess {
    fn outbound(&self, timeout: Duration, concurrency: u16) -> outbound::Config {
        let defaults = outbound::Config::default();
        // The retries' own limit comes first.
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        outbound::Config {
            ports: defaults.ports.iter().chain(&self.allow_port).copied().collect(),
            requests_max: usize::from(concurrency),
            head_ms_max: timeout_ms,
            total_ms_max: timeout_ms,
            loopback: self.allow_loopback,
            ..defaults
        }
    }
}

/// A line above the progress bar, or on standard error where there is none.
fn notice(progress: &ProgressBar, text: &str) {
    progress.suspend(|| note(text));
}
