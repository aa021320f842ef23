//! `completeThrough`: the newest instant such that everything acknowledged before it is counted.
//!
//! It is read before the query runs, so the query sees at least what it promises. One reading serves all requests
//! that start within a few milliseconds; while one is under way, the others wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use receipt_log::{InspectError, LogInspector, PartitionState};
use service::problem::{Kind, Problem};
use tokio::sync::Mutex;
use warehouse::CommittedOffset;
use web::Failure;

/// Why there is no watermark; without one an answer could not be trusted.
#[derive(Debug, thiserror::Error)]
pub enum WatermarkError {
    /// The log didn't answer.
    #[error(transparent)]
    Log(#[from] InspectError),
    /// The log names no partition, so nothing is known of what was acknowledged.
    #[error("the log has no partitions")]
    NoPartitions,
}

/// What the log said at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// An instant before the log was asked.
    pub read_at: Instant,
    /// `completeThrough`, milliseconds since the Unix epoch: the least over all partitions.
    pub complete_ms: i64,
    /// The commits at that moment, in order of the partition; none for a partition without one. The rows of everything before
    /// them stand in the warehouse.
    pub committed: Arc<[CommittedOffset]>,
}

/// Reads the watermark of one consumer group.
pub struct Watermark {
    log: Arc<dyn LogInspector>,
    group: String,
    age_max: Duration,
    last: Mutex<Option<Reading>>,
}

impl Watermark {
    /// For the commits of `group`; a reading is used again for `age_max`.
    #[must_use]
    pub fn new(log: Arc<dyn LogInspector>, group: String, age_max: Duration) -> Self {
        Self {
            log,
            group,
            age_max,
            last: Mutex::new(None),
        }
    }

    /// What the log says now, or said at most `age_max` ago.
    ///
    /// # Errors
    /// [`WatermarkError`]; nothing is kept of a failed reading.
    pub async fn read(&self) -> Result<Reading, WatermarkError> {
        // Who waited for another's reading uses it, however long it took: it began late enough.
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(reading) = &*last
            && asked_at.saturating_duration_since(reading.read_at) <= self.age_max
        {
            return Ok(reading.clone());
        }
        // The age counts from before the reading: what it says was true then.
        let read_at = Instant::now();
        let partitions = self.log.partitions(&self.group).await?;
        let complete_ms = partitions
            .iter()
            .map(|p| p.complete_through_ms)
            .min()
            .ok_or(WatermarkError::NoPartitions)?;
        let reading = Reading {
            read_at,
            complete_ms,
            committed: partitions.iter().filter_map(committed_offset).collect(),
        };
        *last = Some(reading.clone());
        Ok(reading)
    }
}

/// A commit of another life of the log says nothing of this one.
fn committed_offset(state: &PartitionState) -> Option<CommittedOffset> {
    let committed = state.committed.as_ref().filter(|made| made.epoch == state.epoch)?;
    Some(CommittedOffset {
        epoch: state.epoch,
        partition: state.partition,
        next_offset: committed.next_offset,
    })
}

impl From<WatermarkError> for Failure {
    fn from(error: WatermarkError) -> Self {
        tracing::warn!(%error, "no watermark");
        let detail = "the receipt log can't be inspected now, so nothing can be said of completeness; try again";
        Problem::new(Kind::LogUnavailable, detail).retry_after_s(1).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use receipt_log::{LoggedRecord, PartitionState};

    use super::*;

    #[derive(Default)]
    struct Log {
        readings: AtomicUsize,
        complete: Vec<i64>,
        away: bool,
    }

    impl LogInspector for Log {
        fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
            assert_eq!(group, "verifier");
            self.readings.fetch_add(1, Ordering::SeqCst);
            let found = if self.away {
                Err(InspectError::Unavailable("gone".to_owned()))
            } else {
                Ok(self
                    .complete
                    .iter()
                    .zip(0..)
                    .map(|(complete, partition)| state(partition, *complete))
                    .collect())
            };
            async move { found }.boxed()
        }

        fn read(&self, _: u32, _: u64, _: usize) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
            async { Ok(Vec::new()) }.boxed()
        }
    }

    fn state(partition: u32, complete_through_ms: i64) -> PartitionState {
        PartitionState {
            partition,
            epoch: 1,
            begin_offset: 0,
            end_offset: 9,
            committed: None,
            complete_through_ms,
        }
    }

    fn watermark(log: Log, age_max: Duration) -> (Arc<Log>, Watermark) {
        let log = Arc::new(log);
        (log.clone(), Watermark::new(log, "verifier".to_owned(), age_max))
    }

    #[tokio::test]
    async fn the_least_partition_decides_and_a_young_reading_is_shared() {
        let (log, watermark) = watermark(
            Log {
                complete: vec![30, 10, 20],
                ..Log::default()
            },
            Duration::from_secs(3_600),
        );
        assert_eq!(watermark.read().await.unwrap().complete_ms, 10);
        assert_eq!(watermark.read().await.unwrap().complete_ms, 10);
        assert_eq!(log.readings.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn failures_are_not_kept() {
        let (log, watermark) = watermark(
            Log {
                away: true,
                ..Log::default()
            },
            Duration::from_secs(3_600),
        );
        assert!(matches!(watermark.read().await, Err(WatermarkError::Log(_))));
        assert!(watermark.read().await.is_err());
        assert_eq!(log.readings.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_log_without_partitions_promises_nothing() {
        let (_, watermark) = watermark(Log::default(), Duration::ZERO);
        assert!(matches!(watermark.read().await, Err(WatermarkError::NoPartitions)));
    }
}
