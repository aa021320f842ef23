//! The client in its cluster mode over the real engine: a cluster of one node, with the `Distributed` tables as they are
//! and plain tables in the place of replicated ones, which need a keeper. Every query of ours goes through them.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use blocks::{AcceptedRow, RejectedRow, Rows};
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

use crate::chdb::Chdb;
use crate::client::Call;
use crate::endpoint::{Access, Endpoint, Listener, serve};
use crate::engine_files::library_path;
use crate::migrations::tests::ddl;
use crate::schema::Layout;
use crate::statements::{Lane, Opener};
use crate::threads::on_own_thread;
use crate::{
    CommittedOffset, Filter, LedgerRow, MetadataErasure, REFUSED_BY_WAREHOUSE, Scope, Target, Touched,
    VerdictsPosition, Warehouse, WarehouseConfig, WarehouseError,
};

/// 2026-11-15T12:00:00Z.
const NOON_MS: i64 = 1_794_744_000_000;

fn engine_xml(directory: &Path) -> String {
    let users = directory.join("users.xml");
    let grants = "<query>GRANT ALL ON *.*</query><query>REVOKE INSERT ON denied.*</query>";
    let user = format!(
        "<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile>
            <quota>default</quota><grants>{grants}</grants></default>"
    );
    let text = format!(
        "<clickhouse><profiles><default></default></profiles><quotas><default></default></quotas>
            <users>{user}</users></clickhouse>"
    );
    std::fs::write(&users, text).unwrap();
    format!(
        "<clickhouse>
            <users_config>{}</users_config>
            <macros><shard>1</shard><replica>one</replica></macros>
            <remote_servers><main><shard><internal_replication>true</internal_replication>
                <replica><host>127.0.0.1</host><port>9000</port></replica></shard></main></remote_servers>
            <tcp_port>9000</tcp_port>
        </clickhouse>",
        users.display()
    )
}

/// A client of an engine that is the one node of the cluster `main`. (Nothing listens on 9000: it only says what is local.)
async fn node(directory: &Path, stop: watch::Receiver<bool>) -> (Arc<Endpoint>, WarehouseConfig) {
    let xml = directory.join("engine.xml");
    std::fs::write(&xml, engine_xml(directory)).unwrap();
    let arguments = [
        "chdb".to_owned(),
        format!("--path={}", directory.join("data").display()),
        format!("--config-file={}", xml.display()),
    ];
    let chdb = Chdb::load(&library_path(&WarehouseConfig::default()).unwrap()).unwrap();
    let opener = Arc::new(Opener::new(chdb, &arguments, Vec::new()).unwrap());
    let lane = |name| Lane::start(name, 2, 16, &opener).unwrap();
    let endpoint = Arc::new(Endpoint::new(
        lane("query"),
        lane("insert"),
        1 << 20,
        Duration::from_secs(10),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = WarehouseConfig {
        url: Some(format!("http://{}", listener.local_addr().unwrap())),
        user: Some("u".to_owned()),
        password: Some("p".into()),
        cluster: Some("main".to_owned()),
        ..WarehouseConfig::default()
    };
    let access = Access::Password {
        user: "u".to_owned(),
        password: "p".into(),
    };
    tokio::spawn(serve(
        endpoint.clone(),
        Listener::Tcp(listener),
        access,
        stop,
        Duration::from_secs(1),
    ));
    (endpoint, config)
}

fn client(config: &WarehouseConfig) -> Warehouse {
    let target = Target::Url(config.url.clone().unwrap());
    Warehouse::new(&target, config).unwrap().of_one_node()
}

/// Makes the tables as `migrate` would, but for what needs a keeper.
async fn make_tables(warehouse: &Warehouse, layout: Layout<'_>) {
    for statement in ddl(layout).split_terminator(";\n\n") {
        let mut statement = statement.replace(" ON CLUSTER `main`", "");
        if let (Some(from), Some(to)) = (statement.find("'/clickhouse"), statement.find("replica}'")) {
            statement.replace_range(from..to + "replica}'".len(), "");
        }
        let statement = statement
            .replace("Replicated", "")
            .replace("(, ", "(")
            .replace("Tree()", "Tree");
        warehouse.outside("test", Call::new(statement)).await.unwrap();
    }
}

fn receipt(number: u8, offset: u64, rows: &mut Rows) {
    rows.push_accepted(&AcceptedRow {
        publisher: ["a.example", "b.example"][usize::from(number % 2)],
        timestamp_ms: NOON_MS,
        entry_id: Uuid::from_u128(7),
        receipt_id: Uuid::from_u128(number.into()),
        payload_hash: &[number; 32],
        position: position(offset),
        received_at_ms: NOON_MS,
        url: "https://a.example/7",
        content_hash: &[3; 32],
        client_id: Uuid::from_u128(u128::from(number % 3)),
        client_name: "reader",
        client_version: "1",
        organization: "Readers",
        key_fingerprint: &[4; 32],
        algorithm: "Ed25519",
        purpose: "training",
        context: "c",
        request_id: "r",
        kind: "receipt",
        raw: b"{}",
        origin: "record",
        ..AcceptedRow::default()
    });
}

fn position(offset: u64) -> u128 {
    (1 << 96) | (u128::from(offset) << 16)
}

fn refusal(offset: u64, reason: &str, rows: &mut Rows) {
    rows.push_rejected(&RejectedRow {
        position: position(offset),
        reason,
        detail: "detail",
        publisher: "a.example",
        timestamp_ms: 0,
        receipt_id: Uuid::from_u128(1),
        client_id: Uuid::nil(),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms: NOON_MS,
        request_id: "r",
        client_address: "",
        kind: "receipt",
        raw: b"{}",
        request_signature: "",
        origin: "record",
    });
}

#[test]
fn everything_is_written_and_read_through_distributed_tables() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let (endpoint, config) = node(directory.path(), stopped).await;
        let warehouse = client(&config);
        make_tables(&warehouse, warehouse.layout()).await;
        rows_count_once(&warehouse).await;
        every_question_is_answered(&warehouse).await;
        what_is_missing_is_named(&config).await;
        stop.send_replace(true);
        on_own_thread("stop", move || endpoint.stop()).await.unwrap();
    });
}

/// Twenty receipts at offsets 0 to 19, each block twice, receipt 0 once more at offset 20, offset 21 refused.
async fn rows_count_once(warehouse: &Warehouse) {
    for _ in 0..2 {
        let mut rows = Rows::default();
        (0..20).for_each(|number| receipt(number, number.into(), &mut rows));
        receipt(0, 20, &mut rows);
        refusal(21, REFUSED_BY_WAREHOUSE, &mut rows);
        refusal(22, "malformed", &mut rows);
        let (accepted, rejected) = rows.batches().unwrap();
        warehouse.insert_accepted(&[accepted], None).await.unwrap();
        warehouse.insert_rejections(&[rejected], None).await.unwrap();
        let line = LedgerRow {
            epoch: 1,
            partition: 0,
            first_offset: 0,
            last_offset: 22,
            records: 23,
            receipts_in: 23,
            accepted: 21,
            rejected: 2,
            verifier: "v".to_owned(),
            committed_at_ms: NOON_MS,
            shard: 0,
            verdicts: VerdictsPosition::default(),
            touched: Touched::default(),
        };
        warehouse.insert_ledger(&[line], None).await.unwrap();
    }
    let totals = warehouse.totals().await.unwrap();
    assert_eq!(
        (totals.receipts, totals.occurrences, totals.rejected, totals.conflicts),
        (20, 21, 2, 0)
    );
    let stored: u64 = warehouse
        .one("test", Call::new("SELECT count() FROM receipts_local FINAL"))
        .await
        .unwrap();
    assert_eq!(stored, 20, "the rows are in the shard's own table");
}

async fn every_question_is_answered(warehouse: &Warehouse) {
    let end = CommittedOffset {
        epoch: 1,
        partition: 0,
        next_offset: 23,
    };
    let sums = warehouse.audit(&[end]).await.unwrap();
    assert!(sums.findings.is_empty(), "{:?}", sums.findings);
    assert_eq!((sums.stored_occurrences, sums.stored_rejected), (21, 2));

    let scope = Scope::of(vec!["a.example".to_owned(), "b.example".to_owned()]);
    let filter = Filter {
        from_ms: NOON_MS - 1,
        to_ms: NOON_MS + 1,
        ..Filter::default()
    };
    let page = warehouse.receipts_page(&scope, &filter, None, 7).await.unwrap();
    assert_eq!(page.len(), 7);
    let (mut exported, mut after) = (0, None);
    loop {
        let page = warehouse.export_receipts(&scope, after.as_ref(), 7).await.unwrap();
        let Some(last) = page.last() else { break };
        exported += page.len();
        after = Some(last.key.clone());
    }
    assert_eq!(exported, 20);
    let everyone = MetadataErasure {
        scope: scope.clone(),
        before_ms: NOON_MS + 1,
    };
    // Each block stands there twice, unless a merge came first.
    let left = warehouse.metadata_left(&everyone).await.unwrap();
    assert!(
        (20..=42).contains(&left.receipts) && (2..=4).contains(&left.rejected),
        "{left:?}"
    );
    let facts = warehouse.receipt(&scope, Uuid::from_u128(0)).await.unwrap();
    assert_eq!(facts.stored[0].occurrences, 2);
    let refusals = warehouse.refusals(&scope, NOON_MS, NOON_MS + 1, 5).await.unwrap();
    assert_eq!(refusals.newest.len(), 2);
    assert_eq!(warehouse.ledger(1, 0, 0, 5).await.unwrap().len(), 1);
    warehouse.accepts_receipts().await.unwrap();

    let above = CommittedOffset { next_offset: 21, ..end };
    assert_eq!(
        warehouse
            .refused_above(&[above], &[REFUSED_BY_WAREHOUSE], 5)
            .await
            .unwrap(),
        [position(21)]
    );
    let occurrences = [(Uuid::from_u128(0), position(20)), (Uuid::from_u128(1), position(21))];
    assert_eq!(
        warehouse.standing_positions(&occurrences).await.unwrap(),
        [position(20)]
    );
}

async fn what_is_missing_is_named(config: &WarehouseConfig) {
    let error = client(config).check_server().await.unwrap_err();
    assert!(
        matches!(error, WarehouseError::Config(_)) && error.to_string().contains("keeper"),
        "{error}"
    );
    let elsewhere = WarehouseConfig {
        cluster: Some("elsewhere".to_owned()),
        ..config.clone()
    };
    let error = client(&elsewhere).check_server().await.unwrap_err();
    assert!(
        error.to_string().contains("no cluster `elsewhere`") && error.to_string().contains("main"),
        "{error}"
    );
    let denied = WarehouseConfig {
        cluster: None,
        database: "denied".to_owned(),
        ..config.clone()
    };
    let error = client(&denied).migrate().await.unwrap_err();
    assert!(
        matches!(&error, WarehouseError::Denied { user, .. } if user == "u"),
        "{error}"
    );
    assert!(error.to_string().contains("INSERT"), "{error}");
}
