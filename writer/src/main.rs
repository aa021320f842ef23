//! `receipts-writer`: the writer as a process of its own, on the Kafka and the ClickHouse that
//! `[kafka] brokers` and `[warehouse] url` name. Any number of them share the shards: each shard
//! has one owner.
//!
//! The embedded log and the embedded engine under `[data] dir`, used without those, belong to one
//! process; `receipts up` runs the same library beside the other services.
#![forbid(unsafe_code)]

use anyhow::Context;
use http_server::admin::AdminPort;
use receipt_log::{EmbeddedConfig, KafkaConfig, Log};
use service::config::{ConfigFaults, Source};
use service::cpu::CpuPool;
use service::data::DataConfig;
use service::health::Health;
use service::shutdown;
use service::telemetry::{PrometheusHandle, TelemetryConfig, init_logging, install_metrics};
use warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig};
use writer::{Deps, GROUP, WriterConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Decoding jobs that may wait: each shard has one at a time.
const CPU_QUEUE_MAX: usize = 64;

struct WriterSettings {
    writer: WriterConfig,
    verdicts: EmbeddedConfig,
    kafka: KafkaConfig,
    warehouse: WarehouseConfig,
    telemetry: TelemetryConfig,
    data: DataConfig,
}

fn settings() -> anyhow::Result<WriterSettings> {
    let mut source = Source::load(None)?;
    let keyless =
        |faults: &mut ConfigFaults, found: Vec<String>| found.into_iter().for_each(|fault| faults.push("", fault));
    let settings = WriterSettings {
        writer: source.section("writer"),
        verdicts: source.section_from("verdicts", EmbeddedConfig::verdicts, |log: &EmbeddedConfig, faults| {
            keyless(faults, log.validate().err().unwrap_or_default());
        }),
        kafka: source.section_with("kafka", |kafka: &KafkaConfig, faults| {
            for (key, fault) in kafka.validate().err().unwrap_or_default() {
                faults.push(key, fault);
            }
        }),
        warehouse: source.section_with("warehouse", |config: &WarehouseConfig, faults| {
            keyless(faults, config.validate().err().into_iter().collect());
        }),
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
    // Opening and closing wait for the disk or the brokers: before and after the runtime, not on
    // it.
    let verdicts = Log::open_verdicts(&settings.kafka, &settings.verdicts, &directory.join("verdicts"))
        .context("opening the log verdicts")?;
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
        // Last: a member of the group that doesn't poll keeps its partitions from the others.
        let deps = Deps {
            consumer: tokio::task::block_in_place(|| verdicts.consumer(GROUP))?,
            evidence: tokio::task::block_in_place(|| writer::evidence::consumer(&verdicts, &settings.writer))?,
            warehouse,
            cpu: CpuPool::new("writer", 0, CPU_QUEUE_MAX)?,
            health: Health::new(),
        };
        let ended = serve(settings, deps, metrics).await;
        if let Some(engine) = embedded {
            engine.stop().await;
        }
        ended
    });
    drop(runtime);
    verdicts.close();
    ended
}

async fn serve(settings: WriterSettings, deps: Deps, metrics: PrometheusHandle) -> anyhow::Result<()> {
    let shutdown = shutdown::signals()?;
    let admin = AdminPort::start(settings.telemetry.metrics_listen, metrics, deps.health.clone())?;
    let ended = writer::run(settings.writer, deps, shutdown).await;
    admin.stop().await;
    Ok(ended?)
}
