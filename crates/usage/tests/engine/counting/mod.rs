//! Counting over the real engine: each receipt once, its rows in one part.

mod receipts;

use std::collections::HashSet;

use usage::NewReceipts;
use warehouse::{SqlStatement, Warehouse};

use self::receipts::{Receipt, batch, stored, unseen};
use crate::engine::{fresh, run};

const DAY_MS: i64 = 86_400_000;
/// 2026-11-20T00:00:00Z
const START_MS: i64 = 1_795_132_800_000;

fn receipts(count: u64, spread_ms: i64) -> Vec<Receipt> {
    let at = |number: u64| START_MS + i64::try_from(number).unwrap() * 7_919_003 % spread_ms;
    (0..count).map(|number| unseen(number, at(number))).collect()
}

async fn parts(warehouse: &Warehouse) -> Vec<String> {
    let call = SqlStatement::new(
        "SELECT name FROM system.parts WHERE active AND database = currentDatabase() AND table = 'usage' ORDER BY name",
    );
    warehouse.rows("parts", call).await.unwrap()
}

#[test]
fn a_batch_that_is_counted_again_adds_nothing() {
    run(async {
        let usage = fresh().await;
        let all = receipts(500, 3 * DAY_MS);
        assert_eq!(usage.insert_counted(&[batch(&all)]).await.unwrap(), 500);
        let before = stored(&usage).await;
        assert_eq!(usage.insert_counted(&[batch(&all)]).await.unwrap(), 0);
        assert_eq!(
            usage
                .insert_counted(&[batch(&all[250..]), batch(&all[..300])])
                .await
                .unwrap(),
            0
        );
        assert_eq!(stored(&usage).await, before);
        let more = receipts(510, 3 * DAY_MS);
        assert_eq!(usage.insert_counted(&[batch(&more)]).await.unwrap(), 10);
        assert_eq!(stored(&usage).await, [510; 5]);
    });
}

#[test]
fn an_insert_makes_one_part_per_month_that_has_all_rows_of_its_receipts() {
    run(async {
        let usage = fresh().await;
        // To the second half of December.
        usage
            .insert_counted(&[batch(&receipts(20_000, 28 * DAY_MS))])
            .await
            .unwrap();
        let parts = parts(usage.warehouse()).await;
        assert_eq!(parts.len(), 2, "{parts:?}");
        for part in &parts {
            let call = SqlStatement::new("SELECT sum(receipts) FROM usage WHERE _part = {part:String} GROUP BY grain")
                .with("part", part.clone());
            let sums: Vec<i64> = usage.warehouse().rows("sums", call).await.unwrap();
            assert_eq!(sums.len(), 5);
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        }
    });
}

#[test]
fn receipts_beyond_one_insert_are_counted_in_several() {
    run(async {
        let usage = fresh().await;
        let all = receipts(45_000, DAY_MS);
        let new = NewReceipts::of(&[batch(&all)]).unwrap();
        assert_eq!(new.rows(200_000).unwrap().len(), 3);
        assert_eq!(usage.insert_counted(&[batch(&all)]).await.unwrap(), 45_000);
        assert_eq!(stored(&usage).await, [45_000; 5]);
        let keys = new.keys();
        let counted = usage.counted(&keys).await.unwrap();
        assert_eq!(counted, keys.into_iter().collect::<HashSet<_>>());
    });
}

#[test]
fn receipts_of_equal_id_and_other_payload_are_counted_apart() {
    run(async {
        let usage = fresh().await;
        let one = unseen(1, START_MS);
        let mut other = one.clone();
        other.payload_hash[31] ^= 1;
        // The key is a prefix of the hash: a change of its end alone doesn't happen with SHA-256.
        other.payload_hash[0] ^= 1;
        let mut later = one.clone();
        later.position += 1;
        let counted = usage
            .insert_counted(&[batch(&[one.clone(), other, later, one])])
            .await
            .unwrap();
        assert_eq!(counted, 2);
    });
}
