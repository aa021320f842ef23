//! The embedded log on a real disk, beside the disk alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use cpu_time::ProcessTime;
use receipt::Algorithm;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogWriter, Record, RecordKind};
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

    /// Records a second by one thread that writes as many bodies at once as there are producers,
    /// and syncs.
    fn run_bare(&self, file: &File) -> Result<f64> {
        file.set_len(0)?;
        let began = Instant::now();
        let (mut written, mut at, mut group) = (0, 0, Vec::new());
        while written < self.total {
            group.clear();
            for body in self.bodies.iter().cycle().take(self.producers) {
                group.extend_from_slice(body);
            }
            file.write_all_at(&group, at)?;
            file.sync_data()?;
            at += group.len() as u64;
            written += self.producers as u64;
        }
        Ok(written as f64 / began.elapsed().as_secs_f64())
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

fn open(setting: &Setting<'_>) -> Result<EmbeddedLog> {
    let settings = EmbeddedConfig {
        retention_bytes_max: RETENTION_BYTES_MAX,
        ..EmbeddedConfig::default()
    };
    let folder = setting.scratch.folder("log")?;
    let log = EmbeddedLog::open(&folder, settings).with_context(|| folder.display().to_string())?;
    if let Err(reason) = log.writable() {
        bail!("the log takes nothing: {reason}");
    }
    Ok(log)
}

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let log = open(setting)?;
    let file = File::create(setting.scratch.folder("bare")?.join("file"))?;
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
        let mut cost_us = Vec::new();
        let ours = || -> Result<f64> {
            let pace = round.run(&runtime, &log)?;
            cost_us.push(pace.cpu_us_per_record / receipts);
            Ok(pace.records_per_second * receipts)
        };
        let bare = || -> Result<f64> { Ok(round.run_bare(&file)? * receipts) };
        let samples = Samples::take(setting.effort.rounds, ours, bare)?;
        let cost = median(&cost_us).map_or_else(|| "-".to_owned(), number);
        rows.push(
            Row::measured(name, what, "receipts/s", samples)
                .against("write + fdatasync, as many records at once as producers")
                .note(format!("CPU per receipt, producers included: {cost} us")),
        );
    }
    log.close();
    Ok(rows)
}
