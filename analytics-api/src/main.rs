//! `receipts-analytics-api`: the analytics API as a process of its own, beside a `receipts up` on the same `[data] dir` (its log,
//! account store and warehouse socket are read, never written), or on the Kafka, the ClickHouse and the PostgreSQL that
//! `[kafka] brokers`, `[warehouse] url` and `[accounts] url` name.
#![forbid(unsafe_code)]

use accounts::{Accounts, AccountsConfig};
use analytics_api::{AnalyticsConfig, Deps};
use anyhow::Context;
use receipt_log::{KafkaConfig, Log};
use service::admin::serve_admin;
use service::config::Source;
use service::data::DataConfig;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RedisConfig, limiter};
use service::telemetry::{TelemetryConfig, init_logging, install_metrics};
use service::{listen, shutdown};
use tokio_util::sync::CancellationToken;
use warehouse::{Target, Warehouse, WarehouseConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The sections this process reads.
struct Config {
    analytics: AnalyticsConfig,
    kafka: KafkaConfig,
    warehouse: WarehouseConfig,
    accounts: AccountsConfig,
    quotas: QuotasConfig,
    redis: RedisConfig,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

impl Config {
    fn load() -> anyhow::Result<Self> {
        let mut source = Source::load(None)?;
        let config = Self {
            analytics: source.section("analytics"),
            kafka: source.section_with("kafka", |kafka: &KafkaConfig, faults| {
                for (key, what) in kafka.validate().err().unwrap_or_default() {
                    faults.push(key, what);
                }
            }),
            warehouse: source.section_with("warehouse", |warehouse: &WarehouseConfig, faults| {
                if let Err(what) = warehouse.validate() {
                    faults.push("", what);
                }
            }),
            accounts: source.section_with("accounts", |accounts: &AccountsConfig, faults| {
                accounts
                    .faults()
                    .into_iter()
                    .for_each(|(key, what)| faults.push(key, what));
            }),
            quotas: source.section("quotas"),
            redis: source.section("redis"),
            telemetry: source.section("telemetry"),
            data: source.section("data"),
        };
        source.finish()?;
        Ok(config)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Config {
        analytics,
        kafka,
        warehouse,
        accounts,
        quotas,
        redis,
        telemetry,
        data,
    } = Config::load()?;
    init_logging(&telemetry)?;
    let metrics = install_metrics()?;
    let health = Health::new();
    // First, because it creates nothing: a wrong directory is left as it is.
    let log = tokio::task::block_in_place(|| Log::open_to_look(&kafka, &data.dir.join("log")));
    let log = log.context("opening the receipt log")?;
    let deps = Deps {
        warehouse: Warehouse::new(&Target::of(&warehouse, &data.dir), &warehouse)?,
        accounts: Accounts::open(&accounts, &data.dir).await?,
        log,
        limiter: limiter(&redis, quotas.keys_max, &health).await?,
        quotas,
        health: health.clone(),
    };
    let listener = listen::bind("analytics.listen", analytics.listen)?;
    let admin = listen::bind("telemetry.metrics_listen", telemetry.metrics_listen)?;
    let signals = shutdown::signals()?;
    let ended = CancellationToken::new();
    let admin = tokio::spawn(serve_admin(admin, metrics, health.clone(), ended.clone()));
    let draining = signals.clone();
    tokio::spawn(async move {
        draining.cancelled().await;
        health.drain();
    });
    tracing::info!(address = %analytics.listen, "the analytics API listens");
    let accounts = deps.accounts.clone();
    analytics_api::run(listener, analytics, deps, signals).await;
    accounts.close().await;
    ended.cancel();
    admin.await.context("the admin port")
}
