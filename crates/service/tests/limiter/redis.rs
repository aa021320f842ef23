//! The limiter over Redis, while Redis is there.

use std::sync::Arc;

use service::health::{Health, Status};
use service::rate_limit::{InProcessLimiter, Quota, RateLimiter, RedisConfig, RedisLimiter, limiter};
use test_engines::Redis;

use crate::{Clock, FREE, Replicas, model, suite};

pub(crate) fn config(redis: &Redis) -> RedisConfig {
    RedisConfig {
        url: Some(redis.url().into()),
        tls_ca_file: redis.security().map(|security| security.certificates.ca.clone()),
        // These tests share two processors with others.
        connect_ms_max: 20_000,
        command_ms_max: 10_000,
        ..RedisConfig::default()
    }
}

async fn three(redis: &Redis) -> Replicas {
    let clock = Clock::at_noon();
    let (config, health) = (config(redis), Health::new());
    let mut limiters: Vec<Arc<dyn RateLimiter>> = Vec::new();
    for _ in 0..3 {
        let local = InProcessLimiter::with_clock(100_000, clock.reader());
        let limiter = RedisLimiter::start_with_clock(&config, local, &health, clock.reader());
        limiters.push(Arc::new(limiter.await.unwrap()));
    }
    Replicas { limiters, clock }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_over_three_replicas() {
    let redis = Redis::start().unwrap();
    suite::run(&three(&redis).await).await;
}

#[test]
fn three_replicas_are_as_the_model_says_of_one() {
    let redis = Redis::start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let replicas = runtime.block_on(three(&redis));
    model::check(runtime.handle(), &replicas, 48);
    runtime.block_on(async { drop(replicas) });
}

/// `redis-cli` sees what is stored: one small hash for a key, which goes by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_redis_own_clock_keys_are_prefixed_and_expire() {
    let redis = Redis::start().unwrap();
    let config = RedisConfig {
        prefix: "here:".to_owned(),
        ..config(&redis)
    };
    let limiter = limiter(&config, 10, &Health::new()).await.unwrap();
    let minutes_only = Quota {
        per_minute: 9,
        per_day: None,
    };
    let decision = limiter.take("daily", 2, &FREE).await;
    assert!(limiter.take("by the minute", 4, &minutes_only).await.allowed);
    let now_s: i64 = redis.cli(&["TIME"]).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(
        (now_s..=now_s + 60).contains(&decision.reset_unix_s),
        "{now_s} {decision:?}"
    );
    let keys = redis.cli(&["KEYS", "*"]).unwrap();
    let mut keys: Vec<&str> = keys.lines().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["here:by the minute", "here:daily", "here:redis"]);
    for (key, seconds_max) in [("here:redis", 120), ("here:by the minute", 120), ("here:daily", 86_460)] {
        let left: i64 = redis.cli(&["TTL", key]).unwrap().trim().parse().unwrap();
        assert!((1..=seconds_max).contains(&left), "{key} {left}");
    }
    assert_eq!(redis.cli(&["HGET", "here:daily", "in_day"]).unwrap(), "2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_with_a_login() {
    let redis = Redis::start_secure().unwrap();
    let health = Health::new();
    let good = config(&redis);
    let limiter = RedisLimiter::start(&good, InProcessLimiter::new(10), &health)
        .await
        .unwrap();
    assert_eq!(health.snapshot().components["redis"].status, Status::Ready);
    assert!(limiter.take("a", 1, &FREE).await.allowed);
    assert_eq!(redis.cli(&["HGET", "receipts:limit:a", "in_day"]).unwrap(), "1\n");

    // The login may have keys of its own.
    let login = redis.security().unwrap().login.clone();
    let apart = RedisConfig {
        url: good
            .url()
            .map(|url| url.replace(&format!("{}:{}@", login.user, login.password), "").into()),
        user: Some(login.user),
        password: Some(login.password.into()),
        ..good.clone()
    };
    let health = Health::new();
    let _apart = RedisLimiter::start(&apart, InProcessLimiter::new(10), &health)
        .await
        .unwrap();
    assert_eq!(health.snapshot().components["redis"].status, Status::Ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_redis_refuses_or_we_dont_trust_counts_alone_and_says_why() {
    let redis = Redis::start_secure().unwrap();
    let good = config(&redis);
    let other = Redis::start_secure().unwrap();
    let wrong_password = RedisConfig {
        url: good.url().map(|url| url.replace("@", "x@").into()),
        ..good.clone()
    };
    let untrusted = RedisConfig {
        tls_ca_file: other.security().map(|security| security.certificates.ca.clone()),
        ..good.clone()
    };
    let in_the_clear = RedisConfig {
        url: good.url().map(|url| url.replace("rediss", "redis").into()),
        tls_ca_file: None,
        connect_ms_max: 1_000,
        ..good.clone()
    };
    for bad in [wrong_password, untrusted, in_the_clear] {
        let health = Health::new();
        let limiter = limiter(&bad, 10, &health).await.unwrap();
        assert_eq!(limiter.take("a", 3, &FREE).await.remaining, 0, "by this process");
        assert!(!limiter.take("a", 1, &FREE).await.allowed);
        let component = health.snapshot().components["redis"].clone();
        assert_eq!((component.status, health.is_ready()), (Status::Degraded, true));
        let password = &redis.security().unwrap().login.password;
        assert!(!component.reason.unwrap().contains(password));
    }
    assert_eq!(redis.cli(&["DBSIZE"]).unwrap(), "0\n");
}

#[tokio::test]
async fn what_cant_be_used_is_reported_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("ca.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for (file, key) in [(folder.path().join("absent"), "tls_ca_file"), (empty, "tls_ca_file")] {
        let config = RedisConfig {
            url: Some("rediss://localhost:1".into()),
            tls_ca_file: Some(file),
            ..RedisConfig::default()
        };
        let error = limiter(&config, 10, &Health::new()).await.err().unwrap();
        assert_eq!(error.key, key, "{error}");
    }
    let none = limiter(&RedisConfig::default(), 10, &Health::new()).await.unwrap();
    assert!(
        none.take("a", 1, &FREE).await.allowed,
        "without a url: this process's own"
    );
}
