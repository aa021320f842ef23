//! A rebuild makes `usage` equal to `receipts`, whatever is missing.

use usage::RebuildStep;
use warehouse::{Below, QueryScope};

use super::harness::{DAY_S, PUBLISHERS, World, today};
use crate::engine::run;

const PARTS: &str = "SELECT toInt64(count()) FROM system.parts
    WHERE active AND database = currentDatabase() AND table = 'usage'";

#[test]
fn a_correct_day_stays_as_it_is() {
    run(async {
        let mut world = World::new(1).await;
        world.fill(5).await;
        world.assert_equal().await;
        let parts = world.number("SELECT toInt64(count()) FROM usage").await;
        assert_eq!(world.rebuild().await, 0);
        assert_eq!(world.number("SELECT toInt64(count()) FROM usage").await, parts);
    });
}

#[test]
fn lost_rows_are_counted_again_in_one_part_a_day_and_publisher() {
    run(async {
        let mut world = World::new(2).await;
        world.sql("SYSTEM STOP MERGES usage").await;
        world.fill(6).await;
        let lost = world
            .usage
            .warehouse()
            .rows::<String>(
                "parts",
                warehouse::SqlStatement::new(
                    "SELECT name FROM system.parts
                     WHERE active AND database = currentDatabase() AND table = 'usage' ORDER BY name",
                ),
            )
            .await
            .unwrap();
        for name in lost.iter().step_by(2) {
            world.sql(&format!("ALTER TABLE usage DETACH PART '{name}'")).await;
        }
        let before = world.number(PARTS).await;
        let rows = world.usage.rebuild_day(PUBLISHERS[0], today(), None).await.unwrap();
        assert!(rows > 20, "{rows}");
        assert_eq!(world.number(PARTS).await, before + 1);
        assert!(world.rebuild().await > 0);
        world.assert_equal().await;
        assert_eq!(world.rebuild().await, 0);
        // Duplicates of what was lost are duplicates still.
        world.fill(4).await;
        world.assert_equal().await;
        world.sql("SYSTEM START MERGES usage").await;
        world.sql("OPTIMIZE TABLE usage FINAL").await;
        world.assert_equal().await;
        assert_eq!(world.rebuild().await, 0);
    });
}

#[test]
fn everything_can_be_counted_from_receipts() {
    run(async {
        let mut world = World::new(3).await;
        let batch = world.receipts(3_000);
        world.store_only(&batch).await;
        world.rebuild().await;
        world.assert_equal().await;
        world.fill(3).await;
        world.assert_equal().await;
    });
}

#[test]
fn times_of_the_first_and_last_receipt_are_exact_where_rows_were_lost() {
    run(async {
        let mut world = World::new(4).await;
        world.fill(3).await;
        world.sql("TRUNCATE TABLE usage").await;
        world.rebuild().await;
        let off = "SELECT toInt64(count()) FROM (
                SELECT publisher, time, client_id, min(first_ms) AS first, max(last_ms) AS last FROM usage
                WHERE grain = 'client' GROUP BY ALL) AS u
            JOIN (SELECT publisher, toUInt32(toUnixTimestamp(toStartOfDay(timestamp))) AS time, client_id,
                    toUnixTimestamp64Milli(min(timestamp)) AS first, toUnixTimestamp64Milli(max(timestamp)) AS last
                FROM receipts FINAL GROUP BY ALL) AS r USING (publisher, time, client_id)
            WHERE (u.first, u.last) != (r.first, r.last)";
        assert_eq!(world.number(off).await, 0);
    });
}

#[test]
fn keys_of_lost_receipts_and_keys_counted_twice_are_corrected() {
    run(async {
        let mut world = World::new(5).await;
        world.fill(2).await;
        // Receipts that are counted, but are in no table.
        let lost = world.receipts(50);
        world.usage.insert_counted(&[lost]).await.unwrap();
        let twice = world.receipts(30);
        world.usage.insert_counted(std::slice::from_ref(&twice)).await.unwrap();
        world.count_only(twice).await;
        world
            .sql("ALTER TABLE receipts DELETE WHERE cityHash64(receipt_id) % 7 = 0 SETTINGS mutations_sync = 2")
            .await;
        world.rebuild().await;
        // The empty publisher means keys without receipts.
        let end_ms = (i64::from(today()) + i64::from(DAY_S)) * 1_000 - 1;
        let keys = QueryScope::of(vec![String::new()]);
        world.usage.request_rebuild(&keys, end_ms).await.unwrap();
        let pending = world.usage.pending_rebuilds().await.unwrap();
        assert!(world.usage.execute_rebuild(&pending[0], None).await.unwrap() > 0);
        world.assert_equal().await;
        for day in world.usage.days(i64::MIN, i64::MAX).await.unwrap() {
            assert_eq!(world.usage.check_day(day).await.unwrap(), []);
        }
    });
}

#[test]
fn requests_are_stored_executed_and_finished() {
    run(async {
        let mut world = World::new(6).await;
        world.fill(4).await;
        world.sql("TRUNCATE TABLE usage").await;
        let usage = &world.usage;
        let scope = QueryScope {
            publishers: vec!["a.example".to_owned()],
            below: vec![Below {
                parent: "b.example".to_owned(),
                except: vec!["x.b.example".to_owned(), "y.b.example".to_owned()],
            }],
        };
        let now_ms = (i64::from(today()) + i64::from(DAY_S) / 2) * 1_000;
        let first = usage.request_rebuild(&scope, now_ms).await.unwrap();
        let rest = QueryScope::of(vec!["b.example".to_owned()]);
        let second = usage.request_rebuild(&rest, now_ms).await.unwrap();
        let pending = usage.pending_rebuilds().await.unwrap();
        assert_eq!(pending.iter().map(|one| one.id).collect::<Vec<_>>(), [first, second]);
        assert_eq!((&pending[0].scope, pending[0].before_ms), (&scope, now_ms));
        let steps = usage.rebuild_steps(&pending[0]).await.unwrap();
        let publishers = steps.iter().filter_map(|step| match step {
            RebuildStep::Day(_, publisher) => Some(publisher.as_str()),
            RebuildStep::Keys(_) => None,
        });
        let publishers: Vec<&str> = publishers.collect();
        assert_eq!(publishers.len(), 6, "{steps:?}");
        assert!(!publishers.contains(&"b.example"));
        assert!(usage.execute_rebuild(&pending[0], None).await.unwrap() > 0);
        assert!(usage.is_rebuilt(first).await.unwrap() && !usage.is_rebuilt(second).await.unwrap());
        assert_eq!(usage.pending_rebuilds().await.unwrap().len(), 1);
        usage.execute_rebuild(&pending[1], None).await.unwrap();
        assert_eq!(usage.pending_rebuilds().await.unwrap(), []);
        world.assert_equal().await;
    });
}
