//! The limiter of one process: counts in memory, bounded in the number of keys.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{Decision, Quota, RateLimiter};
use crate::instant::now_ms;

const MINUTE_S: i64 = 60;
const DAY_S: i64 = 86_400;

type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Counts in memory. When `keys_max` keys are counted, those idle since their windows ended make room; if all are busy, further
/// keys share one count, so that a flood of keys can't take memory without a bound, nor get around the limit.
pub struct InProcessLimiter {
    counts: Mutex<Counts>,
    keys_max: usize,
    now_ms: Clock,
}

#[derive(Default)]
struct Counts {
    by_key: HashMap<Box<str>, Count>,
    shared: Count,
    /// The last minute in which idle keys were looked for: the search costs as much as there are keys.
    swept_minute: i64,
}

/// Requests of the current minute and day, each with the window's number since the epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    minute: i64,
    in_minute: u32,
    day: i64,
    in_day: u32,
}

impl InProcessLimiter {
    /// A limiter that counts at most `keys_max` keys one by one, by the system's clock.
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        Self::with_clock(keys_max, now_ms)
    }

    /// The same with a clock of its own, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn with_clock(keys_max: usize, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self {
            counts: Mutex::default(),
            keys_max: keys_max.max(1),
            now_ms: Arc::new(now_ms),
        }
    }

    /// [`RateLimiter::take`] without a future: nothing here waits.
    pub fn take_now(&self, key: &str, cost: u32, quota: &Quota) -> Decision {
        let now_s = (self.now_ms)().div_euclid(1_000);
        let mut counts = self.counts.lock();
        let decision = counts.of(key, now_s, self.keys_max).take(now_s, cost, quota);
        metrics::gauge!("receipts_rate_limit_keys").set(u32::try_from(counts.by_key.len()).unwrap_or(u32::MAX));
        decision
    }

    /// How many keys are counted one by one now.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.counts.lock().by_key.len()
    }
}

impl RateLimiter for InProcessLimiter {
    fn take<'a>(&'a self, key: &'a str, cost: u32, quota: &'a Quota) -> BoxFuture<'a, Decision> {
        std::future::ready(self.take_now(key, cost, quota)).boxed()
    }
}

impl Counts {
    fn of(&mut self, key: &str, now_s: i64, keys_max: usize) -> &mut Count {
        if !self.by_key.contains_key(key) {
            let minute = now_s.div_euclid(MINUTE_S);
            if self.by_key.len() >= keys_max && self.swept_minute != minute {
                self.swept_minute = minute;
                self.by_key.retain(|_, count| count.is_live(now_s));
            }
            if self.by_key.len() >= keys_max {
                metrics::counter!("receipts_rate_limit_overflow_total").increment(1);
                return &mut self.shared;
            }
        }
        self.by_key.entry(key.into()).or_default()
    }
}

impl Count {
    /// Whether forgetting it would give requests back.
    fn is_live(&self, now_s: i64) -> bool {
        let this_minute = self.minute == now_s.div_euclid(MINUTE_S) && self.in_minute > 0;
        this_minute || (self.day == now_s.div_euclid(DAY_S) && self.in_day > 0)
    }

    fn take(&mut self, now_s: i64, cost: u32, quota: &Quota) -> Decision {
        let (minute, day) = (now_s.div_euclid(MINUTE_S), now_s.div_euclid(DAY_S));
        if self.minute != minute {
            (self.minute, self.in_minute) = (minute, 0);
        }
        if self.day != day {
            (self.day, self.in_day) = (day, 0);
        }
        let minute_end_s = (minute + 1) * MINUTE_S;
        let day_end_s = (day + 1) * DAY_S;
        let left_in_minute = quota.per_minute.saturating_sub(self.in_minute);
        let left_in_day = quota
            .per_day
            .map_or(u32::MAX, |limit| limit.saturating_sub(self.in_day));
        let refused = |window: &'static str, limit, remaining, reset_unix_s: i64| {
            metrics::counter!("receipts_rate_limit_refused_total", "window" => window).increment(1);
            let retry_after_s = u32::try_from((reset_unix_s - now_s).max(1)).unwrap_or(u32::MAX);
            Decision {
                allowed: false,
                limit,
                remaining,
                reset_unix_s,
                retry_after_s,
            }
        };
        // The day first: waiting for the minute would be in vain.
        if let Some(limit) = quota.per_day.filter(|_| cost > left_in_day) {
            return refused("day", limit, left_in_day, day_end_s);
        }
        if cost > left_in_minute {
            return refused("minute", quota.per_minute, left_in_minute, minute_end_s);
        }
        self.in_minute += cost;
        // Without a daily limit the day isn't counted, so that an idle key can be forgotten after a minute.
        if quota.per_day.is_some() {
            self.in_day += cost;
        }
        let (after_minute, after_day) = (left_in_minute - cost, left_in_day - cost);
        match quota.per_day {
            Some(limit) if after_day < after_minute => Decision {
                allowed: true,
                limit,
                remaining: after_day,
                reset_unix_s: day_end_s,
                retry_after_s: 0,
            },
            _ => Decision {
                allowed: true,
                limit: quota.per_minute,
                remaining: after_minute,
                reset_unix_s: minute_end_s,
                retry_after_s: 0,
            },
        }
    }
}

#[cfg(test)]
mod tests;
