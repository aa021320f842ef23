//! `GET /api/v1/analytics/live`: the day's totals and the newest receipts, as server-sent events
//! (WHATWG HTML, section 9.2).
//!
//! - `follower`: follows the writers' progress, once for all topics
//! - `topic`: queries the warehouse for one scope; `totals`: totals of its day
//! - `updates`: the newest updates of a topic, which its streams watch
//! - `subscriber`: one stream; `keys`: its API key; `event`: its events; `position`: their IDs
//! - `route`: the address
//!
//! An event's ID is a position in the log `verdicts`, one offset per shard. A stream that resumes
//! from an ID sends every receipt since, once, whichever process serves it. Changes that would be
//! too many are replaced by one event `reload`.

mod event;
pub(crate) mod follower;
mod keys;
mod position;
pub(crate) mod route;
mod subscriber;
mod topic;
mod totals;
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
use warehouse::{QueryScope, WarehouseError};
use web::shares::Shares;
use web::{Credential, Failure};

use self::keys::StreamedKeys;
use self::subscriber::{Begin, Feed, Subscriber};
use self::topic::{LiveTopic, TopicKey, UpdateError};
use crate::state::AnalyticsState;

/// Topics at one time, and those of one account: each domain in each time zone is a topic.
const TOPICS_MAX: usize = 1_000;
const ACCOUNT_TOPICS_MAX: usize = 32;
/// Queries of all topics at one time: dashboards must get their turn.
const QUERIES_MAX: usize = 2;
/// Queries of one account, so that its many topics block no other's.
const ACCOUNT_QUERIES_MAX: usize = 1;
/// When to try again after a limit.
const RETRY_S: u32 = 10;

/// All streams.
pub(crate) struct Live {
    app: Arc<AnalyticsState>,
    topics: Mutex<HashMap<TopicKey, Arc<LiveTopic>>>,
    topic_opened: Notify,
    streams: Arc<Semaphore>,
    /// Three quarters of the streams for each account.
    account_streams: Shares,
    key_streams_max: usize,
    keys: StreamedKeys,
    queries: Semaphore,
    account_queries: Shares,
    query_wait_max: Duration,
    closing: CancellationToken,
    interval: Duration,
}

/// Request for a stream.
struct Subscription {
    principal: Arc<Principal>,
    /// Credential, which is rechecked.
    credential: Credential,
    scope: QueryScope,
    zone: String,
    tz: TimeZone,
    begin: Begin,
}

impl Live {
    /// Streams end when `closing` is cancelled.
    pub(crate) fn new(app: Arc<AnalyticsState>, closing: CancellationToken) -> Self {
        let config = &app.config;
        let key_age_max = Duration::from_millis(config.live_key_age_ms_max);
        Self {
            topics: Mutex::default(),
            topic_opened: Notify::new(),
            streams: Arc::new(Semaphore::new(config.live_streams_max)),
            account_streams: Shares::new((config.live_streams_max - config.live_streams_max / 4).max(1)),
            key_streams_max: config.live_key_streams_max,
            keys: StreamedKeys::new(config.live_key_streams_max, key_age_max),
            queries: Semaphore::new(QUERIES_MAX),
            account_queries: Shares::new(ACCOUNT_QUERIES_MAX),
            query_wait_max: Duration::from_millis(config.query_wait_ms_max),
            closing,
            interval: Duration::from_millis(config.live_interval_ms),
            app,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// 429 if the key or its account has as many streams or topics as allowed; 503 if all together
    /// have, or while closing.
    fn subscribe(self: &Arc<Self>, subscription: Subscription) -> Result<Subscriber, Failure> {
        if self.closing.is_cancelled() {
            return Err(full("the service is shutting down"));
        }
        let principal = &subscription.principal;
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        let permit = permit.map_err(|_| full("as many live streams are open as allowed"))?;
        let account_permit = self.account_streams.of(&principal.account_id).try_acquire_owned();
        let account_permit = account_permit.map_err(|_| account_full("live streams"))?;
        let admitted = self
            .keys
            .admit(&self.app.deps.accounts, principal, subscription.credential);
        let key = admitted.ok_or_else(|| {
            let streams = self.key_streams_max;
            let detail =
                format!("you have {streams} live streams, as many as one API key or sign-in may have; end one first");
            refused("key", Kind::RateLimited, detail)
        })?;
        let topic = TopicKey {
            account_id: principal.account_id.clone(),
            scope: subscription.scope,
            limit: principal.limit.clone(),
            trusted: principal.trusted_operators.clone(),
            zone: subscription.zone,
        };
        let feed = self.join(topic, principal, subscription.tz, subscription.begin)?;
        Ok(Subscriber::new(Arc::clone(self), key, [permit, account_permit], feed))
    }

    fn join(
        self: &Arc<Self>,
        key: TopicKey,
        principal: &Arc<Principal>,
        tz: TimeZone,
        begin: Begin,
    ) -> Result<Feed, Failure> {
        let mut topics = self.topics.lock();
        if let Some(topic) = topics.get(&key) {
            return Ok(Feed::new(Arc::clone(topic), begin));
        }
        let of_account = topics.keys().filter(|one| one.account_id == key.account_id).count();
        if of_account >= ACCOUNT_TOPICS_MAX {
            return Err(account_full("live domains and time zones"));
        }
        if topics.len() >= TOPICS_MAX {
            return Err(full("live streams of as many publishers are open as allowed"));
        }
        let topic = Arc::new(LiveTopic::new(key.clone(), Arc::clone(principal), tz));
        let feed = Feed::new(Arc::clone(&topic), begin);
        topics.insert(key, Arc::clone(&topic));
        gauge_topics(topics.len());
        drop(topics);
        self.topic_opened.notify_one();
        tokio::spawn(topic::run(Arc::clone(self), topic));
        Ok(feed)
    }

    /// Removes a topic if it has no subscribers, and returns whether it had none.
    fn close_deserted(&self, topic: &LiveTopic) -> bool {
        let mut topics = self.topics.lock();
        let is_deserted = topic.updates.subscribers() == 0;
        if is_deserted {
            topics.remove(&topic.key);
            gauge_topics(topics.len());
        }
        is_deserted
    }

    fn topics(&self) -> Vec<Arc<LiveTopic>> {
        self.topics.lock().values().map(Arc::clone).collect()
    }

    /// Runs an account's query once permits are free, for as long as any query may take.
    async fn query<T>(
        &self,
        account_id: &str,
        query: impl Future<Output = Result<T, WarehouseError>>,
    ) -> Result<T, UpdateError> {
        // The account's own first: queries that wait for it block no other account's.
        let _account_permit = self.account_queries.of(account_id).acquire_owned().await;
        let _permit = self.queries.acquire().await;
        let answer = tokio::time::timeout(self.query_wait_max, query).await;
        Ok(answer.map_err(|_| UpdateError::TooSlow)??)
    }
}

fn gauge_topics(count: usize) {
    metrics::gauge!("receipts_live_scopes").set(u32::try_from(count).unwrap_or(u32::MAX));
}

fn account_full(what: &str) -> Failure {
    let detail = format!("this account has as many {what} as it may; end one first");
    refused("account", Kind::RateLimited, detail)
}

fn full(detail: &str) -> Failure {
    refused("full", Kind::Overloaded, detail.to_owned())
}

fn refused(reason: &'static str, kind: Kind, detail: String) -> Failure {
    metrics::counter!("receipts_live_refused_total", "reason" => reason).increment(1);
    Problem::new(kind, detail).retry_after_s(RETRY_S).into()
}
