//! Ends of lists and ranges, and which table answers.

use rand::SeedableRng;
use rand::rngs::StdRng;
use usage::{DashboardStats, GroupBy, Metric, Ranking};
use uuid::Uuid;
use warehouse::{Call, Filter, Scope, WarehouseError};

use super::compare::{GROUPS, METRICS, all_queries, lists, series};
use super::harness::{NOON_MS, Receipt, batch, compensate, count, insert};
use super::model::{DAY_MS, DAYS, HOUR_MS, MINUTE_MS, Model, PUBLISHERS};
use super::question::random_question;
use crate::engine::{fresh, run};

fn always() -> Filter {
    Filter {
        from_ms: i64::MIN,
        to_ms: i64::MAX,
        ..Filter::default()
    }
}

fn news() -> Scope {
    Scope::of(vec!["news.example".to_owned()])
}

#[test]
fn an_empty_scope_sees_nothing() {
    run(async {
        let usage = fresh().await;
        insert(&usage, &[Receipt::new(1)], 0).await;
        let (nobody, filter) = (Scope::default(), always());
        let id = Uuid::from_u128(7);
        assert_eq!(
            usage.dashboard(&nobody, &filter, 5).await.unwrap(),
            DashboardStats::default()
        );
        assert_eq!(usage.by_model(&nobody, &filter, 5).await.unwrap(), Ranking::default());
        assert_eq!(
            usage.top_content(&nobody, &filter, 5).await.unwrap(),
            Ranking::default()
        );
        assert_eq!(
            usage.top_clients(&nobody, &filter, 5).await.unwrap(),
            Ranking::default()
        );
        assert_eq!(usage.content(&nobody, &filter, id, 5).await.unwrap().total_receipts, 0);
        assert_eq!(usage.client(&nobody, &filter, id, 5).await.unwrap().total_receipts, 0);
        let points = usage.timeseries(&nobody, &filter, Metric::Receipts, &[0], GroupBy::None, 5);
        assert!(points.await.unwrap().is_empty());
        let found = usage.dashboard(&news(), &filter, 0).await.unwrap();
        assert_eq!((found.total_receipts, found.top_content.len()), (1, 0));
    });
}

#[test]
fn whole_days_are_answered_without_receipts() {
    run(async {
        let mut rng = StdRng::seed_from_u64(3);
        let (stored, usage) = (fresh().await, fresh().await);
        let mut model = Model::default();
        for _ in 0..3 {
            model.batch(&mut rng, &stored).await;
        }
        // Counted, but not stored.
        count(&usage, &[batch(&model.receipts, 0)]).await;
        let scope = Scope::of(PUBLISHERS.map(str::to_owned).to_vec());
        let begin = (NOON_MS / DAY_MS - DAYS + 7) * DAY_MS;
        let filter = Filter {
            from_ms: begin,
            to_ms: NOON_MS / DAY_MS * DAY_MS,
            ..Filter::default()
        };
        lists(&model, &usage, &scope, &always(), 1_000).await;
        lists(&model, &usage, &scope, &filter, 5).await;
        let days: Vec<i64> = (0..DAYS).map(|day| begin + day * DAY_MS).collect();
        let hours: Vec<i64> = (0..24 * DAYS).map(|hour| begin + hour * HOUR_MS).collect();
        for boundaries in [&days, &hours] {
            for metric in METRICS {
                for group_by in GROUPS {
                    series(&model, &usage, &scope, &filter, metric, boundaries, group_by, 7).await;
                }
            }
        }
    });
}

#[test]
fn compensated_receipts_show_nowhere() {
    run(async {
        let mut rng = StdRng::seed_from_u64(5);
        let (usage, other) = (fresh().await, fresh().await);
        let (mut model, mut lost) = (Model::default(), Model::default());
        for _ in 0..2 {
            model.batch(&mut rng, &usage).await;
            lost.batch(&mut rng, &other).await;
        }
        for (receipt, number) in lost.receipts.iter_mut().zip(1_u128 << 64..) {
            receipt.payload_hash = Receipt::new(number).payload_hash;
            // Keys of their own: one that is compensated in part would keep its times.
            receipt.url.push_str("&lost");
            receipt.model_id.push_str(" lost");
        }
        let lost = batch(&lost.receipts, 0);
        count(&usage, std::slice::from_ref(&lost)).await;
        compensate(&usage, lost).await;
        for is_merged in [false, true] {
            for _ in 0..8 {
                let (scope, filter) = random_question(&mut rng, &model);
                all_queries(&mut rng, &model, &usage, &scope, &filter).await;
            }
            if !is_merged {
                let merge = Call::new("OPTIMIZE TABLE usage FINAL");
                usage.warehouse().execute("test", merge).await.unwrap();
            }
        }
    });
}

#[test]
fn lists_of_texts_are_the_first_hundred() {
    run(async {
        let usage = fresh().await;
        let receipt = |number: u32| Receipt {
            timestamp_ms: NOON_MS - i64::from(number),
            url: format!("https://news.example/7?{number:03}"),
            client_version: format!("1.{:03}", 200 - number),
            ..Receipt::new(u128::from(number))
        };
        let receipts: Vec<Receipt> = (0..150).map(receipt).collect();
        insert(&usage, &receipts, 0).await;
        for to_ms in [i64::MAX, NOON_MS + 1] {
            let filter = Filter { to_ms, ..always() };
            let found = usage.content(&news(), &filter, Uuid::from_u128(7), 1).await.unwrap();
            let urls: Vec<String> = (0..100).map(|number| receipt(number).url).collect();
            assert_eq!(found.urls, urls);
            let found = usage.client(&news(), &filter, Uuid::from_u128(9), 1).await.unwrap();
            let versions: Vec<String> = (0..100).map(|number| receipt(149 - number).client_version).collect();
            assert_eq!(found.versions, versions);
            assert_eq!(found.top_content[0].url, receipt(0).url);
        }
    });
}

#[test]
fn a_month_of_minutes_is_the_longest_series() {
    run(async {
        let mut rng = StdRng::seed_from_u64(4);
        let usage = fresh().await;
        let mut model = Model::default();
        model.batch(&mut rng, &usage).await;
        let scope = Scope::of(PUBLISHERS.map(str::to_owned).to_vec());
        let begin = NOON_MS - 31 * DAY_MS;
        let mut boundaries: Vec<i64> = (0..44_640).map(|minute| begin + minute * MINUTE_MS).collect();
        for group_by in [GroupBy::None, GroupBy::Entry] {
            series(
                &model,
                &usage,
                &scope,
                &always(),
                Metric::Clients,
                &boundaries,
                group_by,
                3,
            )
            .await;
        }
        // Years of hours in another time zone cut more half hours than a statement lists.
        let hours: Vec<i64> = (0..44_640)
            .map(|hour| NOON_MS + (15 * MINUTE_MS) - hour * HOUR_MS)
            .rev()
            .collect();
        series(
            &model,
            &usage,
            &scope,
            &always(),
            Metric::Receipts,
            &hours,
            GroupBy::Purpose,
            3,
        )
        .await;
        boundaries.push(NOON_MS);
        let filter = always();
        let refused = usage.timeseries(&scope, &filter, Metric::Receipts, &boundaries, GroupBy::None, 3);
        assert!(matches!(refused.await, Err(WarehouseError::TooLarge { .. })));
    });
}

#[test]
fn of_receipts_of_one_millisecond_the_greatest_text_counts() {
    run(async {
        let usage = fresh().await;
        // The greatest text of the millisecond also has a receipt that is later on the same day.
        let receipt = |number: u128, later_ms: i64, text: &str, purpose: &str| Receipt {
            timestamp_ms: NOON_MS + later_ms,
            url: format!("https://news.example/7?{text}"),
            client_name: text.to_owned(),
            purpose: purpose.to_owned(),
            ..Receipt::new(number)
        };
        let receipts = [
            receipt(1, 0, "a", "training"),
            receipt(2, 0, "b", "training"),
            receipt(3, 5, "b", "training"),
            receipt(4, 5, "c", "research"),
        ];
        insert(&usage, &receipts, 0).await;
        for (to_ms, purpose, text) in [
            (NOON_MS + 1, None, "b"),
            (i64::MAX, None, "c"),
            (i64::MAX, Some("training"), "b"),
            (NOON_MS + 1, Some("training"), "b"),
        ] {
            let purpose = purpose.map(str::to_owned);
            let filter = Filter {
                to_ms,
                purpose,
                ..always()
            };
            let found = usage.top_content(&news(), &filter, 5).await.unwrap();
            assert_eq!(found.items[0].url, format!("https://news.example/7?{text}"));
            let found = usage.top_clients(&news(), &filter, 5).await.unwrap();
            assert_eq!(found.items[0].name, text);
            let found = usage.content(&news(), &filter, Uuid::from_u128(7), 5).await.unwrap();
            assert_eq!(found.top_clients[0].name, text);
        }
    });
}
