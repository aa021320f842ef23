//! A log whose watermark the test sets.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use receipt_log::{InspectError, LogInspector, LoggedRecord, PartitionState};

#[derive(Default)]
pub(crate) struct FakeLog {
    pub(crate) complete_ms: AtomicI64,
    pub(crate) away: AtomicBool,
}

impl LogInspector for FakeLog {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        assert_eq!(group, "verifier");
        let complete_ms = self.complete_ms.load(Ordering::SeqCst);
        let state = |partition, complete_through_ms| PartitionState {
            partition,
            epoch: 1,
            begin_offset: 0,
            end_offset: 0,
            committed: None,
            complete_through_ms,
        };
        let found = if self.away.load(Ordering::SeqCst) {
            Err(InspectError::Unavailable("away".to_owned()))
        } else {
            Ok(vec![state(0, complete_ms + 5_000), state(1, complete_ms)])
        };
        async move { found }.boxed()
    }

    fn read(&self, _: u32, _: u64, _: usize) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}
