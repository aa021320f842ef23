//! The embedded log: one append from its call to its sync, and groups of many.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::time::Duration;

use benches::scratch::Scratch;
use benches::workload;
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use receipt::Algorithm;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogWriter, Record, RecordKind};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn record(kind: RecordKind, body: &Bytes) -> Record {
    Record {
        kind,
        body: body.clone(),
        request_signature: None,
        request_id: "0198c0de-0000-7000-8000-000000000000".to_owned(),
        received_at_ms: service::instant::now_ms(),
        client_address: None,
        trace: None,
    }
}

/// Appends `count` records at once and waits for all of them.
fn append(runtime: &Runtime, log: &EmbeddedLog, kind: RecordKind, body: &Bytes, count: usize) {
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (log, record) = (log.clone(), record(kind, body));
            tasks.spawn(async move { log.append(record).await.unwrap() });
        }
        tasks.join_all().await
    });
}

fn log(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let scratch = Scratch::new(None).unwrap();
    let single = workload::singles(Algorithm::Ed25519, 1).unwrap().remove(0).body;
    let batch = workload::batches(Algorithm::Ed25519, 1, 1_000).unwrap().remove(0).body;
    let settings = EmbeddedConfig {
        retention_bytes_max: 1 << 30,
        ..EmbeddedConfig::default()
    };
    let log = EmbeddedLog::open(&scratch.folder("log").unwrap(), settings).unwrap();
    let mut group = criterion.benchmark_group("log append");
    group
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(20);
    for count in [1, 64, 1_024] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} single receipts at once"), |bench| {
            bench.iter(|| append(&runtime, &log, RecordKind::Receipt, &single, count));
        });
    }
    group.throughput(Throughput::Elements(16 * 1_000));
    group.bench_function("16 batches of 1,000 at once", |bench| {
        bench.iter(|| append(&runtime, &log, RecordKind::Batch, &batch, 16));
    });
    group.finish();
    log.close();
}

criterion_group!(appends, log);
criterion_main!(appends);
