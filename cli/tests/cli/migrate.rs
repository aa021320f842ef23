//! `receipts migrate` on real Kafka, ClickHouse's protocol over the engine, and PostgreSQL; and on
//! servers that aren't there.

use crate::command::{EMBEDDED_ENGINE, command};
use test_engines::{Kafka, Postgres};
use warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig};

fn migrate(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = command();
    run.arg("migrate").current_dir(folder.path());
    let output = run.envs(variables.iter().copied()).output().unwrap();
    assert!(!folder.path().join("data").exists(), "it made a data directory");
    let reported = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), reported)
}

#[test]
fn tables_are_made_once_and_found_again() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("receipts").unwrap();
    let url = postgres.url("receipts");
    for _ in 0..2 {
        let (code, reported) = migrate(&[("RECEIPTS_ACCOUNTS_URL", &url)]);
        assert_eq!(code, Some(0), "{reported}");
        assert!(reported.contains("postgresql"), "{reported}");
    }
}

#[test]
fn topics_and_tables_of_servers_are_made_once_and_found_again() {
    let kafka = Kafka::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _lock = EMBEDDED_ENGINE.lock();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = runtime.block_on(async {
        let (data, socket) = (folder.path().join("clickhouse"), folder.path().join("clickhouse.sock"));
        EmbeddedEngine::start(&WarehouseConfig::default(), &data, &socket)
            .await
            .unwrap()
    });
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    {
        let _inside = runtime.enter();
        engine.serve_tcp(listener, "receipts", "secret").unwrap();
    }
    let variables = [
        ("RECEIPTS_KAFKA_BROKERS", kafka.bootstrap()),
        ("RECEIPTS_KAFKA_TOPIC", "migrated"),
        ("RECEIPTS_KAFKA_VERDICTS_TOPIC", "migrated.verdicts"),
        ("RECEIPTS_KAFKA_PARTITIONS", "5"),
        ("RECEIPTS_KAFKA_REPLICATION_FACTOR", "1"),
        ("RECEIPTS_KAFKA_MIN_INSYNC_REPLICAS", "1"),
        ("RECEIPTS_WAREHOUSE_URL", &url),
        ("RECEIPTS_WAREHOUSE_USER", "receipts"),
        ("RECEIPTS_WAREHOUSE_PASSWORD", "secret"),
    ];
    for _ in 0..2 {
        let (code, reported) = migrate(&variables);
        assert_eq!(code, Some(0), "{reported}");
        assert!(
            reported.contains("kafka") && reported.contains("clickhouse"),
            "{reported}"
        );
    }
    // As an independent client sees them.
    let topics = kafka.kcat(&["-L"]).unwrap();
    assert!(topics.contains("topic \"migrated\" with 5 partitions"), "{topics}");
    assert!(
        topics.contains("topic \"migrated.verdicts\" with 1 partitions"),
        "{topics}"
    );
    let config = WarehouseConfig {
        user: Some("receipts".to_owned()),
        password: Some("secret".into()),
        ..WarehouseConfig::default()
    };
    runtime.block_on(async {
        let warehouse = Warehouse::connect(&Target::Url(url.clone()), &config).await.unwrap();
        assert_eq!(warehouse.totals().await.unwrap().receipts, 0);
    });

    // A topic that doesn't keep records as the service needs them is reported, and left as it is.
    let other = variables.map(|(name, value)| match name {
        "RECEIPTS_KAFKA_MIN_INSYNC_REPLICAS" | "RECEIPTS_KAFKA_REPLICATION_FACTOR" => (name, "2"),
        _ => (name, value),
    });
    let (code, reported) = migrate(&other);
    assert_eq!(code, Some(3), "{reported}");
    assert!(reported.contains("migrated"), "{reported}");
    runtime.block_on(engine.stop());
}

#[test]
fn without_a_server_there_is_nothing_to_do() {
    let (code, reported) = migrate(&[]);
    assert_eq!(code, Some(2), "{reported}");
    assert!(reported.contains("accounts.url"), "{reported}");
}

#[test]
fn servers_that_are_away_are_reported() {
    let [port] = test_engines::free_ports().unwrap();
    let postgres = format!("postgres://receipts:secret@127.0.0.1:{port}/receipts");
    let clickhouse = format!("http://127.0.0.1:{port}");
    for (name, url) in [
        ("RECEIPTS_ACCOUNTS_URL", &postgres),
        ("RECEIPTS_WAREHOUSE_URL", &clickhouse),
    ] {
        let (code, reported) = migrate(&[(name, url)]);
        assert_eq!(code, Some(3), "{reported}");
        assert!(!reported.contains("secret"), "{reported}");
    }
}
