//! Rate limits by `governor`'s GCRA: signature verifications and decoded bytes a second of each
//! address, receipts a second of each key.
//!
//! Limits by address are charged before the work that they pay for, so they protect the gateway and
//! the verifier from anyone. The limit by key is charged once the outer signature has been
//! verified, so nobody can use up another sender's. Quotas of publishers are separate.
//!
//! A refused request is charged a quarter, because it has been read, decoded and parsed. Whoever
//! repeats it without a pause is soon refused by its head.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Units a second for each of many senders.
pub(crate) struct Rate<C: Clock = DefaultClock> {
    limiter: RateLimiter<u128, Keys, C, StateInformationMiddleware>,
    clock: C,
    what: &'static str,
    per_s: u32,
    burst: NonZeroU32,
}

/// State of a sender's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Units that a full bucket has.
    limit: u32,
    /// Units that the bucket has now.
    remaining: u32,
    /// Time until `remaining` is `limit` again.
    full_in: Duration,
    /// Units that this request is charged in all.
    charged: u32,
}

/// A sender over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) standing: Standing,
    /// Units that were too many.
    pub(crate) what: &'static str,
    /// When the same request would fit.
    pub(crate) wait: Duration,
}

impl Rate {
    /// A limit on `what`; `None` for a rate of 0, which is no limit.
    pub(crate) fn new(what: &'static str, per_s: u32, burst_s: u32, keys_max: usize) -> Option<Self> {
        Self::with_clock(what, per_s, burst_s, keys_max, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Rate<C> {
    fn with_clock(what: &'static str, per_s: u32, burst_s: u32, keys_max: usize, clock: C) -> Option<Self> {
        let burst = NonZeroU32::new(per_s.saturating_mul(burst_s))?;
        let quota = Quota::per_second(NonZeroU32::new(per_s)?).allow_burst(burst);
        let limiter = RateLimiter::new(quota, Keys::new(keys_max), clock.clone());
        Some(Self {
            limiter,
            clock,
            what,
            per_s,
            burst,
        })
    }

    /// Charges `units` to `key`, beside `before` units that the same request was charged already.
    /// A request is charged at most a full bucket in all: a batch larger than the burst passes
    /// when the sender has rested, and empties the bucket.
    pub(crate) fn charge(&self, key: u128, units: u32, before: u32) -> Result<Standing, Exceeded> {
        let most = self.burst.get().saturating_sub(before).max(1);
        let cost = NonZeroU32::new(units.min(most)).unwrap_or(NonZeroU32::MIN);
        let charged = before.saturating_add(cost.get());
        match self.limiter.check_key_n(&key, cost) {
            Ok(Ok(state)) => Ok(self.standing(state.remaining_burst_capacity(), charged)),
            Ok(Err(refused)) => {
                let mut wait = refused.wait_time_from(self.clock.now());
                // governor doesn't say what remains when it refuses: the cost, less what the wait
                // brings.
                let missing = wait
                    .as_nanos()
                    .saturating_mul(self.per_s.into())
                    .div_ceil(1_000_000_000);
                let remaining = u128::from(cost.get()).saturating_sub(missing);
                let mut remaining = u32::try_from(remaining).unwrap_or(0);
                let part = NonZeroU32::new((cost.get() / REFUSED_PART).min(remaining));
                if let Some(part) = part
                    && let Ok(Ok(_)) = self.limiter.check_key_n(&key, part)
                {
                    remaining -= part.get();
                    wait += self.time_for(part.get());
                }
                Err(Exceeded {
                    standing: self.standing(remaining, charged),
                    what: self.what,
                    wait,
                })
            }
            // Can't be: the cost is at most the burst.
            Err(_) => Ok(self.standing(0, charged)),
        }
    }

    /// Forgets senders whose bucket is full again.
    pub(crate) fn forget_rested(&self) {
        self.limiter.retain_recent();
    }

    fn standing(&self, remaining: u32, charged: u32) -> Standing {
        let limit = self.burst.get();
        let missing = limit.saturating_sub(remaining);
        Standing {
            limit,
            remaining,
            full_in: self.time_for(missing),
            charged,
        }
    }

    /// The time in which so many units come.
    fn time_for(&self, units: u32) -> Duration {
        Duration::from_nanos(u64::from(units) * 1_000_000_000 / u64::from(self.per_s))
    }
}

impl Standing {
    /// The limit of the two with the smaller part remaining.
    pub(crate) fn nearer(self, other: Option<Self>) -> Self {
        let part = |one: Self, another: Self| u64::from(one.remaining) * u64::from(another.limit);
        match other {
            Some(other) if part(other, self) < part(self, other) => other,
            _ => self,
        }
    }

    /// Writes the three headers, in receipts that are sent as this request's `receipts` are;
    /// `now_ms` is Unix time.
    pub(crate) fn write(&self, headers: &mut HeaderMap, now_ms: i64, receipts: u32) {
        let in_receipts = |units: u32| u64::from(units) * u64::from(receipts) / u64::from(self.charged.max(1));
        let full_in_ms = i64::try_from(self.full_in.as_millis()).unwrap_or(i64::MAX);
        headers.insert(LIMIT, HeaderValue::from(in_receipts(self.limit)));
        headers.insert(REMAINING, HeaderValue::from(in_receipts(self.remaining)));
        headers.insert(
            RESET,
            HeaderValue::from(now_ms.saturating_add(full_in_ms).saturating_add(999) / 1_000),
        );
    }
}

const SHARDS: usize = 32;
/// Part of its cost that a refused request is charged. With more, senders behind one address who
/// wait as their answers say could keep each other out.
const REFUSED_PART: u32 = 4;

/// The state of each key, for a bounded number of keys; beyond it all new ones share one state.
struct Keys {
    hasher: RandomState,
    shards: Box<[Mutex<HashMap<u128, Nanos>>]>,
    shard_keys_max: usize,
    overflow: Mutex<Option<Nanos>>,
}

impl Keys {
    fn new(keys_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let shard_keys_max = keys_max.div_ceil(SHARDS);
        Self {
            hasher: RandomState::new(),
            shards,
            shard_keys_max,
            overflow: Mutex::new(None),
        }
    }
}

impl StateStore for Keys {
    type Key = u128;

    fn measure_and_replace<T, F, E>(&self, key: &u128, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        let mut states = self.shards[shard].lock();
        if let Some(state) = states.get_mut(key) {
            let (answer, next) = decide(Some(*state))?;
            *state = next;
            return Ok(answer);
        }
        if states.len() >= self.shard_keys_max {
            drop(states);
            let mut state = self.overflow.lock();
            let (answer, next) = decide(*state)?;
            *state = Some(next);
            return Ok(answer);
        }
        let (answer, next) = decide(None)?;
        states.insert(*key, next);
        Ok(answer)
    }
}

impl ShrinkableKeyedStateStore<u128> for Keys {
    fn retain_recent(&self, drop_below: Nanos) {
        for shard in &self.shards {
            let mut states = shard.lock();
            states.retain(|_, state| *state > drop_below);
            // A crowd that has gone leaves its room behind otherwise.
            if states.capacity() > 4 * states.len().max(64) {
                states.shrink_to_fit();
            }
        }
    }

    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn rate(per_s: u32, burst_s: u32, keys_max: usize) -> (Rate<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (
            Rate::with_clock("receipts", per_s, burst_s, keys_max, clock.clone()).unwrap(),
            clock,
        )
    }

    #[test]
    fn a_bucket_empties_says_what_remains_and_fills_again() {
        let (rate, clock) = rate(2, 5, 1_000);
        assert_eq!(
            rate.charge(1, 4, 0).unwrap(),
            Standing {
                limit: 10,
                remaining: 6,
                full_in: Duration::from_secs(2),
                charged: 4
            }
        );
        assert_eq!(rate.charge(1, 6, 0).unwrap().remaining, 0);
        let refused = rate.charge(1, 3, 0).unwrap_err();
        assert_eq!(
            (refused.standing.remaining, refused.wait),
            (0, Duration::from_millis(1_500))
        );
        assert_eq!(
            rate.charge(2, 1, 0).unwrap().remaining,
            9,
            "another key has its own bucket"
        );
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(rate.charge(1, 3, 0).unwrap().remaining, 0);
    }

    #[test]
    fn a_refusal_says_what_would_still_fit_and_takes_a_quarter() {
        let (rate, clock) = rate(1, 10, 1_000);
        rate.charge(1, 6, 0).unwrap();
        let refused = rate.charge(1, 8, 0).unwrap_err();
        assert_eq!((refused.standing.remaining, refused.wait), (2, Duration::from_secs(6)));
        assert_eq!(rate.charge(1, 2, 0).unwrap().remaining, 0);
        // What waits as its answer says fits, and a bucket never owes anything.
        for _ in 0..100 {
            let refused = rate.charge(1, 8, 0).unwrap_err();
            assert_eq!((refused.standing.remaining, refused.wait), (0, Duration::from_secs(8)));
        }
        clock.advance(Duration::from_secs(8));
        assert_eq!(rate.charge(1, 8, 0).unwrap().remaining, 0);
    }

    #[test]
    fn a_batch_over_the_burst_takes_a_full_bucket_and_no_less() {
        let (rate, _clock) = rate(1, 10, 1_000);
        rate.charge(1, 1, 0).unwrap();
        assert_eq!(rate.charge(1, 5_000, 1).unwrap().remaining, 0);
        rate.charge(2, 3, 0).unwrap();
        assert!(rate.charge(2, 5_000, 1).is_err());
    }

    #[test]
    fn keys_are_bounded_and_new_ones_beyond_share_one_bucket() {
        let (rate, clock) = rate(1, 2, 64);
        for key in 0..10_000 {
            let _ = rate.charge(key, 2, 0);
        }
        assert!(rate.limiter.len() <= 64);
        clock.advance(Duration::from_secs(2));
        let beyond = (10_000..11_000).filter(|key| rate.charge(*key, 1, 0).is_ok()).count();
        assert_eq!(beyond, 2, "all 1,000 share one bucket of 2");
    }

    #[test]
    fn rested_keys_are_forgotten() {
        let (rate, clock) = rate(1, 2, 64);
        rate.charge(1, 1, 0).unwrap();
        rate.forget_rested();
        assert_eq!(rate.limiter.len(), 1);
        clock.advance(Duration::from_secs(3));
        rate.forget_rested();
        assert!(rate.limiter.is_empty());
    }

    #[test]
    fn the_headers_say_when_the_bucket_is_full() {
        let (rate, _clock) = rate(2, 5, 64);
        let mut headers = HeaderMap::new();
        rate.charge(1, 3, 0).unwrap().write(&mut headers, 1_000_100, 1);
        assert_eq!(headers["x-ratelimit-limit"], "3", "of 3 units each");
        assert_eq!(headers["x-ratelimit-remaining"], "2");
        assert_eq!(headers["x-ratelimit-reset"], "1002", "1,000.1 s and 1.5 s, rounded up");
    }

    #[test]
    fn the_nearer_limit_is_the_one_with_the_smaller_part_remaining() {
        let standing = |limit, remaining| Standing {
            limit,
            remaining,
            full_in: Duration::ZERO,
            charged: 1,
        };
        let (bytes, receipts) = (standing(80_000_000, 1_000_000), standing(100, 50));
        assert_eq!(bytes.nearer(Some(receipts)), bytes);
        assert_eq!(receipts.nearer(Some(bytes)), bytes);
        assert_eq!(receipts.nearer(None), receipts);
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert!(Rate::new("receipts", 0, 2, 64).is_none());
    }
}
