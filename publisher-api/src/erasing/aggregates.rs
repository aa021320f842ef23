//! Aggregates of usage without erased clients: rebuilt by the shard's writer on request, then
//! merged so that the names leave the files.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use usage::Usage;
use warehouse::{MetadataErasure, WarehouseError};

use super::EraseError;

/// Time that a rebuild has before other erasures continue; it is waited for again in the next turn.
const REBUILD_WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// Remains of erased clients in the aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregatesLeft {
    /// Aggregates that count for them.
    clients: u64,
    /// Compensated aggregates, which count for nobody, with their names.
    compensated: u64,
}

impl AggregatesLeft {
    /// Whether there is nothing.
    pub(super) fn is_none(self) -> bool {
        self.clients == 0 && self.compensated == 0
    }
}

/// Counts what is left of an erasure's clients.
pub(super) async fn left(usage: &Usage, rows: &MetadataErasure) -> Result<AggregatesLeft, WarehouseError> {
    // They have clients, and no person.
    if rows.person.is_some() {
        return Ok(AggregatesLeft {
            clients: 0,
            compensated: 0,
        });
    }
    Ok(AggregatesLeft {
        clients: usage.clients_left(&rows.scope, rows.before_ms).await?,
        compensated: usage.compensated_left(&rows.scope).await?,
    })
}

/// Erases what is left. A crash at any point is repeated by the next turn.
pub(super) async fn erase(usage: &Usage, rows: &MetadataErasure, left: AggregatesLeft) -> Result<(), EraseError> {
    if left.clients > 0 {
        rebuild(usage, rows).await?;
    }
    usage.remove_compensated(&rows.scope).await?;
    Ok(())
}

/// Requests a rebuild, unless one of an earlier turn is pending, and waits for it.
async fn rebuild(usage: &Usage, rows: &MetadataErasure) -> Result<(), EraseError> {
    let pending = usage.pending_rebuilds().await?;
    let same = pending
        .into_iter()
        .find(|request| request.scope == rows.scope && request.before_ms == rows.before_ms);
    let id = match same {
        Some(request) => request.id,
        None => usage.request_rebuild(&rows.scope, rows.before_ms).await?,
    };
    let deadline = Instant::now() + REBUILD_WAIT_MAX;
    while !usage.is_rebuilt(id).await? {
        if Instant::now() >= deadline {
            return Err(EraseError::NotRebuilt);
        }
        sleep(POLL).await;
    }
    Ok(())
}
