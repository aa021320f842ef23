//! A topic: queries the warehouse once for all streams of one account, scope and time zone.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use accounts::{KeyDomains, Principal};
use axum::response::sse::Event;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use service::telemetry::LineLimit;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use warehouse::{ExportedReceipt, NewOffsets, QueryScope, StreamPosition, WarehouseError};

use super::Live;
use super::event;
use super::follower::{self, Changes};
use super::totals::{Day, DayTotals, NoDay};
use super::updates::{Update, UpdateSums, Updates};
use crate::completeness::Completeness;
use crate::routes::receipts::listed;

/// Receipts of one event. An update with more says how many it leaves out.
const EVENT_RECEIPTS_MAX: usize = 200;
/// The least time between two updates that only advance `completeThrough`.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a query that failed.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Lifetime of a topic without subscribers, for those that reconnect.
const LINGER: Duration = Duration::from_secs(10);
/// Queries take at most one part in `PAUSE_FACTOR + 1` of the time, as long as that makes no long
/// pause; then half of it.
const PAUSE_FACTOR: u32 = 3;
/// A pause that users would notice. With it, receipts that arrive during an update are sent within
/// a second after they were stored.
const PAUSE_LONG: Duration = Duration::from_millis(200);
/// Wait for a position that another process has published and this one hasn't read yet.
const BEHIND_WAIT_MAX: Duration = Duration::from_secs(10);

/// Limit of log lines about failures.
static FAILED: LineLimit = LineLimit::new("live", Duration::from_secs(10));

/// Key of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TopicKey {
    pub(super) account_id: String,
    pub(super) scope: QueryScope,
    /// The limit of its subscribers' keys, which decides about entries' titles.
    pub(super) limit: Option<KeyDomains>,
    /// Operators whose receipts count as proven.
    pub(super) trusted: Vec<String>,
    /// The canonical name of the time zone that makes the day.
    pub(super) zone: String,
}

/// A topic with streams.
pub(super) struct LiveTopic {
    pub(super) key: TopicKey,
    pub(super) updates: Updates,
    principal: Arc<Principal>,
    tz: TimeZone,
    inbox: Mutex<Option<Changes>>,
    /// The inbox has changes, or a subscriber has joined.
    pub(super) woken: Notify,
    /// The latest resumption: after an outage, most streams have missed the same.
    resumption: tokio::sync::Mutex<Option<Resumption>>,
}

/// State behind the newest update.
#[derive(Default)]
struct TopicState {
    sums: UpdateSums,
    totals: Option<DayTotals>,
}

/// Start of a stream.
pub(super) struct StreamStart {
    pub(super) events: VecDeque<Event>,
    /// Sums of the updates that the events cover.
    pub(super) received: UpdateSums,
}

/// Receipts between a position and an update.
struct Resumption {
    from: StreamPosition,
    to: Arc<Update>,
    /// Event of these receipts; `None` if there are none.
    missed: Option<Event>,
}

/// Why an update couldn't be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpdateError {
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    #[error("the warehouse didn't answer a query of a live stream in time")]
    TooSlow,
    #[error("there is no watermark, or the warehouse doesn't answer")]
    Unavailable,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Day(#[from] NoDay),
}

/// Makes updates until the topic had no subscribers for a while.
pub(super) async fn run(live: Arc<Live>, topic: Arc<LiveTopic>) {
    let mut state = TopicState::default();
    let mut pending: Option<Changes> = None;
    let (mut quiet_until, mut pause_until) = (Instant::now(), Instant::now());
    let mut deserted = pin!(topic.deserted());
    loop {
        // Without subscribers, changes only gather.
        let due = pending.as_ref().filter(|_| topic.updates.subscribers() > 0);
        let due = due.map(|changes| match changes.hours.is_empty() && !changes.are_unknown {
            true => quiet_until.max(pause_until),
            false => pause_until,
        });
        tokio::select! {
            () = live.closing.cancelled() => return,
            () = &mut deserted => {
                if live.close_deserted(&topic) {
                    return;
                }
                deserted.set(topic.deserted());
            }
            () = topic.woken.notified() => {
                let received = topic.inbox.lock().take();
                match (&mut pending, received) {
                    (Some(pending), Some(next)) => pending.append(next),
                    (None, Some(next)) => pending = Some(next),
                    (_, None) => {}
                }
            }
            () = sleep_until(due.unwrap_or(pause_until)), if due.is_some() => {
                let Some(changes) = pending.take() else { continue };
                let started = Instant::now();
                if let Err(error) = topic.update(&live, &mut state, &changes).await {
                    if let Some(suppressed) = FAILED.pass() {
                        tracing::warn!(%error, suppressed, "live streams wait for their next update");
                    }
                    pending = Some(changes);
                    pause_until = Instant::now() + RETRY_PAUSE;
                } else {
                    quiet_until = Instant::now() + QUIET_INTERVAL;
                    pause_until = Instant::now() + pause(started.elapsed());
                }
            }
        }
    }
}

/// The pause after queries that took so long.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE_FACTOR).min(took.max(PAUSE_LONG))
}

impl LiveTopic {
    pub(super) fn new(key: TopicKey, principal: Arc<Principal>, tz: TimeZone) -> Self {
        Self {
            key,
            updates: Updates::new(),
            principal,
            tz,
            inbox: Mutex::default(),
            woken: Notify::new(),
            resumption: tokio::sync::Mutex::default(),
        }
    }

    /// Accepts changes, which are joined to those that wait.
    pub(super) fn receive(&self, next: Changes) {
        let mut inbox = self.inbox.lock();
        match &mut *inbox {
            Some(changes) => changes.append(next),
            None => *inbox = Some(next),
        }
        drop(inbox);
        self.woken.notify_one();
    }

    /// Waits until the topic had no subscribers for a while.
    async fn deserted(&self) {
        while self.updates.subscribers() > 0 {
            self.updates.deserted().await;
            sleep(LINGER).await;
        }
    }

    async fn update(&self, live: &Live, state: &mut TopicState, changes: &Changes) -> Result<(), UpdateError> {
        let is_first = state.sums == UpdateSums::default();
        let receipts = match changes.are_unknown {
            // Streams begin with the first update.
            _ if is_first => Some(Vec::new()),
            true => None,
            false => self.arrivals(live, &changes.offsets, &changes.hours).await?,
        };
        let day = Day::new(changes.to.complete_ms, &self.tz)?;
        let totals = match state.totals.take() {
            Some(totals) if totals.are_current(day, changes) => totals,
            _ => self.totals(live, day).await?,
        };
        let before = state.sums;
        let after = UpdateSums {
            updates: before.updates + 1,
            receipts: before.receipts + receipts.as_ref().map_or(0, Vec::len) as u64,
            reloads: before.reloads + u64::from(receipts.is_none()),
        };
        let mut receipts = receipts.unwrap_or_default();
        receipts.truncate(EVENT_RECEIPTS_MAX);
        let (receipts, count) = self.array(live, receipts).await?;
        self.updates.publish(Update {
            to: Arc::clone(&changes.to),
            totals: totals.json(Completeness::new(changes.to.complete_ms, live.app.audit.has_findings()))?,
            receipts,
            count: count as u64,
            before,
            after,
        });
        *state = TopicState {
            sums: after,
            totals: Some(totals),
        };
        Ok(())
    }

    /// The start of a stream behind `from`.
    ///
    /// # Errors
    /// [`UpdateError`]: try again.
    pub(super) async fn resume(&self, live: &Live, from: &StreamPosition) -> Result<StreamStart, UpdateError> {
        let mut further = self.updates.subscribe();
        let deadline = Instant::now() + BEHIND_WAIT_MAX;
        loop {
            if let Some(last) = self.updates.up_to(from) {
                return Ok(StreamStart::now(&last, []));
            }
            let is_ahead = |update: &Update| update.to.position.is_of_log(from) && !update.to.position.reaches(from);
            match self.updates.newest() {
                None => drop(further.next(UpdateSums::default()).await),
                Some(newest) if is_ahead(&newest) && Instant::now() < deadline => {
                    let _ = timeout_at(deadline, further.next(newest.after)).await;
                }
                Some(_) => break,
            }
        }
        // Streams that have missed the same wait here for one query.
        let mut resumption = self.resumption.lock().await;
        if let Some(shared) = resumption.as_ref().filter(|shared| shared.from == *from)
            && let Some(last) = self.updates.up_to(&shared.to.to.position)
            && last.after == shared.to.after
        {
            return Ok(shared.start());
        }
        let to = self.updates.newest().ok_or(UpdateError::Unavailable)?;
        let missed = self.missed(live, from, &to).await?;
        let from = from.clone();
        Ok(resumption.insert(Resumption { from, to, missed }).start())
    }

    /// The event of the receipts between a position and an update; `None` if there are none.
    async fn missed(&self, live: &Live, from: &StreamPosition, to: &Update) -> Result<Option<Event>, UpdateError> {
        let id = &to.to.id;
        let Some(changes) = follower::changes(live, from, &to.to.shards).await? else {
            return Ok(Some(event::reload(id)));
        };
        let hours = changes.touched.hours(&self.key.scope);
        let Some(receipts) = self.arrivals(live, &changes.offsets, &hours).await? else {
            return Ok(Some(event::reload(id)));
        };
        let all = receipts.len();
        let (receipts, count) = self.array(live, receipts).await?;
        Ok(match count {
            _ if count < all => Some(event::reload(id)),
            0 => None,
            _ => Some(event::receipts(id, &receipts, 0)),
        })
    }

    async fn arrivals(
        &self,
        live: &Live,
        offsets: &NewOffsets,
        hours: &BTreeSet<u32>,
    ) -> Result<Option<Vec<ExportedReceipt>>, UpdateError> {
        if hours.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let query = live.app.warehouse().arrivals(&self.key.scope, offsets, hours);
        live.query(&self.key.account_id, query).await
    }

    async fn totals(&self, live: &Live, day: Day) -> Result<DayTotals, UpdateError> {
        let queried = Instant::now();
        let snapshot = live.app.snapshot().await.map_err(|_| UpdateError::Unavailable)?;
        let filter = day.filter(&self.key.trusted);
        let query = snapshot.usage().dashboard(&self.key.scope, &filter, 0);
        let stats = live.query(&self.key.account_id, query).await?;
        Ok(DayTotals::new(day, stats, queried))
    }

    /// A JSON array of the first receipts that one event has room for, and their number.
    async fn array(&self, live: &Live, receipts: Vec<ExportedReceipt>) -> Result<(String, usize), UpdateError> {
        match receipts.is_empty() {
            true => Ok(("[]".to_owned(), 0)),
            false => Ok(event::array(&listed(&live.app, &self.principal, receipts).await)?),
        }
    }
}

impl StreamStart {
    /// With these events and the totals of an update.
    pub(super) fn now(update: &Update, events: impl IntoIterator<Item = Event>) -> Self {
        Self {
            events: events.into_iter().chain([update.totals()]).collect(),
            received: update.after,
        }
    }
}

impl Resumption {
    fn start(&self) -> StreamStart {
        StreamStart::now(&self.to, self.missed.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_queries_until_users_would_notice() {
        let ms = Duration::from_millis;
        for (took, expected) in [(10, 30), (60, 180), (100, 200), (200, 200), (900, 900)] {
            assert_eq!(pause(ms(took)), ms(expected), "{took}");
        }
    }
}
