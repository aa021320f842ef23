//! The embedded log on a real disk: past the page cache and through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use cpu_time::ProcessTime;
use receipt::Algorithm;
use receipt_log::{DirectIo, EmbeddedConfig, EmbeddedLog, LogWriter, Record, RecordKind};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Setting;
use crate::rounds::{Samples, median};
use crate::row::{Row, number};
use crate::workload;

/// Old segments go at this size, so that a long run needs little disk.
const RETENTION_BYTES_MAX: u64 = 1 << 30;
const BATCH_RECEIPTS: usize = 1_000;

/// Appends by `producers`, each waiting for its last before its next, until `total` are durable.
struct Round {
    producers: usize,
    total: u64,
    kind: RecordKind,
    bodies: Arc<[Bytes]>,
}

/// Rate and cost of one round.
struct Pace {
    records_per_second: f64,
    cpu_us_per_record: f64,
}

impl Round {
    fn run(&self, runtime: &Runtime, log: &EmbeddedLog) -> Result<Pace> {
        let cpu = ProcessTime::now();
        let began = Instant::now();
        runtime.block_on(async {
            let taken = Arc::new(AtomicU64::new(0));
            let mut tasks = JoinSet::new();
            for _ in 0..self.producers {
                let (log, taken, bodies) = (log.clone(), Arc::clone(&taken), Arc::clone(&self.bodies));
                let (total, kind) = (self.total, self.kind);
                tasks.spawn(async move {
                    loop {
                        let turn = taken.fetch_add(1, Ordering::Relaxed);
                        if turn >= total {
                            return anyhow::Ok(());
                        }
                        let index = usize::try_from(turn % bodies.len() as u64)?;
                        log.append(record(kind, bodies[index].clone())).await?;
                    }
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        })?;
        let records = self.total as f64;
        Ok(Pace {
            records_per_second: records / began.elapsed().as_secs_f64(),
            cpu_us_per_record: cpu.elapsed().as_secs_f64() * 1e6 / records,
        })
    }
}

/// As the gateway makes them.
fn record(kind: RecordKind, body: Bytes) -> Record {
    Record {
        kind,
        body,
        request_signature: None,
        request_id: "0198c0de-0000-7000-8000-000000000000".to_owned(),
        received_at_ms: service::instant::now_ms(),
        client_address: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        trace: None,
    }
}

fn open(setting: &Setting<'_>, direct_io: DirectIo) -> Result<EmbeddedLog> {
    let name = format!("log-{direct_io:?}").to_ascii_lowercase();
    let settings = EmbeddedConfig {
        direct_io,
        retention_bytes_max: RETENTION_BYTES_MAX,
        ..EmbeddedConfig::default()
    };
    let folder = setting.scratch.folder(&name)?;
    let log = EmbeddedLog::open(&folder, settings).with_context(|| folder.display().to_string())?;
    if let Err(reason) = log.writable() {
        bail!("the log takes nothing: {reason}");
    }
    Ok(log)
}

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let direct = open(setting, DirectIo::Auto)?;
    let buffered = open(setting, DirectIo::Off)?;
    let singles = workload::singles(Algorithm::Ed25519, 256)?
        .into_iter()
        .map(|signed| signed.body);
    let batches = workload::batches(Algorithm::Ed25519, 4, BATCH_RECEIPTS)?
        .into_iter()
        .map(|signed| signed.body);
    let single = |producers| Round {
        producers,
        total: setting.effort.singles * 2,
        kind: RecordKind::Receipt,
        bodies: singles.clone().collect(),
    };
    let batch = Round {
        producers: 16,
        total: setting.effort.batches,
        kind: RecordKind::Batch,
        bodies: batches.collect(),
    };
    let rounds: [(&str, &str, f64, Round); 3] = [
        (
            "log-singles-64",
            "log, single receipts, 64 producers, synced",
            1.0,
            single(64),
        ),
        (
            "log-singles-256",
            "log, single receipts, 256 producers, synced",
            1.0,
            single(256),
        ),
        (
            "log-batches",
            "log, batches of 1,000, 16 producers, synced",
            BATCH_RECEIPTS as f64,
            batch,
        ),
    ];
    let mut rows = Vec::new();
    for (name, what, receipts, round) in rounds {
        setting.progress.step("log", what);
        let (mut direct_us, mut buffered_us) = (Vec::new(), Vec::new());
        let pace = |log: &EmbeddedLog, cost: &mut Vec<f64>| -> Result<f64> {
            let pace = round.run(&runtime, log)?;
            cost.push(pace.cpu_us_per_record / receipts);
            Ok(pace.records_per_second * receipts)
        };
        let mut samples = Samples::default();
        for counted in std::iter::once(false).chain(std::iter::repeat_n(true, setting.effort.rounds)) {
            let pair = (pace(&direct, &mut direct_us)?, pace(&buffered, &mut buffered_us)?);
            if counted {
                samples.ours.push(pair.0);
                samples.reference.push(pair.1);
            }
        }
        let cost = |us: &[f64]| median(us).map_or_else(|| "-".to_owned(), number);
        let note = format!(
            "CPU per receipt, producers included: {} us and {} us",
            cost(&direct_us),
            cost(&buffered_us)
        );
        rows.push(
            Row::measured(name, what, "receipts/s", samples)
                .against("buffered + fdatasync")
                .note(note),
        );
    }
    direct.close();
    buffered.close();
    Ok(rows)
}
