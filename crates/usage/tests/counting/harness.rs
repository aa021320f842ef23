//! The engine that the tests share, and receipts to count.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use tokio::runtime::Runtime;
use usage::Usage;
use uuid::Uuid;
use warehouse::{Call, EmbeddedEngine, Target, Warehouse, WarehouseConfig};

/// The engine's tasks live as long as its runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

static ENGINE: LazyLock<(EmbeddedEngine, PathBuf, tempfile::TempDir)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (data, socket) = (dir.path().join("warehouse"), dir.path().join("warehouse.sock"));
    let engine = RUNTIME
        .block_on(EmbeddedEngine::start(&WarehouseConfig::default(), &data, &socket))
        .unwrap();
    (engine, socket, dir)
});

/// Runs a test's future beside the shared engine.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    LazyLock::force(&ENGINE);
    RUNTIME.block_on(test)
}

/// A migrated warehouse with a database of its own.
pub(crate) async fn fresh() -> Warehouse {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let config = WarehouseConfig {
        database: format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        ..WarehouseConfig::default()
    };
    let warehouse = Warehouse::connect(&Target::Socket(ENGINE.1.clone()), &config)
        .await
        .unwrap();
    warehouse.migrate().await.unwrap();
    warehouse
}

/// Fields that distinguish the receipts of these tests.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) position: u128,
    pub(crate) timestamp_ms: i64,
    pub(crate) receipt_id: Uuid,
    pub(crate) payload_hash: [u8; 32],
}

/// A receipt of its own for each number.
pub(crate) fn unseen(number: u64, timestamp_ms: i64) -> Receipt {
    let mut payload_hash = [7; 32];
    // The beginning of a hash is evenly distributed.
    payload_hash[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    Receipt {
        position: u128::from(number) << 16,
        timestamp_ms,
        receipt_id: Uuid::from_u128(u128::from(number)),
        payload_hash,
    }
}

/// The receipts as accepted rows of verdicts.
pub(crate) fn batch(receipts: &[Receipt]) -> RecordBatch {
    let mut rows = Rows::default();
    for receipt in receipts {
        let number = receipt.receipt_id.as_u128();
        rows.push_accepted(&AcceptedRow {
            position: receipt.position,
            publisher: ["a.example", "b.example"][usize::try_from(number % 2).unwrap()],
            timestamp_ms: receipt.timestamp_ms,
            entry_id: Uuid::from_u128(number % 50),
            receipt_id: receipt.receipt_id,
            payload_hash: &receipt.payload_hash,
            received_at_ms: receipt.timestamp_ms,
            url: "https://a.example/",
            content_hash: &[1; 32],
            client_id: Uuid::from_u128(number % 3),
            client_name: "Client",
            client_version: "1.0.0",
            organization: "Organization",
            key_fingerprint: &[2; 32],
            algorithm: "Ed25519",
            purpose: ["training", "inference"][usize::try_from(number % 2).unwrap()],
            context: "",
            dataset_id: "",
            model_id: "model",
            query_id: "",
            session_id: "",
            study_id: "",
            researcher_id: "",
            request_id: "",
            client_address: "",
            kind: "receipt",
            raw: b"",
            request_signature: "",
            origin: "record",
        });
    }
    rows.batches().unwrap().0
}

/// The sum of each grain, in the grains' order.
pub(crate) async fn stored(usage: &Usage) -> [i64; 5] {
    let call = Call::new("SELECT sum(receipts) FROM usage GROUP BY grain ORDER BY grain");
    let sums: Vec<i64> = usage.warehouse().rows("sums", call).await.unwrap();
    sums.try_into().unwrap()
}
