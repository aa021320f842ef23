//! The embedded engine under inserts: rows a second by block size (synced), time until counted,
//! memory, disk.
//!
//! `cargo bench -p warehouse --bench engine`. One run, one line each; the seed is fixed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]
#![allow(clippy::cast_precision_loss, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{EmbeddedEngine, Filter, QueryScope, Warehouse, WarehouseConfig};

/// 2026-11-15T12:00:00Z.
const NOON_MS: i64 = 1_794_744_000_000;

/// Makes a block of realistic rows: 200 publishers, 50 entries each, 40 clients, the last 24 hours.
fn block(rng: &mut StdRng, rows: usize, offset: &mut u64) -> RecordBatch {
    let mut block = Rows::default();
    for _ in 0..rows {
        *offset += 1;
        let (publisher, entry, client) = (
            rng.random_range(0..200_u128),
            rng.random_range(0..50_u128),
            rng.random_range(0..40_u128),
        );
        let mut payload_hash = [0; 32];
        rng.fill_bytes(&mut payload_hash);
        let name = format!("publisher-{publisher}.example");
        let url = format!("https://publisher-{publisher}.example/articles/2026/11/{entry}-a-title-of-some-length");
        let at = NOON_MS - rng.random_range(0..86_400_000);
        block.push_accepted(&AcceptedRow {
            publisher: &name,
            timestamp_ms: at,
            entry_id: Uuid::from_u128((publisher << 100) | (entry << 64) | 7),
            receipt_id: Uuid::from_u128(rng.random()),
            payload_hash: &payload_hash,
            position: (1 << 96) | (u128::from(*offset) << 16),
            received_at_ms: NOON_MS + *offset as i64 / 10,
            url: &url,
            content_hash: &[(publisher ^ entry) as u8; 32],
            client_id: Uuid::from_u128((client << 64) | 9),
            client_name: "SomeModel",
            client_version: "4.1.0",
            organization: "Some Organization",
            key_fingerprint: &[client as u8; 32],
            algorithm: "Ed25519",
            purpose: ["training", "inference", "research"][rng.random_range(0..3)],
            context: "answering a question",
            dataset_id: "dataset-2026-11",
            model_id: "model-4.1",
            kind: "batch",
            origin: "batch",
            ..AcceptedRow::default()
        });
    }
    block.batches().unwrap().0
}

fn status_kb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// SQL over the socket, past the client: for system tables only.
async fn sql(socket: &Path, statement: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::UnixStream::connect(socket).await.unwrap();
    let head = format!(
        "POST /?database=receipts HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        statement.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(statement.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text.split_once("\r\n\r\n").unwrap().1.trim().to_owned()
}

const PARTS: &str = "SELECT count() FROM system.parts WHERE database = 'receipts' AND table = 'receipts' AND active";

async fn inserts(rng: &mut StdRng, warehouse: &Warehouse, socket: &Path, offset: &mut u64, rows: usize, total: usize) {
    let (mut spent, mut slowest, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..total / rows {
        let block = block(rng, rows, offset);
        bytes += block.get_array_memory_size();
        let began = Instant::now();
        warehouse.insert_accepted(&[block], None).await.unwrap();
        spent += began.elapsed();
        slowest = slowest.max(began.elapsed());
    }
    let seconds = spent.as_secs_f64();
    println!(
        "insert {rows:>6} rows a block: {:>7.0} rows/s, {:>6.1} ms a block (slowest {:.0} ms), {:.1} MB/s, {} parts, RSS {} MB",
        total as f64 / seconds,
        seconds * 1e3 / (total / rows) as f64,
        slowest.as_secs_f64() * 1e3,
        bytes as f64 / seconds / 1e6,
        sql(socket, PARTS).await,
        status_kb("VmRSS") / 1024,
    );
}

async fn freshness(rng: &mut StdRng, warehouse: &Warehouse, socket: &Path, offset: &mut u64) {
    let scope = QueryScope::of(vec!["publisher-7.example".to_owned()]);
    let filter = Filter {
        from_ms: NOON_MS - 30 * 86_400_000,
        to_ms: NOON_MS + 1,
        ..Filter::default()
    };
    let (mut insert_ms, mut query_ms) = (Vec::new(), Vec::new());
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..300 {
        ticks.tick().await;
        let block = block(rng, 200, offset);
        let began = Instant::now();
        warehouse.insert_accepted(&[block], None).await.unwrap();
        insert_ms.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        warehouse.receipts_page(&scope, &filter, None, 10).await.unwrap();
        query_ms.push(began.elapsed().as_secs_f64() * 1e3);
    }
    for (name, mut values) in [
        ("insert of 200 rows", insert_ms),
        ("the newest receipts of one publisher", query_ms),
    ] {
        values.sort_by(f64::total_cmp);
        println!(
            "10 a second for 30 s, {name}: p50 {:.1} ms, p99 {:.1} ms",
            values[150], values[297]
        );
    }
    println!(
        "parts after it: {}, RSS {} MB",
        sql(socket, PARTS).await,
        status_kb("VmRSS") / 1024
    );
}

async fn disk(socket: &Path) {
    sql(socket, "OPTIMIZE TABLE receipts FINAL").await;
    let columns = "SELECT column, sum(column_data_compressed_bytes) AS bytes, round(bytes / sum(rows), 2)
         FROM system.parts_columns WHERE database = 'receipts' AND table = 'receipts' AND active
         GROUP BY column ORDER BY bytes DESC LIMIT 8";
    let all = "SELECT sum(rows), round(sum(bytes_on_disk) / sum(rows), 1) FROM system.parts
         WHERE database = 'receipts' AND table = 'receipts' AND active";
    println!("rows, bytes a row on disk: {}", sql(socket, all).await);
    println!("column, bytes, bytes a row:\n{}", sql(socket, columns).await);
    for kind in ["UInt64", "UInt128"] {
        let table = format!("positions_{kind}");
        let create = format!(
            "CREATE TABLE {table} (publisher String, timestamp DateTime64(3, 'UTC'), entry_id UUID, receipt_id UUID,
                positions SimpleAggregateFunction(groupUniqArrayArray, Array({kind})) CODEC(ZSTD(1)))
             ENGINE = AggregatingMergeTree ORDER BY (publisher, toStartOfHour(timestamp), entry_id, receipt_id)"
        );
        sql(socket, &create).await;
        // In 64 bits: partition 8, offset 40, index 16.
        let value = if kind == "UInt64" {
            "toUInt64(bitAnd(p, toUInt128(18446744073709551615)))"
        } else {
            "p"
        };
        let copy = format!(
            "INSERT INTO {table} SELECT publisher, timestamp, entry_id, receipt_id, arrayMap(p -> {value}, positions) FROM receipts"
        );
        sql(socket, &copy).await;
        sql(socket, &format!("OPTIMIZE TABLE {table} FINAL")).await;
        let size = format!(
            "SELECT round(sum(column_data_compressed_bytes) / sum(rows), 2) FROM system.parts_columns
             WHERE database = 'receipts' AND table = '{table}' AND column = 'positions' AND active"
        );
        println!("positions as {kind}: {} bytes a row", sql(socket, &size).await);
    }
}

fn main() {
    // Cargo passes `--bench`; anything else is a number of rows a block size.
    let total = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // Not a memory file system, where syncing costs nothing.
        let dir = tempfile::Builder::new()
            .prefix("warehouse-bench")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap();
        let socket = dir.path().join("w.sock");
        let began = Instant::now();
        let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &dir.path().join("data"), &socket)
            .await
            .unwrap();
        println!(
            "start with migrations: {:.0} ms, RSS {} MB",
            began.elapsed().as_secs_f64() * 1e3,
            status_kb("VmRSS") / 1024
        );
        let warehouse = engine.warehouse();
        let mut rng = StdRng::seed_from_u64(42);
        let mut offset = 0;
        let mut batch = block(&mut rng, 1, &mut offset);
        let began = Instant::now();
        for _ in 0..10 {
            batch = block(&mut rng, 10_000, &mut offset);
        }
        println!(
            "making: {:.2} us a row, {} bytes a row",
            began.elapsed().as_secs_f64() * 1e6 / 1e5,
            batch.get_array_memory_size() / 10_000
        );
        freshness(&mut rng, &warehouse, &socket, &mut offset).await;
        for rows in [1_000, 10_000, 50_000] {
            let total = if rows == 1_000 { total / 4 } else { total };
            inserts(&mut rng, &warehouse, &socket, &mut offset, rows, total).await;
        }
        freshness(&mut rng, &warehouse, &socket, &mut offset).await;
        let began = Instant::now();
        let totals = warehouse.totals().await.unwrap();
        println!(
            "totals over {} receipts: {:.0} ms",
            totals.receipts,
            began.elapsed().as_secs_f64() * 1e3
        );
        let began = Instant::now();
        warehouse.audit(&[]).await.unwrap();
        println!("audit: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
        disk(&socket).await;
        println!("peak RSS: {} MB", status_kb("VmHWM") / 1024);
        engine.stop().await;
    });
}
