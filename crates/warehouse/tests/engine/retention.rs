//! Receipts that are old enough go, by themselves, and the audit doesn't take them for lost.

use std::time::{SystemTime, UNIX_EPOCH};

use blocks::RejectedRow;
use warehouse::{CommittedOffset, LedgerRow, Target, Warehouse, WarehouseConfig};

use crate::harness::{Receipt, config, insert, insert_rejected, line, position, rejected, run, socket, sql};

const DAY_MS: i64 = 86_400_000;

/// The retention is by the engine's clock.
pub(crate) fn days_ago_ms(days: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    now - days * DAY_MS
}

async fn keeping(days: u64, config: &WarehouseConfig) -> Warehouse {
    let config = WarehouseConfig {
        receipts_days_max: days,
        rejected_days_max: 100.min(days),
        ..config.clone()
    };
    let warehouse = Warehouse::new(&Target::Socket(socket().to_owned()), &config).unwrap();
    warehouse.migrate().await.unwrap();
    warehouse
}

/// A block of one accepted and one rejected receipt, all of one instant.
async fn block(warehouse: &Warehouse, number: u64, at_ms: i64) {
    let receipt = Receipt {
        timestamp_ms: at_ms,
        received_at_ms: at_ms,
        ..Receipt::new(number.into())
    };
    insert(warehouse, &[(receipt, position(0, number, 0))]).await;
    let refused = RejectedRow {
        received_at_ms: at_ms,
        ..rejected(position(0, number, 1), "bad_signature")
    };
    insert_rejected(warehouse, &[refused]).await;
    let line = LedgerRow {
        committed_at_ms: at_ms,
        ..line(0, number, number, 1, 1)
    };
    warehouse.insert_ledger(&[line], None).await.unwrap();
}

async fn let_go(warehouse: &Warehouse) {
    for table in ["receipts", "rejected"] {
        sql(warehouse.database(), &format!("OPTIMIZE TABLE {table} FINAL")).await;
    }
}

#[test]
fn old_receipts_go_and_are_not_missed() {
    run(async {
        let warehouse = keeping(400, &config()).await;
        for (number, days) in [(0, 800), (1, 500), (2, 360), (3, 1)] {
            block(&warehouse, number, days_ago_ms(days)).await;
        }
        let end = CommittedOffset {
            epoch: 1,
            partition: 0,
            next_offset: 4,
        };
        let before = warehouse.audit(&[end]).await.unwrap();
        assert_eq!(
            (before.findings.as_slice(), before.blocks_past, before.blocks),
            (&[][..], 3, 1)
        );
        let_go(&warehouse).await;
        let totals = warehouse.totals().await.unwrap();
        assert_eq!(
            (totals.receipts, totals.rejected),
            (2, 1),
            "receipts of 360 days and of one, and the rejected one of one day"
        );
        let after = warehouse.audit(&[end]).await.unwrap();
        assert_eq!(
            (after.findings.as_slice(), after.blocks_past, after.accepted),
            (&[][..], 3, 1)
        );
        assert_eq!((after.rejected, after.rejected_past, after.stored_rejected), (1, 0, 1));
        // What is lost among the young ones still shows, and so does a hole among the old lines.
        sql(warehouse.database(), "TRUNCATE TABLE receipts").await;
        sql(
            warehouse.database(),
            "ALTER TABLE ledger DELETE WHERE first_offset = 1 SETTINGS mutations_sync = 2",
        )
        .await;
        let lost = warehouse.audit(&[end]).await.unwrap();
        let kinds: Vec<_> = lost.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["ledger_gap", "accepted_sum"]);
    });
}

#[test]
fn another_retention_is_taken_over_at_the_next_start() {
    run(async {
        let config = config();
        let warehouse = keeping(2_557, &config).await;
        block(&warehouse, 0, days_ago_ms(800)).await;
        let_go(&warehouse).await;
        assert_eq!(warehouse.totals().await.unwrap().receipts, 1);
        let warehouse = keeping(400, &config).await;
        let_go(&warehouse).await;
        let totals = warehouse.totals().await.unwrap();
        assert_eq!((totals.receipts, totals.rejected), (0, 0));
        let tables = "SELECT name FROM system.tables WHERE database = currentDatabase()
            AND engine_full LIKE if(name = 'rejected', '%toIntervalDay(100)%', '%toIntervalDay(400)%') AND engine_full LIKE '%ttl_only_drop_parts = 1%' ORDER BY name";
        assert_eq!(
            sql(warehouse.database(), tables).await,
            "evidence\nreceipts\nrejected\nusage\n"
        );
    });
}

#[test]
fn rejected_receipts_go_earlier_and_are_not_missed() {
    run(async {
        let warehouse = keeping(400, &config()).await;
        for (number, days) in [(0, 200), (1, 80), (2, 1)] {
            block(&warehouse, number, days_ago_ms(days)).await;
        }
        let end = CommittedOffset {
            epoch: 1,
            partition: 0,
            next_offset: 3,
        };
        let_go(&warehouse).await;
        let totals = warehouse.totals().await.unwrap();
        assert_eq!((totals.receipts, totals.rejected), (3, 2));
        let audit = warehouse.audit(&[end]).await.unwrap();
        assert_eq!(audit.findings, []);
        // 70 days are compared: 100 less those between an arrival and its block's commit.
        assert_eq!((audit.rejected, audit.rejected_past, audit.stored_rejected), (3, 2, 1));
        sql(warehouse.database(), "TRUNCATE TABLE rejected").await;
        let lost = warehouse.audit(&[end]).await.unwrap();
        let kinds: Vec<_> = lost.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["rejected_sum"]);
    });
}
