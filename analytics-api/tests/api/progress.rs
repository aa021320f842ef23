//! Progress whose instant the test sets.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use analytics_api::Progress;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use warehouse::{PartitionProgress, ShardProgress, WarehouseError};

#[derive(Default)]
pub(crate) struct FakeProgress {
    pub(crate) complete_ms: AtomicI64,
    /// The warehouse doesn't answer.
    pub(crate) away: AtomicBool,
    /// No writer has published yet.
    pub(crate) unpublished: AtomicBool,
}

impl Progress for FakeProgress {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
        let complete_ms = self.complete_ms.load(Ordering::SeqCst);
        let partition = |partition, complete_through_ms| PartitionProgress {
            epoch: 1,
            partition,
            first_offset: 0,
            next_offset: 0,
            complete_through_ms,
        };
        let published = ShardProgress {
            source_partitions: 2,
            partitions: vec![partition(0, complete_ms + 5_000), partition(1, complete_ms)],
            ..ShardProgress::default()
        };
        let found = if self.away.load(Ordering::SeqCst) {
            Err(WarehouseError::Unavailable("away".to_owned()))
        } else if self.unpublished.load(Ordering::SeqCst) {
            Ok(Vec::new())
        } else {
            Ok(vec![published])
        };
        async move { found }.boxed()
    }
}
