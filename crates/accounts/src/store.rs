//! The store itself: opening, asking within bounds, closing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics::histogram;
use quick_cache::sync::Cache;
use sqlx::{Any, AnyPool, Transaction};

use crate::checked_key::CheckedKey;
use crate::circuit::Circuit;
use crate::config::{KeysMax, SessionsMax};
use crate::engine::{self, DatabaseEngine, Opened};
use crate::preparation::Preparation;
use crate::{AccountsConfig, AccountsError};

type StoreClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A query that takes so long is logged.
const SLOW: Duration = Duration::from_secs(1);

/// The account store. Clones share connections and cache.
#[derive(Clone)]
pub struct Accounts {
    pub(crate) pool: AnyPool,
    pub(crate) cache: Arc<Cache<String, Arc<CheckedKey>>>,
    pub(crate) cache_ms_max: i64,
    pub(crate) keys_max: KeysMax,
    pub(crate) sessions_max: SessionsMax,
    engine: DatabaseEngine,
    preparation: Arc<Preparation>,
    /// Of PostgreSQL; SQLite's file is always reached.
    circuit: Option<Arc<Circuit>>,
    wait_ms_max: u64,
    clock: StoreClock,
}

impl Accounts {
    /// Opens the store that `config` names: PostgreSQL, or the file `accounts.sqlite` in `data`,
    /// made for its owner alone if it isn't there. Brings its tables to this version. Several
    /// processes may have it open.
    ///
    /// A PostgreSQL that can't be reached is no error: every question then tries again to reach it
    /// and to prepare its tables, at most once a second, and fails until that succeeds.
    /// [`Accounts::ping`] tells. When it can't be reached later, a query waits for about half a
    /// second or, if nobody refuses its connection, for half of `wait_ms_max`; further ones fail at
    /// once until a probe finds the server again.
    ///
    /// # Errors
    /// [`AccountsError::Open`], [`AccountsError::Damaged`], [`AccountsError::Schema`] or
    /// [`AccountsError::TimedOut`].
    pub async fn open(config: &AccountsConfig, data: &Path) -> Result<Self, AccountsError> {
        Self::open_with_clock(config, data, now_ms).await
    }

    /// Whether there is a store to open: a PostgreSQL is named, or SQLite's file is there.
    #[must_use]
    pub fn is_given(config: &AccountsConfig, data: &Path) -> bool {
        config.postgres_url().is_some() || data.join(engine::FILE).exists()
    }

    /// Opens a store as [`Accounts::open`] does, with a clock of its own, in milliseconds since the
    /// Unix epoch: for tests of what expires.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn open_with_clock(
        config: &AccountsConfig,
        data: &Path,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Result<Self, AccountsError> {
        let Opened { engine, pool, url } = engine::connect(config, data).await?;
        let wait_max = Duration::from_millis(config.wait_ms_max);
        let accounts = Self {
            pool,
            cache: Arc::new(Cache::new(config.cache_entries_max)),
            cache_ms_max: i64::try_from(config.cache_ms_max).unwrap_or(i64::MAX),
            keys_max: config.keys_max(),
            sessions_max: config.sessions_max(),
            engine,
            preparation: Arc::new(Preparation::new(engine, url.clone())),
            circuit: (engine == DatabaseEngine::Postgres).then(|| Arc::new(Circuit::new(url, wait_max))),
            wait_ms_max: config.wait_ms_max,
            clock: Arc::new(clock),
        };
        match (accounts.timed("migrate", async { Ok(()) }).await, engine) {
            (Ok(()), _) => Ok(accounts),
            (Err(error), DatabaseEngine::Postgres) if !matches!(error, AccountsError::Schema(_)) => {
                tracing::warn!(%error, "the account store isn't there yet; going on without it");
                Ok(accounts)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Asks the database for nothing: for readiness.
    ///
    /// # Errors
    /// The store doesn't answer.
    pub async fn ping(&self) -> Result<(), AccountsError> {
        let ask = async { Ok(sqlx::query("SELECT 1").execute(&self.pool).await.map(drop)?) };
        self.timed("ping", ask).await
    }

    /// Name of the database engine: `sqlite` or `postgres`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self.engine {
            DatabaseEngine::Sqlite => "sqlite",
            DatabaseEngine::Postgres => "postgres",
        }
    }

    /// Closes all connections; the last of them folds SQLite's WAL into its file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Time of the store's clock, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Time for one query, in milliseconds.
    pub(crate) fn wait_ms_max(&self) -> u64 {
        self.wait_ms_max
    }

    /// A transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Any>, AccountsError> {
        Ok(self.pool.begin_with(self.engine.begin()).await?)
    }

    /// `work` on prepared tables within its time, measured under the name `query`. What is cut off
    /// rolls its transaction back.
    pub(crate) async fn timed<T>(
        &self,
        query: &'static str,
        work: impl Future<Output = Result<T, AccountsError>>,
    ) -> Result<T, AccountsError> {
        let started = Instant::now();
        // The futures around it would each have a copy of its state.
        let work = std::pin::pin!(work);
        let prepared = async {
            self.preparation.ensure().await?;
            work.await
        };
        let guarded = async {
            match &self.circuit {
                Some(circuit) => circuit.guard(prepared).await,
                None => prepared.await,
            }
        };
        let result = tokio::time::timeout(Duration::from_millis(self.wait_ms_max), guarded).await;
        let took = started.elapsed();
        histogram!("receipts_accounts_query_seconds", "query" => query).record(took);
        if took >= SLOW {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(query, took_ms, "a slow question of the account store");
        }
        result.unwrap_or(Err(AccountsError::TimedOut(self.wait_ms_max)))
    }
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Accounts")
            .field("engine", &self.engine())
            .finish_non_exhaustive()
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
