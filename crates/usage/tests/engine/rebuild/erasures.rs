//! Erased clients: counts move to the blank client, and names leave the files.

use warehouse::{MetadataErasure, QueryScope, SqlStatement};

use super::harness::{DAY_S, World, today};
use crate::engine::run;

fn scope() -> QueryScope {
    QueryScope::of(vec!["a.example".to_owned()])
}

/// An instant of today after all receipts.
fn now_ms() -> i64 {
    (i64::from(today()) + i64::from(DAY_S)) * 1_000 - 1
}

async fn erase(world: &World, before_ms: i64) {
    let erasure = MetadataErasure {
        scope: scope(),
        before_ms,
        person: None,
    };
    world.usage.warehouse().erase_metadata(&erasure).await.unwrap();
}

#[test]
fn counts_move_to_the_blank_client_and_names_leave_the_table() {
    run(async {
        let mut world = World::new(11).await;
        world.fill(5).await;
        let count = "SELECT sum(receipts) FROM usage WHERE grain = 'client' AND publisher = 'a.example'";
        let before = world.number(count).await;
        let usage = &world.usage;
        assert!(usage.clients_left(&scope(), now_ms()).await.unwrap() > 0);
        erase(&world, now_ms()).await;
        let left = usage.clients_left(&scope(), now_ms()).await.unwrap();
        assert!(left > 0, "receipts have no clients any more, usage has");
        usage.request_rebuild(&scope(), now_ms()).await.unwrap();
        let pending = usage.pending_rebuilds().await.unwrap();
        usage.execute_rebuild(&pending[0], None).await.unwrap();
        assert_eq!(usage.clients_left(&scope(), now_ms()).await.unwrap(), 0);
        assert_eq!(world.number(count).await, before);
        let blank = format!("{count} AND client_id = toUUID('00000000-0000-0000-0000-000000000000')");
        assert_eq!(world.number(&blank).await, before);
        world.assert_equal().await;
        assert!(usage.compensated_left(&scope()).await.unwrap() > 0);
        usage.remove_compensated(&scope()).await.unwrap();
        assert_eq!(usage.compensated_left(&scope()).await.unwrap(), 0);
        let named = "SELECT toInt64(countIf(client_name != '' OR organization != '' OR client_version != ''
            OR client_id != toUUID('00000000-0000-0000-0000-000000000000'))) FROM usage WHERE publisher = 'a.example'";
        assert_eq!(world.number(named).await, 0, "no row has a name");
        assert_eq!(
            world.number("SELECT toInt64(countIf(receipts = 0)) FROM usage").await,
            0
        );
        world.assert_equal().await;
        assert_eq!(world.rebuild().await, 0);
        // Duplicates, which still have the names, count for nobody.
        world.fill(3).await;
        assert_eq!(world.rebuild().await, 0);
        assert_eq!(world.number("SELECT toInt64(countIf(client_name = 'Alpha')) FROM usage WHERE grain = 'client' AND publisher = 'b.example'").await.min(1), 1);
    });
}

#[test]
fn an_erasure_within_a_day_leaves_later_receipts() {
    run(async {
        let mut world = World::new(12).await;
        world.fill(5).await;
        let noon_ms = (i64::from(today()) - i64::from(DAY_S) / 2) * 1_000;
        erase(&world, noon_ms).await;
        let usage = &world.usage;
        assert!(usage.clients_left(&scope(), noon_ms).await.unwrap() > 0);
        usage.request_rebuild(&scope(), noon_ms).await.unwrap();
        let pending = usage.pending_rebuilds().await.unwrap();
        usage.execute_rebuild(&pending[0], None).await.unwrap();
        assert_eq!(usage.clients_left(&scope(), noon_ms).await.unwrap(), 0);
        world.assert_equal().await;
        usage.remove_compensated(&scope()).await.unwrap();
        assert_eq!(usage.compensated_left(&scope()).await.unwrap(), 0);
        world.assert_equal().await;
        let named =
            SqlStatement::new("SELECT toInt64(count()) FROM usage WHERE publisher = 'a.example' AND client_name != ''");
        let named: i64 = usage.warehouse().one("test", named).await.unwrap();
        assert!(named > 0, "the afternoon's clients stay");
    });
}
