//! What goes wrong on the way to the warehouse, sorted by what a caller can do about it.

use std::path::PathBuf;

use thiserror::Error;

use crate::chdb::code_in;

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
    /// What is stored is damaged on the disk, or a table is gone: numbers over it can't be had until it is repaired.
    #[error(
        "the warehouse's stored data is damaged: run `receipts repair`, which sets damaged parts aside and writes \
         their rows again from the log ({0})"
    )]
    Damaged(String),
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

    /// The error as a statement over stored data meets it: some codes then mean a damaged file, which for an insert
    /// mean a damaged request.
    pub(crate) fn of_stored_data(self) -> Self {
        match self {
            Self::Refused { code, message } if DAMAGE.contains(&code) => Self::Damaged(message),
            other => other,
        }
    }

    /// The kind as metrics label it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Refused { .. } => "refused",
            Self::Damaged(_) => "damaged",
            Self::BadAnswer(_) => "bad_answer",
            Self::TooLarge { .. } => "too_large",
            Self::Config(_) => "config",
        }
    }
}

/// ClickHouse's codes for what may pass: time, memory, disk, load, keeper, a closing engine.
const MAY_PASS: [u32; 26] = [
    74,   // CANNOT_READ_FROM_FILE_DESCRIPTOR
    75,   // CANNOT_WRITE_TO_FILE_DESCRIPTOR: a full disk among them
    76,   // CANNOT_OPEN_FILE
    159,  // TIMEOUT_EXCEEDED
    160,  // TOO_SLOW
    173,  // CANNOT_ALLOCATE_MEMORY
    198,  // DNS_ERROR
    202,  // TOO_MANY_SIMULTANEOUS_QUERIES
    203,  // NO_FREE_CONNECTION
    209,  // SOCKET_TIMEOUT
    210,  // NETWORK_ERROR
    225,  // NO_ZOOKEEPER
    236,  // ABORTED
    241,  // MEMORY_LIMIT_EXCEEDED
    242,  // TABLE_IS_READ_ONLY
    243,  // NOT_ENOUGH_SPACE
    252,  // TOO_MANY_PARTS
    285,  // TOO_FEW_LIVE_REPLICAS
    319,  // UNKNOWN_STATUS_OF_INSERT
    341,  // UNFINISHED
    394,  // QUERY_WAS_CANCELLED
    425,  // SYSTEM_ERROR
    439,  // CANNOT_SCHEDULE_TASK
    734,  // QUERY_WAS_CANCELLED_BY_CLIENT; the embedded endpoint when it closes
    999,  // KEEPER_EXCEPTION
    1001, // STD_EXCEPTION: file system errors
];

/// ClickHouse's codes for files of a part that can't be what was written.
const DAMAGE: [u32; 14] = [
    32,  // ATTEMPT_TO_READ_AFTER_EOF
    33,  // CANNOT_READ_ALL_DATA
    39,  // TOO_LARGE_SIZE_COMPRESSED
    40,  // CHECKSUM_DOESNT_MATCH
    91,  // SIZES_OF_MARKS_FILES_ARE_INCONSISTENT
    107, // FILE_DOESNT_EXIST
    117, // INCORRECT_DATA
    226, // NO_FILE_IN_DATA_PART
    227, // UNEXPECTED_FILE_IN_DATA_PART
    228, // BAD_SIZE_OF_FILE_IN_DATA_PART
    246, // CORRUPTED_DATA
    271, // CANNOT_DECOMPRESS
    432, // UNKNOWN_CODEC
    740, // POTENTIALLY_BROKEN_DATA_PART
];

impl From<clickhouse::error::Error> for WarehouseError {
    fn from(error: clickhouse::error::Error) -> Self {
        use clickhouse::error::Error;
        match error {
            Error::Network(source) => Self::Unavailable(with_causes(&*source)),
            Error::TimedOut => Self::Unavailable("the insert took too long".to_owned()),
            Error::BadResponse(message) => match code_in(&message) {
                // Without a code it isn't ClickHouse's own word: a proxy's, or a lost engine's.
                None => Self::Unavailable(message),
                Some(code) if MAY_PASS.contains(&code) => Self::Unavailable(message),
                Some(code) => Self::Refused { code, message },
            },
            Error::InvalidParams(source) => Self::Config(format!("the request can't be made: {source}")),
            other => Self::BadAnswer(other.to_string()),
        }
    }
}

/// An error's text with those of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Why the embedded engine didn't start or failed.
#[derive(Debug, Error)]
pub enum EngineError {
    /// There is no place to look for libchdb.
    #[error(
        "the embedded warehouse needs libchdb, and without HOME and XDG_CACHE_HOME there is no cache directory to look for it in: \
         set RECEIPTS_WAREHOUSE_LIBRARY (warehouse.library) to where libchdb.so lies"
    )]
    NoCacheDirectory,
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
