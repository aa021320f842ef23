//! The active consumer of a group.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::{Instant, timeout_at};

use super::{
    blocking::off_the_workers,
    groups::{CommitOutput, Group},
    reader::{ReadCursor, ReadError},
    shared::LogState,
};
use crate::{
    record::LoggedRecord,
    traits::{Assignment, Commit, CommitError, ConsumeError, LogConsumer, PollLimits, Polled},
};

/// No poll waits longer, whatever it requests: the clock can't count further than it can.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The active consumer of one group, until a newer one of the same group fences it.
pub struct EmbeddedConsumer {
    shared: Arc<LogState>,
    group: Arc<Group>,
    generation: u64,
    next_offset: u64,
    cursor: ReadCursor,
    announced: Announced,
}

/// Assignment as far as the caller has seen it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announced {
    Nothing,
    Assigned,
    Revoked,
}

impl std::fmt::Debug for EmbeddedConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedConsumer")
            .field("group", &self.group.name)
            .field("generation", &self.generation)
            .field("next_offset", &self.next_offset)
            .finish_non_exhaustive()
    }
}

impl EmbeddedConsumer {
    pub(super) fn new(shared: Arc<LogState>, group: Arc<Group>, generation: u64) -> Self {
        let next_offset = group.next_offset().unwrap_or(0).max(shared.catalog.begin());
        shared.cache.lock().follow(&group.name, next_offset);
        shared.news.notify_waiters();
        Self {
            shared,
            group,
            generation,
            next_offset,
            cursor: ReadCursor::default(),
            announced: Announced::Nothing,
        }
    }

    fn is_fenced(&self) -> bool {
        self.group.generation() != self.generation
    }

    async fn next(&mut self, limits: PollLimits) -> Result<Polled, ConsumeError> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + limits.wait_max.min(WAIT_MAX);
        loop {
            let mut news = pin!(shared.news.notified());
            news.as_mut().enable();
            if shared.queue.is_closed() {
                return Err(ConsumeError::Unavailable("the log is closed".to_owned()));
            }
            let fenced = self.is_fenced();
            if fenced && self.announced == Announced::Assigned {
                self.announced = Announced::Revoked;
                return Ok(Polled {
                    revoked: vec![0],
                    ..Polled::default()
                });
            }
            let mut polled = Polled::default();
            if !fenced {
                if self.announced == Announced::Nothing {
                    polled.assigned.push(self.assignment());
                }
                if self.next_offset < shared.end_offset() {
                    polled.records = self.records(limits).await?;
                }
                if !polled.assigned.is_empty() || !polled.records.is_empty() {
                    self.announced = Announced::Assigned;
                    self.next_offset += polled.records.len() as u64;
                    return Ok(polled);
                }
            }
            if timeout_at(deadline, news).await.is_err() {
                return Ok(polled);
            }
        }
    }

    /// Stores what `output` stores, and then the commits.
    pub(super) fn commit_with(
        &self,
        commits: Vec<Commit>,
        output: impl FnOnce() -> Result<CommitOutput, CommitError> + Send + 'static,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let (shared, group, generation) = (Arc::clone(&self.shared), Arc::clone(&self.group), self.generation);
        async move {
            if commits.is_empty() {
                return Ok(());
            }
            let storing = off_the_workers(move || {
                let end_offset = || (!shared.queue.is_closed()).then(|| shared.end_offset());
                shared.groups.commit(&group, generation, commits, end_offset, output)
            });
            storing
                .await
                .map_err(|error| CommitError::Unavailable(error.to_string()))?
        }
    }

    fn assignment(&self) -> Assignment {
        Assignment {
            partition: 0,
            epoch: self.shared.epoch,
            next_offset: self.next_offset,
            committed: self.group.committed(),
            begin_offset: self.shared.catalog.begin(),
        }
    }

    /// The next records, from memory or from the files. Doesn't move `next_offset`, so that a
    /// dropped poll loses nothing.
    async fn records(&mut self, limits: PollLimits) -> Result<Vec<LoggedRecord>, ConsumeError> {
        let cached = self
            .shared
            .cache
            .lock()
            .take(&self.group.name, self.next_offset, limits);
        if let Some(records) = cached {
            return Ok(records);
        }
        let (shared, offset) = (Arc::clone(&self.shared), self.next_offset);
        let mut cursor = std::mem::take(&mut self.cursor);
        let reading = off_the_workers(move || {
            let read = shared
                .extent()
                .read(&mut cursor, offset, limits.records_max, limits.bytes_max);
            (read, cursor)
        });
        let (read, cursor) = reading
            .await
            .map_err(|error| ConsumeError::Unavailable(error.to_string()))?;
        self.cursor = cursor;
        let records = read.map_err(|error| match error {
            ReadError::Io(error) => ConsumeError::Unavailable(error.to_string()),
            ReadError::Damaged(damage) => ConsumeError::Damaged {
                partition: 0,
                offset: damage.offset,
                detail: damage.detail,
            },
            ReadError::Gone { begin } => {
                let detail = format!("it is no longer stored; the oldest is {begin}");
                ConsumeError::Damaged {
                    partition: 0,
                    offset,
                    detail,
                }
            }
        })?;
        if !self.is_fenced() {
            self.shared
                .cache
                .lock()
                .follow(&self.group.name, offset + records.len() as u64);
        }
        Ok(records)
    }
}

impl LogConsumer for EmbeddedConsumer {
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        self.next(limits).boxed()
    }

    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        let (begin_offset, end_offset) = (self.shared.catalog.begin(), self.shared.end_offset());
        if offset < begin_offset || offset > end_offset {
            let detail = format!("the log has offsets {begin_offset} to {end_offset}");
            let outside = ConsumeError::Damaged {
                partition,
                offset,
                detail,
            };
            return std::future::ready(Err(outside)).boxed();
        }
        if partition == 0 && !self.is_fenced() {
            self.next_offset = offset;
            self.shared.cache.lock().follow(&self.group.name, self.next_offset);
        }
        std::future::ready(Ok(())).boxed()
    }

    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.commit_with(commits, || Ok(CommitOutput::None)).boxed()
    }
}

impl Drop for EmbeddedConsumer {
    fn drop(&mut self) {
        let mut cache = self.shared.cache.lock();
        if !self.is_fenced() {
            cache.leave(&self.group.name);
        }
    }
}
