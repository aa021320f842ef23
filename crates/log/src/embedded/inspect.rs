//! Looking at a log from outside any group.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use super::{
    EmbeddedLog,
    blocking::off_the_workers,
    reader::{DurableExtent, ReadCursor, ReadError},
    shared::LogState,
};
use crate::{
    record::LoggedRecord,
    traits::{InspectError, LogInspector, PartitionState},
};

impl From<ReadError> for InspectError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Unavailable(error.to_string()),
            ReadError::Damaged(damage) => Self::Unavailable(format!(
                "the log is damaged at offset {}: {}",
                damage.offset, damage.detail
            )),
            ReadError::Gone { begin } => Self::Gone {
                partition: 0,
                offset: 0,
                begin,
            },
        }
    }
}

/// Runs `look` where it may block.
pub(super) async fn look<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InspectError> + Send + 'static,
) -> Result<T, InspectError> {
    off_the_workers(work)
        .await
        .map_err(|error| InspectError::Unavailable(error.to_string()))?
}

pub(super) fn only_partition(partition: u32) -> Result<(), InspectError> {
    if partition == 0 {
        return Ok(());
    }
    Err(InspectError::Unavailable(format!(
        "there is no partition {partition}: this log has only partition 0"
    )))
}

impl LogState {
    /// When `offset` was appended: from memory almost always.
    async fn appended_at_ms(self: &Arc<Self>, group: &str, offset: u64) -> Result<i64, InspectError> {
        if let Some(appended_at_ms) = self.times.lock().of(offset) {
            return Ok(appended_at_ms);
        }
        let group = self.groups.get(group);
        if let Some(appended_at_ms) = group.as_ref().and_then(|group| group.remembered_time(offset)) {
            return Ok(appended_at_ms);
        }
        let shared = Arc::clone(self);
        let appended_at_ms = look(move || Ok(shared.extent().appended_at_ms(offset)?)).await?;
        if let Some(group) = group {
            group.remember_time(offset, appended_at_ms);
        }
        Ok(appended_at_ms)
    }

    /// The order of the looks matters: the instant first, then the commit, then the end. Whatever
    /// is acknowledged before the instant is before the end, and a commit is never ahead of an end
    /// that was read later.
    async fn partition_state(self: &Arc<Self>, group: &str) -> Result<PartitionState, InspectError> {
        let now_ms = self.clock.now_ms();
        let committed = self.groups.get(group).and_then(|group| group.committed());
        let begin_offset = self.catalog.begin();
        let end_offset = self.end_offset();
        let next_offset = committed.as_ref().map_or(0, |made| made.next_offset).max(begin_offset);
        let complete_through_ms = if next_offset >= end_offset {
            now_ms
        } else {
            self.appended_at_ms(group, next_offset).await?
        };
        Ok(PartitionState {
            partition: 0,
            epoch: self.epoch,
            begin_offset,
            end_offset,
            committed,
            complete_through_ms,
        })
    }
}

impl LogInspector for EmbeddedLog {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        let (shared, group) = (Arc::clone(self.shared()), group.to_owned());
        async move {
            loop {
                match shared.partition_state(&group).await {
                    // Retention moved on between two looks; for a group without commits only.
                    Err(InspectError::Gone { .. }) => {}
                    state => return state.map(|state| vec![state]),
                }
            }
        }
        .boxed()
    }

    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        let shared = Arc::clone(self.shared());
        look(move || {
            only_partition(partition)?;
            let read = shared
                .extent()
                .read(&mut ReadCursor::default(), offset, usize::MAX, bytes_max);
            read.map_err(|error| at_offset(error, offset))
        })
        .boxed()
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        let shared = Arc::clone(self.shared());
        look(move || {
            only_partition(partition)?;
            last(shared.extent())
        })
        .boxed()
    }
}

/// The newest record of a log; retention never deletes it.
pub(super) fn last(extent: DurableExtent<'_>) -> Result<Option<LoggedRecord>, InspectError> {
    let Some(offset) = extent.end_offset.checked_sub(1) else {
        return Ok(None);
    };
    let read = extent.read(&mut ReadCursor::default(), offset, 1, 1);
    let mut records = read.map_err(|error| at_offset(error, offset))?;
    Ok(records.pop())
}

/// Says which offset is gone.
pub(super) fn at_offset(error: ReadError, offset: u64) -> InspectError {
    match error {
        ReadError::Gone { begin } => InspectError::Gone {
            partition: 0,
            offset,
            begin,
        },
        error => error.into(),
    }
}
