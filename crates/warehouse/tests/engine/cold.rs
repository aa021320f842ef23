//! Old parts move to an object store, and what reads or changes them works on.

use std::time::{Duration, Instant};

use test_engines::{ClickHouse, ObjectStore};
use uuid::Uuid;
use warehouse::{MetadataErasure, QueryScope, ReceiptsOf, Target, Warehouse, WarehouseConfig};

use crate::harness::{Receipt, accepted, insert, position, run};
use crate::retention::days_ago_ms;

const WAIT_MAX: Duration = Duration::from_secs(300);

/// The disks of a table's parts, oldest month first.
fn disks(server: &ClickHouse, table: &str) -> String {
    let parts = format!(
        "SELECT disk_name FROM system.parts WHERE active AND database = 'receipts' AND table = '{table}' ORDER BY partition"
    );
    server.query(0, &parts).unwrap()
}

async fn connect(config: &WarehouseConfig) -> Warehouse {
    let target = Target::Url(config.url.clone().unwrap());
    let warehouse = Warehouse::connect(&target, config).await.unwrap();
    warehouse.migrate().await.unwrap();
    warehouse
}

#[test]
fn old_parts_move_to_a_bucket_and_stay_whole() {
    let bucket = ObjectStore::start().unwrap();
    let server = ClickHouse::start_with_bucket(&bucket).unwrap();
    run(async {
        let one_disk = WarehouseConfig {
            url: Some(server.url(0)),
            ..WarehouseConfig::default()
        };
        let warehouse = connect(&one_disk).await;
        let rows = [400, 80, 1].map(|days| {
            let receipt = Receipt {
                timestamp_ms: days_ago_ms(days),
                received_at_ms: days_ago_ms(days),
                ..Receipt::new(days.unsigned_abs().into())
            };
            (receipt, position(0, days.unsigned_abs(), 0))
        });
        for row in &rows {
            insert(&warehouse, std::slice::from_ref(row)).await;
            let evidence = accepted(std::slice::from_ref(row));
            warehouse.insert_evidence(&[evidence]).await.unwrap();
        }
        assert_eq!(disks(&server, "evidence"), "default\ndefault\ndefault\n");

        let tiered = WarehouseConfig {
            storage_policy: Some("tiered".to_owned()),
            ..one_disk
        };
        let warehouse = connect(&tiered).await;
        let began = Instant::now();
        let moved = [
            ("evidence", "bucket\nbucket\ndefault\n"),
            ("receipts", "bucket\ndefault\ndefault\n"),
        ];
        while moved.iter().any(|(table, wanted)| disks(&server, table) != *wanted) {
            let found = moved.map(|(table, _)| disks(&server, table));
            assert!(began.elapsed() < WAIT_MAX, "{found:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }

        // A copy that comes late unites with what has moved.
        let (old, _) = &rows[0];
        insert(&warehouse, &[(old.clone(), position(0, 401, 0))]).await;
        let totals = warehouse.totals().await.unwrap();
        assert_eq!((totals.receipts, totals.occurrences), (3, 4));
        let scope = QueryScope::of(vec!["news.example".to_owned()]);
        let of_publisher = ReceiptsOf::Publisher(scope.clone(), None);
        let evidence = async || {
            let page = warehouse.evidence(&of_publisher, Uuid::from_u128(400), None).await;
            page.unwrap().payloads[0].received.clone()
        };
        assert!(!evidence().await.is_empty());
        let erasure = MetadataErasure {
            scope,
            before_ms: days_ago_ms(30),
            person: None,
        };
        warehouse.erase_metadata(&erasure).await.unwrap();
        assert_eq!(evidence().await, "");
        let left = warehouse.metadata_left(&erasure).await.unwrap();
        assert_eq!((left.receipts, left.evidence), (0, 0));
        assert!(disks(&server, "evidence").starts_with("bucket\n"));
    });
}
