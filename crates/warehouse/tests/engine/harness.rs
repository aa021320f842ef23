//! The shared engine, raw HTTP towards it, and rows to put in.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use blocks::{RejectedRow, Rows};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use uuid::Uuid;
use warehouse::{EmbeddedEngine, LedgerRow, Target, Touched, VerdictsPosition, Warehouse, WarehouseConfig};

pub(crate) use crate::receipt::{NOON_MS, Receipt};

/// Runtime for the engine and all tests: the engine's tasks live as long as it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

static ENGINE: LazyLock<Shared> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("warehouse.sock");
    let config = WarehouseConfig::default();
    let engine = RUNTIME
        .block_on(EmbeddedEngine::start(&config, &dir.path().join("warehouse"), &socket))
        .unwrap();
    Shared {
        engine,
        socket,
        _dir: dir,
    }
});

struct Shared {
    engine: EmbeddedEngine,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

/// Runs a test's future beside the shared engine.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    LazyLock::force(&ENGINE);
    RUNTIME.block_on(test)
}

pub(crate) fn engine() -> &'static EmbeddedEngine {
    &ENGINE.engine
}

pub(crate) fn socket() -> &'static Path {
    &ENGINE.socket
}

/// A configuration with a database of its own.
pub(crate) fn config() -> WarehouseConfig {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let database = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    WarehouseConfig {
        database,
        // The rows of these tests are of fixed days.
        rejected_days_max: 2_557,
        ..WarehouseConfig::default()
    }
}

/// A migrated warehouse of its own.
pub(crate) async fn fresh() -> Warehouse {
    let warehouse = Warehouse::connect(&Target::Socket(socket().to_owned()), &config())
        .await
        .unwrap();
    warehouse.migrate().await.unwrap();
    warehouse
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with(&prefix))
            .map(|line| &line[prefix.len()..])
    }
}

/// Sends one request by hand and reads the answer to its end.
pub(crate) async fn request(head: &str, body: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(socket()).await.unwrap();
    exchange(&mut stream, head, body).await
}

/// Sends a request over any stream. `head` is the request line and headers without `Host`,
/// `Connection` and length.
pub(crate) async fn exchange<S>(stream: &mut S, head: &str, body: &[u8]) -> Answer
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let head = format!(
        "{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The endpoint may answer and close before it has read all: that is no failure of the exchange.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head,
        body: bytes[end + 4..].to_vec(),
    }
}

/// Runs SQL in a database, and returns its text output.
pub(crate) async fn sql(database: &str, statement: &str) -> String {
    let answer = request(&format!("POST /?database={database} HTTP/1.1"), statement.as_bytes()).await;
    assert_eq!(answer.status, 200, "{statement}: {}", answer.text());
    answer.text()
}

pub(crate) fn rejected(position: u128, reason: &'static str) -> RejectedRow<'static> {
    RejectedRow {
        key_fingerprint: &[0; 32],
        position,
        reason,
        detail: "detail",
        publisher: "news.example",
        timestamp_ms: 0,
        receipt_id: Uuid::nil(),
        client_id: Uuid::nil(),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms: NOON_MS,
        request_id: "request",
        client_address: "127.0.0.1",
        kind: "receipt",
        raw: b"{}",
        request_signature: "",
        origin: "record",
        receipts: 1,
    }
}

/// A ledger row of epoch 1 with one record per offset.
pub(crate) fn line(partition: u32, first_offset: u64, last_offset: u64, accepted: u64, rejected: u64) -> LedgerRow {
    LedgerRow {
        epoch: 1,
        partition,
        first_offset,
        last_offset,
        records: last_offset - first_offset + 1,
        receipts_in: accepted + rejected,
        accepted,
        rejected,
        verifier: "v".to_owned(),
        committed_at_ms: NOON_MS,
        shard: 0,
        verdicts: VerdictsPosition::default(),
        touched: Touched::default(),
    }
}

/// A position in epoch 1.
pub(crate) fn position(partition: u32, offset: u64, index: u16) -> u128 {
    (1 << 96) | (u128::from(partition) << 64) | (u128::from(offset) << 16) | u128::from(index)
}

/// Receipts and their positions as accepted rows.
pub(crate) fn accepted(receipts: &[(Receipt, u128)]) -> RecordBatch {
    let mut rows = Rows::default();
    for (receipt, position) in receipts {
        rows.push_accepted(&receipt.row(*position));
    }
    rows.batches().unwrap().0
}

/// Inserts receipts as one block.
pub(crate) async fn insert(warehouse: &Warehouse, rows: &[(Receipt, u128)]) {
    warehouse.insert_accepted(&[accepted(rows)], None).await.unwrap();
}

/// Inserts rejected rows as one block.
pub(crate) async fn insert_rejected(warehouse: &Warehouse, rejected: &[RejectedRow<'_>]) {
    let mut rows = Rows::default();
    for row in rejected {
        rows.push_rejected(row);
    }
    let (_, batch) = rows.batches().unwrap();
    warehouse.insert_rejections(&[batch], None).await.unwrap();
}

/// User and password of the TCP endpoint.
pub(crate) const USER: &str = "tester";
pub(crate) const PASSWORD: &str = "a password with spaces & signs";

/// The TCP endpoint's address.
pub(crate) async fn tcp() -> std::net::SocketAddr {
    static ADDRESS: tokio::sync::OnceCell<std::net::SocketAddr> = tokio::sync::OnceCell::const_new();
    let start = || async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        engine().serve_tcp(listener, USER, PASSWORD).unwrap();
        address
    };
    *ADDRESS.get_or_init(start).await
}

/// The official client as it comes, over TCP with LZ4.
pub(crate) async fn official(database: &str) -> clickhouse::Client {
    clickhouse::Client::default()
        .with_url(format!("http://{}", tcp().await))
        .with_user(USER)
        .with_password(PASSWORD)
        .with_database(database)
        .with_compression(clickhouse::Compression::Lz4)
}

/// Runs SQL over another engine's socket.
pub(crate) async fn sql_at(socket: &Path, database: &str, statement: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let answer = exchange(
        &mut stream,
        &format!("POST /?database={database} HTTP/1.1"),
        statement.as_bytes(),
    )
    .await;
    assert_eq!(answer.status, 200, "{statement}: {}", answer.text());
    answer.text()
}

/// Starts this binary again as the child named, with an engine of its own.
pub(crate) fn spawn_child(name: &str, env: &[(&str, &str)]) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "harness::in_a_child", "--nocapture"])
        .env("RECEIPTS_TEST_CHILD", name)
        .envs(env.iter().copied())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child to its end and returns what it said; it must end well.
pub(crate) fn child(name: &str, env: &[(&str, &str)]) -> String {
    let out = spawn_child(name, env).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "child {name}: {}\n{text}", out.status);
    text
}

/// Begin of children; does nothing in a normal run.
#[test]
fn in_a_child() {
    let Ok(name) = std::env::var("RECEIPTS_TEST_CHILD") else {
        return;
    };
    let dir = PathBuf::from(std::env::var("DIR").unwrap_or_default());
    let number = |name: &str| std::env::var(name).unwrap().parse().unwrap();
    RUNTIME.block_on(async {
        match name.as_str() {
            "insert_until_killed" => crate::kill::insert_until_killed(&dir, number("FIRST")).await,
            "audit" => crate::kill::audit(&dir, number("BLOCKS")).await,
            "leave_some_free" => crate::full_disk::leave_some_free(&dir).await,
            "write_too_much" => crate::full_disk::write_too_much(&dir).await,
            "fill_the_disk" => crate::full_disk::fill_the_disk(&dir).await,
            "fill" => crate::damage::fill(&dir).await,
            "look" => crate::damage::look(&dir).await,
            "look_closer" => crate::damage::look_closer(&dir).await,
            "look_for_tables" => crate::damage::look_for_tables(&dir).await,
            "missing_library" => {
                let library = Some(PathBuf::from(std::env::var("LIBRARY").unwrap()));
                let config = WarehouseConfig {
                    library,
                    ..WarehouseConfig::default()
                };
                let dir = tempfile::tempdir().unwrap();
                let error = EmbeddedEngine::start(&config, dir.path(), &dir.path().join("w.sock"))
                    .await
                    .unwrap_err();
                println!("{error}");
            }
            other => panic!("no child {other}"),
        }
    });
}
