//! One stream: what its listener has been told, and what comes next. It makes nothing itself: its bytes are the hub's.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;
use warehouse::LogPlace;

use super::event;
use super::hub::HubSeat;
use super::keys::KeySeat;
use super::updates::Cursor;
use crate::app::App;

/// The longest silence.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The pause after what a stream missed couldn't be asked for.
const PAUSE: Duration = Duration::from_secs(1);

/// Numbers streams, so that they come back one after the other.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Where a stream goes on from.
#[derive(Debug)]
pub(super) enum From {
    /// With the present totals.
    Now,
    /// With what came since.
    Place(LogPlace),
    /// With the present totals, and it has missed what can't be told.
    Unknown,
}

enum Step {
    Hello,
    Begin,
    Follow(Cursor),
    Over,
}

pub(super) struct Listener {
    app: Arc<App>,
    hub: HubSeat,
    key: KeySeat,
    /// Of all, and of its account.
    _places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    updated: watch::Receiver<u64>,
    from: From,
    step: Step,
}

impl Listener {
    pub(super) fn new(
        app: Arc<App>,
        hub: HubSeat,
        key: KeySeat,
        places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
        from: From,
    ) -> Self {
        Self {
            updated: hub.updates.subscribe(),
            app,
            hub,
            key,
            _places: places,
            from,
            step: Step::Hello,
        }
    }

    /// Events until the listener goes, its key ends or the service does. Nothing is made ahead: a listener that doesn't read costs what
    /// its connection buffers.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut listener| async move {
            let bytes = listener.next().await?;
            Some((Ok(bytes), listener))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        match self.step {
            Step::Hello => {
                self.step = Step::Begin;
                return Some(event::HELLO);
            }
            Step::Over => return None,
            Step::Begin | Step::Follow(_) => {}
        }
        let app = Arc::clone(&self.app);
        let last = tokio::select! {
            biased;
            () = app.live.closing.cancelled() => event::retry(NUMBER.fetch_add(1, Ordering::Relaxed)),
            why = self.key.ended() => event::end(why),
            () = sleep(HEARTBEAT) => return Some(event::HEARTBEAT),
            bytes = told(&app, &self.hub, &mut self.updated, &self.from, &mut self.step) => return Some(bytes),
        };
        self.step = Step::Over;
        Some(last)
    }
}

/// The next of the hub's updates. May be dropped and called again.
async fn told(app: &App, hub: &HubSeat, updated: &mut watch::Receiver<u64>, from: &From, step: &mut Step) -> Bytes {
    loop {
        updated.borrow_and_update();
        if let Step::Follow(cursor) = step {
            if let Some(frame) = hub.updates.next(cursor) {
                return frame;
            }
        } else if let Some((update, newest)) = hub.updates.newest() {
            let (frame, cursor) = match from {
                From::Now => (update.totals.clone(), newest),
                From::Unknown => (
                    [event::reload(&update.id), update.totals.clone()].concat().into(),
                    newest,
                ),
                From::Place(place) => match hub.since(app, place).await {
                    Ok(since) => since,
                    Err(error) => {
                        tracing::debug!(%error, "a live stream can't go on yet");
                        sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            *step = Step::Follow(cursor);
            if !frame.is_empty() {
                return frame;
            }
            continue;
        }
        if updated.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
