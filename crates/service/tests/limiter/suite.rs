//! Contract of every limiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use service::rate_limit::{Decision, Quota};

use crate::{DAY_S, FREE, NOON_S, Replicas};

/// Every case, each on keys of its own.
pub(crate) async fn run(replicas: &Replicas) {
    the_minute_is_used_up_and_comes_again(replicas).await;
    the_day_is_reported_when_it_is_the_tighter_one(replicas).await;
    a_refused_request_takes_nothing(replicas).await;
    another_quota_finds_the_same_counts(replicas).await;
    many_at_once_get_exactly_the_quota(replicas).await;
}

async fn the_minute_is_used_up_and_comes_again(replicas: &Replicas) {
    replicas.clock.set_s(NOON_S);
    for (turn, left) in [2, 1, 0].into_iter().enumerate() {
        let decision = replicas.take(turn, "minute", 1, &FREE).await;
        assert_eq!((decision.allowed, decision.limit, decision.remaining), (true, 3, left));
        assert_eq!(decision.reset_unix_s, NOON_S + 60);
    }
    replicas.clock.set_s(NOON_S + 59);
    let refused = replicas.take(3, "minute", 1, &FREE).await;
    let wanted = Decision {
        allowed: false,
        limit: 3,
        remaining: 0,
        reset_unix_s: NOON_S + 60,
        retry_after_s: 1,
    };
    assert_eq!(refused, wanted);
    assert!(replicas.take(4, "minute of another", 1, &FREE).await.allowed);
    replicas.clock.set_s(NOON_S + 60);
    assert!(replicas.take(5, "minute", 1, &FREE).await.allowed);
}

async fn the_day_is_reported_when_it_is_the_tighter_one(replicas: &Replicas) {
    replicas.clock.set_s(NOON_S);
    assert_eq!(replicas.take(0, "day", 3, &FREE).await.limit, 3);
    replicas.clock.set_s(NOON_S + 60);
    let decision = replicas.take(1, "day", 1, &FREE).await;
    let reported = (decision.limit, decision.remaining, decision.reset_unix_s);
    assert_eq!(
        reported,
        (5, 1, 20_001 * DAY_S),
        "one left of the day, two of the minute"
    );
    assert!(replicas.take(2, "day", 1, &FREE).await.allowed);
    let refused = replicas.take(3, "day", 1, &FREE).await;
    assert_eq!((refused.allowed, refused.limit, refused.remaining), (false, 5, 0));
    assert_eq!(i64::from(refused.retry_after_s), 43_200 - 60);
    replicas.clock.set_s(20_001 * DAY_S);
    assert!(replicas.take(4, "day", 1, &FREE).await.allowed);
}

async fn a_refused_request_takes_nothing(replicas: &Replicas) {
    replicas.clock.set_s(NOON_S);
    assert!(!replicas.take(0, "refused", 4, &FREE).await.allowed);
    assert_eq!(replicas.take(1, "refused", 3, &FREE).await.remaining, 0);
}

async fn another_quota_finds_the_same_counts(replicas: &Replicas) {
    replicas.clock.set_s(NOON_S);
    assert!(replicas.take(0, "moved", 3, &FREE).await.allowed);
    let higher = Quota {
        per_minute: 10,
        per_day: Some(100),
    };
    assert_eq!(replicas.take(1, "moved", 2, &higher).await.remaining, 5);
    let lower = replicas.take(2, "moved", 1, &FREE).await;
    assert_eq!((lower.allowed, lower.limit, lower.remaining), (false, 5, 0));
}

async fn many_at_once_get_exactly_the_quota(replicas: &Replicas) {
    replicas.clock.set_s(NOON_S);
    let quota = Quota {
        per_minute: 100,
        per_day: Some(1_000),
    };
    let allowed = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for turn in 0..400 {
        let limiter = Arc::clone(&replicas.limiters[turn % replicas.limiters.len()]);
        let allowed = Arc::clone(&allowed);
        tasks.push(tokio::spawn(async move {
            if limiter.take("crowd", 1, &quota).await.allowed {
                allowed.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(allowed.load(Ordering::Relaxed), 100);
}
