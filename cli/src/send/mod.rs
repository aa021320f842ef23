//! `receipts send`: receipts over HTTP, with retries and a summary.
//!
//! ```text
//! input ── read, group, sign (one thread, rayon) ──> queue ──> N senders (tokio) ──> summary
//! ```
//!
//! - [`submission`]: one request's body and headers, made of one document or a group of them
//! - [`gateway_client`]: one request with its retries
//! - [`summary`]: what became of everything

pub mod gateway_client;
pub mod submission;
pub mod summary;

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::failure::{Answer, Failure};
use crate::input::InputArg;
use crate::key_file::KeyArg;
use crate::terminal::{Output, note};
use gateway_client::{Client, Outcome, RetryPolicy};
use submission::{Compression, Grouping, Submission};
use summary::Summary;

const AFTER_HELP: &str = "\
Receipts go as they stand: `receipts sign` signs them. The key makes the request's X-Service-Signature, and with \
--batch the batches' own signatures, so it must be the key in the receipts' client.publicKey. A document that is \
a batch already is submitted as a batch.

Answers 408, 429, 502, 503 and 504 and broken connections are tried again after growing, jittered pauses, and not \
before a Retry-After. A receipt sent twice is counted once, so a retry is harmless, and so is running it all again.

Examples:
  receipts send --url http://127.0.0.1:8080 --key client.key signed.ndjson
  receipts send --url http://127.0.0.1:8080 --key client.key --batch 1000 --zstd signed.ndjson
  receipts sign --key client.key new.ndjson | receipts send --url $URL --key client.key --json

Exit codes:
  0  everything was accepted
  1  something was refused; the summary says what and why
  2  wrong usage, or the input can't be read or is empty
  3  the gateway couldn't be reached or stayed unavailable; the summary says how far it got";

/// Submit receipts and batches to a gateway
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Send {
    /// The gateway's address
    #[arg(long, value_name = "U", env = "RECEIPTS_URL")]
    url: String,
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
    pub fn run(self) -> Result<Answer, Failure> {
        let key = self.key.read()?;
        let policy = RetryPolicy {
            attempts_max: self.attempts,
            timeout: Duration::from_secs(self.timeout),
        };
        let client = Client::new(&self.url, policy)?;
        let compression = match (self.gzip, self.zstd) {
            (true, _) => Compression::Gzip,
            (_, true) => Compression::Zstd,
            _ => Compression::None,
        };
        let grouping = Grouping::new(key, self.batch.map(|n| n as usize), compression);
        let input = self.input.open()?;
        let progress = progress_bar(input.size_bytes());
        let started = Instant::now();

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("send")
            .enable_all()
            .build()
            .map_err(Failure::unavailable)?;
        let (queue, submissions) = mpsc::channel(usize::from(self.concurrency));
        let reader = std::thread::spawn(move || {
            // A closed queue means the senders gave up; why is their business.
            grouping.submissions(input.documents(), |submission| queue.blocking_send(submission).is_ok())
        });
        let summary = Arc::new(Mutex::new(Summary::default()));
        let sent = runtime.block_on(send_all(
            client,
            submissions,
            usize::from(self.concurrency),
            &summary,
            &progress,
        ));
        progress.finish_and_clear();
        runtime.shutdown_background();

        let summary = std::mem::take(&mut *summary.lock());
        if sent.is_err() {
            // The reader may still wait for standard input: nobody waits for it.
            summary.write(self.json, started.elapsed())?;
            sent?;
        }
        let read = reader
            .join()
            .map_err(|_| Failure::Input("reading the input failed".to_owned()))?;
        if summary.is_empty() {
            read?;
            return Err(Failure::Input("there is nothing to send in the input".to_owned()));
        }
        summary.write(self.json, started.elapsed())?;
        read?;
        Ok(if summary.all_accepted() {
            Answer::Good
        } else {
            Answer::Found
        })
    }
}

/// Sends everything, `concurrency` requests at a time; ends early when the gateway stays unavailable.
async fn send_all(
    client: Client,
    submissions: mpsc::Receiver<Submission>,
    concurrency: usize,
    summary: &Arc<Mutex<Summary>>,
    progress: &ProgressBar,
) -> Result<(), Failure> {
    let client = Arc::new(client);
    let submissions = Arc::new(tokio::sync::Mutex::new(submissions));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (client, submissions) = (Arc::clone(&client), Arc::clone(&submissions));
        let (summary, progress) = (Arc::clone(summary), progress.clone());
        senders.spawn(async move {
            loop {
                let next = submissions.lock().await.recv().await;
                let Some(submission) = next else { return Ok(()) };
                let (outcome, retries) = client.submit(&submission, &progress).await;
                let unavailable = match &outcome {
                    Outcome::Unavailable(reason) => Some(reason.clone()),
                    _ => None,
                };
                summary.lock().count(&submission, outcome, retries);
                progress.inc(submission.input_bytes);
                progress.set_message(summary.lock().progress());
                if let Some(reason) = unavailable {
                    return Err(Failure::Unavailable(reason));
                }
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.map_err(|e| Failure::Unavailable(format!("a sender failed: {e}")))??;
    }
    Ok(())
}

/// On a terminal only; elsewhere nothing is drawn.
fn progress_bar(size_bytes: Option<u64>) -> ProgressBar {
    let template = match size_bytes {
        Some(_) => "{bar:30} {percent:>3}%  {msg}  eta {eta}",
        None => "{spinner} {msg}  {elapsed}",
    };
    let bar = size_bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A line above the progress bar, or on standard error where there is none.
fn notice(progress: &ProgressBar, text: &str) {
    progress.suspend(|| note(text));
}

impl Summary {
    fn write(&self, json: bool, took: Duration) -> Result<(), Failure> {
        let mut out = Output::stdout();
        if json {
            out.line(self.to_json(took))?;
        } else {
            for line in self.to_lines(took) {
                out.line(line)?;
            }
        }
        out.flush()
    }
}
