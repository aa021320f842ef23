//! From acknowledged to counted: the dashboard is queried over and over, and each receipt's delay
//! is the time from its acknowledgement to the first answer whose total includes it (in the order
//! of acknowledgement), so an upper bound. No answer may count less than what was acknowledged
//! before its `completeThrough`, whatever fails meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::check::dashboard;
use crate::expected::Expected;
use crate::http::client;
use crate::plan::Plan;

/// The sampling task.
pub struct Sampler {
    task: Option<JoinHandle<Histogram<u64>>>,
    stop: CancellationToken,
}

/// Starts sampling, where there is a key to read the dashboard with.
///
/// # Errors
/// Never in practice: the histogram's bounds are fixed.
pub fn start(plan: Arc<Plan>, expected: Arc<Mutex<Expected>>) -> Result<Sampler> {
    let stop = CancellationToken::new();
    let delays_ms = Histogram::new_with_max(600_000, 3)?;
    let task = match (&plan.api_key, plan.sample_wait) {
        (Some(_), Some(wait)) => Some(tokio::spawn(sample(plan, expected, wait, delays_ms, stop.clone()))),
        _ => None,
    };
    Ok(Sampler { task, stop })
}

impl Sampler {
    /// Stops sampling; the delays in milliseconds.
    ///
    /// # Errors
    /// The task panicked.
    pub async fn finish(self) -> Result<Option<Histogram<u64>>> {
        self.stop.cancel();
        match self.task {
            Some(task) => Ok(Some(task.await?)),
            None => Ok(None),
        }
    }
}

async fn sample(
    plan: Arc<Plan>,
    expected: Arc<Mutex<Expected>>,
    wait: Duration,
    mut delays_ms: Histogram<u64>,
    stop: CancellationToken,
) -> Histogram<u64> {
    let http = client(1);
    let mut covered = 0_usize;
    while !stop.is_cancelled() {
        tokio::time::sleep(wait).await;
        let Ok(Some(seen)) = dashboard(&http, &plan).await else {
            continue;
        };
        let now = Instant::now();
        let mut expected = expected.lock();
        let complete = seen.complete_through();
        let due = expected
            .acknowledged_at
            .partition_point(|acknowledged| acknowledged.time < complete);
        if seen.total_receipts < due as u64 {
            expected.wrong(format!(
                "the dashboard says that it is complete through {complete} with {} receipts; {due} were acknowledged before",
                seen.total_receipts
            ));
        }
        let counted = usize::try_from(seen.total_receipts)
            .unwrap_or(usize::MAX)
            .min(expected.acknowledged_at.len());
        for acknowledged in expected.acknowledged_at.get(covered..counted).unwrap_or_default() {
            let delay_ms = now.saturating_duration_since(acknowledged.instant).as_millis();
            delays_ms.saturating_record(u64::try_from(delay_ms).unwrap_or(u64::MAX));
        }
        covered = covered.max(counted);
    }
    delays_ms
}
