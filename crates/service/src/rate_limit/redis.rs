//! The limiter that replicas share: counts in Redis, taken by one atomic script, by Redis's clock.
//!
//! While Redis is away, this process counts by itself, from what it last saw of each key; when
//! Redis is back, it takes over what was counted meanwhile, even if it lost its data. So an outage
//! gives a key at most its quota once more for each further replica, and a request at most
//! `command_ms_max` once: after a lost connection, or three time-outs in a row, nothing is
//! requested any more until the connection answers again. A question that timed out may still be
//! counted: a key may then get less, never more.

mod config;
mod connection;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::Script;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub use config::RedisConfig;

use self::connection::{Connector, Link};
use super::window::{DAY_S, LimitOutcome, MINUTE_S, WindowCount};
use super::{Decision, InProcessLimiter, Quota, RateLimiter};
use crate::health::Health;
use crate::instant::UnixClock;

/// The name in readiness, and of the key that the connection is tried with.
const NAME: &str = "redis";
/// The script's word for its own clock.
const REDIS_CLOCK: i64 = -1;

/// Fault of `[redis]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redis.{key}: {what}")]
pub struct RedisError {
    /// Key of the section.
    pub key: &'static str,
    /// Why, without any password.
    pub what: String,
}

/// Counts in Redis, and by itself while that is away.
pub struct RedisLimiter {
    shared: Arc<RedisLimiterState>,
    keeper: JoinHandle<()>,
}

struct RedisLimiterState {
    local: InProcessLimiter,
    link: Link,
    asking: Asking,
    in_flight: Semaphore,
}

/// Settings of a query.
struct Asking {
    script: Script,
    prefix: String,
    wait_max: Duration,
    /// Of tests; else Redis's.
    clock: Option<UnixClock>,
}

/// Why this process counted a request by itself.
#[derive(Debug, Clone, Copy)]
enum Fallback {
    Away,
    Busy,
    TimedOut,
    Refused,
}

/// The script's answer.
struct ScriptReply {
    outcome: LimitOutcome,
    now_s: i64,
    count: WindowCount,
}

impl RedisLimiter {
    /// Connects, for as long as one try may take, and continues trying in the background. `local`
    /// counts while Redis is away; `health` shows that as `redis`: degraded.
    ///
    /// # Errors
    /// `config` can't be used.
    pub async fn start(config: &RedisConfig, local: InProcessLimiter, health: &Health) -> Result<Self, RedisError> {
        Self::launch(config, local, health, None).await
    }

    /// Starts a limiter with a clock of its own, in milliseconds since the Unix epoch, instead of
    /// Redis's.
    ///
    /// # Errors
    /// As [`RedisLimiter::start`].
    pub async fn start_with_clock(
        config: &RedisConfig,
        local: InProcessLimiter,
        health: &Health,
        now_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Result<Self, RedisError> {
        Self::launch(config, local, health, Some(Arc::new(now_ms))).await
    }

    async fn launch(
        config: &RedisConfig,
        local: InProcessLimiter,
        health: &Health,
        clock: Option<UnixClock>,
    ) -> Result<Self, RedisError> {
        let connector = Connector::new(config)?;
        let shared = Arc::new(RedisLimiterState {
            local,
            link: Link::new(health.register(NAME)),
            asking: Asking {
                script: Script::new(include_str!("redis/take.lua")),
                prefix: config.prefix.clone(),
                wait_max: Duration::from_millis(config.command_ms_max),
                clock,
            },
            in_flight: Semaphore::new(config.in_flight_max),
        });
        connector.try_once(&shared.link, &shared.asking).await;
        let background = Arc::clone(&shared);
        let keeper = tokio::spawn(async move { connector.keep(&background.link, &background.asking).await });
        Ok(Self { shared, keeper })
    }
}

impl Drop for RedisLimiter {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl RateLimiter for RedisLimiter {
    fn take<'a>(&'a self, key: &'a str, cost: u32, quota: &'a Quota) -> BoxFuture<'a, Decision> {
        let RedisLimiterState { local, .. } = &*self.shared;
        async move {
            match self.shared.take(key, cost, quota).await {
                Ok(ScriptReply { outcome, now_s, count }) => {
                    local.learn(key, count);
                    count.decision(now_s, quota, outcome)
                }
                Err(why) => {
                    metrics::counter!("receipts_limiter_fallback_total", "reason" => why.name()).increment(1);
                    local.take_now(key, cost, quota)
                }
            }
        }
        .boxed()
    }
}

impl RedisLimiterState {
    async fn take(&self, key: &str, cost: u32, quota: &Quota) -> Result<ScriptReply, Fallback> {
        let mut up = self.link.up().ok_or(Fallback::Away)?;
        let _permit = self.in_flight.try_acquire().map_err(|_| Fallback::Busy)?;
        let shared = self.local.count(key);
        let asked = Instant::now();
        let answer = self.asking.take(&mut up.connection, key, cost, quota, shared);
        match timeout(self.asking.wait_max, answer).await {
            Ok(Ok(taken)) => {
                metrics::histogram!("receipts_limiter_redis_seconds").record(asked.elapsed());
                self.link.answered();
                Ok(taken)
            }
            Ok(Err(error)) => {
                // A refusal comes at once and may be this key's alone: the connection's own
                // question tells whether it is.
                if error.is_unrecoverable_error() {
                    self.link.failed(up.number, &error.to_string());
                }
                Err(Fallback::Refused)
            }
            Err(_) => {
                self.link.timed_out(up.number, self.asking.wait_max);
                Err(Fallback::TimedOut)
            }
        }
    }
}

impl Asking {
    /// Asks once. EVALSHA, and the script itself only if Redis doesn't have it.
    async fn take(
        &self,
        connection: &mut redis::aio::MultiplexedConnection,
        key: &str,
        cost: u32,
        quota: &Quota,
        shared: WindowCount,
    ) -> redis::RedisResult<ScriptReply> {
        let now_s = self
            .clock
            .as_ref()
            .map_or(REDIS_CLOCK, |clock| clock().div_euclid(1_000));
        let mut question = self.script.prepare_invoke();
        question.key(format!("{}{key}", self.prefix));
        question.arg(now_s).arg(cost).arg(quota.per_minute);
        question.arg(quota.per_day.map_or(-1, i64::from));
        question.arg(shared.minute).arg(shared.in_minute);
        question.arg(shared.day).arg(shared.in_day);
        let (outcome, now_s, in_minute, in_day): (u8, i64, u32, u32) = question.invoke_async(connection).await?;
        let outcome = match outcome {
            0 => LimitOutcome::Allowed,
            2 => LimitOutcome::DayFull,
            _ => LimitOutcome::MinuteFull,
        };
        let count = WindowCount {
            minute: now_s.div_euclid(MINUTE_S),
            in_minute,
            day: now_s.div_euclid(DAY_S),
            in_day,
        };
        Ok(ScriptReply { outcome, now_s, count })
    }

    /// Requests nothing, of a key of its own: whether a question would be answered, script, rights
    /// and memory included.
    async fn probe(&self, connection: &mut redis::aio::MultiplexedConnection) -> redis::RedisResult<()> {
        let nothing = Quota {
            per_minute: 0,
            per_day: None,
        };
        self.take(connection, NAME, 0, &nothing, WindowCount::default())
            .await
            .map(drop)
    }
}

impl Fallback {
    fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
        }
    }
}
