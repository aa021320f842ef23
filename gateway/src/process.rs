//! The gateway as a process of its own: configuration, engines, listeners, signals.

use std::sync::Arc;

use accounts::{Accounts, AccountsConfig, ClientPolicy, PolicyConfig, RegistryCache};
use anyhow::Context;
use http_server::admin::AdminPort;
use http_server::listen;
use receipt::Limits;
use receipt_log::{EmbeddedConfig, KafkaConfig, Log};
use serde::Deserialize;
use service::config::{ConfigFaults, Source, Validate};
use service::cpu::CpuPool;
use service::data::DataConfig;
use service::health::Health;
use service::shutdown;
use service::telemetry::{PrometheusHandle, TelemetryConfig, init_logging, install_metrics};
use tokio_util::sync::CancellationToken;

use crate::{AcknowledgementKeys, Deps, GatewayConfig, Routes};

/// The log's folder under the data directory.
const LOG_FOLDER: &str = "log";

/// Bodies that wait for a thread of the CPU pool.
const CPU_QUEUE_MAX: usize = 1_024;

/// `[limits]`
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct LimitsSection(Limits);

impl Validate for LimitsSection {
    fn validate(&self, faults: &mut ConfigFaults) {
        if let Err(fault) = self.0.validate() {
            faults.push("", fault);
        }
    }
}

/// `[log]`
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct LogSection(EmbeddedConfig);

impl Validate for LogSection {
    fn validate(&self, faults: &mut ConfigFaults) {
        for fault in self.0.validate().err().unwrap_or_default() {
            faults.push("", fault);
        }
    }
}

/// `[kafka]`
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct KafkaSection(KafkaConfig);

impl Validate for KafkaSection {
    fn validate(&self, faults: &mut ConfigFaults) {
        for (key, fault) in self.0.validate().err().unwrap_or_default() {
            faults.push(key, fault);
        }
    }
}

/// `[accounts]`
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct AccountsSection(AccountsConfig);

impl Validate for AccountsSection {
    fn validate(&self, faults: &mut ConfigFaults) {
        for (key, fault) in self.0.faults() {
            faults.push(key, fault);
        }
    }
}

/// `[policy]`
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct PolicySection(PolicyConfig);

impl Validate for PolicySection {
    fn validate(&self, faults: &mut ConfigFaults) {
        for (key, fault) in self.0.faults() {
            faults.push(key, fault);
        }
    }
}

struct Settings {
    gateway: GatewayConfig,
    limits: Limits,
    log: EmbeddedConfig,
    kafka: KafkaConfig,
    accounts: AccountsConfig,
    policy: PolicyConfig,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

fn settings() -> anyhow::Result<Settings> {
    let mut source = Source::load(None)?;
    let LimitsSection(limits) = source.section("limits");
    let LogSection(log) = source.section("log");
    let KafkaSection(kafka) = source.section("kafka");
    let AccountsSection(accounts) = source.section("accounts");
    let PolicySection(policy) = source.section("policy");
    let settings = Settings {
        gateway: source.section("gateway"),
        limits,
        log,
        kafka,
        accounts,
        policy,
        telemetry: source.section("telemetry"),
        data: source.section("data"),
    };
    source.finish()?;
    settings.gateway.fits(&settings.limits).map_err(anyhow::Error::msg)?;
    let fits = settings
        .kafka
        .fits(settings.gateway.append_wait_ms_max, settings.limits.batch_bytes_max);
    fits.map_err(anyhow::Error::msg)?;
    Ok(settings)
}

/// Serves `routes` until the process is signalled to end.
///
/// # Errors
/// A fault of the configuration, an engine that doesn't open, a port that is taken, a drain that
/// didn't end.
pub fn run(routes: Routes) -> anyhow::Result<()> {
    let settings = settings()?;
    if routes == Routes::All && settings.kafka.is_given() {
        settings.gateway.has_shared_keys().map_err(anyhow::Error::msg)?;
    }
    init_logging(&settings.telemetry)?;
    // Before the log, which takes its metrics' handles when it opens.
    let metrics = install_metrics()?;
    let folder = std::path::absolute(settings.data.dir.join(LOG_FOLDER))?;
    // Opening and closing wait for the disk or the brokers: before and after the runtime, not on
    // it.
    let log = Log::open(&settings.kafka, &settings.log, &folder).context("opening the receipt log")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(settings, routes, log.clone(), metrics));
    drop(runtime);
    log.close();
    ended
}

async fn serve(settings: Settings, routes: Routes, log: Log, metrics: PrometheusHandle) -> anyhow::Result<()> {
    listen::lift_open_files();
    let cpu = CpuPool::new("gateway", 0, CPU_QUEUE_MAX)?;
    let health = Health::new();
    let listener = listen::bind("gateway.listen", settings.gateway.listen)?;
    let shutdown = shutdown::signals()?;
    tracing::info!(address = %listener.local_addr()?, "the gateway listens");
    let admin = AdminPort::start(settings.telemetry.metrics_listen, metrics, health.clone())?;
    let drained = CancellationToken::new();
    let accounts = open_accounts(&settings, routes).await?;
    let start =
        |accounts: &Accounts| RegistryCache::start(accounts.clone(), settings.policy.registry(), drained.clone());
    let acknowledgement_keys = match routes {
        Routes::All => AcknowledgementKeys::open(&settings.gateway.acknowledgement_keys, &settings.data.dir)?,
        // Its 200 has no acknowledgement: the sender knows the verdict.
        Routes::Webhook => AcknowledgementKeys::generate()?,
    };
    let deps = Deps {
        limits: settings.limits,
        log: log.writer()?,
        cpu,
        health,
        routes,
        entries: None,
        registry: accounts.as_ref().map(start),
        acknowledgement_keys: Arc::new(acknowledgement_keys),
    };
    let ended = crate::run(listener, settings.gateway, deps, shutdown).await;
    drained.cancel();
    admin.stop().await;
    if let Some(accounts) = accounts {
        accounts.close().await;
    }
    Ok(ended?)
}

/// Opens the account store where client keys must be registered. The webhook accepts any key.
async fn open_accounts(settings: &Settings, routes: Routes) -> anyhow::Result<Option<Accounts>> {
    if settings.policy.clients == ClientPolicy::Open || routes == Routes::Webhook {
        return Ok(None);
    }
    let directory = std::path::absolute(&settings.data.dir)?;
    anyhow::ensure!(
        Accounts::is_given(&settings.accounts, &directory),
        "policy.clients is `registered`, so the gateway needs the account store with the client keys: set accounts.url \
         to its PostgreSQL"
    );
    let accounts = Accounts::open(&settings.accounts, &directory).await;
    Ok(Some(accounts.context("opening the account store")?))
}
