//! The shared engine, and one test's database, log of verdicts and writers.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogConsumer, LogInspector, LogWriter, Record, Topic};
use service::cpu::CpuPool;
use service::health::Health;
use test_engines::fault_proxy::FaultProxy;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use warehouse::{EmbeddedEngine, PartitionProgress, ShardProgress, Target, Warehouse, WarehouseConfig};
use writer::{Deps, GROUP, WriterConfig, WriterError};

use crate::verdicts::Source;

const USER: &str = "writer";
const PASSWORD: &str = "secret";
/// No test waits longer for anything.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(300);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().unwrap()
});

struct Shared {
    engine: EmbeddedEngine,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

static ENGINE: LazyLock<Shared> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("w.sock");
    let (config, data) = (WarehouseConfig::default(), directory.path().join("warehouse"));
    let engine = RUNTIME
        .block_on(EmbeddedEngine::start(&config, &data, &socket))
        .unwrap();
    Shared {
        engine,
        socket,
        _directory: directory,
    }
});

/// Runs a test beside the shared engine.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    LazyLock::force(&ENGINE);
    RUNTIME.block_on(test)
}

fn config() -> WarehouseConfig {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    WarehouseConfig {
        database: format!("w_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        // The rows of these tests are of fixed days.
        rejected_days_max: 2_557,
        ..WarehouseConfig::default()
    }
}

/// A running writer.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) health: Health,
    task: JoinHandle<Result<(), WriterError>>,
}

impl Running {
    pub(crate) async fn ended(self) -> Result<(), WriterError> {
        tokio::time::timeout(WAIT_MAX, self.task)
            .await
            .expect("the writer ends")
            .unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }

    /// Drops it as a crash would.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Why it isn't ready.
    pub(crate) fn reason(&self) -> String {
        let snapshot = self.health.snapshot();
        let writer = snapshot.components.get("writer");
        writer.and_then(|writer| writer.reason.clone()).unwrap_or_default()
    }
}

/// Database and log of a test.
pub(crate) struct World {
    pub(crate) warehouse: Warehouse,
    pub(crate) config: WriterConfig,
    log: EmbeddedLog,
    directory: tempfile::TempDir,
    lives: u32,
    cpu: CpuPool,
    /// Of the last writer.
    health: parking_lot::Mutex<Health>,
    /// Server that answers [`Self::sql`], if not the shared engine.
    server: Option<std::net::SocketAddr>,
}

impl World {
    /// Over the engine's socket, as `receipts up` runs it.
    pub(crate) async fn new() -> Self {
        Self::over(&Target::Socket(ENGINE.socket.clone()), config()).await
    }

    /// Over the socket, with limits of inserts.
    pub(crate) async fn limited(insert_rows_max: u64) -> Self {
        let config = WarehouseConfig {
            insert_rows_max,
            ..config()
        };
        Self::over(&Target::Socket(ENGINE.socket.clone()), config).await
    }

    /// Over TCP and a proxy, as a server.
    pub(crate) async fn behind_proxy() -> (Self, FaultProxy) {
        let proxy = FaultProxy::start(tcp().await).await.unwrap();
        let (target, config) = server(&proxy, config());
        (Self::over(&target, config).await, proxy)
    }

    async fn over(target: &Target, config: WarehouseConfig) -> Self {
        let warehouse = Warehouse::connect(target, &config).await.unwrap();
        warehouse.migrate().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self {
            warehouse,
            config: WriterConfig {
                insert_interval_ms: 10,
                evidence_interval_ms: 20,
                retry_wait_ms_min: 5,
                retry_wait_ms_max: 50,
                drain_ms_max: 2_000,
                ..WriterConfig::default()
            },
            log: open(&directory.path().join("0")),
            directory,
            lives: 0,
            cpu: CpuPool::new("writer", 1, 8).unwrap(),
            health: parking_lot::Mutex::default(),
            server: None,
        }
    }

    /// Over a ClickHouse server, which gives all rights to users without a name.
    pub(crate) async fn on_server(address: std::net::SocketAddr, user: &str, password: &str) -> Self {
        let config = server_config(address, user, password);
        let target = Target::Url(config.url.clone().unwrap());
        Self {
            server: Some(address),
            ..Self::over(&target, config).await
        }
    }

    /// Another client of the same database, through a proxy of its own.
    pub(crate) async fn second_client(&self) -> (Warehouse, FaultProxy) {
        let proxy = FaultProxy::start(tcp().await).await.unwrap();
        let same = WarehouseConfig {
            database: self.warehouse.database().to_owned(),
            ..WarehouseConfig::default()
        };
        let (target, config) = server(&proxy, same);
        (Warehouse::connect(&target, &config).await.unwrap(), proxy)
    }

    /// A client of the same database with another password.
    pub(crate) fn with_password(&self, proxy: &FaultProxy, password: &str) -> Warehouse {
        let same = WarehouseConfig {
            database: self.warehouse.database().to_owned(),
            ..WarehouseConfig::default()
        };
        let (target, config) = server(proxy, same);
        let wrong = WarehouseConfig {
            password: Some(password.into()),
            ..config
        };
        Warehouse::new(&target, &wrong).unwrap()
    }

    /// Replaces the log by an empty one with another epoch.
    pub(crate) fn recreate_log(&mut self) {
        self.lives += 1;
        self.log = open(&self.directory.path().join(self.lives.to_string()));
    }

    pub(crate) async fn append(&self, record: Bytes) -> u64 {
        let record = Record::verdicts(record, service::instant::now_ms());
        self.log.append(record).await.unwrap().position.offset
    }

    pub(crate) fn consumer(&self, group: &str) -> Box<dyn LogConsumer> {
        Box::new(self.log.consumer(group).unwrap())
    }

    pub(crate) fn spawn(&self) -> Running {
        self.spawn_with(self.consumer(GROUP), self.warehouse.clone())
    }

    pub(crate) fn spawn_with(&self, consumer: Box<dyn LogConsumer>, warehouse: Warehouse) -> Running {
        self.spawn_deps(consumer, None, warehouse)
    }

    /// A writer that stores evidence, too.
    pub(crate) fn spawn_with_evidence(&self, warehouse: Warehouse) -> Running {
        let evidence = self.consumer(writer::EVIDENCE_GROUP);
        self.spawn_deps(self.consumer(GROUP), Some(evidence), warehouse)
    }

    fn spawn_deps(
        &self,
        consumer: Box<dyn LogConsumer>,
        evidence: Option<Box<dyn LogConsumer>>,
        warehouse: Warehouse,
    ) -> Running {
        let (stop, health) = (CancellationToken::new(), Health::new());
        *self.health.lock() = health.clone();
        let deps = Deps {
            consumer,
            evidence,
            warehouse,
            deletes_after_ms: None,
            cpu: self.cpu.clone(),
            health: health.clone(),
        };
        let task = tokio::spawn(writer::run(self.config.clone(), deps, stop.clone()));
        Running { stop, health, task }
    }

    /// A copy of the tables as they are now, as a backup would have them.
    pub(crate) async fn copy(&self) -> Warehouse {
        let config = WarehouseConfig {
            database: format!("{}_copy", self.warehouse.database()),
            ..WarehouseConfig::default()
        };
        let target = Target::Socket(ENGINE.socket.clone());
        let copy = Warehouse::connect(&target, &config).await.unwrap();
        copy.migrate().await.unwrap();
        let tables = "SELECT name FROM system.tables WHERE database = currentDatabase()";
        for table in self.sql(tables).await.lines() {
            let copied = format!("INSERT INTO {}.{table} SELECT * FROM {table}", config.database);
            self.sql(&copied).await;
        }
        copy
    }

    /// Lets retention delete what every group has committed.
    pub(crate) async fn truncate_log(&mut self) {
        self.log.close();
        let config = EmbeddedConfig {
            retention_bytes_max: 1,
            ..log_config()
        };
        let directory = self.directory.path().join(self.lives.to_string());
        self.log = EmbeddedLog::open_topic(Topic::Verdicts, &directory, config).unwrap();
        let state = self.log.partitions(GROUP).await.unwrap().remove(0);
        assert!(state.begin_offset > 0, "{state:?}");
    }

    /// Waits until the tables have everything in the log.
    pub(crate) async fn stored(&self) {
        let end = self.log.partitions(GROUP).await.unwrap().remove(0).end_offset;
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let published = self.warehouse.progress().await.unwrap();
            if published.iter().any(|shard| shard.verdicts.offset == end) {
                return;
            }
            assert!(Instant::now() < deadline, "{published:?} of {end}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until there is evidence of everything in the log, which has so many receipts.
    pub(crate) async fn evidence(&self, receipts: u64) {
        let end = self.log.partitions(GROUP).await.unwrap().remove(0).end_offset;
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let found = self.number("SELECT count() FROM evidence FINAL").await;
            assert!(found <= receipts, "{found} of {receipts}");
            let position = self.warehouse.evidence_progress(0).await.unwrap();
            if found == receipts && position.map(|stored| stored.offset) == Some(end) {
                return;
            }
            assert!(Instant::now() < deadline, "{found} of {receipts}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops or starts merges of this world's tables.
    pub(crate) async fn merges(&self, word: &str) {
        let tables = "SELECT name FROM system.tables WHERE database = currentDatabase()";
        for table in self.sql(tables).await.lines() {
            self.sql(&format!("SYSTEM {word} MERGES {table}")).await;
        }
    }

    /// Rows of each table, merged or not.
    pub(crate) async fn rows(&self, tables: &[&str]) -> Vec<u64> {
        let mut counts = Vec::new();
        for table in tables {
            counts.push(self.number(&format!("SELECT count() FROM {table}")).await);
        }
        counts
    }

    /// Waits until the group has committed everything in the log.
    pub(crate) async fn caught_up(&self, group: &str) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let state = self.log.partitions(group).await.unwrap().remove(0);
            if state.committed.as_ref().map_or(0, |made| made.next_offset) == state.end_offset {
                return;
            }
            let health = self.health.lock().snapshot();
            assert!(
                Instant::now() < deadline,
                "the writer doesn't catch up: {state:?}, {health:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn run_until_caught_up(&self) {
        let writer = self.spawn();
        self.caught_up(GROUP).await;
        writer.stop().await;
    }

    pub(crate) async fn progress(&self) -> ShardProgress {
        let mut shards = self.warehouse.progress().await.unwrap();
        assert_eq!(shards.len(), 1);
        shards.remove(0)
    }

    /// Compares tables, ledger and progress with what was appended.
    pub(crate) async fn assert_exact(&self, sources: &[&Source]) {
        self.assert_refused(sources, 0).await;
    }

    /// As [`Self::assert_exact`], where the table refused so many valid receipts, each of one
    /// occurrence.
    pub(crate) async fn assert_refused(&self, sources: &[&Source], refused: u64) {
        let occurrences: u64 = sources.iter().map(|source| source.occurrences()).sum();
        let rejected: u64 = sources.iter().map(|source| source.rejected).sum();
        let receipts = sources
            .iter()
            .flat_map(|source| source.receipts())
            .collect::<std::collections::BTreeSet<_>>();
        let totals = self.warehouse.totals().await.unwrap();
        assert_eq!(
            (totals.receipts, totals.occurrences, totals.rejected),
            (
                receipts.len() as u64 - refused,
                occurrences - refused,
                rejected + refused
            )
        );
        let of_table = totals
            .rejected_by_reason
            .iter()
            .find(|(reason, _)| reason == warehouse::REFUSED_BY_WAREHOUSE);
        assert_eq!(of_table.map_or(0, |(_, count)| *count), refused);
        self.assert_counted(receipts.len() as u64 - refused).await;
        self.assert_progress(sources).await;
        let committed: Vec<_> = self
            .progress()
            .await
            .partitions
            .iter()
            .map(PartitionProgress::committed)
            .collect();
        let sums = self.warehouse.audit(&committed).await.unwrap();
        assert!(sums.findings.is_empty(), "{:?}", sums.findings);
        assert_eq!(
            (sums.accepted, sums.rejected),
            (occurrences - refused, rejected + refused)
        );
        assert_eq!(
            (sums.receipts_in, sums.uncommitted_positions),
            (occurrences + rejected, 0)
        );
        assert_eq!(
            sums.records,
            sources.iter().map(|source| source.next_offset).sum::<u64>()
        );
    }

    /// Checks that `usage` has so many receipts, each once in every grain.
    async fn assert_counted(&self, receipts: u64) {
        let sums = "SELECT arrayStringConcat(groupArray(toString(sum)), ',') FROM
            (SELECT sum(receipts) AS sum FROM usage GROUP BY grain ORDER BY grain)";
        let expected = if receipts == 0 {
            String::new()
        } else {
            vec![receipts.to_string(); 5].join(",")
        };
        assert_eq!(self.sql(sums).await, expected);
        let keys = "SELECT count() FROM
            (SELECT time, key FROM usage WHERE grain = 'counted' GROUP BY time, key HAVING sum(receipts) = 1)";
        assert_eq!(self.number(keys).await, receipts);
        let differences = "SELECT count() FROM (
            SELECT entry_id, sum(n) FROM (
                SELECT entry_id, toInt64(1) AS n FROM receipts FINAL
                UNION ALL SELECT entry_id, -receipts FROM usage WHERE grain = 'entry')
            GROUP BY entry_id HAVING sum(n) != 0)";
        assert_eq!(self.number(differences).await, 0);
    }

    pub(crate) async fn assert_progress(&self, sources: &[&Source]) {
        let progress = self.progress().await;
        let partition = |source: &&Source| PartitionProgress {
            epoch: source.epoch,
            partition: source.partition,
            first_offset: 0,
            next_offset: source.next_offset,
            complete_through_ms: source.complete_through_ms,
        };
        assert_eq!(progress.partitions, sources.iter().map(partition).collect::<Vec<_>>());
        let state = self.log.partitions(GROUP).await.unwrap().remove(0);
        assert_eq!(
            (progress.verdicts.epoch, progress.verdicts.offset),
            (state.epoch, state.end_offset)
        );
        assert_eq!(progress.source_partitions, sources[0].partitions);
    }

    /// Runs SQL as an operator would.
    pub(crate) async fn sql(&self, statement: &str) -> String {
        let request = format!(
            "POST /?database={}&mutations_sync=2&wait_end_of_query=1 HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n\
             {statement}",
            self.warehouse.database(),
            statement.len()
        );
        let answer = match self.server {
            Some(address) => exchange(TcpStream::connect(address).await.unwrap(), &request).await,
            None => exchange(UnixStream::connect(&ENGINE.socket).await.unwrap(), &request).await,
        };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 OK"), "{statement}: {answer}");
        body.trim().to_owned()
    }

    pub(crate) async fn number(&self, statement: &str) -> u64 {
        self.sql(statement).await.parse().unwrap()
    }

    pub(crate) async fn constrain(&self, check: &str) {
        self.sql(&format!("ALTER TABLE receipts ADD CONSTRAINT poison CHECK {check}"))
            .await;
    }

    pub(crate) async fn unconstrain(&self) {
        self.sql("ALTER TABLE receipts DROP CONSTRAINT poison").await;
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The database `receipts` of a ClickHouse server.
pub(crate) fn server_config(address: std::net::SocketAddr, user: &str, password: &str) -> WarehouseConfig {
    WarehouseConfig {
        url: Some(format!("http://{address}")),
        user: Some(user.to_owned()),
        password: Some(password.into()),
        ..WarehouseConfig::default()
    }
}

pub(crate) async fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn open(directory: &std::path::Path) -> EmbeddedLog {
    EmbeddedLog::open_topic(Topic::Verdicts, directory, log_config()).unwrap()
}

fn log_config() -> EmbeddedConfig {
    EmbeddedConfig {
        segment_bytes: 256 << 10,
        record_bytes_max: 128 << 10,
        queue_bytes_max: 4 << 20,
        ..EmbeddedConfig::verdicts()
    }
}

/// The engine's TCP endpoint.
async fn tcp() -> std::net::SocketAddr {
    static ADDRESS: tokio::sync::OnceCell<std::net::SocketAddr> = tokio::sync::OnceCell::const_new();
    let start = || async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        ENGINE.engine.serve_tcp(listener, USER, PASSWORD).unwrap();
        address
    };
    *ADDRESS.get_or_init(start).await
}

fn server(proxy: &FaultProxy, config: WarehouseConfig) -> (Target, WarehouseConfig) {
    let url = format!("http://{}", proxy.address());
    let config = WarehouseConfig {
        url: Some(url.clone()),
        user: Some(USER.to_owned()),
        password: Some(PASSWORD.into()),
        insert_wait_ms_max: 3_000,
        ..config
    };
    (Target::Url(url), config)
}
