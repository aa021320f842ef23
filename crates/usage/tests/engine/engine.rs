//! The engine that all tests share: libchdb has one per process.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;
use usage::Usage;
use warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig};

/// Runtime for the engine and all tests: the engine's tasks live as long as the runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

static ENGINE: LazyLock<Shared> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (data, socket) = (dir.path().join("warehouse"), dir.path().join("warehouse.sock"));
    let engine = RUNTIME
        .block_on(EmbeddedEngine::start(&WarehouseConfig::default(), &data, &socket))
        .unwrap();
    Shared {
        socket,
        _engine: engine,
        _dir: dir,
    }
});

struct Shared {
    socket: PathBuf,
    _engine: EmbeddedEngine,
    _dir: tempfile::TempDir,
}

/// Runs a test's future beside the shared engine.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    LazyLock::force(&ENGINE);
    RUNTIME.block_on(test)
}

/// The table of a migrated warehouse of its own.
pub(crate) async fn fresh() -> Usage {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let config = WarehouseConfig {
        database: format!("usage_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        ..WarehouseConfig::default()
    };
    let target = Target::Socket(ENGINE.socket.clone());
    let warehouse = Warehouse::connect(&target, &config).await.unwrap();
    warehouse.migrate().await.unwrap();
    Usage::new(warehouse)
}
