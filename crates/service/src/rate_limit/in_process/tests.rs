#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderMap;
use proptest::prelude::*;

use super::*;

/// Noon of a day, at the beginning of a minute.
const NOON_S: i64 = 20_000 * DAY_S + 43_200;
const FREE: Quota = Quota {
    per_minute: 3,
    per_day: Some(5),
};

fn limiter(keys_max: usize) -> (InProcessLimiter, Arc<AtomicI64>) {
    let now_s = Arc::new(AtomicI64::new(NOON_S));
    let clock = Arc::clone(&now_s);
    (
        InProcessLimiter::with_clock(keys_max, move || clock.load(Ordering::Relaxed) * 1_000 + 999),
        now_s,
    )
}

#[test]
fn the_minute_is_used_up_and_comes_again() {
    let (limiter, now_s) = limiter(10);
    for left in [2, 1, 0] {
        let decision = limiter.take_now("a", 1, &FREE);
        assert_eq!((decision.allowed, decision.limit, decision.remaining), (true, 3, left));
        assert_eq!(decision.reset_unix_s, NOON_S + 60);
    }
    now_s.store(NOON_S + 59, Ordering::Relaxed);
    let refused = limiter.take_now("a", 1, &FREE);
    let wanted = Decision {
        allowed: false,
        limit: 3,
        remaining: 0,
        reset_unix_s: NOON_S + 60,
        retry_after_s: 1,
    };
    assert_eq!(refused, wanted);
    assert!(limiter.take_now("b", 1, &FREE).allowed, "another key has its own count");
    now_s.store(NOON_S + 60, Ordering::Relaxed);
    assert!(limiter.take_now("a", 1, &FREE).allowed);
}

#[test]
fn the_day_is_told_when_it_is_the_tighter_one() {
    let (limiter, now_s) = limiter(10);
    assert_eq!(limiter.take_now("a", 3, &FREE).limit, 3);
    now_s.fetch_add(60, Ordering::Relaxed);
    let decision = limiter.take_now("a", 1, &FREE);
    assert_eq!(
        (decision.limit, decision.remaining),
        (5, 1),
        "one left of the day, two of the minute"
    );
    assert_eq!(decision.reset_unix_s, (20_000 + 1) * DAY_S);
    assert!(limiter.take_now("a", 1, &FREE).allowed);
    let refused = limiter.take_now("a", 1, &FREE);
    assert_eq!((refused.allowed, refused.limit, refused.remaining), (false, 5, 0));
    assert_eq!(i64::from(refused.retry_after_s), 43_200 - 60);
    now_s.store((20_000 + 1) * DAY_S, Ordering::Relaxed);
    assert!(limiter.take_now("a", 1, &FREE).allowed);
}

#[test]
fn a_refused_request_takes_nothing() {
    let (limiter, _) = limiter(10);
    assert!(!limiter.take_now("a", 4, &FREE).allowed);
    assert_eq!(limiter.take_now("a", 3, &FREE).remaining, 0);
}

#[test]
fn headers_tell_the_quota_and_the_problem_when_to_come_again() {
    let (limiter, _) = limiter(10);
    let mut headers = HeaderMap::new();
    let decision = limiter.take_now("a", 3, &FREE);
    decision.write_headers(&mut headers);
    assert_eq!(headers["x-ratelimit-limit"], "3");
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    assert_eq!(headers["x-ratelimit-reset"], (NOON_S + 60).to_string().as_str());
    assert!(!headers.contains_key("retry-after"));
    assert!(decision.problem().is_none());
    let response = limiter
        .take_now("a", 1, &FREE)
        .problem()
        .unwrap()
        .into_response(&crate::request_id::RequestId::new());
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "60");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
}

#[test]
fn a_flood_of_keys_shares_one_count_until_idle_ones_make_room() {
    let (limiter, now_s) = limiter(2);
    let unlimited_days = Quota {
        per_minute: 3,
        per_day: None,
    };
    assert!(limiter.take_now("a", 1, &unlimited_days).allowed);
    assert!(limiter.take_now("b", 1, &FREE).allowed);
    for key in ["c", "d", "e"] {
        assert!(limiter.take_now(key, 1, &FREE).allowed);
    }
    assert!(
        !limiter.take_now("f", 1, &FREE).allowed,
        "c, d and e used the shared count up"
    );
    assert_eq!(
        limiter.take_now("a", 1, &unlimited_days).remaining,
        1,
        "a known key keeps its own"
    );
    assert_eq!(limiter.keys(), 2);
    // A minute later `a` has nothing to remember; `b` still has its day.
    now_s.fetch_add(60, Ordering::Relaxed);
    assert_eq!(limiter.take_now("c", 1, &FREE).remaining, 2);
    assert_eq!(limiter.keys(), 2);
    assert_eq!(
        limiter.take_now("b", 2, &FREE).remaining,
        1,
        "minute 3 - 2, day 5 - 1 - 2"
    );
}

proptest! {
    /// However requests fall, no minute and no day ever gets more than its quota, and nothing is refused needlessly.
    #[test]
    fn windows_hold(steps in prop::collection::vec((0_i64..40, 1_u32..4), 1..200)) {
        let (limiter, now_s) = limiter(4);
        let quota = Quota { per_minute: 5, per_day: Some(60) };
        let (mut minutes, mut days) = (HashMap::<i64, u32>::new(), HashMap::<i64, u32>::new());
        for (wait_s, cost) in steps {
            let now = now_s.fetch_add(wait_s, Ordering::Relaxed) + wait_s;
            let in_minute = minutes.entry(now / MINUTE_S).or_default();
            let in_day = days.entry(now / DAY_S).or_default();
            let fits = *in_minute + cost <= 5 && *in_day + cost <= 60;
            let decision = limiter.take_now("k", cost, &quota);
            prop_assert_eq!(decision.allowed, fits);
            prop_assert_eq!(decision.retry_after_s == 0, fits);
            prop_assert!(decision.reset_unix_s > now);
            if fits {
                *in_minute += cost;
                *in_day += cost;
                prop_assert_eq!(decision.remaining, (5 - *in_minute).min(60 - *in_day));
            }
        }
    }
}
