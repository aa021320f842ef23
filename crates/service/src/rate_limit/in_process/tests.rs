#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderMap;

use super::*;

/// Noon of a day, at the beginning of a minute.
const NOON_S: i64 = 20_000 * 86_400 + 43_200;
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
fn headers_tell_the_quota_and_the_problem_when_to_come_again() {
    let (limiter, _) = limiter(10);
    let mut headers = HeaderMap::new();
    let decision = limiter.take_now("a", 3, &FREE);
    decision.write_headers(&mut headers);
    assert_eq!(headers["x-ratelimit-limit"], "3");
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    assert_eq!(headers["x-ratelimit-reset"], (NOON_S + 60).to_string().as_str());
    assert!(!headers.contains_key("retry-after"));
    assert!(decision.problem(3).is_none());
    let response = limiter
        .take_now("a", 1, &FREE)
        .problem(1)
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

#[test]
fn what_is_learned_is_never_less_than_what_was_counted() {
    let (limiter, _) = limiter(1);
    assert!(limiter.take_now("a", 2, &FREE).allowed);
    let counted = limiter.count("a");
    assert_eq!((counted.in_minute, counted.in_day), (2, 2));
    let elsewhere = WindowCount {
        in_minute: 1,
        in_day: 4,
        ..counted
    };
    limiter.learn("a", elsewhere);
    assert_eq!(
        limiter.count("a"),
        WindowCount {
            in_minute: 2,
            in_day: 4,
            ..counted
        }
    );
    let yesterday = WindowCount {
        minute: counted.minute - 1,
        in_minute: 3,
        day: counted.day - 1,
        in_day: 5,
    };
    limiter.learn("a", yesterday);
    assert_eq!(limiter.count("a").in_day, 4);
    limiter.learn("b", counted);
    assert_eq!(
        (limiter.count("b"), limiter.keys()),
        (WindowCount::default(), 1),
        "no room"
    );
}

#[test]
fn a_flood_of_addresses_takes_no_accounts_room() {
    let (limiter, _) = limiter(2);
    for number in 0..10 {
        let _ = limiter.take_now(&format!("address:192.0.2.{number}"), 1, &FREE);
    }
    assert!(
        !limiter.take_now("address:192.0.2.10", 1, &FREE).allowed,
        "addresses beyond the second share one count"
    );
    for key in ["acc_a", "acc_b"] {
        assert_eq!(limiter.take_now(key, 1, &FREE).remaining, 2, "{key}");
    }
    assert_eq!(limiter.keys(), 4);
}
