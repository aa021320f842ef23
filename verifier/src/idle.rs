//! Empty ranges of partitions without new records, so that `completeThrough` advances without
//! traffic.

use std::sync::Arc;
use std::time::Duration;

use receipt_log::{LogInspector, PartitionState};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::GROUP;
use crate::assignment::{Assignments, Settled};

/// Pause between two readings while partitions change.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// The partitions of `receipts`, read soon after a change and otherwise at an interval.
pub struct Observed {
    states: watch::Receiver<Vec<PartitionState>>,
    changes: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl Observed {
    /// Reads the partitions now, after changes, and at least every `interval`.
    pub fn start(log: Arc<dyn LogInspector>, interval: Duration, stop: CancellationToken) -> Self {
        let (publish, states) = watch::channel(Vec::new());
        let changes = Arc::new(Notify::new());
        let noticed = Arc::clone(&changes);
        let task = tokio::spawn(async move {
            while !stop.is_cancelled() {
                match log.partitions(GROUP).await {
                    Ok(states) => drop(publish.send(states)),
                    // The consumer's own polls report a log that is away.
                    Err(error) => debug!(%error, "the partitions of receipts can't be read"),
                }
                let pause = PAUSE_MIN.min(interval);
                tokio::time::sleep(pause).await;
                let _ = tokio::time::timeout(interval - pause, noticed.notified()).await;
            }
        });
        Self {
            states,
            changes,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Requests a reading soon: verdicts were appended, or partitions were assigned.
    pub fn notice(&self) {
        self.changes.notify_one();
    }

    /// Waits for the next reading.
    pub async fn changed(&mut self) {
        if self.states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The number of partitions; 0 before the first reading.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.states.borrow().len()).unwrap_or(u32::MAX)
    }

    /// Owned partitions that had no record without a verdict when they were read, with the instant
    /// before which that holds, in milliseconds since the Unix epoch. A partition is idle at most
    /// once an `interval`.
    #[must_use]
    pub fn idle(&self, assignments: &Assignments, interval: Duration) -> Vec<(Settled, i64)> {
        let states = self.states.borrow();
        let idle = states.iter().filter_map(|state| {
            let settled = assignments.settled(state.partition)?;
            let committed = state.committed.as_ref().map_or(0, |committed| committed.next_offset);
            let is_due = settled.idle_at.is_none_or(|at| at.elapsed() >= interval);
            let is_idle = is_due
                && settled.epoch == state.epoch
                && state.end_offset == settled.next_offset
                && committed == state.end_offset
                && settled.complete_through_ms != state.complete_through_ms;
            is_idle.then_some((settled, state.complete_through_ms))
        });
        idle.collect()
    }
}
