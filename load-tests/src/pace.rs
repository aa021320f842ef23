//! Open loop at a rate, or closed loop at a concurrency. In the open loop latency counts from the
//! instant a request was meant to start, so that a slow service can't hide behind a waiting client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::expected::Expected;
use crate::http::client;
use crate::plan::{Extent, Plan};
use crate::submit::{Ending, Sender, Tries};
use crate::workload::{Answer, Request};

/// Result of the sending.
#[derive(Debug)]
pub struct Paced {
    /// From the intended start to the final answer, in microseconds.
    pub latency_us: Histogram<u64>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Requests sent.
    pub requests: u64,
    /// Receipts in them.
    pub receipts: u64,
    /// Faults that the requests met on their way.
    pub met: Met,
}

/// The sum of all requests' [`Tries`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Met {
    /// Tries that had to be repeated.
    pub repeated: u64,
    /// Answers 503.
    pub unavailable: u64,
    /// 429 and 503 without `Retry-After`.
    pub without_retry_after: u64,
    /// The longest that a 503 took.
    pub slowest_unavailable: Duration,
}

impl Met {
    fn add(&mut self, tries: &Tries) {
        self.repeated += u64::from(tries.repeated);
        self.unavailable += u64::from(tries.unavailable);
        self.without_retry_after += u64::from(tries.without_retry_after);
        self.slowest_unavailable = self.slowest_unavailable.max(tries.slowest_unavailable);
    }
}

/// Sends everything the workload makes, until `stop`.
///
/// # Errors
/// The gateway's address is no address.
pub async fn run(
    plan: Arc<Plan>,
    mut requests: mpsc::Receiver<Request>,
    expected: Arc<Mutex<Expected>>,
    stop: CancellationToken,
) -> Result<Paced> {
    let sender = Arc::new(Sender::new(
        client(plan.concurrency),
        plan.gateways.clone(),
        plan.tries_max,
        plan.answer_wait_max,
    ));
    let permits = Arc::new(Semaphore::new(plan.concurrency));
    let latency = Arc::new(Mutex::new((
        Histogram::new_with_bounds(1, 600_000_000, 3)?,
        Met::default(),
    )));
    let bar = progress(&plan);
    let started = Instant::now();
    let (mut sent_requests, mut sent_receipts) = (0_u64, 0_u64);
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(request) = requests.recv().await {
        let intended = match plan.rate {
            Some(rate) => {
                let intended = started + Duration::from_secs_f64(sent_receipts as f64 / rate);
                tokio::time::sleep_until(intended.into()).await;
                Some(intended)
            }
            None => None,
        };
        let permit = Arc::clone(&permits).acquire_owned().await?;
        if stop.is_cancelled() {
            break;
        }
        let begun = intended.unwrap_or_else(Instant::now);
        sent_requests += 1;
        sent_receipts += request.items.len().max(1) as u64;
        let (sender, expected) = (Arc::clone(&sender), Arc::clone(&expected));
        let (latency, bar) = (Arc::clone(&latency), bar.clone());
        tasks.spawn(async move {
            let ending = sender.submit(&request).await;
            drop(permit);
            let elapsed_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            let tries = settle(&expected, &request, ending);
            let mut latency = latency.lock();
            latency.0.saturating_record(elapsed_us);
            latency.1.add(&tries);
            bar.inc(request.items.len().max(1) as u64);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    bar.finish_and_clear();
    let elapsed = started.elapsed();
    let (latency_us, met) = latency.lock().clone();
    Ok(Paced {
        latency_us,
        elapsed,
        requests: sent_requests,
        receipts: sent_receipts,
        met,
    })
}

/// Takes an ending into the expectations; returns what the request met.
fn settle(expected: &Mutex<Expected>, request: &Request, ended: Result<(Ending, Tries)>) -> Tries {
    let mut expected = expected.lock();
    let (ending, tries) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            expected.wrong(format!("{}: {error}", request.path));
            return Tries::default();
        }
    };
    match ending {
        Ending::AsExpected if request.answer == Answer::Refused => expected.refused += 1,
        Ending::AsExpected => expected.acknowledge(&request.items, tries.open),
        Ending::Wrong(status, body) => expected.wrong(format!(
            "{} answered {status}, not {:?}: {body}",
            request.path, request.answer
        )),
        Ending::GivenUp(last) => {
            expected.given_up += (request.items.len() as u64).max(1) * u64::from(tries.open.max(1));
            expected.wrong(format!("{} never answered: {last}", request.path));
        }
    }
    tries
}

fn progress(plan: &Plan) -> ProgressBar {
    let target = if plan.json {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(5)
    };
    let (bar, style) = match plan.extent {
        Extent::Receipts(count) => (
            ProgressBar::with_draw_target(Some(count), target),
            "{bar:40} {human_pos}/{human_len} receipts  {per_sec}  {eta} left",
        ),
        Extent::Time(_) => (
            ProgressBar::with_draw_target(None, target),
            "{spinner} {human_pos} receipts  {per_sec}  {elapsed}",
        ),
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}
