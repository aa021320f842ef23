//! `GET /api/v1/analytics/live`: the day's totals and the newest receipts, as server-sent events (WHATWG HTML, section 9.2).
//!
//! - `tide`: follows the writers' progress, once for all, and tells each hub which hours of access
//!   have new receipts
//! - `hub`: asks the warehouse for one scope, however many listen; `day`: the day of its totals
//! - `updates`: the latest ones, for listeners at different points of them
//! - `listener`: one stream; `place`: the ids of its events; `event`: their bytes
//! - `keys`: the streams of each API key, and whether it still holds
//! - `route`: the address
//!
//! An event's id is a position in the log `receipts`, so a stream that continues from one sends
//! every receipt since, once, whichever process it comes to. What would be too much is told as one
//! event `reload`.

mod day;
mod event;
mod hub;
mod keys;
mod listener;
mod place;
pub(crate) mod route;
pub(crate) mod tide;
mod updates;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use accounts::Principal;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use service::problem::{Kind, Problem};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use warehouse::Scope;
use web::Failure;
use web::shares::Shares;

use self::hub::{Hub, HubSeat};
use self::keys::Keys;
use self::listener::{From, Listener};
use crate::app::App;

/// Scopes that are listened to at one time, and how many of them may be one account's: each domain in each time zone is one.
const SCOPES_MAX: usize = 1_000;
const ACCOUNT_SCOPES_MAX: usize = 32;
/// Questions of all hubs and of streams that go on, at one time: dashboards must get their turn. Of one account there is one, so that
/// its many scopes keep no other's waiting.
const TURNS: usize = 2;
const ACCOUNT_TURNS: usize = 1;
/// When to try again where there is no room.
const RETRY_S: u32 = 10;

/// What one hub is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Topic {
    account_id: String,
    scope: Scope,
    /// The canonical name of the time zone that makes the day.
    zone: String,
}

/// All streams.
pub(crate) struct Live {
    hubs: Mutex<HashMap<Topic, Arc<Hub>>>,
    /// A hub came.
    came: Notify,
    streams: Arc<Semaphore>,
    /// Three quarters of them for each account.
    streams_of: Shares,
    keys: Arc<Keys>,
    turns: Semaphore,
    turns_of: Shares,
    closing: CancellationToken,
    interval: Duration,
}

/// Who wants to listen, and to what.
struct Wish {
    principal: Arc<Principal>,
    /// The API key's text, to be looked at again.
    bearer: String,
    scope: Scope,
    zone: String,
    tz: TimeZone,
    /// Where the stream goes on from.
    from: From,
}

impl Live {
    /// Streams end when `closing` is cancelled.
    pub(crate) fn new(config: &crate::AnalyticsConfig, closing: CancellationToken) -> Self {
        Self {
            hubs: Mutex::default(),
            came: Notify::new(),
            streams: Arc::new(Semaphore::new(config.live_streams_max)),
            streams_of: Shares::new((config.live_streams_max - config.live_streams_max / 4).max(1)),
            keys: Arc::new(Keys::new(
                config.live_key_streams_max,
                Duration::from_millis(config.live_key_age_ms_max),
            )),
            turns: Semaphore::new(TURNS),
            turns_of: Shares::new(ACCOUNT_TURNS),
            closing,
            interval: Duration::from_millis(config.live_interval_ms),
        }
    }

    /// # Errors
    /// 429 if the key or its account has as many streams or scopes as it may, 503 if all together have, or while closing.
    fn listen(&self, app: &Arc<App>, wish: Wish) -> Result<Listener, Failure> {
        if self.closing.is_cancelled() {
            return Err(full("the service is shutting down"));
        }
        let place = Arc::clone(&self.streams).try_acquire_owned();
        let place = place.map_err(|_| full("as many live streams are open as allowed"))?;
        let own = self.streams_of.of(&wish.principal.account_id).try_acquire_owned();
        let own = own.map_err(|_| account_full("live streams"))?;
        let seat = Keys::take(&self.keys, &app.deps.accounts, &wish.principal, wish.bearer).ok_or_else(|| {
            let detail = format!(
                "this API key has {} live streams, as many as it may; end one first",
                app.config.live_key_streams_max
            );
            metrics::counter!("receipts_live_refused_total", "reason" => "key").increment(1);
            Failure::from(Problem::new(Kind::RateLimited, detail).retry_after_s(RETRY_S))
        })?;
        let topic = Topic {
            account_id: wish.principal.account_id.clone(),
            scope: wish.scope,
            zone: wish.zone,
        };
        let hub = self.join(app, topic, &wish.principal, wish.tz)?;
        Ok(Listener::new(Arc::clone(app), hub, seat, (place, own), wish.from))
    }

    fn join(&self, app: &Arc<App>, topic: Topic, principal: &Arc<Principal>, tz: TimeZone) -> Result<HubSeat, Failure> {
        let mut hubs = self.hubs.lock();
        if let Some(hub) = hubs.get(&topic) {
            return Ok(HubSeat::take(hub));
        }
        let of_account = hubs.keys().filter(|one| one.account_id == topic.account_id).count();
        if of_account >= ACCOUNT_SCOPES_MAX {
            return Err(account_full("live domains and time zones"));
        }
        if hubs.len() >= SCOPES_MAX {
            return Err(full("live streams of as many publishers are open as allowed"));
        }
        let hub = Arc::new(Hub::new(topic.clone(), Arc::clone(principal), tz));
        let seat = HubSeat::take(&hub);
        hubs.insert(topic, Arc::clone(&hub));
        gauge_scopes(hubs.len());
        drop(hubs);
        self.came.notify_one();
        tokio::spawn(hub::run(Arc::clone(app), hub));
        Ok(seat)
    }

    /// Takes `hub` away if nobody listens to it.
    fn retire(&self, hub: &Hub) -> bool {
        let mut hubs = self.hubs.lock();
        let deserted = hub.listeners() == 0;
        if deserted {
            hubs.remove(&hub.topic);
            gauge_scopes(hubs.len());
        }
        deserted
    }

    fn all(&self) -> Vec<Arc<Hub>> {
        self.hubs.lock().values().map(Arc::clone).collect()
    }
}

fn gauge_scopes(count: usize) {
    metrics::gauge!("receipts_live_scopes").set(u32::try_from(count).unwrap_or(u32::MAX));
}

fn account_full(what: &str) -> Failure {
    metrics::counter!("receipts_live_refused_total", "reason" => "account").increment(1);
    let detail = format!("this account has as many {what} as it may; end one first");
    Problem::new(Kind::RateLimited, detail).retry_after_s(RETRY_S).into()
}

fn full(detail: &str) -> Failure {
    metrics::counter!("receipts_live_refused_total", "reason" => "full").increment(1);
    Problem::new(Kind::Overloaded, detail).retry_after_s(RETRY_S).into()
}
