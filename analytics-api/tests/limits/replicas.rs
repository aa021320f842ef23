//! Two replicas of the API on the same stores, and their clients.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use accounts::{Accounts, AccountsConfig, NewKey, Scope};
use analytics_api::{AnalyticsConfig, Deps};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use serde_json::Value;
use service::health::{Health, Status};
use service::rate_limit::{InProcessLimiter, QuotasConfig, RedisConfig, RedisLimiter};
use tempfile::TempDir;
use test_engines::Redis;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use warehouse::{EmbeddedEngine, WarehouseConfig};

use crate::progress::FakeProgress;

pub(crate) const CLIENTS: usize = 200;
pub(crate) const FREE_PER_MINUTE: u32 = 60;
pub(crate) const DASHBOARD: &str = "/api/v1/analytics/dashboard";
/// 2026-03-30T20:00:30Z: half a minute before a window's end.
const START_MS: i64 = 1_774_900_830_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

type HttpClient = Client<HttpConnector, Empty<Bytes>>;

pub(crate) struct Replicas {
    redis: Arc<Redis>,
    accounts: Accounts,
    clock_ms: Arc<AtomicI64>,
    replicas: [Replica; 2],
    keys: Mutex<HashMap<&'static str, String>>,
    /// Answers of the storm so far.
    answered: Arc<AtomicUsize>,
    metrics: PrometheusHandle,
    engine: EmbeddedEngine,
    _dir: TempDir,
}

struct Replica {
    address: SocketAddr,
    health: Health,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

/// Answer to a client.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) replica: usize,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) reset_s: i64,
    pub(crate) cost: u32,
    pub(crate) retry_after_s: Option<u32>,
    /// Of a problem.
    pub(crate) code: String,
}

impl Replicas {
    /// With the engine, which only the thread that started it may hold.
    pub(crate) async fn start() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metrics = recorder.handle();
        metrics::set_global_recorder(recorder).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (files, socket) = (dir.path().join("warehouse"), dir.path().join("sock"));
        let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &files, &socket)
            .await
            .unwrap();
        let accounts = Accounts::open(&AccountsConfig::default(), dir.path()).await.unwrap();
        let redis = Arc::new(Redis::start().unwrap());
        let clock_ms = Arc::new(AtomicI64::new(START_MS));
        let progress = Arc::new(FakeProgress::default());
        progress.complete_ms.store(START_MS, Ordering::SeqCst);
        let start = async || {
            let health = Health::new();
            let redis = RedisConfig {
                url: Some(redis.url().into()),
                // These tests share two processors with others.
                connect_ms_max: 20_000,
                command_ms_max: 10_000,
                ..RedisConfig::default()
            };
            let clock = || {
                let clock_ms = Arc::clone(&clock_ms);
                move || clock_ms.load(Ordering::SeqCst)
            };
            let local = InProcessLimiter::with_clock(100, clock());
            let limiter = RedisLimiter::start_with_clock(&redis, local, &health, clock());
            let deps = Deps {
                warehouse: engine.warehouse(),
                accounts: accounts.clone(),
                progress: progress.clone(),
                limiter: Arc::new(limiter.await.unwrap()),
                quotas: QuotasConfig::default(),
                health: health.clone(),
            };
            Replica::start(deps, health).await
        };
        Self {
            replicas: [start().await, start().await],
            redis,
            accounts,
            clock_ms,
            keys: Mutex::default(),
            answered: Arc::default(),
            metrics,
            engine,
            _dir: dir,
        }
    }

    pub(crate) async fn stop(self) {
        for replica in self.replicas {
            replica.shutdown.cancel();
            replica.running.await.unwrap();
        }
        self.accounts.close().await;
        self.engine.stop().await;
    }

    /// The API key of this domain's account, of tier free.
    pub(crate) async fn free_key(&self, domain: &'static str) -> String {
        if let Some(known) = self.keys.lock().get(domain) {
            return known.clone();
        }
        let key = self.new_key(domain).await;
        self.keys.lock().insert(domain, key.clone());
        key
    }

    /// A further API key of this domain's account.
    pub(crate) async fn new_key(&self, domain: &str) -> String {
        let new = NewKey {
            domains: vec![domain.parse().unwrap()],
            account_id: self.accounts.account_of(&domain.parse().unwrap()).await.unwrap(),
            tier: None,
            is_limited: false,
            name: "test".to_owned(),
            scopes: vec![Scope::Read],
            expires_at_ms: jiff::Timestamp::now().as_millisecond() + DAY_MS,
        };
        self.accounts.create_publisher_key(new).await.unwrap().issued.api_key
    }

    /// Returns the key that was made before.
    pub(crate) fn key_of(&self, domain: &str) -> String {
        self.keys.lock()[domain].clone()
    }

    pub(crate) fn next_minute(&self) {
        self.clock_ms.fetch_add(MINUTE_MS, Ordering::SeqCst);
    }

    /// In Unix seconds.
    pub(crate) fn minute_end_s(&self) -> i64 {
        (self.clock_ms.load(Ordering::SeqCst) / MINUTE_MS + 1) * 60
    }

    /// Every client, with connections of its own, requests what `path` says of its number; all
    /// begin together, and each asks the replicas in turn.
    pub(crate) async fn storm(&self, key: &str, rounds: usize, path: impl Fn(usize) -> String) -> Vec<Answer> {
        self.answered.store(0, Ordering::SeqCst);
        let together = Arc::new(Barrier::new(CLIENTS));
        let addresses = [self.replicas[0].address, self.replicas[1].address];
        let client = |number: usize| {
            let (together, answered) = (Arc::clone(&together), Arc::clone(&self.answered));
            let (key, path) = (key.to_owned(), path(number));
            tokio::spawn(async move {
                let http = http_client();
                let mut answers = Vec::new();
                together.wait().await;
                for round in 0..rounds {
                    let replica = (number + round) % 2;
                    answers.push(ask(&http, replica, addresses[replica], &key, &path).await);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                answers
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let mut answers = Vec::new();
        for client in clients {
            answers.extend(client.await.unwrap());
        }
        answers
    }

    /// Waits until the storm has had so many answers.
    pub(crate) async fn answered(&self, count: usize) {
        until("answers", || self.answered.load(Ordering::SeqCst) >= count).await;
    }

    pub(crate) async fn get(&self, replica: usize, key: &str, path: &str) -> Answer {
        ask(&http_client(), replica, self.replicas[replica].address, key, path).await
    }

    pub(crate) async fn kill_redis(&self) {
        let redis = Arc::clone(&self.redis);
        tokio::task::spawn_blocking(move || redis.kill().unwrap())
            .await
            .unwrap();
    }

    pub(crate) async fn restart_redis(&self) {
        let redis = Arc::clone(&self.redis);
        tokio::task::spawn_blocking(move || redis.restart().unwrap())
            .await
            .unwrap();
    }

    /// Waits until readiness says so of Redis at both replicas, which are ready all the while.
    pub(crate) async fn until_redis_is(&self, status: Status) {
        for Replica { health, .. } in &self.replicas {
            until("ready", || health.is_ready()).await;
            until("redis", || health.snapshot().components["redis"].status == status).await;
        }
    }

    /// Requests that a replica counted by itself.
    pub(crate) fn fallbacks(&self) -> u64 {
        let shown = self.metrics.render();
        let lines = shown
            .lines()
            .filter(|line| line.starts_with("receipts_limiter_fallback_total{"));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

impl Replica {
    async fn start(deps: Deps, health: Health) -> Self {
        let config = AnalyticsConfig {
            // What is counted here is the limiter's refusals, so nothing else may refuse.
            waiting_queries_max: 1_000,
            query_wait_ms_max: 60_000,
            ..AnalyticsConfig::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(analytics_api::run(listener, config, deps, shutdown.clone()));
        Self {
            address,
            health,
            shutdown,
            running,
        }
    }
}

fn http_client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn ask(http: &HttpClient, replica: usize, address: SocketAddr, key: &str, path: &str) -> Answer {
    let request = Request::get(format!("http://{address}{path}"))
        .header("authorization", format!("Bearer {key}"))
        .body(Empty::new())
        .unwrap();
    let (parts, body) = http.request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let number = |name: &str| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap().parse::<u32>().unwrap())
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    Answer {
        replica,
        path: path.to_owned(),
        status: parts.status.as_u16(),
        limit: number("x-ratelimit-limit").unwrap(),
        remaining: number("x-ratelimit-remaining").unwrap(),
        reset_s: number("x-ratelimit-reset").unwrap().into(),
        cost: number("x-ratelimit-cost").unwrap(),
        retry_after_s: number("retry-after"),
        code: body["code"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Waits for what happens beside; a minute is patience, not a limit.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .expect(what);
}
