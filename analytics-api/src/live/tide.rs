//! Follows the writers' progress while anybody listens, and tells each hub how far it is and which
//! hours of access have new receipts in its scope. So a scope that nothing happens in costs the
//! warehouse nothing, and one small query serves all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use warehouse::{LogPlace, TouchedHours};

use super::hub::Wave;
use crate::app::App;

/// The pause after a failed look.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows until it is dropped.
pub(crate) async fn follow(app: Arc<App>) {
    let mut last: Option<LogPlace> = None;
    loop {
        let started = Instant::now();
        if app.live.all().is_empty() {
            // What was touched meanwhile is nobody's.
            last = None;
            app.live.came.notified().await;
            continue;
        }
        match rise(&app, last.as_ref()).await {
            Ok(place) => last = Some(place),
            Err(error) => {
                tracing::debug!(%error, "live streams wait for the writers' progress or the warehouse");
                sleep(PAUSE).await;
            }
        }
        tokio::select! {
            () = sleep_until(started + app.live.interval) => {}
            // Its first totals shouldn't wait.
            () = app.live.came.notified() => {}
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum NoTide {
    #[error(transparent)]
    Watermark(#[from] crate::watermark::WatermarkError),
    #[error(transparent)]
    Warehouse(#[from] warehouse::WarehouseError),
}

/// One look; the moment that was told.
async fn rise(app: &App, last: Option<&LogPlace>) -> Result<LogPlace, NoTide> {
    let reading = app.watermark.read().await?;
    let place = LogPlace::of(&reading.committed);
    let touched = match last {
        None => Some(TouchedHours::default()),
        Some(last) if *last == place => Some(TouchedHours::default()),
        Some(last) => touched(app, last, &place).await?,
    };
    let to = Arc::new(place);
    for hub in app.live.all() {
        let hours = touched.as_ref().map(|touched| touched.hours(&hub.topic.scope));
        hub.pour(Wave {
            to: Arc::clone(&to),
            complete_ms: reading.complete_ms,
            read_at: reading.read_at,
            lost: hours.is_none(),
            hours: hours.unwrap_or_default(),
        });
    }
    Ok((*to).clone())
}

/// What was touched between two moments; `None` if that can't be told.
pub(super) async fn touched(
    app: &App,
    from: &LogPlace,
    to: &LogPlace,
) -> Result<Option<TouchedHours>, warehouse::WarehouseError> {
    if !to.reaches(from) {
        return Ok(None);
    }
    let _turn = app.live.turns.acquire().await;
    app.warehouse().touched(from, to).await
}
