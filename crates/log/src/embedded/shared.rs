//! State that the writing thread, upkeep, consumers and inspectors of one log share.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    append_times::AppendTimes, catalog::Catalog, clock::LogClock, config::EmbeddedConfig, disk::File, groups::Groups,
    meters::LogMeters, queue::Queue, reader::DurableExtent, tail_cache::TailCache,
};

pub(super) struct LogState {
    pub(super) dir: PathBuf,
    pub(super) config: EmbeddedConfig,
    pub(super) epoch: u32,
    pub(super) clock: LogClock,
    pub(super) queue: Queue,
    pub(super) catalog: Catalog,
    /// Offset behind the newest durable record. Set after the sync, before the acknowledgement.
    pub(super) end_offset: AtomicU64,
    /// Rung when `end_offset` rises, a consumer is fenced or the log closes.
    pub(super) news: Notify,
    pub(super) times: Mutex<AppendTimes>,
    pub(super) cache: Mutex<TailCache>,
    pub(super) groups: Groups,
    pub(super) meters: LogMeters,
    /// The locked file, until the log is closed.
    pub(super) lock: Mutex<Option<File>>,
}

impl LogState {
    pub(super) fn end_offset(&self) -> u64 {
        self.end_offset.load(Ordering::Acquire)
    }

    /// The durable part of the log, now.
    pub(super) fn extent(&self) -> DurableExtent<'_> {
        DurableExtent {
            catalog: &self.catalog,
            epoch: self.epoch,
            end_offset: self.end_offset(),
        }
    }
}
