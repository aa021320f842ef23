//! An export on its way out, page by page.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use web::shares::Shares;
use web::stream::{BrokenOff, PieceWriter};

use super::cursor::ExportCursor;
use super::form::ExportFormat;
use super::{Page, Walk, names};

/// Rows that are written at once: some milliseconds of a worker.
const SLICE_ROWS_MAX: usize = 200;
/// Time for an account's earlier stream to end: that its reader is gone is seen a moment later.
const OWN_WAIT_MAX: Duration = Duration::from_secs(1);

/// ExportSlots of exports: one for an account, some for all.
pub(crate) struct ExportSlots {
    all: Arc<Semaphore>,
    shares: Shares,
    own_wait_max: Duration,
}

/// Permits that an export holds until it ends.
pub(crate) struct ExportPermits {
    _own: OwnedSemaphorePermit,
    _slot: OwnedSemaphorePermit,
}

/// Why an export can't begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSlot {
    /// The account has one.
    #[error(
        "an export of your account is under way: read it to its end, or break it off and go on with its last cursor"
    )]
    Own,
    /// Others have them all.
    #[error("as many exports as there may be are under way; try again")]
    Any,
}

impl ExportSlots {
    /// For `exports_max` at one time.
    pub(crate) fn new(exports_max: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(exports_max)),
            shares: Shares::new(1),
            own_wait_max: OWN_WAIT_MAX,
        }
    }

    /// A slot for this account.
    pub(crate) async fn take(&self, account_id: &str) -> Result<ExportPermits, NoSlot> {
        let own = timeout(self.own_wait_max, self.shares.of(account_id).acquire_owned()).await;
        let Ok(Ok(own)) = own else {
            return Err(NoSlot::Own);
        };
        let slot = Arc::clone(&self.all).try_acquire_owned().map_err(|_| NoSlot::Any)?;
        Ok(ExportPermits { _own: own, _slot: slot })
    }
}

/// The body of an export from its first page on, which was read already so that an engine that is
/// away is answered with 503. Holds what was `taken` until it ends: whoever has read the end may
/// begin the next at once.
pub(crate) fn body(walk: Walk, form: ExportFormat, head: Vec<u8>, first: Option<Page>, taken: ExportPermits) -> Body {
    web::stream::body(|pieces| async move {
        let _taken = taken;
        produce(&walk, form, head, first, &pieces).await
    })
}

/// Sends all but the end, which it gives back.
async fn produce(
    walk: &Walk,
    form: ExportFormat,
    head: Vec<u8>,
    first: Option<Page>,
    pieces: &PieceWriter,
) -> Result<Vec<u8>, BrokenOff> {
    let mut counts = BTreeMap::new();
    pieces.send(head).await?;
    let mut page = first;
    while let Some(some) = page {
        let name = names().get(some.collection).copied().unwrap_or_default();
        *counts.entry(name).or_default() += some.rows.len() as u64;
        let next: ExportCursor = some.next.clone();
        // The next page is read while this one is written and sent.
        let write = write(form, some.collection, some.rows, next.to_text(), pieces);
        let (read, sent) = tokio::join!(walk.next(next), write);
        sent?;
        page = read.map_err(|_| "an engine doesn't answer")?;
    }
    Ok(form.end(&counts))
}

/// Sends the rows of a page, and its cursor.
async fn write(
    form: ExportFormat,
    collection: usize,
    mut rows: Vec<Vec<Value>>,
    cursor: String,
    pieces: &PieceWriter,
) -> Result<(), BrokenOff> {
    loop {
        let rest = rows.split_off(rows.len().min(SLICE_ROWS_MAX));
        let is_last = rest.is_empty();
        let cursor = is_last.then_some(cursor.as_str());
        pieces.send(form.rows(collection, rows, cursor)).await?;
        if is_last {
            return Ok(());
        }
        rows = rest;
        // Others wait for this worker.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_are_one_for_an_account_and_some_for_all() {
        let mut slots = ExportSlots::new(2);
        slots.own_wait_max = Duration::ZERO;
        let mine = slots.take("acc_a").await;
        assert!(mine.is_ok());
        assert!(matches!(slots.take("acc_a").await, Err(NoSlot::Own)));
        let theirs = slots.take("acc_b").await;
        assert!(theirs.is_ok());
        assert!(matches!(slots.take("acc_c").await, Err(NoSlot::Any)));
        drop(mine);
        assert!(slots.take("acc_a").await.is_ok());
        assert!(slots.take("acc_c").await.is_ok(), "who was refused holds nothing");
    }
}
