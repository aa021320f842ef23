//! `receipts deliver`: receipts to a publisher's webhook, from the AI client's side. It is `send`
//! over another way.
//!
//! - [`webhook_client`]: the way, through `outbound`

pub mod webhook_client;

use std::time::Duration;

use receipts_client::retrying::RetryPolicy;
use receipts_client::submission::Compression;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::InputArg;
use crate::key_file;
use crate::send::PAUSES;
use crate::send::grouping::Grouping;
use crate::send::run::SendSettings;
use webhook_client::WebhookClient;

const AFTER_HELP: &str = "\
Receipts go as they stand: `receipts sign` signs them. A document that is a batch already is delivered as a batch; --batch puts single \
receipts together into batches, which the key of the receipts must sign.

The URL is the publisher's, so it isn't trusted: only https:// at port 443, only public addresses, and no redirects. 

Answers 408, 429, 500, 502, 503 and 504 and broken connections are tried again after growing, jittered pauses, and not before a \
Retry-After of up to a minute. A receipt delivered twice is counted once, so a retry is harmless, and so is running it all again.

Examples:
  receipts deliver \\
    --webhook https://news.example.com/api/service/receipt signed.ndjson
  receipts deliver --batch 500 --key client.key \\
    --webhook https://news.example.com/api/service/receipt signed.ndjson
  receipts deliver --allow-loopback --json \\
    --webhook http://127.0.0.1:8080/api/service/receipt signed.ndjson

Exit codes:
  0  the webhook took everything
  1  something was refused; the summary says what and why
  2  wrong usage, a URL that isn't asked, or the input can't be read or is empty
  3  the webhook couldn't be reached or stayed unavailable; the summary says how far it got";

/// Deliver receipts and batches to a publisher's webhook
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Deliver {
    /// The publisher's webhook
    #[arg(long, value_name = "URL")]
    webhook: String,
    /// The private key that signs batches: PKCS#8 in PEM
    #[arg(long, value_name = "F", env = "RECEIPTS_KEY")]
    key: Option<std::path::PathBuf>,
    /// Put single receipts together into signed batches of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    batch: Option<u32>,
    /// Requests at a time
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    concurrency: u16,
    /// Tries for each request
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    attempts: u32,
    /// Seconds one try may take
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Seconds all tries of a request may take, pauses included
    #[arg(long, value_name = "S", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    give_up: u64,
    /// Another port than 443 that the URL may name; may be given more than once
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    allow_port: Vec<u16>,
    /// Deliver to this machine too, also over plain HTTP and at any port: for trying things out
    #[arg(long)]
    allow_loopback: bool,
    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArg,
}

impl Deliver {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = match (&self.key, self.batch) {
            (Some(path), Some(_)) => Some(key_file::read(path)?),
            (None, Some(_)) => {
                return Err(CommandFailure::Input(
                    "--batch needs --key, which signs the batches".to_owned(),
                ));
            }
            (_, None) => None,
        };
        let grouping = Grouping::new(key, self.batch.map(|n| n as usize), Compression::None);
        let input = self.input.open()?;
        let outbound = self.outbound();
        let run = SendSettings {
            concurrency: self.concurrency,
            policy: RetryPolicy {
                attempts_max: self.attempts,
                timeout: Duration::from_secs(self.timeout),
                total_max: Some(Duration::from_secs(self.give_up)),
                pauses: PAUSES,
            },
            json: self.json,
        };
        run.all(input, grouping, || {
            WebhookClient::many(&self.webhook, &outbound, self.concurrency)
        })
    }

    fn outbound(&self) -> outbound::Config {
        let defaults = outbound::Config::default();
        let timeout_ms = self.timeout * 1_000;
        outbound::Config {
            ports: defaults.ports.iter().chain(&self.allow_port).copied().collect(),
            requests_max: usize::from(self.concurrency),
            // The retries' own limit comes first.
            head_ms_max: timeout_ms,
            total_ms_max: timeout_ms,
            loopback: self.allow_loopback,
            ..defaults
        }
    }
}
