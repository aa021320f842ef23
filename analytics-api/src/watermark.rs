//! `completeThrough`: the newest instant such that everything acknowledged before it is counted.
//!
//! The watermark is read before the query runs, so the query sees at least what it promises. One
//! reading serves all requests that start within a few milliseconds; while one is in progress, the
//! others wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use service::instant::now_ms;
use service::problem::{Kind, Problem};
use tokio::sync::Mutex;
use warehouse::{ShardProgress, WarehouseError};
use web::Failure;

use crate::progress::{self, Incomplete, Progress};

/// Why there is no watermark; without one an answer could not be trusted.
#[derive(Debug, thiserror::Error)]
pub enum WatermarkError {
    /// The progress can't be read.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    /// The progress doesn't cover the whole log.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

/// The writers' progress at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// An instant before the progress was read.
    pub read_at: Instant,
    /// `completeThrough`, milliseconds since the Unix epoch: the earliest of all shards and
    /// partitions.
    pub complete_ms: i64,
    /// Positions below which everything is in the warehouse, by shard.
    pub shards: Arc<[ShardProgress]>,
}

/// Reads the watermark.
pub struct Watermark {
    progress: Arc<dyn Progress>,
    age_max: Duration,
    last: Mutex<Option<Reading>>,
}

impl Watermark {
    /// Creates a watermark over `progress`. A reading is used again for `age_max`.
    #[must_use]
    pub fn new(progress: Arc<dyn Progress>, age_max: Duration) -> Self {
        Self {
            progress,
            age_max,
            last: Mutex::new(None),
        }
    }

    /// The progress now, or at most `age_max` ago.
    ///
    /// # Errors
    /// [`WatermarkError`]; a failed reading isn't cached.
    pub async fn read(&self) -> Result<Reading, WatermarkError> {
        // A caller that waited for another's reading uses it, however long it took: it began late
        // enough.
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(reading) = &*last
            && asked_at.saturating_duration_since(reading.read_at) <= self.age_max
            && reading.complete_ms <= now_ms()
        {
            return Ok(reading.clone());
        }
        // The age counts from before the reading: its result was true then.
        let read_at = Instant::now();
        let shards = self.progress.shards().await?;
        let reading = Reading {
            read_at,
            complete_ms: progress::complete_through_ms(&shards, now_ms())?,
            shards: shards.into(),
        };
        *last = Some(reading.clone());
        Ok(reading)
    }
}

impl From<WatermarkError> for Failure {
    fn from(error: WatermarkError) -> Self {
        match error {
            WatermarkError::Warehouse(error) => error.into(),
            WatermarkError::Incomplete(error) => {
                tracing::warn!(%error, "no watermark");
                let detail = "it isn't known through which instant the numbers are complete; try again";
                Problem::new(Kind::WarehouseUnavailable, detail).retry_after_s(1).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use warehouse::PartitionProgress;

    use super::*;

    #[derive(Default)]
    struct FakeProgress {
        readings: AtomicUsize,
        complete: Vec<i64>,
        away: bool,
    }

    impl Progress for FakeProgress {
        fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
            self.readings.fetch_add(1, Ordering::SeqCst);
            let partitions = self.complete.iter().zip(0..).map(partition).collect::<Vec<_>>();
            let published = ShardProgress {
                source_partitions: 3,
                partitions,
                ..ShardProgress::default()
            };
            let found = match self.away {
                true => Err(WarehouseError::Unavailable("gone".to_owned())),
                false if self.complete.is_empty() => Ok(Vec::new()),
                false => Ok(vec![published]),
            };
            async move { found }.boxed()
        }
    }

    fn partition((complete_through_ms, partition): (&i64, u32)) -> PartitionProgress {
        PartitionProgress {
            epoch: 1,
            partition,
            first_offset: 0,
            next_offset: u64::from(partition) + 7,
            complete_through_ms: *complete_through_ms,
        }
    }

    fn watermark(progress: FakeProgress, age_max: Duration) -> (Arc<FakeProgress>, Watermark) {
        let progress = Arc::new(progress);
        (progress.clone(), Watermark::new(progress, age_max))
    }

    #[tokio::test]
    async fn the_least_partition_decides_and_a_young_reading_is_shared() {
        let (progress, watermark) = watermark(
            FakeProgress {
                complete: vec![30, 10, 20],
                ..FakeProgress::default()
            },
            Duration::from_secs(3_600),
        );
        let reading = watermark.read().await.unwrap();
        assert_eq!(reading.complete_ms, 10);
        let offsets: Vec<_> = reading.shards[0].partitions.iter().map(|one| one.next_offset).collect();
        assert_eq!(offsets, [7, 8, 9]);
        assert_eq!(watermark.read().await.unwrap(), reading);
        assert_eq!(progress.readings.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn failures_are_not_retained() {
        let (progress, watermark) = watermark(
            FakeProgress {
                away: true,
                ..FakeProgress::default()
            },
            Duration::from_secs(3_600),
        );
        assert!(matches!(watermark.read().await, Err(WatermarkError::Warehouse(_))));
        assert!(watermark.read().await.is_err());
        assert_eq!(progress.readings.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn incomplete_progress_promises_nothing_and_is_not_retained() {
        let age_max = Duration::from_secs(3_600);
        let (_, none) = watermark(FakeProgress::default(), age_max);
        let nothing = none.read().await.unwrap_err();
        assert!(matches!(
            nothing,
            WatermarkError::Incomplete(Incomplete::NothingPublished)
        ));
        let failure = Failure::from(nothing);
        assert_eq!(
            (failure.0.kind, failure.0.retry_after_s),
            (Kind::WarehouseUnavailable, Some(1))
        );
        let (progress, two_of_three) = watermark(
            FakeProgress {
                complete: vec![30, 10],
                ..FakeProgress::default()
            },
            age_max,
        );
        for readings in 1..=2 {
            let error = two_of_three.read().await.unwrap_err();
            assert!(matches!(
                error,
                WatermarkError::Incomplete(Incomplete::Partitions { found: 2, .. })
            ));
            assert_eq!(progress.readings.load(Ordering::SeqCst), readings);
        }
    }
}
