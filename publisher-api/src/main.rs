//! `receipts-publisher-api`: the publisher API as a process of its own, beside a `receipts up` on
//! the same `[data] dir`, or on the ClickHouse and the PostgreSQL that `[warehouse] url` and
//! `[accounts] url` name.
#![forbid(unsafe_code)]

use std::sync::Arc;

use accounts::{Accounts, AccountsConfig};
use http_server::admin::AdminPort;
use http_server::listen;
use publisher_api::{AuthConfig, Authority, DEFAULT_LISTEN, Deps, PublisherConfig, SmtpConfig};
use service::config::Source;
use service::cpu::CpuPool;
use service::data::DataConfig;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RedisConfig, limiter};
use service::shutdown;
use service::telemetry::{TelemetryConfig, init_logging, install_metrics};
use warehouse::{Target, Warehouse, WarehouseConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Jobs that may wait for the thread that reads home pages.
const CPU_QUEUE_MAX: usize = 64;

/// The sections this process reads.
struct Config {
    publisher: PublisherConfig,
    auth: AuthConfig,
    outbound: outbound::Config,
    smtp: SmtpConfig,
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
            publisher: source.section("publisher"),
            auth: source.section("auth"),
            outbound: source.section_with("outbound", |outbound: &outbound::Config, faults| {
                for (key, what) in outbound.validate().err().unwrap_or_default() {
                    faults.push(key, what);
                }
            }),
            smtp: source.section("smtp"),
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
        publisher,
        auth,
        outbound,
        smtp,
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
    let outbound = outbound::OutboundClient::new(&outbound)?;
    let deps = Deps {
        authority: Arc::new(Authority::new(&auth, &data.dir, &outbound)?),
        outbound,
        smtp,
        cpu: CpuPool::new("publisher", 1, CPU_QUEUE_MAX)?,
        accounts: Accounts::open(&accounts, &data.dir).await?,
        warehouse: Warehouse::new(&Target::of(&warehouse, &data.dir), &warehouse)?,
        limiter: limiter(&redis, quotas.accounts_max, &health).await?,
        quotas,
        health: health.clone(),
    };
    let address = publisher.listen.unwrap_or(DEFAULT_LISTEN);
    let listener = listen::bind("publisher.listen", address)?;
    let admin = AdminPort::start(telemetry.metrics_listen, metrics, health.clone())?;
    let signals = shutdown::signals()?;
    let draining = signals.clone();
    tokio::spawn(async move {
        draining.cancelled().await;
        health.drain();
    });
    tracing::info!(%address, "the publisher API listens");
    let accounts = deps.accounts.clone();
    publisher_api::run(listener, publisher, deps, signals).await;
    accounts.close().await;
    admin.stop().await;
    Ok(())
}
