//! [`ClickHouseClient`]: statements and inserts over ClickHouse's HTTP protocol.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clickhouse::query::Query;
use clickhouse::{Compression, RowOwned, RowRead};
use config::Section;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::is_https;
use crate::tls::ReloadableTls;
use crate::{Target, WarehouseConfig, WarehouseError};

/// Below what ClickHouse keeps an idle connection open, so that no request meets a closing one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Idle connections retained.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// A query that takes so long is logged.
const SLOW: Duration = Duration::from_secs(1);
/// Time for an answer to come after the engine's own limit has ended a statement.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Time for a statement over everything that is stored.
const SLOW_WAIT_MAX: Duration = Duration::from_secs(600);

/// Bytes that are sent at a time, and compressed before for a remote server: short work between
/// two awaits.
const PIECE_BYTES: usize = 256 << 10;

/// Settings of every insert.
pub const INSERT_SETTINGS: [(&str, &str); 3] = [
    // An acknowledged insert is on disk: nothing may be gathered in memory first.
    ("async_insert", "0"),
    // A rewritten block must be written: the one of before may have been lost since.
    ("insert_deduplicate", "0"),
    // Merges unite rows of equal keys; doing it in each block as well would cost a quarter more.
    ("optimize_on_insert", "0"),
];

/// Settings that a server must have. (The embedded engine rests on its own.)
pub const SERVER_SETTINGS: [&str; 13] = [
    "async_insert",
    "insert_deduplicate",
    "optimize_on_insert",
    "session_timezone",
    "max_result_rows",
    "insert_quorum",
    "insert_quorum_parallel",
    "insert_quorum_timeout",
    "select_sequential_consistency",
    "distributed_product_mode",
    "load_balancing",
    "prefer_localhost_replica",
    "skip_unavailable_shards",
];

/// A client of one ClickHouse. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct ClickHouseClient {
    client: clickhouse::Client,
    tls: Option<Arc<ReloadableTls>>,
    permits: Arc<Semaphore>,
    is_server: bool,
    user: String,
    database: String,
    insert_rows_max: u64,
    insert_bytes_max: u64,
    insert_wait_max: Duration,
    query_wait_max: Duration,
    damage: Arc<Mutex<Option<Damage>>>,
    keeps_damage: fn(&str) -> bool,
    answered: Arc<Mutex<Option<Instant>>>,
}

/// Damage of stored data that a statement met.
#[derive(Debug, Clone)]
pub struct Damage {
    /// ClickHouse's message, which names the part.
    pub message: String,
    /// When it was met, or found again.
    pub checked: Instant,
}

/// A statement with its bound parameters: user input only ever comes in through
/// [`with`](Self::with).
pub struct SqlStatement {
    sql: String,
    params: Vec<Param>,
    settings: Vec<(&'static str, Cow<'static, str>)>,
    slow: bool,
}

type Param = Box<dyn FnOnce(Query) -> Query + Send>;

impl SqlStatement {
    /// SQL of ours, with `{name:Type}` where parameters go.
    pub fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            params: Vec::new(),
            settings: Vec::new(),
            slow: false,
        }
    }

    /// Binds a parameter.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Serialize + Send + 'static) -> Self {
        let name = name.into();
        self.params.push(Box::new(move |query| query.param(&name, value)));
        self
    }

    /// Sets a setting of ClickHouse's for it.
    pub fn set(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// Replaces `{fence}` in the SQL by this condition.
    #[must_use]
    pub fn fenced_by(mut self, condition: &str) -> Self {
        self.sql = self.sql.replace("{fence}", condition);
        self
    }

    /// Lets it run for minutes: it goes over everything, and a person waits for it.
    pub fn slow(mut self) -> Self {
        self.slow = true;
        self
    }
}

impl ClickHouseClient {
    /// Makes a client of `config.database`. Connects to nothing yet: an unreachable ClickHouse
    /// shows at the first call. [`Self::damage`] keeps damage whose message `keeps_damage` accepts.
    pub fn new(
        target: &Target,
        config: &WarehouseConfig,
        keeps_damage: fn(&str) -> bool,
    ) -> Result<Self, WarehouseError> {
        config.checked("warehouse")?;
        let connector = target.connector(config).map_err(WarehouseError::Config)?;
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector.clone());
        let mut client = clickhouse::Client::with_http_client(http).with_database(&config.database);
        let is_server = matches!(target, Target::Url(_));
        let has_tls = matches!(target, Target::Url(url) if is_https(url));
        let tls = has_tls.then(|| ReloadableTls {
            files: config.tls_files(),
            connector,
        });
        // Over a socket of this machine, compression would only cost.
        client = client.with_compression(if is_server { Compression::Lz4 } else { Compression::None });
        client = match target {
            Target::Socket(_) => client.with_url("http://localhost"),
            Target::Url(url) => on_server(client.with_url(url.trim_end_matches('/')), config),
        };
        if let Some(user) = &config.user {
            client = client.with_user(user);
        }
        if let Some(password) = &config.password {
            client = client.with_password(password.reveal());
        }
        Ok(Self {
            client,
            tls: tls.map(Arc::new),
            permits: Arc::new(Semaphore::new(config.connections_max)),
            is_server,
            user: config.user.clone().unwrap_or_else(|| "default".to_owned()),
            database: config.database.clone(),
            insert_rows_max: config.insert_rows_max,
            insert_bytes_max: config.insert_bytes_max,
            insert_wait_max: Duration::from_millis(config.insert_wait_ms_max),
            query_wait_max: Duration::from_millis(config.query_wait_ms_max),
            damage: Arc::default(),
            keeps_damage,
            answered: Arc::default(),
        })
    }

    /// Reads the files of certificates and keys again, for further connections of this client and
    /// its clones. Without TLS there is nothing to read.
    ///
    /// # Errors
    /// A file that can't be used, in words that name the key. Nothing is changed then.
    pub fn reload_tls(&self) -> Result<(), WarehouseError> {
        let reloaded = self.tls.as_ref().map_or(Ok(()), |tls| tls.reload());
        reloaded.map_err(WarehouseError::Config)
    }

    /// Shares the other client's record of damage.
    #[must_use]
    pub fn with_damage_of(self, other: &Self) -> Self {
        Self {
            damage: Arc::clone(&other.damage),
            ..self
        }
    }

    /// Returns a client of the database `default`, for when ours may not exist yet.
    #[must_use]
    pub fn outside(&self) -> Self {
        Self {
            client: self.client.clone().with_database("default"),
            ..self.clone()
        }
    }

    /// Whether a server answers, rather than the engine in this process.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.is_server
    }

    /// User whose rights we have.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The most rows and bytes that one insert may have.
    #[must_use]
    pub fn insert_limits(&self) -> (u64, u64) {
        (self.insert_rows_max, self.insert_bytes_max)
    }

    /// The database that holds the tables.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether the warehouse answers a query.
    pub async fn ping(&self) -> Result<(), WarehouseError> {
        self.outside()
            .one::<u8>("ping", SqlStatement::new("SELECT 1"))
            .await
            .map(drop)
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, WarehouseError> {
        // Never closed; waiting ends with the statement's time.
        let permit = self.permits.acquire().await;
        permit.map_err(|_| WarehouseError::Unavailable("the client is closed".to_owned()))
    }

    /// All rows of a query. `name` is its label in metrics.
    pub async fn rows<T: RowOwned + RowRead>(
        &self,
        name: &'static str,
        call: SqlStatement,
    ) -> Result<Vec<T>, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_all::<T>().await?) })
            .await
    }

    /// The one row of a query.
    pub async fn one<T: RowOwned + RowRead>(
        &self,
        name: &'static str,
        call: SqlStatement,
    ) -> Result<T, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_one::<T>().await?) })
            .await
    }

    /// Runs a statement that answers with nothing.
    pub async fn execute(&self, name: &'static str, call: SqlStatement) -> Result<(), WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.execute().await?) })
            .await
    }

    /// Inserts `rows` rows, which `stream` has in the format of the statement. `Ok` means that they
    /// are durable. `table` is the label in metrics.
    pub async fn insert(
        &self,
        table: &'static str,
        sql: String,
        rows: u64,
        stream: Bytes,
        query_id: Option<String>,
    ) -> Result<(), WarehouseError> {
        within("an insert's rows", rows, self.insert_rows_max)?;
        within("an insert's bytes", stream.len() as u64, self.insert_bytes_max)?;
        let started = Instant::now();
        let sent = async {
            let _permit = self.permit().await?;
            self.send(sql, stream, query_id).await
        };
        let result = tokio::time::timeout(self.insert_wait_max + ANSWER_SLACK, sent).await;
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the insert took too long".to_owned())));
        let result = result.map_err(|error| error.naming(&self.user));
        metrics::histogram!("receipts_warehouse_insert_seconds", "table" => table).record(started.elapsed());
        match &result {
            Ok(()) => metrics::counter!("receipts_warehouse_insert_rows_total", "table" => table).increment(rows),
            Err(error) => count_error(error),
        }
        result
    }

    async fn send(&self, sql: String, stream: Bytes, query_id: Option<String>) -> Result<(), WarehouseError> {
        let mut insert = self.client.insert_formatted_with(sql);
        for (setting, value) in INSERT_SETTINGS {
            insert = insert.with_setting(setting, value);
        }
        if let Some(query_id) = query_id {
            insert = insert.with_setting("query_id", query_id);
        }
        for start in (0..stream.len()).step_by(PIECE_BYTES) {
            let end = stream.len().min(start + PIECE_BYTES);
            // Dropping the insert after an error aborts it: nothing is stored.
            insert.send(stream.slice(start..end)).await?;
        }
        insert.end().await?;
        Ok(())
    }

    fn query(&self, call: SqlStatement) -> (Query, Duration) {
        let wait_max = if call.slow { SLOW_WAIT_MAX } else { self.query_wait_max };
        let query = call
            .params
            .into_iter()
            .fold(self.client.query(&call.sql), |query, param| param(query));
        let query = call
            .settings
            .into_iter()
            .fold(query, |query, (name, value)| query.with_setting(name, value));
        (
            query.with_setting("max_execution_time", format!("{:.3}", wait_max.as_secs_f64())),
            wait_max,
        )
    }

    async fn timed<T>(
        &self,
        name: &'static str,
        wait_max: Duration,
        work: impl Future<Output = Result<T, WarehouseError>>,
    ) -> Result<T, WarehouseError> {
        let started = Instant::now();
        // Boxed: the client's futures are large, and they would sit in every caller's.
        let mut waited = None;
        let placed = async {
            let _permit = self.permit().await?;
            waited = Some(started.elapsed());
            work.await
        };
        let result = tokio::time::timeout(wait_max + ANSWER_SLACK, Box::pin(placed)).await;
        if started.elapsed() >= SLOW {
            let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let (took_ms, wait_ms) = (ms(started.elapsed()), waited.map(ms));
            tracing::info!(
                query = name,
                took_ms,
                wait_ms,
                "a slow question of the warehouse; wait_ms is for a permit"
            );
        }
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the query took too long".to_owned())));
        let result = result.map_err(|error| error.of_stored_data().naming(&self.user));
        metrics::histogram!("receipts_warehouse_query_seconds", "query" => name).record(started.elapsed());
        match &result {
            Ok(_) => *self.answered.lock() = Some(Instant::now()),
            Err(error) => {
                count_error(error);
                self.note_damage(error);
            }
        }
        result
    }

    /// Whether a query succeeded within this time.
    #[must_use]
    pub fn answered_within(&self, age_max: Duration) -> bool {
        self.answered
            .lock()
            .is_some_and(|answered| answered.elapsed() < age_max)
    }

    fn note_damage(&self, error: &WarehouseError) {
        let WarehouseError::Damaged(message) = error else {
            return;
        };
        tracing::error!(%error, "the warehouse's stored data is damaged");
        if (self.keeps_damage)(message) {
            *self.damage.lock() = Some(Damage {
                message: message.clone(),
                checked: Instant::now(),
            });
        }
    }

    /// The newest damage that a statement met, until somebody takes it out.
    pub fn damage(&self) -> MutexGuard<'_, Option<Damage>> {
        self.damage.lock()
    }
}

/// Settings that a server gets with each statement; the embedded engine rests on it.
fn on_server(client: clickhouse::Client, config: &WarehouseConfig) -> clickhouse::Client {
    let client = client
        // Errors then come instead of an answer, not in the middle of it.
        .with_setting("wait_end_of_query", "1")
        .with_setting("session_timezone", "UTC")
        .with_setting("max_result_rows", config.result_rows_max.to_string())
        .with_setting("result_overflow_mode", "throw");
    let client = if config.cluster.is_some() {
        client
            .with_setting("distributed_product_mode", "global")
            .with_setting("load_balancing", "in_order")
            .with_setting("prefer_localhost_replica", "0")
            .with_setting("skip_unavailable_shards", "0")
    } else {
        client
    };
    if !config.replicated {
        return client;
    }
    let quorum = match config.insert_quorum {
        0 => "auto".to_owned(),
        replicas => replicas.to_string(),
    };
    client
        .with_setting("insert_quorum", quorum)
        // Only then can a query see that a replica lacks an insert.
        .with_setting("insert_quorum_parallel", "0")
        .with_setting("insert_quorum_timeout", config.insert_wait_ms_max.to_string())
        .with_setting("select_sequential_consistency", "1")
}

fn count_error(error: &WarehouseError) {
    metrics::counter!("receipts_warehouse_errors_total", "kind" => error.kind()).increment(1);
}

fn within(what: &'static str, size: u64, max: u64) -> Result<(), WarehouseError> {
    if size > max {
        return Err(WarehouseError::TooLarge { what, size, max });
    }
    Ok(())
}
