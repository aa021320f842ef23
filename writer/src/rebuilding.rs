//! Requested rebuilds of `usage`, between batches.
//!
//! Any service may request one: an erasure, a repair, an operator. A request is rebuilt publisher
//! by publisher and day by day, for a short time between two batches. A restart begins the first
//! pending request again, which changes nothing on days that are right. A request is finished only
//! while this process is still the shard's writer: what a superseded one inserted is nothing.

use std::collections::VecDeque;
use std::time::Duration;

use metrics::counter;
use service::retry::{Pauses, Retry};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use usage::{RebuildRequest, RebuildStep, Usage};
use warehouse::{Warehouse, WarehouseError};

use crate::inserting::{Inserter, NotInserted};
use crate::reading::ShardReader;

/// Time for rebuilds between two batches, exceeded by at most one day of a publisher.
const SLICE: Duration = Duration::from_millis(200);
/// Pause between two looks at whether the shard is being given up, while a statement runs.
const END_POLL: Duration = Duration::from_millis(50);
/// The part of readiness that fails while rebuilds fail.
const PART: &str = "rebuild";

/// Executes requests of one shard.
pub struct Rebuilder {
    usage: Usage,
    warehouse: Warehouse,
    poll_interval: Duration,
    next_at: Instant,
    pauses: Pauses,
    retry: Retry,
    current: Option<Current>,
    is_failing: bool,
}

/// A request in progress.
struct Current {
    request: RebuildRequest,
    /// Steps that are left.
    steps: VecDeque<RebuildStep>,
    rows: u64,
}

/// Result of a step.
enum Stepped {
    /// A request is done; another may follow.
    Done,
    /// No request.
    Idle,
    /// Another writer owns the shard.
    Superseded,
}

impl Rebuilder {
    /// Polls for requests this often while there are none.
    #[must_use]
    pub fn new(warehouse: Warehouse, retry: Retry, poll_interval: Duration) -> Self {
        Self {
            usage: Usage::new(warehouse.clone()),
            warehouse,
            poll_interval,
            next_at: Instant::now(),
            pauses: retry.pauses(),
            retry,
            current: None,
            is_failing: false,
        }
    }

    /// When [`Self::run`] has something to do.
    #[must_use]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Rebuilds for a short time, if it is due. A failure is repeated later, between other batches;
    /// after one whose result is unknown the writer takes a new epoch first.
    pub async fn run(&mut self, inserter: &mut Inserter, reader: &ShardReader) -> Result<(), NotInserted> {
        let started = Instant::now();
        if started < self.next_at {
            return Ok(());
        }
        while !reader.is_ending() && started.elapsed() < SLICE {
            let interruptible = self.warehouse.is_server();
            let done = tokio::select! {
                done = self.step(inserter) => done,
                // The new epoch ends the statement. The embedded engine finishes it before it
                // closes.
                () = ending(reader), if interruptible => return inserter.renew_epoch().await,
            };
            match done {
                Ok(Stepped::Superseded) => return Err(NotInserted::Superseded),
                Ok(Stepped::Done) => {
                    self.recovered();
                    self.next_at = Instant::now();
                }
                Ok(Stepped::Idle) => {
                    self.recovered();
                    self.next_at = Instant::now() + self.poll_interval;
                    break;
                }
                Err(error) => {
                    let pause = self.pauses.next_wait();
                    warn!(%error, "usage can't be rebuilt now; retrying");
                    self.retry.parts.failed(PART, format!("{PART}: {error}"));
                    self.is_failing = true;
                    self.next_at = Instant::now() + pause;
                    if error.is_retryable() {
                        inserter.renew_epoch().await?;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn recovered(&mut self) {
        // Another shard's rebuild may be failing.
        if std::mem::take(&mut self.is_failing) {
            self.retry.parts.recovered(PART);
        }
        self.pauses = self.retry.pauses();
    }

    /// The next day, the end or the beginning of a request.
    async fn step(&mut self, inserter: &Inserter) -> Result<Stepped, WarehouseError> {
        let Some(current) = &mut self.current else {
            self.current = self.next_request().await?;
            return Ok(self.current.as_ref().map_or(Stepped::Idle, |_| Stepped::Done));
        };
        let epoch = Some(inserter.epoch());
        let Some(step) = current.steps.front() else {
            if !self.warehouse.holds_epoch(inserter.epoch()).await? {
                return Ok(Stepped::Superseded);
            }
            self.usage.finish_rebuild(current.request.id).await?;
            info!(request = %current.request.id, rows = current.rows, "usage was rebuilt");
            self.current = None;
            return Ok(Stepped::Done);
        };
        if matches!(step, RebuildStep::Day(..)) {
            counter!("receipts_writer_rebuilds_total").increment(1);
        }
        current.rows += self.usage.rebuild_step(step, epoch).await?;
        current.steps.pop_front();
        Ok(Stepped::Done)
    }

    async fn next_request(&self) -> Result<Option<Current>, WarehouseError> {
        let Some(request) = self.usage.pending_rebuilds().await?.into_iter().next() else {
            return Ok(None);
        };
        let steps = self.usage.rebuild_steps(&request).await?;
        info!(request = %request.id, steps = steps.len(), "rebuilding usage");
        Ok(Some(Current {
            steps: steps.into(),
            request,
            rows: 0,
        }))
    }
}

impl Drop for Rebuilder {
    /// The shard's next owner rebuilds.
    fn drop(&mut self) {
        self.recovered();
    }
}

/// Returns once the shard's records end.
async fn ending(reader: &ShardReader) {
    while !reader.is_ending() {
        sleep(END_POLL).await;
    }
}
