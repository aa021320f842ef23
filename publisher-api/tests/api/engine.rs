//! The embedded engine, one for the whole process (libchdb has no more), with a database of its own
//! for each test.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use blocks::{AcceptedRow, RejectedRow, Rows};
use tokio::runtime::Runtime;
use usage::Usage;
use uuid::Uuid;
use warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig};

/// The engine's tasks live as long as it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
});

struct Shared {
    _engine: EmbeddedEngine,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

static ENGINE: LazyLock<Shared> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("warehouse.sock");
    let (config, data) = (WarehouseConfig::default(), dir.path().join("warehouse"));
    let engine = RUNTIME
        .block_on(EmbeddedEngine::start(&config, &data, &socket))
        .unwrap();
    Shared {
        _engine: engine,
        socket,
        _dir: dir,
    }
});

/// An empty warehouse.
pub(crate) async fn warehouse() -> Warehouse {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let config = WarehouseConfig {
        database: format!("api_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        ..WarehouseConfig::default()
    };
    // On a thread that is no runtime's: the first one starts the engine, on a runtime of its own.
    let socket = std::thread::spawn(|| ENGINE.socket.clone()).join().unwrap();
    let warehouse = Warehouse::new(&Target::Socket(socket), &config).unwrap();
    warehouse.migrate().await.unwrap();
    warehouse
}

/// A location in the log.
pub(crate) fn position(offset: u64) -> u128 {
    (1 << 96) | (u128::from(offset) << 16)
}

/// Counted receipts of `publisher` at `timestamp_ms`, numbered; each at the offset of its number.
pub(crate) async fn insert(warehouse: &Warehouse, publisher: &str, timestamp_ms: i64, numbers: Range<u64>) {
    let usage = Usage::new(warehouse.clone());
    let (accepted, _) = accepted(publisher, timestamp_ms, numbers).batches().unwrap();
    usage.insert_counted(&[accepted]).await.unwrap();
}

/// Evidence of such receipts: they arrived in a batch.
pub(crate) async fn insert_evidence(warehouse: &Warehouse, publisher: &str, timestamp_ms: i64, numbers: Range<u64>) {
    let (accepted, _) = accepted(publisher, timestamp_ms, numbers).batches().unwrap();
    warehouse.insert_evidence(&[accepted]).await.unwrap();
}

fn accepted(publisher: &str, timestamp_ms: i64, numbers: Range<u64>) -> Rows {
    let mut rows = Rows::default();
    for number in numbers {
        let mut payload_hash = [1; 32];
        payload_hash[..8].copy_from_slice(&number.to_be_bytes());
        rows.push_accepted(&AcceptedRow {
            publisher,
            timestamp_ms,
            entry_id: Uuid::from_u128(7),
            receipt_id: Uuid::from_u128(number.into()),
            payload_hash: &payload_hash,
            position: position(number),
            received_at_ms: timestamp_ms,
            url: "https://example.com/7",
            content_hash: &[3; 32],
            client_id: Uuid::from_u128(9),
            client_name: "=reader, the \"first\"",
            client_version: "1.0",
            organization: "Readers",
            key_fingerprint: &[4; 32],
            algorithm: "Ed25519",
            purpose: "training",
            context: "a context",
            researcher_id: "doctor",
            request_id: "request",
            client_address: "192.0.2.1",
            kind: "receipt",
            raw: b"{}",
            origin: "record",
            batch_signature: b"\xff\x00signature",
            batch_hash: &[5; 32],
            ..AcceptedRow::default()
        });
    }
    rows
}

/// A rejected receipt.
pub(crate) async fn refuse(warehouse: &Warehouse, publisher: &str, received_at_ms: i64, offset: u64) {
    let mut rows = Rows::default();
    rows.push_rejected(&RejectedRow {
        key_fingerprint: &[0; 32],
        position: position(offset),
        reason: "bad_signature",
        detail: "the signature isn't the key's",
        publisher,
        timestamp_ms: 0,
        receipt_id: Uuid::from_u128(offset.into()),
        client_id: Uuid::from_u128(9),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms,
        request_id: "request",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{\"client\":\"reader\"}",
        request_signature: "",
        origin: "record",
        receipts: 1,
    });
    let (_, rejected) = rows.batches().unwrap();
    warehouse.insert_rejections(&[rejected], None).await.unwrap();
}
