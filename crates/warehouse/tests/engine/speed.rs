//! Rolled rows against `receipts FINAL` for a publisher of ten million receipts, in figures. Run by hand, on a quiet machine:
//! `cargo test -p warehouse --test engine speed -- --ignored --nocapture`.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{CleanFrom, Filter, GroupBy, Metric, RollBounds, RollupView, Scope, Usage, Warehouse};

use crate::harness::{NOON_MS, Receipt, fresh, position, run};

const HOUR_MS: i64 = 3_600_000;
const DAYS: i64 = 30;
const RECEIPTS: i64 = 10_000_000;

/// A month of a publisher in order of time: 20,000 entries and 50 clients of which few are used much, three purposes, five models.
async fn fill(warehouse: &Warehouse) {
    const BLOCK: i64 = 40_000;
    let mut rng = StdRng::seed_from_u64(42);
    let mut skewed = |many: f64| many.powf(rng.random_range(0.0..1.0)) as u128;
    let start_ms = NOON_MS - DAYS * 24 * HOUR_MS;
    let step_ms = (DAYS * 24 * HOUR_MS) as f64 / RECEIPTS as f64;
    for first in (0..RECEIPTS).step_by(BLOCK as usize) {
        let mut bytes = Vec::new();
        for number in first..first + BLOCK {
            let (entry, client, model) = (skewed(20_000.0), skewed(50.0), skewed(5.0));
            let purpose = ["training", "inference", "research"][skewed(4.0) as usize - 1];
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            let receipt = Receipt {
                publisher: "big.example".to_owned(),
                timestamp_ms: start_ms + (number as f64 * step_ms) as i64,
                entry_id: Uuid::from_u128(entry),
                receipt_id: Uuid::from_u128((number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
                payload_hash: hash,
                url: format!("https://big.example/articles/2026/11/{entry}-a-title-of-some-length"),
                client_id: Uuid::from_u128(client),
                client_name: format!("reader {client}"),
                purpose: purpose.to_owned(),
                model_id: format!("model-{model}"),
                ..Receipt::new(1)
            };
            receipt.row(position(0, number as u64, 0)).encode(&mut bytes);
        }
        warehouse
            .insert_receipts(vec![bytes.into()], BLOCK as u64)
            .await
            .unwrap();
    }
}

async fn best_ms<T>(mut ask: impl AsyncFnMut() -> T) -> (f64, T) {
    let mut best = f64::MAX;
    let mut answer = None;
    for _ in 0..3 {
        let began = Instant::now();
        answer = Some(ask().await);
        best = best.min(began.elapsed().as_secs_f64() * 1e3);
    }
    (best, answer.unwrap())
}

async fn compare<T: PartialEq + std::fmt::Debug>(name: &str, views: [Usage<'_>; 2], ask: impl AsyncFn(Usage<'_>) -> T) {
    let [rolled, whole] = views;
    let (rolled_ms, one) = best_ms(async || ask(rolled).await).await;
    let (whole_ms, other) = best_ms(async || ask(whole).await).await;
    assert_eq!(one, other, "{name}");
    println!(
        "{name:<44} {rolled_ms:>8.1} ms, FINAL {whole_ms:>8.1} ms, 1/{:.1}",
        whole_ms / rolled_ms
    );
}

#[test]
#[ignore = "takes minutes, and tells figures"]
fn rolled_rows_are_read_faster() {
    run(async {
        let warehouse = fresh().await;
        fill(&warehouse).await;
        let began = Instant::now();
        for number in 1.. {
            let bounds = RollBounds {
                settled_ms: NOON_MS - 300_000,
                rows_max: 500_000,
                clean_from: Some(CleanFrom::default()),
                even_day: None,
            };
            let plan = warehouse.plan_roll(&[], &bounds, &[]).await.unwrap();
            if !plan.is_needed() {
                break;
            }
            warehouse.roll(plan, number, 100).await.unwrap();
        }
        println!("rolled in {:.1} s", began.elapsed().as_secs_f64());
        let view = warehouse.rollup_view(&[]).await.unwrap();
        let nothing = RollupView::none();
        let views = [warehouse.usage(&view), warehouse.usage(&nothing)];
        let scope = Scope::of(vec!["big.example".to_owned()]);
        let to_ms = NOON_MS;
        let from_ms = to_ms - DAYS * 24 * HOUR_MS;
        for (zone, shift_ms) in [("UTC", 0), ("Kolkata", HOUR_MS / 2), ("Kathmandu", HOUR_MS / 4)] {
            let filter = Filter {
                from_ms: from_ms - shift_ms,
                to_ms: to_ms - shift_ms,
                ..Filter::default()
            };
            let starts = |step_ms: i64| -> Vec<i64> {
                (0..DAYS * 24 * HOUR_MS / step_ms)
                    .map(|step| filter.from_ms + step * step_ms)
                    .collect()
            };
            let (days, hours) = (starts(24 * HOUR_MS), starts(HOUR_MS));
            let name = |what: &str| format!("{zone}: {what}");
            compare(&name("dashboard"), views, async |usage| {
                usage.dashboard(&scope, &filter, 10).await.unwrap()
            })
            .await;
            compare(&name("dashboard without top content"), views, async |usage| {
                usage.dashboard(&scope, &filter, 0).await.unwrap()
            })
            .await;
            for (what, metric, starts, group_by) in [
                ("receipts by day", Metric::Receipts, &days, GroupBy::None),
                ("receipts by day and purpose", Metric::Receipts, &days, GroupBy::Purpose),
                ("receipts by hour", Metric::Receipts, &hours, GroupBy::None),
                ("receipts by day and client", Metric::Receipts, &days, GroupBy::Client),
                ("clients by hour", Metric::Clients, &hours, GroupBy::None),
                ("content by day", Metric::Content, &days, GroupBy::None),
            ] {
                compare(&name(what), views, async |usage| {
                    let points = usage.timeseries(&scope, &filter, metric, starts, group_by, 20);
                    points.await.unwrap()
                })
                .await;
            }
            if shift_ms == HOUR_MS / 4 {
                continue;
            }
            compare(&name("top content"), views, async |usage| {
                usage.top_content(&scope, &filter, 100).await.unwrap()
            })
            .await;
            compare(&name("top clients"), views, async |usage| {
                usage.top_clients(&scope, &filter, 100).await.unwrap()
            })
            .await;
            for number in [1, 100, 15_000] {
                let entry = Uuid::from_u128(number);
                compare(&name(&format!("entry {number}")), views, async |usage| {
                    usage.content(&scope, &filter, entry, 10).await.unwrap()
                })
                .await;
            }
            for number in [1, 40] {
                let client = Uuid::from_u128(number);
                compare(&name(&format!("client {number}")), views, async |usage| {
                    usage.client(&scope, &filter, client, 10).await.unwrap()
                })
                .await;
            }
        }
        let (page_ms, _) = best_ms(async || {
            let filter = Filter {
                from_ms,
                to_ms,
                ..Filter::default()
            };
            warehouse.receipts_page(&scope, &filter, None, 100).await.unwrap()
        })
        .await;
        println!("page of 100 receipts {page_ms:.1} ms");
    });
}
