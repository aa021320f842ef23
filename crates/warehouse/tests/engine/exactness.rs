//! Counting is exact: retries, rewritten blocks, conflicts, before and after merges.

use uuid::Uuid;
use warehouse::{QueryScope, ReceiptsOf};

use crate::harness::{NOON_MS, Receipt, fresh, insert, insert_rejected, position, rejected, run, sql};

#[test]
fn retries_rewrites_and_conflicts_count_once_before_and_after_merges() {
    run(async {
        let warehouse = fresh().await;
        let database = warehouse.database().to_owned();
        sql(&database, "SYSTEM STOP MERGES receipts").await;
        let block: Vec<_> = (0..100).map(|n| (Receipt::new(n), position(0, n as u64, 0))).collect();
        // The same block three times, as after crashes; then ten of its receipts again at later
        // positions, a day later by the gateway's clock, and one id with another payload.
        for _ in 0..3 {
            insert(&warehouse, &block).await;
        }
        let late = |n: u128| Receipt {
            received_at_ms: NOON_MS + 86_400_000,
            ..Receipt::new(n)
        };
        let retries: Vec<_> = (0..10).map(|n| (late(n), position(1, n as u64, 3))).collect();
        insert(&warehouse, &retries).await;
        let other = Receipt {
            payload_hash: [9; 32],
            ..Receipt::new(5)
        };
        insert(&warehouse, &[(other.clone(), position(1, 50, 0))]).await;
        insert_rejected(&warehouse, &[rejected(position(1, 51, 0), "bad_signature")]).await;
        insert_rejected(&warehouse, &[rejected(position(1, 51, 0), "bad_signature")]).await;

        for merged in [false, true] {
            if merged {
                sql(&database, "SYSTEM START MERGES receipts").await;
                sql(&database, "OPTIMIZE TABLE receipts FINAL").await;
                sql(&database, "OPTIMIZE TABLE rejected FINAL").await;
                let rows = sql(&database, "SELECT count() FROM receipts").await;
                assert_eq!(rows.trim(), "101", "really merged");
            }
            let totals = warehouse.totals().await.unwrap();
            assert_eq!(
                (totals.receipts, totals.occurrences, totals.conflicts),
                (101, 111, 1),
                "merged: {merged}"
            );
            assert_eq!(totals.rejected_by_reason, [("bad_signature".to_owned(), 1)]);

            let scope = QueryScope::of(vec!["news.example".to_owned()]);
            let facts = warehouse
                .receipt(&ReceiptsOf::Publisher(scope.clone(), None), Uuid::from_u128(5), None)
                .await
                .unwrap();
            assert!(facts.totals.conflict());
            let of = |hash: [u8; 32]| facts.stored.iter().find(|one| one.payload_hash == hash).unwrap();
            assert_eq!(of(Receipt::new(5).payload_hash).occurrences, 2);
            assert_eq!(of(Receipt::new(5).payload_hash).first_position, position(0, 5, 0));
            assert_eq!(
                of(Receipt::new(5).payload_hash).received_at_ms,
                NOON_MS + 1_000,
                "the first time stays"
            );
            assert_eq!(of([9; 32]).occurrences, 1);
            let single = warehouse
                .receipt(&ReceiptsOf::Publisher(scope.clone(), None), Uuid::from_u128(50), None)
                .await
                .unwrap();
            assert!(!single.totals.conflict() && single.stored.len() == 1 && single.rejected.is_empty());
        }
    });
}

#[test]
fn one_insert_is_one_part_a_month() {
    run(async {
        let warehouse = fresh().await;
        sql(warehouse.database(), "SYSTEM STOP MERGES receipts").await;
        let month_ms = 31 * 86_400_000;
        let rows: Vec<_> = (0..20_000)
            .map(|n| {
                let receipt = Receipt {
                    timestamp_ms: NOON_MS - i64::from(n % 2 == 0) * month_ms,
                    ..Receipt::new(n)
                };
                (receipt, position(0, n as u64, 0))
            })
            .collect();
        insert(&warehouse, &rows).await;
        let parts =
            "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'receipts' AND active";
        assert_eq!(sql(warehouse.database(), parts).await.trim(), "2");
        assert_eq!(warehouse.totals().await.unwrap().receipts, 20_000);
    });
}

#[test]
fn every_table_is_synced_before_it_is_acknowledged() {
    run(async {
        let warehouse = fresh().await;
        for table in ["receipts", "rejected", "ledger", "usage", "schema_versions"] {
            let text = sql(warehouse.database(), &format!("SHOW CREATE TABLE {table}")).await;
            for setting in [
                "fsync_after_insert = 1",
                "fsync_part_directory = 1",
                "min_rows_to_fsync_after_merge = 1",
                "min_compressed_bytes_to_fsync_after_merge = 1",
            ] {
                assert!(text.contains(setting), "{table} lacks {setting}");
            }
        }
    });
}
