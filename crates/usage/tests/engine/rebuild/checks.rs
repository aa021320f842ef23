//! Findings of the consistency check.

use usage::{Grain, Mismatch, MismatchKind};

use super::harness::{World, today};
use crate::engine::run;

async fn found(world: &World) -> Vec<Mismatch> {
    let mut found = Vec::new();
    for day in world.usage.days(i64::MIN, i64::MAX).await.unwrap() {
        found.extend(world.usage.check_day(day).await.unwrap());
    }
    found
}

#[test]
fn a_correct_table_passes() {
    run(async {
        let mut world = World::new(21).await;
        world.fill(4).await;
        assert_eq!(found(&world).await, []);
        assert_eq!(world.usage.days(i64::MIN, i64::MAX).await.unwrap().len(), 3);
        let today_ms = i64::from(today()) * 1_000;
        assert_eq!(world.usage.days(today_ms, today_ms + 1).await.unwrap(), [today()]);
    });
}

#[test]
fn a_receipt_counted_twice_is_found() {
    run(async {
        let mut world = World::new(22).await;
        world.fill(2).await;
        let twice = world.receipts(1);
        world.usage.insert_counted(std::slice::from_ref(&twice)).await.unwrap();
        world.count_only(twice).await;
        let found = found(&world).await;
        let kinds: Vec<_> = found.iter().map(|one| (one.kind, one.more)).collect();
        assert_eq!(kinds, [(MismatchKind::RepeatedKeys, 1), (MismatchKind::Receipts, 1)]);
    });
}

#[test]
fn a_missing_contribution_is_found() {
    run(async {
        let mut world = World::new(23).await;
        world.fill(2).await;
        world.sql("OPTIMIZE TABLE usage FINAL").await;
        world
            .sql(
                "ALTER TABLE usage DELETE WHERE (publisher, time, purpose) = (SELECT publisher, time, purpose FROM usage
                 WHERE grain = 'purpose' AND receipts = 1 LIMIT 1) AND grain = 'purpose'
                 SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1",
            )
            .await;
        let found = found(&world).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].kind, found[0].more),
            (MismatchKind::Grain(Grain::Purpose), -1)
        );
        assert_eq!(world.rebuild().await, 1);
        world.assert_equal().await;
    });
}

#[test]
fn receipts_that_arent_counted_are_found_by_publisher() {
    run(async {
        let mut world = World::new(24).await;
        world.fill(2).await;
        let uncounted = world.receipts(40);
        world.store_only(&uncounted).await;
        let found = found(&world).await;
        assert!(
            found.len() > 3
                && found
                    .iter()
                    .all(|one| one.kind == MismatchKind::Receipts && one.more < 0)
        );
        world.rebuild().await;
        assert_eq!(self::found(&world).await, []);
    });
}
