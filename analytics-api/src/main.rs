//! `receipts-analytics-api`: the analytics API as a process of its own, beside a `receipts up` on
//! the same `[data] dir` (whose account store and warehouse socket it uses), or on the ClickHouse
//! and the PostgreSQL that `[warehouse] url` and `[accounts] url` name. It doesn't connect to the
//! log.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use accounts::{Accounts, AccountsConfig};
use analytics_api::{AnalyticsConfig, DEFAULT_LISTEN, Deps};
use anyhow::ensure;
use http_server::admin::AdminPort;
use http_server::listen;
use service::config::Source;
use service::data::DataConfig;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RedisConfig, limiter};
use service::shutdown;
use service::telemetry::{TelemetryConfig, init_logging, install_metrics};
use warehouse::{Target, Warehouse, WarehouseConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The sections this process reads.
struct AnalyticsSections {
    analytics: AnalyticsConfig,
    warehouse: WarehouseConfig,
    accounts: AccountsConfig,
    quotas: QuotasConfig,
    redis: RedisConfig,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

impl AnalyticsSections {
    fn load() -> anyhow::Result<Self> {
        let mut source = Source::load(None)?;
        let config = Self {
            analytics: source.section("analytics"),
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

/// Fails on a directory without an embedded warehouse, so that a wrong one stays unchanged.
fn check_data_directory(target: &Target, directory: &Path) -> anyhow::Result<()> {
    ensure!(
        matches!(target, Target::Url(_)) || directory.join("warehouse").is_dir(),
        "{} contains no warehouse: set [data] dir to the directory of `receipts up`, or [warehouse] url to a ClickHouse",
        directory.display()
    );
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let AnalyticsSections {
        analytics,
        warehouse,
        accounts,
        quotas,
        redis,
        telemetry,
        data,
    } = AnalyticsSections::load()?;
    init_logging(&telemetry)?;
    let metrics = install_metrics()?;
    let health = Health::new();
    let target = Target::of(&warehouse, &data.dir);
    // Before the account store, which creates its file.
    check_data_directory(&target, &data.dir)?;
    let warehouse = Warehouse::new(&target, &warehouse)?;
    let deps = Deps {
        progress: Arc::new(warehouse.clone()),
        warehouse,
        accounts: Accounts::open(&accounts, &data.dir).await?,
        limiter: limiter(&redis, quotas.accounts_max, &health).await?,
        quotas,
        health: health.clone(),
    };
    let address = analytics.listen.unwrap_or(DEFAULT_LISTEN);
    let listener = listen::bind("analytics.listen", address)?;
    let admin = AdminPort::start(telemetry.metrics_listen, metrics, health.clone())?;
    let signals = shutdown::signals()?;
    let draining = signals.clone();
    tokio::spawn(async move {
        draining.cancelled().await;
        health.drain();
    });
    tracing::info!(%address, "the analytics API listens");
    let accounts = deps.accounts.clone();
    analytics_api::run(listener, analytics, deps, signals).await;
    accounts.close().await;
    admin.stop().await;
    Ok(())
}
