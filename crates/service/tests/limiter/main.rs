//! The limiters' contract: in one process, and over a real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod in_process;
mod model;
mod redis;
mod redis_away;
mod suite;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use service::rate_limit::{Decision, Quota, RateLimiter};

/// Noon of a day, at the beginning of a minute.
pub(crate) const NOON_S: i64 = 20_000 * DAY_S + 43_200;
pub(crate) const DAY_S: i64 = 86_400;
pub(crate) const FREE: Quota = Quota {
    per_minute: 3,
    per_day: Some(5),
};

/// A clock that only the test moves, in Unix seconds.
#[derive(Clone)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    pub(crate) fn at_noon() -> Self {
        Self(Arc::new(AtomicI64::new(NOON_S)))
    }

    pub(crate) fn set_s(&self, now_s: i64) {
        self.0.store(now_s, Ordering::Relaxed);
    }

    pub(crate) fn now_s(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The end of the second, so that a limiter that rounds would show.
    pub(crate) fn reader(&self) -> impl Fn() -> i64 + Send + Sync + 'static {
        let clock = self.clone();
        move || clock.now_s() * 1_000 + 999
    }
}

/// Limiters over one store, as replicas have them, and their clock.
pub(crate) struct Replicas {
    pub(crate) limiters: Vec<Arc<dyn RateLimiter>>,
    pub(crate) clock: Clock,
}

impl Replicas {
    /// By the replica whose turn it is.
    pub(crate) async fn take(&self, turn: usize, key: &str, cost: u32, quota: &Quota) -> Decision {
        self.limiters[turn % self.limiters.len()].take(key, cost, quota).await
    }
}
