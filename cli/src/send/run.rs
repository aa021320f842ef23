//! A run: everything in the input to one server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use receipts_client::retrying::{RetryPolicy, SubmissionOutcome, Transport, submit};
use tokio::sync::mpsc;

use super::grouping::{Grouping, PreparedRequest};
use super::summary::Summary;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::Input;
use crate::terminal::Output;

/// The failed try of a request that is reported.
const NOTED_ATTEMPT: u32 = 3;

/// Settings of a run.
pub struct SendSettings {
    /// Requests at a time.
    pub concurrency: u16,
    /// Limits of the tries of each request.
    pub policy: RetryPolicy,
    /// Whether the summary is JSON.
    pub json: bool,
}

impl SendSettings {
    /// Sends everything in `input` as `grouping` makes requests of it, each sender over a way of
    /// its own, and writes the summary.
    ///
    /// # Errors
    /// The input can't be read or is empty; `transport` can't be made; the server stays
    /// unavailable.
    pub fn all<T: Transport>(
        &self,
        input: Input,
        grouping: Grouping,
        transport: impl FnOnce() -> Result<Vec<T>, CommandFailure>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("send")
            .enable_all()
            .build()
            .map_err(CommandFailure::unavailable)?;
        let transports = {
            let _on_it = runtime.enter();
            transport()?
        };
        let progress = progress_bar(input.size_bytes());
        let started = Instant::now();
        let (queue, requests) = mpsc::channel(usize::from(self.concurrency));
        let reader = std::thread::spawn(move || {
            // A closed queue means the senders gave up; why is their business.
            grouping.requests(input.documents(), |request| queue.blocking_send(request).is_ok())
        });
        let summary = Arc::new(Mutex::new(Summary::default()));
        let sent = runtime.block_on(send_all(transports, requests, self.policy, &summary, &progress));
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
            .map_err(|_| CommandFailure::Input("reading the input failed".to_owned()))?;
        if summary.is_empty() {
            read?;
            return Err(CommandFailure::Input(
                "there is nothing to send in the input".to_owned(),
            ));
        }
        summary.write(self.json, started.elapsed())?;
        read?;
        Ok(if summary.all_accepted() {
            CommandOutcome::Good
        } else {
            CommandOutcome::Found
        })
    }
}

/// Sends everything, a request at a time on each of `transports`; ends early when the server stays
/// unavailable.
async fn send_all<T: Transport>(
    transports: Vec<T>,
    requests: mpsc::Receiver<PreparedRequest>,
    policy: RetryPolicy,
    summary: &Arc<Mutex<Summary>>,
    progress: &ProgressBar,
) -> Result<(), CommandFailure> {
    let requests = Arc::new(tokio::sync::Mutex::new(requests));
    let mut senders = tokio::task::JoinSet::new();
    for mut transport in transports {
        let requests = Arc::clone(&requests);
        let (summary, progress) = (Arc::clone(summary), progress.clone());
        senders.spawn(async move {
            loop {
                let next = requests.lock().await.recv().await;
                let Some(request) = next else { return Ok(()) };
                let (outcome, retries) = submit(&mut transport, &request.submission, policy, |attempt, reason| {
                    if attempt == NOTED_ATTEMPT {
                        super::notice(&progress, &format!("trying again: {reason}"));
                    }
                })
                .await;
                let unavailable = match &outcome {
                    SubmissionOutcome::Unavailable(reason) => Some(reason.clone()),
                    _ => None,
                };
                summary.lock().count(&request, outcome, retries);
                progress.inc(request.input_bytes);
                progress.set_message(summary.lock().progress());
                if let Some(reason) = unavailable {
                    return Err(CommandFailure::Unavailable(reason));
                }
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.map_err(|e| CommandFailure::Unavailable(format!("a sender failed: {e}")))??;
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

impl Summary {
    fn write(&self, json: bool, took: Duration) -> Result<(), CommandFailure> {
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
