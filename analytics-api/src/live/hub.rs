//! One scope: asks the warehouse once for all its listeners.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use accounts::Principal;
use bytes::{BufMut as _, Bytes};
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use service::telemetry::LineLimit;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use warehouse::{ExportedReceipt, Filter, LogPlace, UsageByPurpose, WarehouseError};

use super::day::{Day, NoDay};
use super::updates::{Cursor, Update, Updates};
use super::{Topic, event, place, tide};
use crate::app::App;
use crate::completeness::Completeness;
use crate::routes::receipts::listed;

/// Receipts of one event, as far as they aren't too long for it; an update that brings more says how many it leaves out.
const EVENT_RECEIPTS_MAX: usize = 200;
/// The least time between two updates that only move `completeThrough`.
const STILL: Duration = Duration::from_secs(1);
/// How old totals may get without a touch: an erasure changes them too.
const TOTALS_AGE_MAX: Duration = Duration::from_secs(60);
/// The pause after a question that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// A hub without listeners stays so long, for those that come back.
const LINGER: Duration = Duration::from_secs(10);
/// Questions take at most one part in so many and one of the time, as long as the pause that makes isn't long; then half of it.
const PAUSE_FACTOR: u32 = 3;
/// A pause that would be seen: with it, what comes during an update is sent within a second after
/// it was stored.
const PAUSE_LONG: Duration = Duration::from_millis(200);
/// How long a stream that goes on from a place which another process has seen waits until this one sees it too.
const BEHIND_WAIT_MAX: Duration = Duration::from_secs(10);

/// One line for all failures of a while.
static FAILED: LineLimit = LineLimit::new("live", Duration::from_secs(10));

/// What the tide brings.
#[derive(Debug)]
pub(super) struct Wave {
    pub(super) to: Arc<LogPlace>,
    pub(super) complete_ms: i64,
    /// An instant before the progress was read.
    pub(super) read_at: std::time::Instant,
    /// Hours of access that have new receipts of the scope.
    pub(super) hours: BTreeSet<u32>,
    /// Whether that couldn't be told.
    pub(super) lost: bool,
}

/// One scope that is listened to.
pub(super) struct Hub {
    pub(super) topic: Topic,
    principal: Arc<Principal>,
    tz: TimeZone,
    listeners: AtomicUsize,
    inbox: Mutex<Option<Wave>>,
    arrived: Notify,
    /// A listener came, which a hub that lingers must not sleep over.
    joined: Notify,
    pub(super) updates: Updates,
    /// What a stream that went on last had missed: after a cut, most have missed the same.
    missed: tokio::sync::Mutex<Option<Missed>>,
}

/// Why a hub goes on.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    /// Something may be in the inbox.
    Wave,
    /// Nobody has listened for a while.
    Deserted,
    Closing,
}

struct Missed {
    from: LogPlace,
    frame: Bytes,
    cursor: Cursor,
}

/// What was told last.
#[derive(Default)]
struct Told {
    to: Option<Arc<LogPlace>>,
    at: Option<Instant>,
    totals: Option<DayTotals>,
}

struct DayTotals {
    day: Day,
    asked: Instant,
    receipts: u64,
    clients: u64,
    by_purpose: UsageByPurpose,
}

/// Why an update couldn't be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTold {
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    #[error("no answer from the warehouse in time")]
    TooSlow,
    #[error("there is no watermark, or the warehouse doesn't answer")]
    Away,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Day(#[from] NoDay),
}

/// One listener of a hub.
pub(super) struct HubSeat(Arc<Hub>);

impl HubSeat {
    /// Only with the hubs locked, so that a hub isn't retired meanwhile.
    pub(super) fn take(hub: &Arc<Hub>) -> Self {
        hub.listeners.fetch_add(1, Ordering::Relaxed);
        hub.joined.notify_one();
        Self(Arc::clone(hub))
    }
}

impl std::ops::Deref for HubSeat {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.0
    }
}

impl Drop for HubSeat {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes updates until nobody has listened for a while.
pub(super) async fn run(app: Arc<App>, hub: Arc<Hub>) {
    let mut told = Told::default();
    loop {
        match hub.wake(&app.live.closing).await {
            Wake::Closing => return,
            Wake::Deserted if app.live.retire(&hub) => return,
            Wake::Deserted => continue,
            Wake::Wave => {}
        }
        let Some(wave) = hub.inbox.lock().take() else { continue };
        let still = told.at.map_or(Duration::ZERO, |at| STILL.saturating_sub(at.elapsed()));
        if wave.hours.is_empty() && !wave.lost && !still.is_zero() {
            hub.put_back(wave);
            tokio::select! {
                () = sleep(still) => hub.arrived.notify_one(),
                () = hub.arrived.notified() => hub.arrived.notify_one(),
            }
            continue;
        }
        let started = Instant::now();
        match hub.tell(&app, &mut told, &wave).await {
            Ok(()) => sleep(pause(started.elapsed())).await,
            Err(error) => {
                if let Some(suppressed) = FAILED.pass() {
                    tracing::warn!(%error, suppressed, "live streams wait for their next update");
                }
                hub.put_back(wave);
                sleep(PAUSE).await;
                hub.arrived.notify_one();
            }
        }
    }
}

/// How long a hub rests after questions that took so long.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE_FACTOR).min(took.max(PAUSE_LONG))
}

impl Hub {
    pub(super) fn new(topic: Topic, principal: Arc<Principal>, tz: TimeZone) -> Self {
        Self {
            topic,
            principal,
            tz,
            listeners: AtomicUsize::new(0),
            inbox: Mutex::default(),
            arrived: Notify::new(),
            joined: Notify::new(),
            updates: Updates::new(),
            missed: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// Waits until there is something to do.
    async fn wake(&self, closing: &CancellationToken) -> Wake {
        loop {
            tokio::select! {
                () = closing.cancelled() => return Wake::Closing,
                // Of a hub that nobody listens to, waves don't count.
                came = timeout(LINGER, self.arrived.notified()), if self.listeners() > 0 => {
                    if came.is_ok() { return Wake::Wave; }
                }
                () = self.joined.notified(), if self.listeners() == 0 => {}
                () = sleep(LINGER), if self.listeners() == 0 => return Wake::Deserted,
            }
        }
    }

    /// Brings a wave; what is still in the inbox is one with it.
    pub(super) fn pour(&self, mut wave: Wave) {
        let mut inbox = self.inbox.lock();
        if let Some(mut earlier) = inbox.take() {
            wave.hours.append(&mut earlier.hours);
            wave.lost |= earlier.lost;
        }
        *inbox = Some(wave);
        drop(inbox);
        self.arrived.notify_one();
    }

    /// What came since goes before.
    fn put_back(&self, mut wave: Wave) {
        let mut inbox = self.inbox.lock();
        match inbox.as_mut() {
            Some(later) => {
                later.hours.append(&mut wave.hours);
                later.lost |= wave.lost;
            }
            None => *inbox = Some(wave),
        }
    }

    /// Makes an update of a wave.
    async fn tell(&self, app: &App, told: &mut Told, wave: &Wave) -> Result<(), NotTold> {
        let from = told.to.clone().unwrap_or_else(|| Arc::clone(&wave.to));
        let new = match wave.lost {
            true => None,
            false => self.arrivals(app, &from, &wave.to, &wave.hours).await?,
        };
        if let Some(totals) = self.refreshed(app, told.totals.as_ref(), wave).await? {
            told.totals = Some(totals);
        }
        let lost = new.is_none();
        let mut new = new.unwrap_or_default();
        let id = place::write(&wave.to);
        let totals = told.event(&id, wave.complete_ms, app.books.are_off())?;
        let all = new.len() as u64;
        new.truncate(EVENT_RECEIPTS_MAX);
        let (receipts, count) = self.json(app, new).await?;
        let count = count as u64;
        let frame = if lost {
            [event::reload(&id), totals.clone()].concat().into()
        } else if all > 0 {
            let mut frame = event::receipts(&id, &receipts, all - count);
            frame.put_slice(&totals);
            frame.freeze()
        } else {
            totals.clone()
        };
        self.updates.push(Update {
            to: Arc::clone(&wave.to),
            id,
            frame,
            totals,
            receipts,
            count,
            new: all,
            reload: lost,
        });
        told.to = Some(Arc::clone(&wave.to));
        told.at = Some(Instant::now());
        Ok(())
    }

    /// What a stream that goes on from `from` is sent first, and where it is then.
    ///
    /// # Errors
    /// [`NotTold`]: to be tried again.
    pub(super) async fn since(&self, app: &App, from: &LogPlace) -> Result<(Bytes, Cursor), NotTold> {
        let mut count = self.updates.subscribe();
        let deadline = Instant::now() + BEHIND_WAIT_MAX;
        loop {
            if let Some((cursor, newest)) = self.updates.that_told(from) {
                let totals = self.updates.newest().filter(|_| newest);
                return Ok((
                    totals.map(|(update, _)| update.totals.clone()).unwrap_or_default(),
                    cursor,
                ));
            }
            // A place that another process has seen, of the same life of the log: soon this one sees it too.
            let newest = self.updates.newest();
            let ahead = |(update, _): &(Arc<Update>, Cursor)| {
                update.to.epoch == from.epoch && !update.to.reaches(from) && Instant::now() < deadline
            };
            if newest.as_ref().is_some_and(|newest| !ahead(newest)) {
                break;
            }
            let _ = tokio::time::timeout_at(deadline.max(Instant::now() + PAUSE), count.changed()).await;
        }
        let mut missed = self.missed.lock().await;
        if let Some(known) = &*missed
            && known.from == *from
            && self.updates.reaches_back_to(known.cursor)
        {
            return Ok((known.frame.clone(), known.cursor));
        }
        let Some((update, cursor)) = self.updates.newest() else {
            return Err(NotTold::Away);
        };
        let new = match tide::touched(app, from, &update.to).await? {
            Some(touched) => {
                let hours = touched.hours(&self.topic.scope);
                self.arrivals(app, from, &update.to, &hours).await?
            }
            None => None,
        };
        let mut frame = bytes::BytesMut::new();
        let all = new.as_ref().map(Vec::len);
        let (receipts, count) = self.json(app, new.unwrap_or_default()).await?;
        match all {
            Some(0) => {}
            Some(all) if all == count => frame.put_slice(&event::receipts(&update.id, &receipts, 0)),
            _ => frame.put_slice(&event::reload(&update.id)),
        }
        frame.put_slice(&update.totals);
        let frame = frame.freeze();
        *missed = Some(Missed {
            from: from.clone(),
            frame: frame.clone(),
            cursor,
        });
        Ok((frame, cursor))
    }

    async fn arrivals(
        &self,
        app: &App,
        from: &LogPlace,
        to: &LogPlace,
        hours: &BTreeSet<u32>,
    ) -> Result<Option<Vec<ExportedReceipt>>, NotTold> {
        if hours.is_empty() {
            return Ok(Some(Vec::new()));
        }
        in_turn(
            app,
            &self.topic.account_id,
            app.warehouse().arrivals(&self.topic.scope, from, to, hours),
        )
        .await
    }

    /// Asks for the totals if they may have changed since these; `None`: they stand.
    async fn refreshed(&self, app: &App, known: Option<&DayTotals>, wave: &Wave) -> Result<Option<DayTotals>, NotTold> {
        let day = Day::of(wave.complete_ms, &self.tz)?;
        let stand = |totals: &DayTotals| {
            totals.day == day
                && totals.asked.elapsed() < TOTALS_AGE_MAX
                && !wave.lost
                && !wave.hours.iter().any(|hour| day.has_some_of(*hour))
        };
        if known.is_some_and(stand) {
            return Ok(None);
        }
        let asked = Instant::now();
        let filter = Filter {
            from_ms: day.from.as_millisecond(),
            to_ms: day.to.as_millisecond(),
            ..Filter::default()
        };
        // An older moment could believe a rolled hour that the wave has touched since.
        let moment = app.moment_from(wave.read_at).await.map_err(|_| NotTold::Away)?;
        let stats = in_turn(
            app,
            &self.topic.account_id,
            moment.usage().dashboard(&self.topic.scope, &filter, 0),
        )
        .await?;
        Ok(Some(DayTotals {
            day,
            asked,
            receipts: stats.total_receipts,
            clients: stats.unique_clients,
            by_purpose: stats.usage_by_purpose,
        }))
    }

    /// Receipts as an array, as many of the first as one event tells, and how many those are.
    async fn json(&self, app: &App, receipts: Vec<ExportedReceipt>) -> Result<(Bytes, usize), NotTold> {
        if receipts.is_empty() {
            return Ok((Bytes::from_static(b"[]"), 0));
        }
        Ok(event::array(&listed(app, &self.principal, receipts).await)?)
    }
}

impl Told {
    fn event(&self, id: &str, complete_ms: i64, incomplete: bool) -> Result<Bytes, NotTold> {
        let Some(totals) = &self.totals else {
            return Err(NotTold::Away);
        };
        let totals = event::Totals {
            total_receipts: totals.receipts,
            unique_clients: totals.clients,
            usage_by_purpose: totals.by_purpose.into(),
            from: &web::rfc3339(totals.day.from),
            to: &web::rfc3339(totals.day.to),
            completeness: Completeness::new(complete_ms, incomplete),
        };
        Ok(event::totals(id, &totals)?)
    }
}

/// Asks in turn, and for as long as any query may take.
async fn in_turn<T>(
    app: &App,
    account_id: &str,
    question: impl Future<Output = Result<T, WarehouseError>>,
) -> Result<T, NotTold> {
    // The account's own first: what waits for it holds no other's up.
    let _own = app.live.turns_of.of(account_id).acquire_owned().await;
    let _turn = app.live.turns.acquire().await;
    let wait_max = Duration::from_millis(app.config.query_wait_ms_max);
    Ok(timeout(wait_max, question).await.map_err(|_| NotTold::TooSlow)??)
}

#[cfg(test)]
mod tests;
