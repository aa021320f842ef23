//! The embedded engine: libchdb in this process, behind ClickHouse's HTTP protocol.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::Section;
use http_server::Listener;
use parking_lot::Mutex;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::chdb::{Chdb, ChdbConnection};
use crate::endpoint::{Endpoint, EndpointAccess, serve};
use crate::engine_files::{EngineDataDir, library_path};
use crate::statements::{Lane, Opener};
use crate::threads::on_own_thread;
use crate::{EngineError, WarehouseConfig, WarehouseError};

/// Time a drain may take beyond the longest statement.
const DRAIN_SLACK: Duration = Duration::from_secs(5);

static RUNNING: AtomicBool = AtomicBool::new(false);

/// The one slot for an engine in this process, given back when the engine is closed.
#[derive(Debug)]
struct ProcessSlot;

impl ProcessSlot {
    fn take() -> Result<Self, EngineError> {
        if RUNNING.swap(true, Ordering::AcqRel) {
            Err(EngineError::AlreadyRunning)
        } else {
            Ok(Self)
        }
    }
}

impl Drop for ProcessSlot {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Release);
    }
}

/// An open connection: the engine shuts down when the last one is closed. Fields drop in this
/// order.
struct Anchor {
    _connection: ChdbConnection,
    _slot: ProcessSlot,
}

/// The engine with its lanes.
struct RunningEngine {
    endpoint: Arc<Endpoint>,
    anchor: Mutex<Option<Anchor>>,
    socket: PathBuf,
}

impl RunningEngine {
    /// Waits for running statements, then closes the engine. Blocks; the second call does nothing.
    fn close(&self) {
        let Some(anchor) = self.anchor.lock().take() else {
            return;
        };
        self.endpoint.stop();
        drop(anchor);
        // A start replaces a dead socket anyway; this is only tidiness.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// libchdb running in this process, answering on a Unix socket.
pub struct Engine {
    running: Arc<RunningEngine>,
    shutdown: CancellationToken,
    servers: Mutex<Vec<JoinHandle<()>>>,
    drain_max: Duration,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("socket", &self.running.socket)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Finds and loads libchdb, before [`open`](Self::open) creates anything. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoCacheDirectory`], [`EngineError::LibraryMissing`] and
    /// [`EngineError::LibraryUnusable`].
    pub fn load(config: &WarehouseConfig) -> Result<(), EngineError> {
        Chdb::load(&library_path(config)?).map(drop)
    }

    /// Loads libchdb, opens `data_dir` (created if absent) and serves `socket` (mode 0600; a dead
    /// one is replaced). The engine runs until [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`EngineError`]. Why the engine itself refuses a directory is on standard error only.
    pub async fn open(config: &WarehouseConfig, data_dir: &Path, socket: &Path) -> Result<Self, EngineError> {
        config.checked("warehouse").map_err(WarehouseError::from)?;
        let slot = ProcessSlot::take()?;
        let listener = bind(socket).await?;
        let (opened_config, data_dir) = (config.clone(), data_dir.to_owned());
        let opened = on_own_thread("chdb-open", move || open(&opened_config, &data_dir, slot)).await;
        let (endpoint, anchor) = opened.map_err(|source| EngineError::Io {
            what: "the warehouse can't be opened".to_owned(),
            source,
        })??;
        let running = Arc::new(RunningEngine {
            endpoint: Arc::new(endpoint),
            anchor: Mutex::new(Some(anchor)),
            socket: socket.to_owned(),
        });
        let wait_ms_max = config.query_wait_ms_max.max(config.insert_wait_ms_max);
        let engine = Self {
            running,
            shutdown: CancellationToken::new(),
            servers: Mutex::new(Vec::new()),
            drain_max: Duration::from_millis(wait_ms_max) + DRAIN_SLACK,
        };
        engine.listen(listener, EndpointAccess::FileMode);
        Ok(engine)
    }

    /// Also answers on a TCP listener, to requests with `user` and `password` (ClickHouse's
    /// `X-ClickHouse-User` and `-Key` headers).
    ///
    /// # Errors
    /// The listener must be on a loopback address, and the password must not be empty.
    pub fn serve_tcp(&self, listener: TcpListener, user: &str, password: &str) -> Result<(), EngineError> {
        let refused = |source| EngineError::Io {
            what: "the warehouse's TCP listener can't be used".to_owned(),
            source,
        };
        let invalid = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_owned());
        if !listener.local_addr().map_err(refused)?.ip().is_loopback() {
            return Err(refused(invalid("it must be on a loopback address")));
        }
        if password.is_empty() {
            return Err(refused(invalid("it needs a password")));
        }
        let access = EndpointAccess::Password {
            user: user.to_owned(),
            password: password.into(),
        };
        self.listen(listener, access);
        Ok(())
    }

    fn listen(&self, listener: impl Listener + 'static, access: EndpointAccess) {
        let server = serve(
            self.running.endpoint.clone(),
            listener,
            access,
            self.shutdown.clone(),
            self.drain_max,
        );
        self.servers.lock().push(tokio::spawn(server));
    }

    /// Stops answering, waits for running statements, and closes the engine.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let servers = std::mem::take(&mut *self.servers.lock());
        for server in servers {
            // A server that panicked has logged it; there is nothing left to wait for.
            let _ = server.await;
        }
        let running = self.running.clone();
        if let Err(error) = on_own_thread("chdb-close", move || running.close()).await {
            tracing::error!(%error, "the embedded warehouse was not closed");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if self.running.anchor.lock().is_some() {
            // Not waited for: a drop may happen on a runtime's thread. `stop` is the way to wait.
            let running = self.running.clone();
            std::thread::spawn(move || running.close());
        }
    }
}

/// Loads the library and opens the engine with its lanes. Blocks.
fn open(config: &WarehouseConfig, data_dir: &Path, slot: ProcessSlot) -> Result<(Endpoint, Anchor), EngineError> {
    let chdb = Chdb::load(&library_path(config)?)?;
    let data_dir = EngineDataDir::prepare(data_dir, config)?;
    let refused = |detail: &str| EngineError::Open {
        path: data_dir.path.clone(),
        detail: detail.to_owned(),
    };
    let opener = |wait_ms_max| {
        let opener = Opener::new(chdb, &data_dir.arguments(config), resting_settings(config, wait_ms_max));
        opener
            .map(Arc::new)
            .ok_or_else(|| refused("its path holds a zero byte"))
    };
    let (queries, inserts) = (opener(config.query_wait_ms_max)?, opener(config.insert_wait_ms_max)?);
    let connection = queries
        .open()
        .map_err(|failure| refused(&format!("{} (its reason is above)", failure.message)))?;
    let lane = |name, threads, opener| {
        Lane::start(name, threads, config.waiting_max, opener).map_err(|source| EngineError::Io {
            what: "the warehouse's threads can't be started".to_owned(),
            source,
        })
    };
    let queries = lane("query", config.threads, &queries)?;
    // One after the other: a writer's new epoch is an insert too, and waits for the late ones of
    // its old epoch.
    let inserts = lane("insert", 1, &inserts)?;
    let insert_bytes_max = usize::try_from(config.insert_bytes_max).unwrap_or(usize::MAX);
    let endpoint = Endpoint::new(
        queries,
        inserts,
        insert_bytes_max,
        Duration::from_millis(config.insert_wait_ms_max),
    );
    Ok((
        endpoint,
        Anchor {
            _connection: connection,
            _slot: slot,
        },
    ))
}

/// The settings every connection starts with.
fn resting_settings(config: &WarehouseConfig, wait_ms_max: u64) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let spill_bytes = config.memory_bytes_max / 4;
    [
        // One statement at most half, so that one big query leaves room for inserts and merges.
        ("max_memory_usage", (config.memory_bytes_max / 2).to_string()),
        ("max_bytes_before_external_group_by", spill_bytes.to_string()),
        ("max_bytes_before_external_sort", spill_bytes.to_string()),
        (
            "max_execution_time",
            format!("{}.{:03}", wait_ms_max / 1000, wait_ms_max % 1000),
        ),
        ("max_threads", cores.min(4).to_string()),
        ("max_insert_threads", "1".to_owned()),
        ("max_result_rows", config.result_rows_max.to_string()),
        ("result_overflow_mode", "'throw'".to_owned()),
        // An acknowledged insert is on disk: nothing may be gathered in memory first.
        ("async_insert", "0".to_owned()),
        // The setting of our inserts (see `client`).
        ("optimize_on_insert", "0".to_owned()),
        // The first merge builds them: an inserted part has few granules to skip.
        ("materialize_skip_indexes_on_insert", "0".to_owned()),
        // A rewritten block must be written: what was thought written may be gone after power loss.
        ("insert_deduplicate", "0".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Binds a Unix socket that only this user can open. It gets its name only once its mode is right.
async fn bind(socket: &Path) -> Result<UnixListener, EngineError> {
    let failed = |source| EngineError::Io {
        what: format!("the socket {} can't be used", socket.display()),
        source,
    };
    if UnixStream::connect(socket).await.is_ok() {
        return Err(failed(std::io::Error::new(
            std::io::ErrorKind::AddrInUse,
            "another process answers on it",
        )));
    }
    let mut unnamed = socket.as_os_str().to_owned();
    unnamed.push(".new");
    let unnamed = PathBuf::from(unnamed);
    match std::fs::remove_file(&unnamed) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&unnamed).map_err(failed)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&unnamed, mode).map_err(failed)?;
    std::fs::rename(&unnamed, socket).map_err(failed)?;
    Ok(listener)
}
