//! What goes wrong on the way to the warehouse, sorted by what a caller can do about it.

use std::path::PathBuf;

use thiserror::Error;

/// Why a warehouse call failed.
#[derive(Debug, Error)]
pub enum WarehouseError {
    /// The warehouse can't be reached, is overloaded, out of memory or disk, or too slow. Whether an insert was
    /// stored isn't known; writing the same rows again changes nothing.
    #[error("the warehouse can't answer now: {0}")]
    Unavailable(String),
    /// ClickHouse refused the statement; sending it again would end the same way.
    #[error("the warehouse refused the statement (code {code}): {message}")]
    Refused {
        /// ClickHouse's error code.
        code: u32,
        /// ClickHouse's message.
        message: String,
    },
    /// The answer isn't what the query promises: another schema version, or a broken transfer.
    #[error("the warehouse's answer doesn't fit the query: {0}")]
    BadAnswer(String),
    /// The call is over a configured limit. Nothing was sent.
    #[error("{what} is {size}, over the limit of {max}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The configuration can't be used.
    #[error("{0}")]
    Config(String),
}

impl WarehouseError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// Why the embedded engine didn't start or failed.
#[derive(Debug, Error)]
pub enum EngineError {
    /// libchdb isn't where it should be.
    #[error(
        "the embedded warehouse needs libchdb, which is not at {path}: run `make chdb`, or set \
         RECEIPTS_WAREHOUSE_LIBRARY (warehouse.library) to where libchdb.so lies"
    )]
    LibraryMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// libchdb is there but can't be used.
    #[error("libchdb at {path} can't be loaded: {detail}; run `make chdb` to fetch it again")]
    LibraryUnusable {
        /// The library.
        path: PathBuf,
        /// The loader's words.
        detail: String,
    },
    /// The engine refused to open its data directory. Its own words go to standard error.
    #[error("the embedded warehouse can't open {path}: {detail}")]
    Open {
        /// The data directory.
        path: PathBuf,
        /// What is known.
        detail: String,
    },
    /// This process runs an engine already: libchdb has one engine and one data path per process.
    #[error("this process runs an embedded warehouse already: there can be only one")]
    AlreadyRunning,
    /// The socket or the data directory can't be set up.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engine runs, but the schema couldn't be brought up to date.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
}
