//! Engines that are away, slow or busy; h2c; the drain.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use accounts::{Accounts, AccountsConfig};
use analytics_api::AnalyticsConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use warehouse::{PartitionProgress, ShardProgress, Target, Warehouse, WarehouseConfig};

use crate::rows::receipt;
use crate::stack::{Answer, HttpClient, Server, Stack};

const PATH: &str = "/api/v1/analytics/dashboard";
const UNPUBLISHED: &str = "it isn't known through which instant the numbers are complete";

fn expect_unavailable(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some(code)));
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.header("content-type"), "application/problem+json");
}

/// Distinguishes a missing watermark from a query that ran.
fn expect_detail(answer: &Answer, detail: &str) {
    let body = answer.json();
    assert!(body["detail"].as_str().unwrap().starts_with(detail), "{body}");
}

/// Waits for `/readyz` to show a component's status.
async fn until(server: &Server, component: &str, status: &str) -> Value {
    let seen = async {
        loop {
            let snapshot = server.send("GET", "/readyz", &[]).await.json();
            if snapshot["components"][component]["status"] == status {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), seen)
        .await
        .expect("the status comes")
}

fn quick() -> AnalyticsConfig {
    AnalyticsConfig {
        health_interval_ms: 10,
        query_wait_ms_max: 1_000,
        watermark_age_ms_max: 0,
        // Connections to the warehouse are counted.
        usage_check_percent_max: 0,
        ..Default::default()
    }
}

pub(crate) async fn watermark(stack: &Stack) {
    let server = stack.server_with(quick(), |_| {}).await;
    let before = stack.progress.complete_ms.load(Ordering::SeqCst);
    // The least of all partitions, and read again for each answer.
    for complete_ms in [before + 1, before + 2] {
        stack.progress.complete_ms.store(complete_ms, Ordering::SeqCst);
        let answer = server.get(PATH, &stack.keys.publisher, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["completeThrough"], stack.complete_through());
    }
    stack.progress.complete_ms.store(before, Ordering::SeqCst);

    let path = format!("/api/v1/receipts/{}", receipt(1));
    for (missing, detail) in [
        (&stack.progress.away, "the warehouse can't answer now"),
        (&stack.progress.unpublished, UNPUBLISHED),
    ] {
        missing.store(true, Ordering::SeqCst);
        let answer = server.get(&path, &stack.keys.publisher, &[]).await;
        expect_unavailable(&answer, "warehouse_unavailable");
        expect_detail(&answer, detail);
        let snapshot = until(&server, "analytics.progress", "not_ready").await;
        assert_eq!(snapshot["components"]["analytics.warehouse"]["status"], "ready");
        missing.store(false, Ordering::SeqCst);
        until(&server, "analytics.progress", "ready").await;
        assert_eq!(server.get(&path, &stack.keys.publisher, &[]).await.status, 200);
    }
    server.stop().await;
}

/// Progress in the warehouse, as writers publish it: there is no watermark before every partition
/// of the log has an instant.
pub(crate) async fn published_progress(stack: &Stack) {
    let warehouse = stack.deps.warehouse.clone();
    let progress = Arc::new(warehouse.clone());
    let server = stack.server_with(quick(), |deps| deps.progress = progress).await;
    let at = |version, partitions: &[(u32, i64)]| ShardProgress {
        version,
        source_partitions: 2,
        partitions: partitions
            .iter()
            .map(|&(partition, complete_through_ms)| PartitionProgress {
                epoch: 1,
                partition,
                first_offset: 0,
                next_offset: 0,
                complete_through_ms,
            })
            .collect(),
        ..ShardProgress::default()
    };
    let before = stack.progress.complete_ms.load(Ordering::SeqCst);
    let unpublished = async |reason: &str| {
        let answer = server.get(PATH, &stack.keys.publisher, &[]).await;
        expect_unavailable(&answer, "warehouse_unavailable");
        expect_detail(&answer, UNPUBLISHED);
        let shown = async {
            loop {
                let snapshot = until(&server, "analytics.progress", "not_ready").await;
                let shown = &snapshot["components"]["analytics.progress"]["reason"];
                if shown.as_str().unwrap().contains(reason) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(300), shown)
            .await
            .expect(reason);
    };
    unpublished("no writer has published").await;
    warehouse.publish_progress(&at(1, &[(1, before)]), None).await.unwrap();
    unpublished("1 of 2 partitions").await;
    for (version, idle_ms) in [(2, before - 9_000), (3, before + 7)] {
        let complete = at(version, &[(0, idle_ms), (1, before)]);
        warehouse.publish_progress(&complete, None).await.unwrap();
        let answer = server.get(PATH, &stack.keys.publisher, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["completeThrough"], web::rfc3339_ms(idle_ms.min(before)));
    }
    until(&server, "analytics.progress", "ready").await;
    server.stop().await;
}

/// Else rows could arrive between query and watermark, and the answer would promise what it doesn't
/// hold.
pub(crate) async fn the_watermark_is_read_before_the_query(stack: &Stack) {
    let (listener, warehouse) = silent_warehouse().await;
    let server = stack
        .server_with(
            AnalyticsConfig {
                health_interval_ms: 600_000,
                ..quick()
            },
            |deps| deps.warehouse = warehouse,
        )
        .await;
    until(&server, "analytics.progress", "ready").await;
    stack.progress.unpublished.store(true, Ordering::SeqCst);
    let answer = server.get(PATH, &stack.keys.publisher, &[]).await;
    stack.progress.unpublished.store(false, Ordering::SeqCst);
    expect_unavailable(&answer, "warehouse_unavailable");
    expect_detail(&answer, UNPUBLISHED);
    // Readiness and the running audit asked the warehouse once each; the query never did.
    listener.accept().await.unwrap();
    listener.accept().await.unwrap();
    let third = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await;
    assert!(third.is_err());
    server.stop().await;
}

pub(crate) async fn warehouse_away(stack: &Stack) {
    let gone = Target::Socket(stack.dir.path().join("nobody-listens"));
    let warehouse = Warehouse::new(&gone, &WarehouseConfig::default()).unwrap();
    let server = stack.server_with(quick(), |deps| deps.warehouse = warehouse).await;
    expect_unavailable(
        &server.get(PATH, &stack.keys.publisher, &[]).await,
        "warehouse_unavailable",
    );
    until(&server, "analytics.warehouse", "not_ready").await;
    assert_eq!(server.send("GET", "/readyz", &[]).await.status, 503);
    assert_eq!(server.send("GET", "/healthz", &[]).await.status, 200);
    server.stop().await;
}

pub(crate) async fn accounts_away(stack: &Stack) {
    let dir = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&AccountsConfig::default(), dir.path()).await.unwrap();
    accounts.close().await;
    let server = stack.server_with(quick(), |deps| deps.accounts = accounts).await;
    expect_unavailable(
        &server.get(PATH, &stack.keys.publisher, &[]).await,
        "accounts_unavailable",
    );
    server.stop().await;
}

/// A warehouse that takes connections and never answers.
async fn silent_warehouse() -> (TcpListener, Warehouse) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Url(format!("http://{}", listener.local_addr().unwrap()));
    let warehouse = Warehouse::new(&target, &WarehouseConfig::default()).unwrap();
    (listener, warehouse)
}

pub(crate) async fn slow_warehouse(stack: &Stack) {
    let (_listener, warehouse) = silent_warehouse().await;
    let config = AnalyticsConfig {
        concurrent_queries_max: 1,
        waiting_queries_max: 0,
        ..quick()
    };
    let server = Arc::new(stack.server_with(config, |deps| deps.warehouse = warehouse).await);
    let ask = |server: Arc<Server>| {
        let key = stack.keys.publisher.clone();
        tokio::spawn(async move { server.get(PATH, &key, &[]).await })
    };
    let mut codes = vec![];
    for asked in [ask(server.clone()), ask(server.clone())] {
        let answer = asked.await.unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
        codes.push(answer.json()["code"].as_str().unwrap().to_owned());
    }
    codes.sort();
    // One ran into its time limit; the other found no permit.
    assert_eq!(codes, ["overloaded", "warehouse_unavailable"]);
    Arc::into_inner(server).unwrap().stop().await;
}

pub(crate) async fn requests_under_way_end_before_the_process(stack: &Stack) {
    let (listener, warehouse) = silent_warehouse().await;
    let config = AnalyticsConfig {
        health_interval_ms: 600_000,
        ..quick()
    };
    let server = stack.server_with(config, |deps| deps.warehouse = warehouse).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        stack.keys.publisher
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Three connections: for readiness and the running audit, which ask once each, and for the
    // query, which so has begun.
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(listener.accept().await.unwrap());
    }
    server.shutdown.cancel();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    let address = server.address;
    server.running.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

pub(crate) async fn silent_connections_are_closed(stack: &Stack) {
    let config = AnalyticsConfig {
        head_wait_ms_max: 50,
        ..Default::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    for sent in ["", "G", "GET / HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The end of the stream, or a reset: either way it is over.
        let end = tokio::time::timeout(Duration::from_secs(300), stream.read_to_end(&mut answer)).await;
        assert!(end.is_ok(), "{sent:?} keeps its connection");
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{sent:?}");
    }
    server.stop().await;
}

pub(crate) async fn h2c(stack: &Stack) {
    let (client, address) = (HttpClient::h2c(), stack.server.address);
    let answer = client.get(address, PATH, &stack.keys.publisher, &[]).await;
    assert_eq!(
        (answer.status, answer.json()["totalReceipts"].as_u64()),
        (200, Some(10))
    );
}
