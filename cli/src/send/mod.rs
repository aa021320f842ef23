//! `receipts send`: receipts over HTTP, with retries and a summary.
//!
//! ```text
//! input ── read, group, sign (one thread, rayon) ──> queue ──> N senders (tokio) ──> summary
//! ```
//!
//! - [`grouping`]: requests, each made of one document or a group of them
//! - [`run`]: the whole way of the input, over any transport; `receipts deliver` shares it
//! - [`gateway_arg`]: the options that name a gateway
//! - [`summary`]: what became of everything
//!
//! `receipts_client` has the connections to a gateway, and a request with its retries.

pub mod gateway_arg;
pub mod grouping;
pub mod run;
pub mod summary;

use std::time::Duration;

use indicatif::ProgressBar;
use receipts_client::retrying::{RetryPauses, RetryPolicy};
use receipts_client::submission::Compression;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::InputArg;
use crate::key_file::KeyArg;
use crate::terminal::note;
use gateway_arg::GatewayArg;
use grouping::Grouping;
use run::SendSettings;

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

Examples:
  receipts send --url http://127.0.0.1:8080 --key client.key signed.ndjson
  receipts send --url http://127.0.0.1:8080 --key client.key \\
    --batch 1000 --zstd signed.ndjson
  receipts send --url https://receipts.example.com --cacert ca.pem \\
    --key client.key signed.ndjson
  receipts sign --key client.key new.ndjson |
    receipts send --url http://127.0.0.1:8080 --key client.key --json

Exit codes:
  0  everything was accepted
  1  something was refused; the summary says what and why
  2  wrong usage, or the input can't be read or is empty
  3  the gateway couldn't be reached or stayed unavailable; the summary says how far it got";

/// Submit receipts and batches to a gateway
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Send {
    #[command(flatten)]
    gateway: GatewayArg,
    #[command(flatten)]
    key: KeyArg,
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
    /// Compress bodies with gzip
    #[arg(long, conflicts_with = "zstd")]
    gzip: bool,
    /// Compress bodies with zstd
    #[arg(long)]
    zstd: bool,
    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArg,
}

impl Send {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.key.read()?;
        let timeout = Duration::from_secs(self.timeout);
        let client = self.gateway.client(timeout)?;
        let compression = match (self.gzip, self.zstd) {
            (true, _) => Compression::Gzip,
            (_, true) => Compression::Zstd,
            _ => Compression::None,
        };
        let grouping = Grouping::new(Some(key), self.batch.map(|n| n as usize), compression).signing_requests();
        let run = SendSettings {
            concurrency: self.concurrency,
            policy: RetryPolicy {
                attempts_max: self.attempts,
                timeout,
                total_max: None,
                pauses: PAUSES,
            },
            json: self.json,
        };
        let senders = usize::from(self.concurrency);
        run.all(self.input.open()?, grouping, || Ok(vec![client; senders]))
    }
}

/// A line above the progress bar, or on standard error where there is none.
fn notice(progress: &ProgressBar, text: &str) {
    progress.suspend(|| note(text));
}
