//! `receipts-verifier`: the verifier as a process of its own, on the Kafka that `[kafka] brokers`
//! names. Any number of them share the partitions of `receipts`. Where `[policy]` demands
//! something, each reads the account store that `[accounts] url` names.
//!
//! The embedded logs under `[data] dir`, used without brokers, belong to one process; `receipts up`
//! runs the same library beside the other services.
#![forbid(unsafe_code)]

use std::sync::Arc;

use accounts::{Accounts, AccountsConfig, PolicyConfig, RegistryCache, ShardMapCache};
use anyhow::Context;
use http_server::admin::AdminPort;
use receipt::{Judge, Limits};
use receipt_log::{EmbeddedConfig, KafkaConfig, Log};
use service::config::{ConfigFaults, Source};
use service::cpu::CpuPool;
use service::data::DataConfig;
use service::health::Health;
use service::shutdown;
use service::telemetry::{PrometheusHandle, TelemetryConfig, init_logging, install_metrics};
use tokio_util::sync::CancellationToken;
use verifier::{Deps, GROUP, Policies, VerifierConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The verifier judges one block at a time.
const CPU_QUEUE_MAX: usize = 4;

struct VerifierSettings {
    verifier: VerifierConfig,
    limits: Limits,
    log: EmbeddedConfig,
    verdicts: EmbeddedConfig,
    kafka: KafkaConfig,
    accounts: AccountsConfig,
    policy: PolicyConfig,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

fn settings() -> anyhow::Result<VerifierSettings> {
    let mut source = Source::load(None)?;
    let keyless =
        |faults: &mut ConfigFaults, found: Vec<String>| found.into_iter().for_each(|fault| faults.push("", fault));
    let log =
        |log: &EmbeddedConfig, faults: &mut ConfigFaults| keyless(faults, log.validate().err().unwrap_or_default());
    let settings = VerifierSettings {
        verifier: source.section("verifier"),
        limits: source.section_with("limits", |limits: &Limits, faults| {
            keyless(faults, limits.validate().err().into_iter().collect());
        }),
        log: source.section_with("log", log),
        verdicts: source.section_from("verdicts", EmbeddedConfig::verdicts, log),
        kafka: source.section_with("kafka", |kafka: &KafkaConfig, faults| {
            for (key, fault) in kafka.validate().err().unwrap_or_default() {
                faults.push(key, fault);
            }
        }),
        accounts: source.section_with("accounts", |accounts: &AccountsConfig, faults| {
            for (key, fault) in accounts.faults() {
                faults.push(key, fault);
            }
        }),
        policy: source.section_with("policy", |policy: &PolicyConfig, faults| {
            for (key, fault) in policy.faults() {
                faults.push(key, fault);
            }
        }),
        telemetry: source.section("telemetry"),
        data: source.section("data"),
    };
    source.finish()?;
    // A file of this process's own would never have the shard map.
    let has_store = settings
        .accounts
        .url
        .as_deref()
        .is_some_and(|url| !url.trim().is_empty());
    anyhow::ensure!(
        has_store || !settings.kafka.is_given(),
        "accounts.url is missing: a verifier on Kafka reads the shard map from the account store"
    );
    Ok(settings)
}

fn main() -> anyhow::Result<()> {
    let settings = settings()?;
    init_logging(&settings.telemetry)?;
    // Before the logs, which take their metrics' handles when they open.
    let metrics = install_metrics()?;
    let directory = std::path::absolute(&settings.data.dir)?;
    // Opening and closing wait for the disk or the brokers: before and after the runtime, not on
    // it.
    let log = Log::open(&settings.kafka, &settings.log, &directory.join("log")).context("opening the log receipts")?;
    let verdicts = Log::open_verdicts(&settings.kafka, &settings.verdicts, &directory.join("verdicts"))
        .context("opening the log verdicts")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let shutdown = shutdown::signals()?;
        let accounts = Accounts::open(&settings.accounts, &directory).await?;
        let policies = Policies {
            policy: settings.policy.policy(),
            registry: RegistryCache::start(accounts.clone(), settings.policy.registry(), shutdown.clone()),
        };
        let has_shards = settings.kafka.is_given();
        let shard_map = has_shards.then(|| ShardMapCache::start(accounts, shutdown.clone()));
        // Last: a member of the group that doesn't poll keeps its partitions from the others.
        let deps = Deps {
            processor: tokio::task::block_in_place(|| log.processor(GROUP, &verdicts))?,
            receipts: log.inspector(),
            verdicts: verdicts.inspector(),
            policies: Some(policies),
            shard_map,
            cpu: CpuPool::new("verifier", 0, CPU_QUEUE_MAX)?,
            judge: Arc::new(Judge::new(
                settings.limits.clone(),
                settings.verifier.key_cache_entries_max,
            )),
            health: Health::new(),
        };
        serve(settings, deps, metrics, shutdown).await
    });
    drop(runtime);
    log.close();
    verdicts.close();
    ended
}

async fn serve(
    settings: VerifierSettings,
    deps: Deps,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let admin = AdminPort::start(settings.telemetry.metrics_listen, metrics, deps.health.clone())?;
    let ended = verifier::run(settings.verifier, deps, shutdown).await;
    admin.stop().await;
    Ok(ended?)
}
