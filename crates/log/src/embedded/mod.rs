//! The embedded log: one partition in segment files under one directory, no server.
//!
//! A record's way in: [`queue`] -> [`writer`] (one thread: [`frame`]s into one buffer, one
//! write, one sync) -> [`tail_cache`] -> [`consumer`]. Consumers that fell behind go through
//! [`catalog`] and [`reader`] to the files.
//!
//! On disk: `log.json` ([`identity`]), `<first offset>.segment` ([`segment_file`], [`frame`]),
//! `positions/<group>` ([`positions`]), `lock`. What is found there when the log is opened,
//! [`recovery`] and [`scan`] judge. [`upkeep`] does all that must not delay a write.

mod append_times;
mod blocking;
mod catalog;
mod clock;
mod config;
mod consumer;
mod disk;
mod error;
mod frame;
mod groups;
mod identity;
mod inspect;
mod meters;
mod positions;
mod processor;
mod queue;
mod read_only;
mod reader;
mod recovery;
mod retention;
mod scan;
mod segment_file;
mod shared;
mod tail_cache;
#[cfg(test)]
mod tests;
mod upkeep;
mod writer;

use std::{
    fs::TryLockError,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    thread::{self, JoinHandle},
    time::Duration,
};

use ::config::Section;
use crossbeam_channel::Receiver;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::{
    append_times::AppendTimes, clock::LogClock, disk::File, groups::Groups, meters::LogMeters, queue::Queue,
    shared::LogState, tail_cache::TailCache, upkeep::SealedSegment, writer::SegmentWriter,
};
pub use self::{
    config::{EmbeddedConfig, VerdictsConfig},
    consumer::EmbeddedConsumer,
    error::{GroupError, OpenError},
    processor::EmbeddedProcessor,
    read_only::ReadOnlyLog,
};
use crate::{
    Topic,
    record::{Appended, Record},
    traits::{AppendError, Committed, LogWriter},
};

/// Sealed segments that wait to be cut; beyond it they keep their reserved space.
const SEALED_WAITING_MAX: usize = 64;

/// The embedded log, open for writing. Clones are the same log; when the last one is dropped it is
/// closed, which blocks on the disk.
#[derive(Clone)]
pub struct EmbeddedLog {
    open: Arc<OpenLog>,
}

struct OpenLog {
    shared: Arc<LogState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for EmbeddedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.open.shared;
        f.debug_struct("EmbeddedLog")
            .field("dir", &shared.dir)
            .field("epoch", &shared.epoch)
            .field("end_offset", &shared.end_offset())
            .finish_non_exhaustive()
    }
}

impl EmbeddedLog {
    /// Opens the log of receipts in `dir`, creating it if there is none: takes the lock, checks the
    /// files, cuts a torn tail off. Blocks on the disk.
    ///
    /// # Errors
    /// [`OpenError`]; none of them changes what is stored.
    pub fn open(dir: &Path, config: EmbeddedConfig) -> Result<Self, OpenError> {
        Self::open_topic(Topic::Receipts, dir, config)
    }

    /// Opens the log of `topic` in `dir`, in the same way.
    ///
    /// # Errors
    /// [`OpenError`]; none of them changes what is stored.
    pub fn open_topic(topic: Topic, dir: &Path, config: EmbeddedConfig) -> Result<Self, OpenError> {
        let (log, writer, sealed) = Self::assemble(topic, dir, config)?;
        log.start("log-writer", || writer.run())?;
        let shared = Arc::clone(log.shared());
        log.start("log-upkeep", move || upkeep::run(&shared, &sealed))?;
        Ok(log)
    }

    /// Makes the log of `topic` ready, without the two threads that work on it.
    fn assemble(
        topic: Topic,
        dir: &Path,
        config: EmbeddedConfig,
    ) -> Result<(Self, SegmentWriter, Receiver<SealedSegment>), OpenError> {
        config.checked("log")?;
        recovery::create_dirs(dir)?;
        let dir = disk::canonicalize(dir).map_err(OpenError::io(dir))?;
        let lock = lock(&dir)?;
        let recovered = recovery::recover(&dir, &config)?;
        let shared = Arc::new(LogState {
            epoch: recovered.epoch,
            clock: LogClock::new(recovered.newest_ms),
            queue: Queue::new(
                config.queue_bytes_max,
                config.queue_records_max,
                Duration::from_micros(config.gather_us_max),
            ),
            catalog: recovered.catalog,
            end_offset: AtomicU64::new(recovered.end_offset),
            news: Notify::new(),
            times: Mutex::new(AppendTimes::default()),
            cache: Mutex::new(TailCache::new(config.tail_cache_bytes_max)),
            groups: Groups::new(&dir, recovered.epoch, recovered.groups),
            meters: LogMeters::new(topic),
            lock: Mutex::new(Some(lock)),
            config,
            dir,
        });
        let (sealed, cut) = crossbeam_channel::bounded(SEALED_WAITING_MAX);
        let writer = SegmentWriter::begin(Arc::clone(&shared), sealed, recovered.tail);
        let writer = writer.map_err(OpenError::io(&shared.dir))?;
        upkeep::look_around(&shared);
        tracing::info!(
            log = topic.name(), dir = %shared.dir.display(), epoch = shared.epoch, begin_offset = shared.catalog.begin(),
            end_offset = shared.end_offset(), "the log is open"
        );
        let threads = Mutex::default();
        let open = Arc::new(OpenLog { shared, threads });
        Ok((Self { open }, writer, cut))
    }

    /// Starts a thread that ends when the log is closed.
    fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(OpenError::io(&self.open.shared.dir))?;
        self.open.threads.lock().push(thread);
        Ok(())
    }

    /// Looks into a log that another process may be writing: takes no lock, changes nothing. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open_read_only(dir: &Path) -> Result<ReadOnlyLog, OpenError> {
        ReadOnlyLog::open(dir)
    }

    /// The one active consumer of `group`; the group's earlier consumer is fenced. A new group
    /// starts with the oldest stored record. Blocks on the disk the first time a group is seen.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn consumer(&self, group: &str) -> Result<EmbeddedConsumer, GroupError> {
        let shared = &self.open.shared;
        if shared.queue.is_closed() {
            return Err(GroupError::Unavailable("the log is closed".to_owned()));
        }
        let (group, generation) = shared.groups.join(group)?;
        Ok(EmbeddedConsumer::new(Arc::clone(shared), group, generation))
    }

    /// Forgets a group that has no consumer any more: retention doesn't wait for it.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn forget_group(&self, group: &str) -> Result<(), GroupError> {
        self.open.shared.groups.forget(group)
    }

    /// The one active consumer of `group`, as [`Self::consumer`], which appends to `verdicts`.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn processor(&self, group: &str, verdicts: &Self) -> Result<EmbeddedProcessor, GroupError> {
        let consumer = self.consumer(group)?;
        Ok(EmbeddedProcessor::new(consumer, Arc::clone(verdicts.shared())))
    }

    /// Sets the position of `group` in a log that is not open, also backwards. Retention doesn't
    /// run before, which would delete what the group has committed. Blocks on the disk.
    ///
    /// # Errors
    /// [`OpenError`]; then nothing changes.
    pub fn rewind(dir: &Path, group: &str, next_offset: u64) -> Result<(), OpenError> {
        let _lock = lock(dir)?;
        let log = ReadOnlyLog::open(dir)?;
        let stored = log.stored()?;
        if !(stored.start..=stored.end).contains(&next_offset) {
            return Err(OpenError::Position {
                group: group.to_owned(),
                next_offset,
                begin: stored.start,
                end: stored.end,
            });
        }
        let committed = Committed {
            epoch: log.epoch(),
            next_offset,
            metadata: String::new(),
        };
        positions::store(dir, group, log.epoch(), Some(&committed)).map_err(OpenError::io(dir))
    }

    /// The epoch of the log: random, made when its directory was, never used again.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.open.shared.epoch
    }

    /// Takes no more records, writes what is queued, answers everyone, and gives up the lock.
    /// Blocks on the disk.
    pub fn close(&self) {
        self.open.close();
    }

    fn shared(&self) -> &Arc<LogState> {
        &self.open.shared
    }
}

impl OpenLog {
    fn close(&self) {
        let shared = &self.shared;
        shared.queue.close();
        shared.news.notify_waiters();
        let mut threads = self.threads.lock();
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the log died");
            }
        }
        shared.groups.settle();
        // Given back in words: a child that this process starts at this instant has a copy of the
        // descriptor until it runs its program, and closing ours alone would leave it locked.
        if let Some(lock) = shared.lock.lock().take()
            && let Err(error) = lock.unlock()
        {
            tracing::warn!(%error, "the log's lock can't be given back before the process ends");
        }
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// Takes the log for this process. The system gives it back when the process ends, however it ends.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(OpenError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(OpenError::io(&path)(error)),
    }
}

impl LogWriter for EmbeddedLog {
    /// The record is handed over at once, not when the future is first polled; dropping the future
    /// doesn't take it back.
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>> {
        let shared = &self.open.shared;
        let max = shared.config.record_bytes_max;
        let handed_over = match frame::encoded_len(&record) {
            Some(bytes) if bytes <= max => shared.queue.push(record, bytes),
            bytes => Err(AppendError::TooLarge {
                size: bytes.unwrap_or(usize::MAX),
                max,
            }),
        };
        match handed_over {
            Ok(answer) => answer
                .map(|answer| answer.unwrap_or_else(|_| Err(writer_died())))
                .boxed(),
            Err(refused) => ready(Err(refused)).boxed(),
        }
    }

    fn writable(&self) -> Result<(), String> {
        self.open.shared.queue.refusal().map_or(Ok(()), Err)
    }
}

fn writer_died() -> AppendError {
    AppendError::Unavailable("the writing thread stopped".to_owned())
}
