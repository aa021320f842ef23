//! Progress without writers: the test publishes it.

use std::sync::atomic::{AtomicI64, Ordering};

use analytics_api::Progress;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use warehouse::{CommittedOffset, LedgerRow, PartitionProgress, ShardProgress, WarehouseError};

pub(crate) const EPOCH: u32 = 1;

pub(crate) struct TestProgress {
    next_offsets: Mutex<Vec<u64>>,
    pub(crate) complete_ms: AtomicI64,
}

impl TestProgress {
    pub(crate) fn new(partitions: usize, complete_ms: i64) -> Self {
        Self {
            next_offsets: Mutex::new(vec![0; partitions]),
            complete_ms: AtomicI64::new(complete_ms),
        }
    }

    pub(crate) fn next_offset(&self, partition: u32) -> u64 {
        self.next_offsets.lock()[partition as usize]
    }

    /// The published position of each partition.
    fn offsets(&self) -> Vec<CommittedOffset> {
        let next_offsets = self.next_offsets.lock();
        let offset = |(next_offset, partition): (&u64, u32)| CommittedOffset {
            epoch: EPOCH,
            partition,
            next_offset: *next_offset,
        };
        next_offsets.iter().zip(0..).map(offset).collect()
    }

    pub(crate) fn publish(&self, line: &LedgerRow) {
        self.next_offsets.lock()[line.partition as usize] = line.last_offset + 1;
    }
}

impl Progress for TestProgress {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
        // The instant first: it must not be ahead of the positions.
        let complete_through_ms = self.complete_ms.load(Ordering::SeqCst);
        let partition = |offset: CommittedOffset| PartitionProgress {
            epoch: offset.epoch,
            partition: offset.partition,
            first_offset: 0,
            next_offset: offset.next_offset,
            complete_through_ms,
        };
        let partitions: Vec<_> = self.offsets().into_iter().map(partition).collect();
        let published = ShardProgress {
            source_partitions: u32::try_from(partitions.len()).unwrap(),
            partitions,
            ..ShardProgress::default()
        };
        async move { Ok(vec![published]) }.boxed()
    }
}
