//! Progress whose instant the test sets.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use analytics_api::Progress;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use warehouse::{PartitionProgress, ShardProgress, VerdictsPosition, WarehouseError};

#[derive(Default)]
pub(crate) struct FakeProgress {
    pub(crate) complete_ms: AtomicI64,
    /// Number of reads: one for each query of an account, if none is cached.
    pub(crate) reads: AtomicU64,
    /// The next offset of each partition of `receipts`.
    pub(crate) next_offset: AtomicU64,
    /// The next record of `verdicts`.
    pub(crate) verdicts_offset: AtomicU64,
    /// The warehouse doesn't answer.
    pub(crate) away: AtomicBool,
    /// No writer has published yet.
    pub(crate) unpublished: AtomicBool,
}

impl Progress for FakeProgress {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let complete_ms = self.complete_ms.load(Ordering::SeqCst);
        let partition = |partition, complete_through_ms| PartitionProgress {
            epoch: 1,
            partition,
            first_offset: 0,
            next_offset: self.next_offset.load(Ordering::SeqCst),
            complete_through_ms,
        };
        let published = ShardProgress {
            source_partitions: 2,
            verdicts: VerdictsPosition {
                epoch: 1,
                offset: self.verdicts_offset.load(Ordering::SeqCst),
            },
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
