//! [`Warehouse`]: the one way in, over ClickHouse's HTTP protocol. `insert` has its inserts.

mod insert;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::query::Query;
use clickhouse::{Client, Compression, RowOwned, RowRead};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use insert::INSERT_SETTINGS;

use crate::config::{Password, is_https};
use crate::connector::Connector;
use crate::queries::DamageMet;
use crate::schema::Layout;
use crate::{Target, WarehouseConfig, WarehouseError, tls};

/// Below what ClickHouse keeps an idle connection open, so that no request meets a closing one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Idle connections kept.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// A question that takes so long is told of.
const SLOW: Duration = Duration::from_secs(1);
/// Time for an answer to come after the engine's own limit has ended a statement.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Time for a statement over everything that is stored.
const SLOW_WAIT_MAX: Duration = Duration::from_secs(600);

/// Settings that a server must have. (The embedded engine rests on its own.)
pub(crate) const SERVER_SETTINGS: [&str; 13] = [
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

/// A ClickHouse that holds our tables. Cheap to clone; clones share connections.
///
/// With several [shards](Self::shards), queries read the tables of all of them, and whatever
/// changes tables goes to one shard.
///
/// **With replicas**, `Ok` of an insert means that most of them have the rows (`insert_quorum`), so
/// that no death of one replica loses them. Queries see all of these inserts
/// (`select_sequential_consistency`), or fail where a replica doesn't have them yet. All statements
/// of a shard go to one address.
#[derive(Debug, Clone)]
pub struct Warehouse {
    client: Client,
    places: Arc<Semaphore>,
    compressed: bool,
    user: String,
    database: String,
    cluster: Option<String>,
    is_replicated: bool,
    /// Empty for a single one, which this is itself.
    shards: Arc<[Warehouse]>,
    fsync: bool,
    receipts_days_max: u64,
    insert_rows_max: u64,
    insert_bytes_max: u64,
    insert_wait_max: Duration,
    query_wait_max: Duration,
    damage: DamageMet,
}

/// One statement with its bound parameters: user input only ever comes in through [`with`](Self::with).
pub struct Call {
    sql: String,
    params: Vec<Param>,
    settings: Vec<(&'static str, Cow<'static, str>)>,
    slow: bool,
}

type Param = Box<dyn FnOnce(Query) -> Query + Send>;

impl Call {
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
    pub(crate) fn fenced_by(mut self, condition: &str) -> Self {
        self.sql = self.sql.replace("{fence}", condition);
        self
    }

    /// Lets it run for minutes: it goes over everything, and a person waits for it.
    pub fn slow(mut self) -> Self {
        self.slow = true;
        self
    }
}

impl Warehouse {
    /// Makes a client. Connects to nothing yet: an unreachable warehouse shows at the first call.
    ///
    /// # Errors
    /// [`WarehouseError::Config`].
    pub fn new(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        config.validate().map_err(WarehouseError::Config)?;
        let connector = Connector {
            target: target.clone(),
            tls: match target {
                Target::Url(url) if is_https(url) => Some(tls::client_config(config).map_err(WarehouseError::Config)?),
                _ => None,
            },
            wait_max: Duration::from_millis(config.connect_wait_ms_max),
        };
        let connect = move |uri: http::Uri| Box::pin(connector.clone().open(uri));
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(tower::service_fn(connect));
        let mut client = Client::with_http_client(http).with_database(&config.database);
        // Over a socket of this machine, compression would only cost.
        let compressed = matches!(target, Target::Url(_));
        client = client.with_compression(if compressed {
            Compression::Lz4
        } else {
            Compression::None
        });
        client = match target {
            Target::Socket(_) => client.with_url("http://localhost"),
            Target::Url(url) => on_server(client.with_url(url.trim_end_matches('/')), config),
        };
        if let Some(user) = &config.user {
            client = client.with_user(user);
        }
        if let Some(password) = &config.password {
            client = client.with_password(Password::expose(password));
        }
        let damage = DamageMet::default();
        let shards = config.of_shards();
        let shards = shards.iter().map(|shard| {
            let url = shard.url.clone().unwrap_or_default();
            let shard = Self::new(&Target::Url(url), shard)?;
            Ok(Self {
                damage: damage.clone(),
                ..shard
            })
        });
        Ok(Self {
            client,
            shards: shards.collect::<Result<_, WarehouseError>>()?,
            places: Arc::new(Semaphore::new(config.connections_max)),
            compressed,
            user: config.user.clone().unwrap_or_else(|| "default".to_owned()),
            database: config.database.clone(),
            cluster: config.cluster.clone(),
            is_replicated: config.replicated,
            fsync: config.fsync || !compressed,
            receipts_days_max: config.receipts_days_max,
            insert_rows_max: config.insert_rows_max,
            insert_bytes_max: config.insert_bytes_max,
            insert_wait_max: Duration::from_millis(config.insert_wait_ms_max),
            query_wait_max: Duration::from_millis(config.query_wait_ms_max),
            damage,
        })
    }

    /// Makes a client and asks the warehouse whether it is there, and a server whether it is
    /// [one that we can use](Self::check_server).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn connect(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        let warehouse = Self::new(target, config)?;
        warehouse.ping().await?;
        if matches!(target, Target::Url(_)) {
            warehouse.check_server().await?;
            for shard in warehouse.shards.iter() {
                shard.check_server().await?;
            }
        }
        Ok(warehouse)
    }

    /// How tables are laid out here.
    pub(crate) fn layout(&self) -> Layout<'_> {
        Layout {
            database: &self.database,
            is_replicated: self.is_replicated,
            fsync: self.fsync,
            receipts_days_max: self.receipts_days_max,
        }
    }

    /// Whether a server answers, rather than the engine in this process.
    pub fn is_server(&self) -> bool {
        self.compressed
    }

    /// The cluster that has the shards, if there are several.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Whether the tables are replicated.
    pub(crate) fn is_replicated(&self) -> bool {
        self.is_replicated
    }

    /// The shards, each as a warehouse of its own, in the order of their numbers.
    #[must_use]
    pub fn shards(&self) -> &[Self] {
        if self.shards.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.shards
        }
    }

    /// A shard as a warehouse of its own.
    ///
    /// # Errors
    /// [`WarehouseError::Config`]: the configuration has no such shard.
    pub fn shard(&self, number: u32) -> Result<&Self, WarehouseError> {
        let shards = self.shards();
        shards.get(number as usize).ok_or_else(|| {
            WarehouseError::Config(format!(
                "shard {number} has no address: warehouse.shards has {} of them",
                shards.len()
            ))
        })
    }

    /// Whose rights we have.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The most rows and bytes that one insert may have.
    #[must_use]
    pub fn insert_limits(&self) -> (u64, u64) {
        (self.insert_rows_max, self.insert_bytes_max)
    }

    /// How old receipts may get, in days.
    #[must_use]
    pub fn receipts_days_max(&self) -> u64 {
        self.receipts_days_max
    }

    /// The database that holds the tables.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether the warehouse answers a query.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn ping(&self) -> Result<(), WarehouseError> {
        self.one_outside::<u8>("ping", Call::new("SELECT 1")).await.map(drop)
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>, WarehouseError> {
        // Never closed; waiting ends with the statement's time.
        let place = self.places.acquire().await;
        place.map_err(|_| WarehouseError::Unavailable("the client is closed".to_owned()))
    }

    /// All rows of a query. `name` is its label in metrics.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn rows<T: RowOwned + RowRead>(&self, name: &'static str, call: Call) -> Result<Vec<T>, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_all::<T>().await?) })
            .await
    }

    /// The one row of a query.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn one<T: RowOwned + RowRead>(&self, name: &'static str, call: Call) -> Result<T, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_one::<T>().await?) })
            .await
    }

    /// Runs a statement that answers with nothing.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn execute(&self, name: &'static str, call: Call) -> Result<(), WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.execute().await?) })
            .await
    }

    /// As [`rows`](Self::rows), where our database may not be there yet.
    pub(crate) async fn rows_outside<T: RowOwned + RowRead>(
        &self,
        name: &'static str,
        call: Call,
    ) -> Result<Vec<T>, WarehouseError> {
        self.in_default().rows(name, call).await
    }

    /// As [`one`](Self::one), where our database may not be there yet.
    pub(crate) async fn one_outside<T: RowOwned + RowRead>(
        &self,
        name: &'static str,
        call: Call,
    ) -> Result<T, WarehouseError> {
        self.in_default().one(name, call).await
    }

    /// As [`execute`](Self::execute), where our database may not be there yet.
    pub(crate) async fn outside(&self, name: &'static str, call: Call) -> Result<(), WarehouseError> {
        self.in_default().execute(name, call).await
    }

    fn in_default(&self) -> Self {
        let mut outside = self.clone();
        outside.client = outside.client.with_database("default");
        outside
    }

    fn query(&self, call: Call) -> (Query, Duration) {
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
            let _place = self.place().await?;
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
                "a slow question of the warehouse; wait_ms is for a place"
            );
        }
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the query took too long".to_owned())));
        let result = result.map_err(|error| error.of_stored_data().naming(&self.user));
        metrics::histogram!("receipts_warehouse_query_seconds", "query" => name).record(started.elapsed());
        if let Err(error) = &result {
            count_error(error);
            self.damage.note(error);
        }
        result
    }

    /// What a statement met of damage.
    pub(crate) fn damage_met(&self) -> &DamageMet {
        &self.damage
    }
}

/// What a server must be told with each statement; the embedded engine rests on it.
fn on_server(client: Client, config: &WarehouseConfig) -> Client {
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
