//! Migrations: once, twice, at the same time, after a crash between any two of their statements,
//! and over schemas that this program can't read.

use warehouse::{Target, Warehouse, WarehouseError};

use crate::harness::{Receipt, config, fresh, insert, position, run, socket, sql};

async fn schema(database: &str) -> String {
    let text = sql(
        database,
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() ORDER BY name FORMAT TSVRaw",
    );
    text.await.replace(database, "database")
}

#[test]
fn running_them_again_changes_nothing() {
    run(async {
        let warehouse = fresh().await;
        insert(&warehouse, &[(Receipt::new(1), position(0, 0, 0))]).await;
        let before = schema(warehouse.database()).await;
        warehouse.migrate().await.unwrap();
        assert_eq!(schema(warehouse.database()).await, before);
        assert_eq!(warehouse.totals().await.unwrap().receipts, 1);
        assert_eq!(
            sql(warehouse.database(), "SELECT count() FROM schema_versions").await,
            "1\n"
        );
    });
}

#[test]
fn a_crash_between_any_two_statements_is_made_good() {
    run(async {
        let whole = schema(fresh().await.database()).await;
        // What a crash leaves: the tables made so far, and no record of the version.
        for missing in [
            &["ledger"][..],
            &["ledger", "rejected"],
            &["ledger", "rejected", "receipts", "usage"],
            &[],
        ] {
            let warehouse = fresh().await;
            sql(warehouse.database(), "TRUNCATE TABLE schema_versions").await;
            for table in missing {
                sql(warehouse.database(), &format!("DROP TABLE {table} SYNC")).await;
            }
            warehouse.migrate().await.unwrap();
            assert_eq!(schema(warehouse.database()).await, whole, "without {missing:?}");
            assert_eq!(
                sql(
                    warehouse.database(),
                    "SELECT version FROM schema_versions ORDER BY version"
                )
                .await,
                "16\n"
            );
        }
    });
}

#[test]
fn several_at_once_end_in_one_schema() {
    run(async {
        let whole = schema(fresh().await.database()).await;
        let warehouse = Warehouse::new(&Target::Socket(socket().to_owned()), &config()).unwrap();
        let (one, two, three) = tokio::join!(warehouse.migrate(), warehouse.migrate(), warehouse.migrate());
        for result in [one, two, three] {
            result.unwrap();
        }
        assert_eq!(schema(warehouse.database()).await, whole);
    });
}

#[test]
fn a_newer_schema_is_left_alone() {
    run(async {
        let warehouse = fresh().await;
        sql(
            warehouse.database(),
            "INSERT INTO schema_versions (version, name) SELECT 999, 'later'",
        )
        .await;
        let error = warehouse.migrate().await.unwrap_err();
        assert!(
            matches!(error, WarehouseError::Config(_)) && error.to_string().contains("999"),
            "{error}"
        );
    });
}

#[test]
fn a_schema_of_a_development_version_is_refused() {
    run(async {
        for version in 1..16 {
            let warehouse = fresh().await;
            sql(warehouse.database(), "DROP TABLE usage SYNC").await;
            sql(warehouse.database(), "TRUNCATE TABLE schema_versions").await;
            let recorded = format!("INSERT INTO schema_versions (version, name) VALUES ({version}, '')");
            sql(warehouse.database(), &recorded).await;
            let before = schema(warehouse.database()).await;
            let error = warehouse.migrate().await.unwrap_err();
            assert!(matches!(error, WarehouseError::Config(_)), "{error}");
            for part in [
                &format!("(schema version {version})"),
                warehouse.database(),
                "drop the database",
            ] {
                assert!(error.to_string().contains(part), "{part}: {error}");
            }
            assert_eq!(schema(warehouse.database()).await, before, "nothing was changed");
        }
    });
}

#[test]
fn a_query_before_them_is_refused_and_not_retried() {
    run(async {
        fresh().await;
        let warehouse = Warehouse::new(&Target::Socket(socket().to_owned()), &config()).unwrap();
        warehouse.ping().await.unwrap();
        let error = warehouse.totals().await.unwrap_err();
        assert!(
            matches!(error, WarehouseError::Refused { code: 81, .. }) && !error.is_retryable(),
            "{error}"
        );
        let nowhere = Warehouse::new(&Target::Socket(socket().with_extension("none")), &config()).unwrap();
        assert!(nowhere.ping().await.unwrap_err().is_retryable());
    });
}
