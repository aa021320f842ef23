//! `receipts-verifier`: the verifier as a process of its own, on the Kafka and the ClickHouse that `[kafka] brokers` and
//! `[warehouse] url` name; any number of them share the work. Where `[policy]` demands something, it asks the account store
//! that `[accounts] url` names, the same for all of them.
//!
//! The embedded log and the embedded engine under `[data] dir`, taken without those, belong to one process;
//! `receipts up` runs the same library beside the other services.
#![forbid(unsafe_code)]

use std::sync::Arc;

use accounts::{Accounts, AccountsConfig, Policy};
use anyhow::Context;
use receipt::{Judge, Limits};
use receipt_log::{EmbeddedConfig, KafkaConfig, Log};
use service::admin::serve_admin;
use service::config::{Faults, Source};
use service::cpu::CpuPool;
use service::data::DataConfig;
use service::health::Health;
use service::telemetry::{PrometheusHandle, TelemetryConfig, init_logging, install_metrics};
use service::{listen, shutdown};
use tokio_util::sync::CancellationToken;
use verifier::{Deps, GROUP, PolicyBook, VerifierConfig};
use warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The verifier judges one block at a time.
const CPU_QUEUE_MAX: usize = 4;

struct Settings {
    verifier: VerifierConfig,
    limits: Limits,
    log: EmbeddedConfig,
    kafka: KafkaConfig,
    warehouse: WarehouseConfig,
    accounts: AccountsConfig,
    policy: Policy,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

fn settings() -> anyhow::Result<Settings> {
    let mut source = Source::load(None)?;
    let first = |faults: &mut Faults, checked: Result<(), String>| {
        if let Err(fault) = checked {
            faults.push("", fault);
        }
    };
    let settings = Settings {
        verifier: source.section("verifier"),
        limits: source.section_with("limits", |limits: &Limits, faults| first(faults, limits.validate())),
        log: source.section_with("log", |log: &EmbeddedConfig, faults| {
            log.validate()
                .err()
                .into_iter()
                .flatten()
                .for_each(|fault| faults.push("", fault));
        }),
        kafka: source.section_with("kafka", |kafka: &KafkaConfig, faults| {
            kafka
                .validate()
                .err()
                .into_iter()
                .flatten()
                .for_each(|(key, fault)| faults.push(key, fault));
        }),
        warehouse: source.section_with("warehouse", |config: &WarehouseConfig, faults| {
            first(faults, config.validate())
        }),
        accounts: source.section_with("accounts", |accounts: &AccountsConfig, faults| {
            for (key, fault) in accounts.faults() {
                faults.push(key, fault);
            }
        }),
        policy: source.section_with("policy", |_: &Policy, _| {}),
        telemetry: source.section("telemetry"),
        data: source.section("data"),
    };
    source.finish()?;
    Ok(settings)
}

fn main() -> anyhow::Result<()> {
    let settings = settings()?;
    init_logging(&settings.telemetry)?;
    // Before the log, which takes its metrics' handles when it opens.
    let metrics = install_metrics()?;
    let directory = std::path::absolute(&settings.data.dir)?;
    // Opening and closing wait for the disk or the brokers: before and after the runtime, not on it.
    let log = Log::open(&settings.kafka, &settings.log, &directory.join("log")).context("opening the receipt log")?;
    let dead_letters = log.dead_letters()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let (warehouse, embedded) = match &settings.warehouse.url {
            Some(url) => {
                let warehouse = Warehouse::connect(&Target::Url(url.clone()), &settings.warehouse).await?;
                warehouse.migrate().await?;
                (warehouse, None)
            }
            None => {
                let (data, socket) = (directory.join("warehouse"), directory.join("warehouse.sock"));
                let engine = EmbeddedEngine::start(&settings.warehouse, &data, &socket).await?;
                (engine.warehouse(), Some(engine))
            }
        };
        // The open policy asks nobody; only the marks of an earlier one are looked for where there is a store.
        let book = if settings.policy.is_open() && !Accounts::is_given(&settings.accounts, &directory) {
            None
        } else {
            let accounts = Accounts::open(&settings.accounts, &directory).await?;
            let cached = settings.verifier.policy_cache_entries_max;
            Some(PolicyBook::new(accounts, settings.policy, cached))
        };
        // Last: a member of the group that doesn't poll keeps its partitions from the others.
        let deps = Deps {
            consumer: tokio::task::block_in_place(|| log.consumer(GROUP))?,
            log: log.inspector(),
            warehouse,
            policy: book,
            dead_letters,
            cpu: CpuPool::new("verifier", 0, CPU_QUEUE_MAX)?,
            judge: Arc::new(Judge::new(
                settings.limits.clone(),
                settings.verifier.key_cache_entries_max,
            )),
            health: Health::new(),
        };
        let ended = serve(settings, deps, metrics).await;
        if let Some(engine) = embedded {
            engine.stop().await;
        }
        ended
    });
    drop(runtime);
    log.close();
    ended
}

async fn serve(settings: Settings, deps: Deps, metrics: PrometheusHandle) -> anyhow::Result<()> {
    let admin = listen::bind("telemetry.metrics_listen", settings.telemetry.metrics_listen)?;
    let shutdown = shutdown::signals()?;
    let admin_shutdown = CancellationToken::new();
    let admin = tokio::spawn(serve_admin(admin, metrics, deps.health.clone(), admin_shutdown.clone()));
    let ended = verifier::run(settings.verifier, deps, shutdown).await;
    admin_shutdown.cancel();
    admin.await?;
    Ok(ended?)
}
