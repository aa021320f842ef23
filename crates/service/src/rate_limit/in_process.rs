//! The limiter of one process: counts in memory, bounded in the number of keys.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::window::{MINUTE_S, WindowCount};
use super::{ADDRESS, Decision, Quota, RateLimiter};
use crate::instant::{UnixClock, now_ms};

/// Counts in memory. When `keys_max` keys are counted, those idle since their windows ended make
/// room; if all are busy, further keys share one count, so that a flood of keys can't take memory
/// without a bound, nor get around the limit.
///
/// Addresses ([`ADDRESS`]) are counted apart, as many again: whoever sends from many of them takes
/// no account's room.
///
/// [`ADDRESS`]: super::ADDRESS
pub struct InProcessLimiter {
    accounts: Mutex<KeyCounts>,
    addresses: Mutex<KeyCounts>,
    keys_max: usize,
    now_ms: UnixClock,
}

#[derive(Default)]
struct KeyCounts {
    by_key: HashMap<Box<str>, WindowCount>,
    shared: WindowCount,
    /// The last minute in which idle keys were searched for: the search costs as much as there are
    /// keys.
    swept_minute: i64,
}

impl InProcessLimiter {
    /// A limiter that counts at most `keys_max` keys one by one, by the system's clock.
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        Self::with_clock(keys_max, now_ms)
    }

    /// Makes a limiter with a clock of its own, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn with_clock(keys_max: usize, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self {
            accounts: Mutex::default(),
            addresses: Mutex::default(),
            keys_max: keys_max.max(1),
            now_ms: Arc::new(now_ms),
        }
    }

    /// [`RateLimiter::take`] without a future: nothing here waits.
    pub fn take_now(&self, key: &str, cost: u32, quota: &Quota) -> Decision {
        let now_s = (self.now_ms)().div_euclid(1_000);
        let decision = {
            let mut counts = self.counts(key).lock();
            let count = counts.of(key, now_s, self.keys_max);
            let outcome = count.take(now_s, cost, quota);
            count.decision(now_s, quota, outcome)
        };
        self.measure();
        decision
    }

    /// Counts that `key` belongs to.
    fn counts(&self, key: &str) -> &Mutex<KeyCounts> {
        if key.starts_with(ADDRESS) {
            &self.addresses
        } else {
            &self.accounts
        }
    }

    /// Count of `key` itself; empty if it is counted with others.
    pub(super) fn count(&self, key: &str) -> WindowCount {
        self.counts(key).lock().by_key.get(key).copied().unwrap_or_default()
    }

    /// Takes over what is known of `key` from elsewhere, if there is room for a count of its own.
    pub(super) fn learn(&self, key: &str, shared: WindowCount) {
        let now_s = (self.now_ms)().div_euclid(1_000);
        if let Some(count) = self.counts(key).lock().own(key, now_s, self.keys_max) {
            count.learn(shared);
        }
        self.measure();
    }

    /// Number of keys that are counted one by one now.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.accounts.lock().by_key.len() + self.addresses.lock().by_key.len()
    }

    fn measure(&self) {
        metrics::gauge!("receipts_rate_limit_keys").set(u32::try_from(self.keys()).unwrap_or(u32::MAX));
    }
}

impl RateLimiter for InProcessLimiter {
    fn take<'a>(&'a self, key: &'a str, cost: u32, quota: &'a Quota) -> BoxFuture<'a, Decision> {
        std::future::ready(self.take_now(key, cost, quota)).boxed()
    }
}

impl KeyCounts {
    /// The count that `key` goes to.
    fn of(&mut self, key: &str, now_s: i64, keys_max: usize) -> &mut WindowCount {
        if !self.has_room(key, now_s, keys_max) {
            metrics::counter!("receipts_rate_limit_overflow_total").increment(1);
            return &mut self.shared;
        }
        self.by_key.entry(key.into()).or_default()
    }

    /// `key`'s own count, if it can have one.
    fn own(&mut self, key: &str, now_s: i64, keys_max: usize) -> Option<&mut WindowCount> {
        self.has_room(key, now_s, keys_max)
            .then(|| self.by_key.entry(key.into()).or_default())
    }

    fn has_room(&mut self, key: &str, now_s: i64, keys_max: usize) -> bool {
        if self.by_key.contains_key(key) {
            return true;
        }
        let minute = now_s.div_euclid(MINUTE_S);
        if self.by_key.len() >= keys_max && self.swept_minute != minute {
            self.swept_minute = minute;
            self.by_key.retain(|_, count| count.is_live(now_s));
        }
        self.by_key.len() < keys_max
    }
}

#[cfg(test)]
mod tests;
