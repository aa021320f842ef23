//! Follows the writers' progress while any stream is open, and sends each topic the changes in its
//! scope. One small query serves all topics, and a topic without changes queries nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use warehouse::{NewOffsets, ShardProgress, StreamChanges, StreamPosition, WarehouseError};

use super::{Live, position};
use crate::watermark::WatermarkError;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Published progress of the writers.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) position: StreamPosition,
    /// The position as an event ID.
    pub(super) id: String,
    pub(super) shards: Arc<[ShardProgress]>,
    pub(super) complete_ms: i64,
}

/// Changes in the scope of a topic.
#[derive(Debug)]
pub(super) struct Changes {
    /// Progress with these changes.
    pub(super) to: Arc<Published>,
    /// Hours of access that may have new receipts.
    pub(super) hours: BTreeSet<u32>,
    pub(super) offsets: NewOffsets,
    /// Whether the changes couldn't be determined.
    pub(super) are_unknown: bool,
}

impl Changes {
    /// Appends the next changes.
    pub(super) fn append(&mut self, mut next: Self) {
        self.to = next.to;
        self.hours.append(&mut next.hours);
        self.offsets.append(&next.offsets);
        self.are_unknown |= next.are_unknown;
    }
}

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Watermark(#[from] WatermarkError),
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
}

/// Follows until it is dropped.
pub(crate) async fn follow(live: Arc<Live>) {
    let mut last: Option<StreamPosition> = None;
    loop {
        let started = Instant::now();
        if live.topics().is_empty() {
            // Changes until the next topic opens are in no stream.
            last = None;
            live.topic_opened.notified().await;
            continue;
        }
        match step(&live, last.as_ref()).await {
            Ok(position) => last = Some(position),
            Err(error) => {
                tracing::debug!(%error, "live streams wait for the writers' progress or the warehouse");
                sleep(RETRY_PAUSE).await;
            }
        }
        tokio::select! {
            () = sleep_until(started + live.interval) => {}
            // The first totals of a topic don't wait.
            () = live.topic_opened.notified() => {}
        }
    }
}

/// Sends the changes since the position `last`, and returns the new position.
async fn step(live: &Live, last: Option<&StreamPosition>) -> Result<StreamPosition, FollowError> {
    let reading = live.app.watermark.read().await?;
    let position = StreamPosition::new(&reading.shards);
    let changes = match last {
        Some(last) if *last != position => changes(live, last, &reading.shards).await?,
        _ => Some(StreamChanges::default()),
    };
    let to = Arc::new(Published {
        id: position::format(&position),
        position: position.clone(),
        shards: reading.shards,
        complete_ms: reading.complete_ms,
    });
    let are_unknown = changes.is_none();
    let changes = changes.unwrap_or_default();
    for topic in live.topics() {
        topic.receive(Changes {
            to: Arc::clone(&to),
            hours: changes.touched.hours(&topic.key.scope),
            offsets: changes.offsets.clone(),
            are_unknown,
        });
    }
    Ok(position)
}

/// Queries the changes between two positions; `None` if they can't be determined.
pub(super) async fn changes(
    live: &Live,
    from: &StreamPosition,
    to: &[ShardProgress],
) -> Result<Option<StreamChanges>, WarehouseError> {
    let _permit = live.queries.acquire().await;
    live.app.warehouse().touched(from, to).await
}
