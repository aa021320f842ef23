//! Counting beside what is counted: CPU of a batch's steps, all of it in this process.
//!
//! `cargo bench -p usage --bench counting`. A million receipts are counted first; 4% of a batch are
//! duplicates and 2% are days late. One line per batch size; the seed is fixed.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, missing_docs)]

use std::time::Duration;

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use usage::{NewReceipts, Usage};
use uuid::Uuid;
use warehouse::{EmbeddedEngine, WarehouseConfig};

/// 2026-11-20T12:00:00Z
const NOON_MS: i64 = 1_795_176_000_000;
const DAY_MS: i64 = 86_400_000;
const STORED: u32 = 1_000_000;

/// CPU time of this process, engine included. Ticks are 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

struct Traffic {
    rng: StdRng,
    next: u64,
}

impl Traffic {
    fn batch(&mut self, count: u32, at_ms: i64, span_ms: i64) -> RecordBatch {
        let mut rows = Rows::default();
        for _ in 0..count {
            self.next += 1;
            let number = match self.rng.random_range(0..100) {
                0..4 if self.next > 2_000 => self.next - self.rng.random_range(1..2_000),
                _ => self.next,
            };
            // What a receipt says is a function of its number, so that a duplicate is equal.
            let mut one = StdRng::seed_from_u64(number);
            let late_ms = if one.random_range(0..50) == 0 {
                one.random_range(0..10 * DAY_MS)
            } else {
                0
            };
            let publisher: u128 = one.random_range(0..1_000);
            let entry: u128 = one.random_range(0..500);
            let client: u128 = one.random_range(0..40);
            let mut payload_hash = [0; 32];
            one.fill_bytes(&mut payload_hash);
            let name = format!("publisher-{publisher}.example");
            let url = format!("https://publisher-{publisher}.example/articles/2026/11/{entry}-some-title");
            let offset_ms = i64::try_from(number).unwrap() * 7_919 % span_ms;
            rows.push_accepted(&AcceptedRow {
                position: u128::from(self.next) << 16,
                publisher: &name,
                timestamp_ms: at_ms + offset_ms - late_ms,
                entry_id: Uuid::from_u128((publisher << 64) | entry),
                receipt_id: Uuid::from_u128(u128::from(number)),
                payload_hash: &payload_hash,
                received_at_ms: at_ms,
                url: &url,
                content_hash: &[1; 32],
                client_id: Uuid::from_u128(client),
                client_name: "Some model",
                client_version: "4.1.0",
                organization: "Some organization",
                key_fingerprint: &[2; 32],
                algorithm: "Ed25519",
                purpose: ["training", "inference", "research"][one.random_range(0..3)],
                model_id: ["model-4", "model-4-mini"][one.random_range(0..2)],
                kind: "receipt",
                origin: "record",
                ..AcceptedRow::default()
            });
        }
        rows.batches().unwrap().0
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let (data, socket) = (dir.path().join("warehouse"), dir.path().join("warehouse.sock"));
        let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &data, &socket)
            .await
            .unwrap();
        let usage = Usage::new(engine.warehouse());
        let mut traffic = Traffic {
            rng: StdRng::seed_from_u64(1),
            next: 0,
        };
        for _ in 0..STORED / 50_000 {
            let batch = traffic.batch(50_000, NOON_MS - 10 * DAY_MS, 10 * DAY_MS);
            usage.insert_counted(&[batch]).await.unwrap();
        }
        println!("batch | made | receipts | distinct | lookup | rows | usage | CPU ms per 1,000 receipts, background merges included");
        let mut at_ms = NOON_MS;
        for (count, rounds) in [(1_000, 60), (10_000, 20)] {
            let mut spent = [Duration::ZERO; 6];
            for _ in 0..rounds {
                let mut last = cpu();
                let mut lap = |step: usize| {
                    let now = cpu();
                    spent[step] += now - last;
                    last = now;
                };
                let batch = [traffic.batch(count, at_ms, 500)];
                at_ms += 500;
                lap(0);
                usage.warehouse().insert_accepted(&batch, None).await.unwrap();
                lap(1);
                let new = NewReceipts::of(&batch).unwrap();
                lap(2);
                let counted = usage.counted(&new.keys()).await.unwrap();
                lap(3);
                let rows = new.without(&counted).rows(200_000).unwrap();
                lap(4);
                usage.insert(&rows, None).await.unwrap();
                lap(5);
            }
            let per_thousand = f64::from(count * rounds) / 1_000.0;
            let columns: Vec<String> = spent
                .iter()
                .map(|time| format!("{:.1}", time.as_secs_f64() * 1_000.0 / per_thousand))
                .collect();
            println!("{count} | {}", columns.join(" | "));
        }
        engine.stop().await;
    });
}
