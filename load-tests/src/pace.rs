//! Open loop at a rate, or closed loop at a concurrency. In the open loop latency counts from the instant a request
//! was meant to start, so that a slow service can't hide behind a waiting client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use crate::expected::Expected;
use crate::plan::{Extent, Plan};
use crate::submit::{Ending, client, submit};
use crate::workload::{Answer, Request};

/// What the sending came to.
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
    /// Tries that had to be repeated.
    pub repeated: u64,
}

/// Sends everything the workload makes.
///
/// # Errors
/// The gateway's address is no address.
pub async fn run(
    plan: Arc<Plan>,
    mut requests: mpsc::Receiver<Request>,
    expected: Arc<Mutex<Expected>>,
) -> Result<Paced> {
    let http = client(plan.concurrency);
    let places = Arc::new(Semaphore::new(plan.concurrency));
    let latency = Arc::new(Mutex::new((Histogram::new_with_bounds(1, 600_000_000, 3)?, 0_u64)));
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
        let place = Arc::clone(&places).acquire_owned().await?;
        let begun = intended.unwrap_or_else(Instant::now);
        sent_requests += 1;
        sent_receipts += request.items.len().max(1) as u64;
        let (plan, http, expected) = (Arc::clone(&plan), http.clone(), Arc::clone(&expected));
        let (latency, bar) = (Arc::clone(&latency), bar.clone());
        tasks.spawn(async move {
            let ending = submit(&http, &plan.gateway, &request, plan.tries_max).await;
            drop(place);
            let elapsed_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            let unanswered = settle(&expected, &request, ending);
            let mut latency = latency.lock();
            latency.0.saturating_record(elapsed_us);
            latency.1 += unanswered;
            bar.inc(request.items.len().max(1) as u64);
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    bar.finish_and_clear();
    let elapsed = started.elapsed();
    let (latency_us, repeated) = latency.lock().clone();
    Ok(Paced {
        latency_us,
        elapsed,
        requests: sent_requests,
        receipts: sent_receipts,
        repeated,
    })
}

/// Takes an ending into the expectations; returns how many tries went without an answer.
fn settle(expected: &Mutex<Expected>, request: &Request, ending: Result<Ending>) -> u64 {
    let mut expected = expected.lock();
    let receipts = request.items.len() as u64;
    match ending {
        Ok(Ending::AsExpected { unanswered }) => {
            if request.answer == Answer::Refused {
                expected.refused += 1;
            } else {
                expected.acknowledge(&request.items);
                expected.maybe_twice += receipts * u64::from(unanswered);
            }
            u64::from(unanswered)
        }
        Ok(Ending::Wrong(status, body)) => {
            expected.wrong(format!(
                "{} answered {status}, not {:?}: {body}",
                request.path, request.answer
            ));
            0
        }
        Ok(Ending::GivenUp(last)) => {
            expected.given_up += receipts.max(1);
            expected.wrong(format!("{} never answered: {last}", request.path));
            0
        }
        Err(error) => {
            expected.wrong(format!("{}: {error}", request.path));
            0
        }
    }
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
