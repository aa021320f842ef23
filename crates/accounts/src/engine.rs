//! The two databases, and the little in which they differ.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::any::{AnyPoolOptions, install_default_drivers};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AnyConnection, AnyPool, Connection};

use crate::error::is_damage;
use crate::{AccountsConfig, AccountsError};

/// The file in the data directory.
pub(crate) const FILE: &str = "accounts.sqlite";
/// Tries to switch a new file to WAL while other processes open it too; about two seconds in all.
const WAL_TRIES: u32 = 40;
const WAL_PAUSE: Duration = Duration::from_millis(50);

/// Database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseEngine {
    Sqlite,
    Postgres,
}

impl DatabaseEngine {
    /// Begin of a transaction that will write. SQLite's default takes the write lock at the first
    /// write and then fails at once if another writer came between, so it is taken at the
    /// beginning.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            DatabaseEngine::Sqlite => "BEGIN IMMEDIATE",
            DatabaseEngine::Postgres => "BEGIN",
        }
    }
}

/// An opened store: its pool, and the engine that it was made for.
pub(crate) struct Opened {
    pub(crate) engine: DatabaseEngine,
    pub(crate) pool: AnyPool,
    /// For connections beside the pool, which say at once why they fail; the pool's only that it
    /// waited.
    pub(crate) url: String,
}

/// Makes the pool. SQLite's file is prepared; no query is sent to PostgreSQL yet.
pub(crate) async fn connect(config: &AccountsConfig, data: &Path) -> Result<Opened, AccountsError> {
    install_default_drivers();
    let options = AnyPoolOptions::new()
        .max_connections(config.connections_max)
        .acquire_timeout(Duration::from_millis(config.wait_ms_max));
    if let Some(url) = config.postgres_url() {
        // The pool reads the URL only when it connects.
        PgConnectOptions::from_str(url).map_err(|error| AccountsError::Open(error.to_string()))?;
        let pool = options
            .connect_lazy(url)
            .map_err(|error| AccountsError::Open(error.to_string()))?;
        return Ok(Opened {
            engine: DatabaseEngine::Postgres,
            pool,
            url: url.to_owned(),
        });
    }
    let file = data.join(FILE);
    let shown = file.display().to_string();
    create(&file).map_err(|error| AccountsError::Open(format!("{shown}: {error}")))?;
    let url = sqlite_url(&file)?;
    let within = Duration::from_millis(config.wait_ms_max);
    let read = tokio::time::timeout(within, read_catalogue(&url)).await;
    match read.map_err(|_| AccountsError::TimedOut(config.wait_ms_max))? {
        Err(error) if is_damage(&error) => return Err(AccountsError::Damaged(format!("{shown}: {error}"))),
        Err(error) => return Err(AccountsError::Open(format!("{shown}: {error}"))),
        Ok(()) => {}
    }
    let options = options.after_connect(|connection, _| {
        Box::pin(async move {
            for pragma in [
                "PRAGMA busy_timeout = 5000",
                "PRAGMA foreign_keys = ON",
                "PRAGMA synchronous = FULL",
                // What was erased is gone from the file's pages too, not only from its tables.
                "PRAGMA secure_delete = ON",
            ] {
                sqlx::query(pragma).execute(&mut *connection).await?;
            }
            Ok(())
        })
    });
    let pool = options.connect(&url).await;
    let pool = pool.map_err(|error| AccountsError::Open(format!("{shown}: {error}")))?;
    switch_to_wal(&pool)
        .await
        .map_err(|error| AccountsError::Open(format!("{shown}: {error}")))?;
    Ok(Opened {
        engine: DatabaseEngine::Sqlite,
        pool,
        url,
    })
}

/// Whether the file is a database at all: a pool that meets one that isn't tries again until its
/// time is over, and tells only that.
async fn read_catalogue(url: &str) -> Result<(), sqlx::Error> {
    let mut connection = AnyConnection::connect(url).await?;
    sqlx::query("SELECT COUNT(*) FROM sqlite_schema")
        .execute(&mut connection)
        .await?;
    connection.close().await
}

/// Makes the file for its owner alone; SQLite gives the files beside it the same mode.
fn create(file: &Path) -> std::io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let created = OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    created.set_permissions(Permissions::from_mode(0o600))
}

/// `sqlite:///...` of an absolute path, everything but plain characters escaped.
fn sqlite_url(file: &Path) -> Result<String, AccountsError> {
    let absolute = std::path::absolute(file).map_err(|error| AccountsError::Open(error.to_string()))?;
    let Some(path) = absolute.to_str() else {
        return Err(AccountsError::Open(format!(
            "{}: the path isn't UTF-8",
            absolute.display()
        )));
    };
    let mut url = "sqlite://".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.') {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(url)
}

/// WAL lets `receipts keys create` write while a service reads. The switch needs the file for
/// itself, and doesn't wait for it.
async fn switch_to_wal(pool: &AnyPool) -> Result<(), sqlx::Error> {
    let mut tries = 0;
    loop {
        match sqlx::query("PRAGMA journal_mode = WAL").execute(pool).await {
            Err(sqlx::Error::Database(error)) if tries < WAL_TRIES && error.message().contains("locked") => {
                tries += 1;
                tokio::time::sleep(WAL_PAUSE).await;
            }
            other => return other.map(drop),
        }
    }
}
