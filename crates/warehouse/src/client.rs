//! [`Warehouse`]: the one way in, over ClickHouse's HTTP protocol.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clickhouse::insert_formatted::CompressedData;
use clickhouse::query::Query;
use clickhouse::{Client, Compression, RowOwned, RowRead};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;

use crate::queries::DamageMet;
use crate::row::{LedgerRow, ReceiptRow, RejectedRow, ReplayRow};
use crate::threads::on_own_thread;
use crate::{Target, WarehouseConfig, WarehouseError};

/// Below what ClickHouse keeps an idle connection open, so that no request meets a closing one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Idle connections kept.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// Time for an answer to come after the engine's own limit has ended a statement.
const ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Time for a statement over everything that is stored.
const SLOW_WAIT_MAX: Duration = Duration::from_secs(600);
/// Bytes compressed at a time for a remote server.
const COMPRESS_BYTES: usize = 1 << 20;

/// A ClickHouse that holds our tables. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Warehouse {
    client: Client,
    compressed: bool,
    database: String,
    insert_rows_max: u64,
    insert_bytes_max: u64,
    insert_wait_max: Duration,
    query_wait_max: Duration,
    damage: DamageMet,
}

/// One statement with its bound parameters: user input only ever comes in through [`with`](Self::with).
pub(crate) struct Call {
    sql: String,
    params: Vec<Param>,
    slow: bool,
}

type Param = Box<dyn FnOnce(Query) -> Query + Send>;

impl Call {
    /// SQL of ours, with `{name:Type}` where parameters go.
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            params: Vec::new(),
            slow: false,
        }
    }

    /// Binds a parameter.
    pub(crate) fn with(mut self, name: &'static str, value: impl Serialize + Send + 'static) -> Self {
        self.params.push(Box::new(move |query| query.param(name, value)));
        self
    }

    /// Lets it run for minutes: it goes over everything, and a person waits for it.
    pub(crate) fn slow(mut self) -> Self {
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
        let connect = {
            let target = target.clone();
            move |uri: http::Uri| Box::pin(target.clone().open(uri.authority().map(ToString::to_string)))
        };
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
            Target::Url(url) => client.with_url(url.trim_end_matches('/')),
        };
        if let Some(user) = &config.user {
            client = client.with_user(user);
        }
        if let Some(password) = &config.password {
            client = client.with_password(password);
        }
        Ok(Self {
            client,
            compressed,
            database: config.database.clone(),
            insert_rows_max: config.insert_rows_max,
            insert_bytes_max: config.insert_bytes_max,
            insert_wait_max: Duration::from_millis(config.insert_wait_ms_max),
            query_wait_max: Duration::from_millis(config.query_wait_ms_max),
            damage: DamageMet::default(),
        })
    }

    /// Makes a client and asks the warehouse whether it is there.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn connect(target: &Target, config: &WarehouseConfig) -> Result<Self, WarehouseError> {
        let warehouse = Self::new(target, config)?;
        warehouse.ping().await?;
        Ok(warehouse)
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
        let mut outside = self.clone();
        outside.client = outside.client.with_database("default");
        outside.one::<u8>("ping", Call::new("SELECT 1")).await.map(drop)
    }

    /// Inserts `count` rows encoded by [`ReceiptRow::encode`], in pieces of any size, as one block. `Ok` means they
    /// are durable. Inserting the same rows again changes nothing, so an error that
    /// [may pass](WarehouseError::is_retryable) is answered by sending the block again.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_receipts(&self, rows: Vec<Bytes>, count: u64) -> Result<(), WarehouseError> {
        self.insert(ReceiptRow::TABLE, ReceiptRow::COLUMNS, rows, count).await
    }

    /// Inserts `count` rows encoded by [`RejectedRow::encode`]; as [`insert_receipts`](Self::insert_receipts).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_rejected(&self, rows: Vec<Bytes>, count: u64) -> Result<(), WarehouseError> {
        self.insert(RejectedRow::TABLE, RejectedRow::COLUMNS, rows, count).await
    }

    /// Inserts ledger rows; as [`insert_receipts`](Self::insert_receipts).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_ledger(&self, rows: &[LedgerRow]) -> Result<(), WarehouseError> {
        let mut bytes = Vec::with_capacity(rows.len() * 96);
        for row in rows {
            row.encode(&mut bytes);
        }
        self.insert(
            LedgerRow::TABLE,
            LedgerRow::COLUMNS,
            vec![bytes.into()],
            rows.len() as u64,
        )
        .await
    }

    /// Inserts replays; as [`insert_receipts`](Self::insert_receipts).
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn insert_replays(&self, rows: &[ReplayRow]) -> Result<(), WarehouseError> {
        let mut bytes = Vec::with_capacity(rows.len() * 80);
        for row in rows {
            row.encode(&mut bytes);
        }
        self.insert(
            ReplayRow::TABLE,
            ReplayRow::COLUMNS,
            vec![bytes.into()],
            rows.len() as u64,
        )
        .await
    }

    async fn insert(
        &self,
        table: &'static str,
        columns: &str,
        rows: Vec<Bytes>,
        count: u64,
    ) -> Result<(), WarehouseError> {
        if count == 0 {
            return Ok(());
        }
        let size = rows.iter().map(|chunk| chunk.len() as u64).sum();
        for (what, size, max) in [
            ("an insert's rows", count, self.insert_rows_max),
            ("an insert's bytes", size, self.insert_bytes_max),
        ] {
            if size > max {
                return Err(WarehouseError::TooLarge { what, size, max });
            }
        }
        let started = Instant::now();
        let sql = format!("INSERT INTO {table} ({columns}) FORMAT RowBinary");
        let result = tokio::time::timeout(self.insert_wait_max + ANSWER_SLACK, self.send(sql, rows)).await;
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the insert took too long".to_owned())));
        metrics::histogram!("receipts_warehouse_insert_seconds", "table" => table).record(started.elapsed());
        match &result {
            Ok(()) => metrics::counter!("receipts_warehouse_insert_rows_total", "table" => table).increment(count),
            Err(error) => count_error(error),
        }
        result
    }

    async fn send(&self, sql: String, rows: Vec<Bytes>) -> Result<(), WarehouseError> {
        // Merges unite rows of equal keys; doing it in each block as well would cost a quarter more.
        let mut insert = self
            .client
            .insert_formatted_with(sql)
            .with_setting("optimize_on_insert", "0");
        if self.compressed {
            let packed = on_own_thread("warehouse-lz4", move || compress(&rows)).await;
            for data in packed.map_err(|error| WarehouseError::Unavailable(error.to_string()))?? {
                insert.send_compressed(data).await?;
            }
        } else {
            for rows in rows {
                insert.send(rows).await?;
            }
        }
        insert.end().await?;
        Ok(())
    }

    /// All rows of a query. `name` is its label in metrics.
    pub(crate) async fn rows<T: RowOwned + RowRead>(
        &self,
        name: &'static str,
        call: Call,
    ) -> Result<Vec<T>, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_all::<T>().await?) })
            .await
    }

    /// The one row of a query.
    pub(crate) async fn one<T: RowOwned + RowRead>(&self, name: &'static str, call: Call) -> Result<T, WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.fetch_one::<T>().await?) })
            .await
    }

    /// Runs a statement that answers with nothing.
    pub(crate) async fn execute(&self, name: &'static str, call: Call) -> Result<(), WarehouseError> {
        let (query, wait_max) = self.query(call);
        self.timed(name, wait_max, async move { Ok(query.execute().await?) })
            .await
    }

    /// Creates the database that the client's other statements run in.
    pub(crate) async fn create_database(&self) -> Result<(), WarehouseError> {
        let mut outside = self.clone();
        outside.client = outside.client.with_database("default");
        // The name is checked by the configuration: letters, digits, underscores.
        outside
            .execute(
                "migrate",
                Call::new(format!("CREATE DATABASE IF NOT EXISTS `{}`", self.database)),
            )
            .await
    }

    fn query(&self, call: Call) -> (Query, Duration) {
        let wait_max = if call.slow { SLOW_WAIT_MAX } else { self.query_wait_max };
        let query = call
            .params
            .into_iter()
            .fold(self.client.query(&call.sql), |query, param| param(query));
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
        let result = tokio::time::timeout(wait_max + ANSWER_SLACK, Box::pin(work)).await;
        let result = result.unwrap_or_else(|_| Err(WarehouseError::Unavailable("the query took too long".to_owned())));
        let result = result.map_err(WarehouseError::of_stored_data);
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

/// Rows in ClickHouse's LZ4 frames.
fn compress(rows: &[Bytes]) -> Result<Vec<CompressedData>, clickhouse::error::Error> {
    let pieces = rows.iter().flat_map(|rows| {
        let starts = (0..rows.len()).step_by(COMPRESS_BYTES);
        starts.map(|start| rows.slice(start..rows.len().min(start + COMPRESS_BYTES)))
    });
    pieces
        .map(|piece| CompressedData::new(&piece, Compression::Lz4))
        .collect()
}

fn count_error(error: &WarehouseError) {
    metrics::counter!("receipts_warehouse_errors_total", "kind" => error.kind()).increment(1);
}
