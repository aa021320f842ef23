//! The limiter over Redis, while Redis is away, slow or refuses.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use service::health::{Health, Status};
use service::rate_limit::{InProcessLimiter, Quota, RateLimiter, RedisConfig, RedisLimiter};
use test_engines::Redis;

use crate::redis::config;

/// So wide that no test here crosses it by the real clock's turn of a minute.
const DAILY: Quota = Quota {
    per_minute: 1_000_000,
    per_day: Some(10),
};

struct Pair {
    a: RedisLimiter,
    b: RedisLimiter,
    health: Health,
}

async fn pair(config: &RedisConfig) -> Pair {
    let health = Health::new();
    Pair {
        a: RedisLimiter::start(config, InProcessLimiter::new(100), &health)
            .await
            .unwrap(),
        b: RedisLimiter::start(config, InProcessLimiter::new(100), &Health::new())
            .await
            .unwrap(),
        health,
    }
}

fn status(health: &Health) -> Status {
    assert!(health.is_ready(), "readiness doesn't need Redis");
    health.snapshot().components["redis"].status
}

/// Waits for the background's work; a minute is patience, not a limit.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), waiting)
        .await
        .expect(what);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_replaced_by_what_each_replica_knows_and_taken_back() {
    let redis = Redis::start().unwrap();
    let Pair { a, b, health } = pair(&config(&redis)).await;
    assert_eq!(a.take("k", 3, &DAILY).await.remaining, 7);
    assert_eq!(b.take("k", 4, &DAILY).await.remaining, 3);
    assert_eq!(a.take("k", 0, &DAILY).await.remaining, 3);
    redis.kill().unwrap();
    // Each continues from what it saw last, by itself.
    assert_eq!(a.take("k", 2, &DAILY).await.remaining, 1);
    assert_eq!(b.take("k", 1, &DAILY).await.remaining, 2);
    assert!(!a.take("k", 2, &DAILY).await.allowed);
    until("degraded", async || status(&health) == Status::Degraded).await;
    // It comes back empty, and learns from the replicas what was taken.
    redis.restart().unwrap();
    until("back", async || status(&health) == Status::Ready).await;
    assert_eq!(a.take("k", 0, &DAILY).await.remaining, 1);
    let shared = async || b.take("k", 0, &DAILY).await.remaining == 1;
    until("shared again", shared).await;
    assert_eq!(redis.cli(&["HGET", "receipts:limit:k", "in_day"]).unwrap(), "9\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_three_time_outs_and_not_one_for_each_request() {
    let redis = Redis::start().unwrap();
    let config = RedisConfig {
        command_ms_max: 500,
        ..config(&redis)
    };
    let Pair { a, b, health } = pair(&config).await;
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 9);
    redis.freeze().unwrap();
    for left in [8, 7, 6] {
        assert_eq!(a.take("k", 1, &DAILY).await.remaining, left);
    }
    assert_eq!(status(&health), Status::Degraded);
    // At a time-out each, these would take more than an hour.
    for _ in 0..10_000 {
        assert_eq!(a.take("k", 0, &DAILY).await.remaining, 6);
    }
    redis.thaw().unwrap();
    until("back", async || status(&health) == Status::Ready).await;
    // What the frozen Redis was asked, it counted once it ran again: never less than was taken.
    let remaining = a.take("k", 0, &DAILY).await.remaining;
    assert!(remaining <= 6, "{remaining}");
    until("shared again", async || {
        b.take("k", 0, &DAILY).await.remaining == remaining
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_death_is_seen_without_any_request() {
    let redis = Redis::start().unwrap();
    let config = RedisConfig {
        command_ms_max: 300,
        ..config(&redis)
    };
    let pair = pair(&config).await;
    let health = &pair.health;
    until("ready", async || status(health) == Status::Ready).await;
    redis.freeze().unwrap();
    until("degraded", async || status(health) == Status::Degraded).await;
    redis.thaw().unwrap();
    until("back", async || status(health) == Status::Ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_after_us_is_found() {
    let redis = Redis::start().unwrap();
    redis.kill().unwrap();
    let Pair { a, b, health } = pair(&config(&redis)).await;
    assert_eq!(status(&health), Status::Degraded);
    assert_eq!(a.take("k", 4, &DAILY).await.remaining, 6);
    redis.restart().unwrap();
    until("found", async || status(&health) == Status::Ready).await;
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 5);
    until("found by both", async || b.take("k", 0, &DAILY).await.remaining == 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_script_is_sent_again() {
    let redis = Redis::start().unwrap();
    let Pair { a, b, health } = pair(&config(&redis)).await;
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 9);
    assert_eq!(redis.cli(&["SCRIPT", "FLUSH"]).unwrap(), "OK\n");
    assert_eq!(b.take("k", 1, &DAILY).await.remaining, 8);
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 7);
    assert_eq!(status(&health), Status::Ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_keys_refusal_is_its_own_and_everyones_degrades() {
    let redis = Redis::start().unwrap();
    let Pair { a, b, health } = pair(&config(&redis)).await;
    assert_eq!(redis.cli(&["SET", "receipts:limit:odd", "no hash"]).unwrap(), "OK\n");
    assert_eq!(a.take("odd", 1, &DAILY).await.remaining, 9);
    assert_eq!(b.take("odd", 1, &DAILY).await.remaining, 9, "each by itself");
    assert_eq!(a.take("even", 1, &DAILY).await.remaining, 9);
    assert_eq!(b.take("even", 1, &DAILY).await.remaining, 8, "shared");
    assert_eq!(status(&health), Status::Ready);
    // As after a failover to a server that doesn't lead: it answers, and takes no writes.
    assert_eq!(redis.cli(&["REPLICAOF", "127.0.0.1", "1"]).unwrap(), "OK\n");
    assert_eq!(
        a.take("even", 1, &DAILY).await.remaining,
        8,
        "from what it saw: its own first one"
    );
    until("degraded", async || status(&health) == Status::Degraded).await;
    assert_eq!(redis.cli(&["REPLICAOF", "NO", "ONE"]).unwrap(), "OK\n");
    until("back", async || status(&health) == Status::Ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_wait_than_may() {
    let redis = Redis::start().unwrap();
    let config = RedisConfig {
        in_flight_max: 1,
        command_ms_max: 60_000,
        ..config(&redis)
    };
    let Pair { a, .. } = pair(&config).await;
    redis.freeze().unwrap();
    tokio::select! {
        biased;
        decision = a.take("k", 1, &DAILY) => panic!("a frozen Redis answered: {decision:?}"),
        decision = a.take("k", 2, &DAILY) => assert_eq!(decision.remaining, 8),
    }
}

/// On one thread, so that the recorder sees the background's metrics too.
#[tokio::test]
async fn its_metrics_tell() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _here = metrics::set_default_local_recorder(&recorder);
    let redis = Redis::start().unwrap();
    let Pair { a, .. } = pair(&config(&redis)).await;
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 9);
    let shown = metrics.render();
    assert!(shown.contains("receipts_limiter_degraded 0"), "{shown}");
    assert!(shown.contains("receipts_limiter_redis_seconds_count 1"), "{shown}");
    redis.kill().unwrap();
    until("degraded", async || {
        metrics.render().contains("receipts_limiter_degraded 1")
    })
    .await;
    assert_eq!(a.take("k", 1, &DAILY).await.remaining, 8);
    let shown = metrics.render();
    assert!(
        shown.contains(r#"receipts_limiter_fallback_total{reason="away"} 1"#),
        "{shown}"
    );
    redis.restart().unwrap();
    until("back", async || {
        metrics.render().contains("receipts_limiter_degraded 0")
    })
    .await;
}
