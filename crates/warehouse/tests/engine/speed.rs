//! Rolled rows against `receipts FINAL` for a publisher of ten million receipts, in figures. Run by hand, on a quiet machine:
//! `cargo test -p warehouse --test engine speed -- --ignored --nocapture`.

use std::time::Instant;

use uuid::Uuid;
use warehouse::{Filter, GroupBy, Metric, RollBounds, RollupView, Scope, Usage, Warehouse};

use crate::harness::{NOON_MS, fresh, run, sql};

const HOUR_MS: i64 = 3_600_000;
const DAYS: i64 = 30;
const RECEIPTS: i64 = 10_000_000;

/// A month of a publisher in order of time: 20,000 entries and 50 clients of which few are used much, three purposes, five models.
async fn fill(warehouse: &Warehouse) {
    let start_s = NOON_MS / 1_000 - DAYS * 86_400;
    // Few enough at a time for the engine's memory.
    for part in 0..DAYS * 8 {
        let (rows, from_s) = (RECEIPTS / DAYS / 8, start_s + part * 10_800);
        let skewed = |many: u32, seed: u32| format!("toUInt32(pow({many}, rand({seed}) / 4294967296.0))");
        let id = |kind: &str, number: &str| {
            format!("toUUID(concat('{kind}0000000-0000-4000-8000-', leftPad(hex({number}), 12, '0')))")
        };
        let statement = format!(
            "INSERT INTO receipts (publisher, timestamp, entry_id, receipt_id, payload_hash, positions, received_at, url,
                content_hash, client_id, client_name, client_version, organization, key_fingerprint, algorithm, purpose,
                context, dataset_id, model_id, query_id, session_id, study_id, researcher_id)
             SELECT 'big.example', fromUnixTimestamp64Milli(toInt64({from_s} * 1000 + rand64(1) % 10800000), 'UTC') AS at,
                {} AS entry, generateUUIDv4(),
                toFixedString(concat(reinterpretAsString(rand64(3)), reinterpretAsString(rand64(4)),
                    reinterpretAsString(rand64(5)), reinterpretAsString(rand64(6))), 32),
                [bitShiftLeft(toUInt128(number + {part} * 1000000), 16)], at + toIntervalMillisecond(300),
                concat('https://big.example/articles/2026/11/', toString(entry)), toFixedString('', 32), {} AS client,
                concat('reader ', toString(client)), '1.4', 'Readers', toFixedString('', 32), 'Ed25519',
                ['training', 'inference', 'research'][1 + rand(8) % 3], 'test', '', concat('model-', toString({})), '', '', '', ''
             FROM numbers({rows})",
            id("0", &skewed(20_000, 2)),
            id("1", &skewed(50, 7)),
            skewed(5, 9),
        );
        sql(warehouse.database(), &statement).await;
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
            };
            let plan = warehouse.plan_roll(&[], &bounds, &[]).await.unwrap();
            if !plan.is_needed() {
                break;
            }
            warehouse.roll(plan, number).await.unwrap();
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
                let entry = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0000 | number);
                compare(&name(&format!("entry {number}")), views, async |usage| {
                    usage.content(&scope, &filter, entry, 10).await.unwrap()
                })
                .await;
            }
            for number in [1, 40] {
                let client = Uuid::from_u128(0x1000_0000_0000_4000_8000_0000_0000_0000 | number);
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
