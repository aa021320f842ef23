//! Throughput of the embedded log on this machine's disk:
//! `cargo bench -p receipt-log --bench throughput [-- SECONDS [DIRECTORY [LOAD]]]`, where LOAD is
//! part of a printed line's first column.
//!
//! Single receipts of 1.2 KB from 64 and 256 producers, batches of 1,000 of them from 4, each
//! appended, synced and acknowledged before its producer continues; with and without a consumer.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogConsumer, LogWriter, PollLimits, Record, RecordKind};

const RECEIPT_BYTES: usize = 1200;
const RECEIPTS_PER_BATCH: usize = 1000;

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    producers: usize,
    receipts: usize,
    consumer: bool,
}

const LOADS: [Load; 5] = [
    Load {
        name: "64 producers, singles",
        producers: 64,
        receipts: 1,
        consumer: false,
    },
    Load {
        name: "64 producers, singles, consumed",
        producers: 64,
        receipts: 1,
        consumer: true,
    },
    Load {
        name: "256 producers, singles",
        producers: 256,
        receipts: 1,
        consumer: false,
    },
    Load {
        name: "4 producers, batches",
        producers: 4,
        receipts: RECEIPTS_PER_BATCH,
        consumer: false,
    },
    Load {
        name: "4 producers, batches, consumed",
        producers: 4,
        receipts: RECEIPTS_PER_BATCH,
        consumer: true,
    },
];

fn record(body: Bytes) -> Record {
    Record {
        kind: RecordKind::Batch,
        body,
        request_signature: Some("c2lnbmF0dXJl".repeat(7)),
        request_id: "0192f0c4-7b6e-7c3a-9d53-3d1f6a1f0001".to_owned(),
        received_at_ms: 1_700_000_000_000,
        client_address: Some([127, 0, 0, 1].into()),
        trace: None,
    }
}

/// User and system time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

async fn run(dir: &Path, load: Load, seconds: u64) {
    let log = EmbeddedLog::open(dir, EmbeddedConfig::default()).unwrap();
    let body = Bytes::from(vec![b'r'; RECEIPT_BYTES * load.receipts]);
    let mut reading = None;
    if load.consumer {
        let mut consumer = log.consumer("bench").unwrap();
        reading = Some(tokio::spawn(async move {
            let limits = PollLimits {
                records_max: 10_000,
                bytes_max: 16 << 20,
                wait_max: Duration::from_millis(100),
            };
            let mut read = 0_u64;
            while let Ok(polled) = consumer.poll(limits).await {
                read += polled.records.len() as u64;
            }
            read
        }));
    }
    let (started, cpu) = (Instant::now(), cpu_time());
    let end = started + Duration::from_secs(seconds);
    let producers: Vec<_> = (0..load.producers)
        .map(|_| {
            let (log, body) = (log.clone(), body.clone());
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while Instant::now() < end {
                    let asked = Instant::now();
                    log.append(record(body.clone())).await.unwrap();
                    waits.push(asked.elapsed());
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::new();
    for producer in producers {
        waits.extend(producer.await.unwrap());
    }
    let (took, cpu) = (started.elapsed().as_secs_f64(), cpu_time() - cpu);
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let messages = (waits.len() * load.receipts) as f64;
    log.close();
    let read = match reading {
        Some(reading) => format!(", {} read", reading.await.unwrap()),
        None => String::new(),
    };
    println!(
        "{:32} {:>9.0} receipts/s {:>7.0} MB/s  p50 {:.2} ms  p99 {:.2} ms  max {:.1} ms  {:.2} us CPU/receipt{read}",
        load.name,
        messages / took,
        messages * RECEIPT_BYTES as f64 / took / 1e6,
        at(0.5),
        at(0.99),
        at(1.0),
        cpu.as_secs_f64() * 1e6 / messages,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let seconds = arguments.next().map_or(3, |seconds| seconds.parse().unwrap());
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let wanted = arguments.next().unwrap_or_default();
    let runtime = Arc::new(
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
    );
    for load in LOADS.into_iter().filter(|load| load.name.contains(&wanted)) {
        let dir = tempfile::tempdir_in(&parent).unwrap();
        runtime.block_on(run(dir.path(), load, seconds));
    }
}
