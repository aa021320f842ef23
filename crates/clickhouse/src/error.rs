//! Errors on the way to the warehouse, sorted by what a caller can do about it.

use std::path::PathBuf;

use config::ConfigError;
use thiserror::Error;

/// Why a warehouse call failed.
#[derive(Debug, Error)]
pub enum WarehouseError {
    /// The warehouse can't be reached, is overloaded, out of memory or disk, or too slow. Whether
    /// an insert was stored isn't known; writing the same rows again changes nothing.
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
    /// The stored data is damaged on the disk, or a table is gone: numbers over it can't be had
    /// until it is repaired.
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
        /// Name of the value that is too large.
        what: &'static str,
        /// Size of it.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// Rows that aren't what their table takes. Nothing was sent.
    #[error("the rows don't fit the table: {0}")]
    BadRows(&'static str),
    /// The warehouse's user may not do what we do.
    #[error(
        "the warehouse's user `{user}` lacks a right: {message}; docs/production.md lists the grants that each service needs"
    )]
    Denied {
        /// The user.
        user: String,
        /// ClickHouse's message, which names the right.
        message: String,
    },
    /// The configuration can't be used, or the server isn't what it says.
    #[error("{0}")]
    Config(String),
}

/// Remedy for a failed insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Repeat the same insert after a pause: the network, load, memory, a replica away.
    Retry,
    /// Smaller inserts: something in the rows is refused, or there are too many of them. A row that
    /// is refused alone is refused permanently.
    Split,
    /// A person: a wrong password, a missing right or table. The same insert succeeds once that is
    /// put right.
    Person,
}

impl WarehouseError {
    /// Remedy, if it is an insert that failed. A code that we don't know may be
    /// about the rows: splitting finds out, and an insert of nothing tells a refused row from a
    /// refused statement.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unavailable(_) => Remedy::Retry,
            Self::TooLarge { .. } | Self::BadRows(_) => Remedy::Split,
            Self::Refused { code, .. } if NEEDS_PERSON.contains(code) => Remedy::Person,
            Self::Refused { .. } => Remedy::Split,
            Self::Damaged(_) | Self::BadAnswer(_) | Self::Denied { .. } | Self::Config(_) => Remedy::Person,
        }
    }

    /// Whether the code is one that only the rows themselves can bring about.
    #[must_use]
    pub fn is_about_rows(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::BadRows(_) => true,
            Self::Refused { code, .. } => ABOUT_ROWS.contains(code),
            _ => false,
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// Whether the engine had too little memory: a smaller statement may fit.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Unavailable(message) if code_in(message).is_some_and(|code| OUT_OF_MEMORY.contains(&code)))
    }

    /// The error as a statement over stored data meets it: some codes then mean a damaged file,
    /// which for an insert mean a damaged request or a damaged transfer.
    pub(crate) fn of_stored_data(self) -> Self {
        let damage = |code| DAMAGE.contains(&code);
        match self {
            Self::Refused { code, message } if damage(code) => Self::Damaged(message),
            Self::Unavailable(message) if code_in(&message).is_some_and(damage) => Self::Damaged(message),
            other => other,
        }
    }

    /// A refusal for want of a right, as an error that names the user.
    #[must_use]
    pub fn naming(self, user: &str) -> Self {
        match self {
            Self::Refused { code: 497, message } => Self::Denied {
                user: user.to_owned(),
                message,
            },
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
            Self::BadRows(_) => "bad_rows",
            Self::Denied { .. } => "denied",
            Self::Config(_) => "config",
        }
    }
}

/// ClickHouse's codes for what may pass: time, memory, disk, load, network, replicas, keeper, a
/// closing engine.
const MAY_PASS: [u32; 47] = [
    40,   // CHECKSUM_DOESNT_MATCH: a damaged transfer
    74,   // CANNOT_READ_FROM_FILE_DESCRIPTOR
    75,   // CANNOT_WRITE_TO_FILE_DESCRIPTOR: a full disk among them
    76,   // CANNOT_OPEN_FILE
    95,   // CANNOT_READ_FROM_SOCKET
    96,   // CANNOT_WRITE_TO_SOCKET
    101,  // UNEXPECTED_PACKET_FROM_CLIENT
    102,  // UNEXPECTED_PACKET_FROM_SERVER
    159,  // TIMEOUT_EXCEEDED
    160,  // TOO_SLOW
    173,  // CANNOT_ALLOCATE_MEMORY
    198,  // DNS_ERROR
    201,  // QUOTA_EXCEEDED
    202,  // TOO_MANY_SIMULTANEOUS_QUERIES
    203,  // NO_FREE_CONNECTION
    209,  // SOCKET_TIMEOUT
    204,  // CANNOT_FSYNC: a failed write among them
    210,  // NETWORK_ERROR
    225,  // NO_ZOOKEEPER
    236,  // ABORTED
    241,  // MEMORY_LIMIT_EXCEEDED
    242,  // TABLE_IS_READ_ONLY: a replica that lost its keeper
    243,  // NOT_ENOUGH_SPACE
    244,  // UNEXPECTED_ZOOKEEPER_ERROR
    252,  // TOO_MANY_PARTS
    254,  // NO_ACTIVE_REPLICAS
    265,  // NO_AVAILABLE_REPLICA
    271,  // CANNOT_DECOMPRESS: a damaged transfer
    279,  // ALL_CONNECTION_TRIES_FAILED
    285,  // TOO_FEW_LIVE_REPLICAS
    286,  // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    289,  // REPLICA_IS_NOT_IN_QUORUM
    319,  // UNKNOWN_STATUS_OF_INSERT
    341,  // UNFINISHED
    369,  // ALL_REPLICAS_ARE_STALE
    394,  // QUERY_WAS_CANCELLED
    425,  // SYSTEM_ERROR
    439,  // CANNOT_SCHEDULE_TASK
    473,  // DEADLOCK_AVOIDED
    574,  // DISTRIBUTED_TOO_MANY_PENDING_BYTES
    734,  // CANNOT_WRITE_AFTER_BUFFER_CANCELED: the embedded endpoint when it closes
    735,  // QUERY_WAS_CANCELLED_BY_CLIENT
    745,  // SERVER_OVERLOADED
    999,  // KEEPER_EXCEPTION
    1000, // POCO_EXCEPTION
    1001, // STD_EXCEPTION: file system errors
    1002, // UNKNOWN_EXCEPTION
];

/// ClickHouse's codes for too little memory.
const OUT_OF_MEMORY: [u32; 2] = [
    173, // CANNOT_ALLOCATE_MEMORY
    241, // MEMORY_LIMIT_EXCEEDED
];

/// ClickHouse's codes for what is wrong with the statement, the tables or the account, whatever the
/// rows are.
const NEEDS_PERSON: [u32; 26] = [
    10,  // NOT_FOUND_COLUMN_IN_BLOCK
    16,  // NO_SUCH_COLUMN_IN_TABLE
    20,  // NUMBER_OF_COLUMNS_DOESNT_MATCH
    48,  // NOT_IMPLEMENTED
    60,  // UNKNOWN_TABLE
    62,  // SYNTAX_ERROR
    73,  // UNKNOWN_FORMAT
    81,  // UNKNOWN_DATABASE
    115, // UNKNOWN_SETTING
    164, // READONLY
    170, // BAD_GET
    192, // UNKNOWN_USER
    193, // WRONG_PASSWORD
    194, // REQUIRED_PASSWORD
    195, // IP_ADDRESS_NOT_ALLOWED
    218, // TABLE_IS_DROPPED
    253, // REPLICA_ALREADY_EXISTS
    344, // SUPPORT_IS_DISABLED
    392, // QUERY_IS_PROHIBITED
    415, // ALL_REPLICAS_LOST
    452, // SETTING_CONSTRAINT_VIOLATION
    497, // ACCESS_DENIED
    516, // AUTHENTICATION_FAILED
    571, // DATABASE_REPLICATION_FAILED
    578, // INVALID_FORMAT_INSERT_QUERY_WITH_DATA
    701, // CLUSTER_DOESNT_EXIST
];

/// ClickHouse's codes for what is wrong with rows, or with how many there are.
const ABOUT_ROWS: [u32; 24] = [
    6,   // CANNOT_PARSE_TEXT
    26,  // CANNOT_PARSE_QUOTED_STRING
    27,  // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    32,  // ATTEMPT_TO_READ_AFTER_EOF
    33,  // CANNOT_READ_ALL_DATA
    38,  // CANNOT_PARSE_DATE
    41,  // CANNOT_PARSE_DATETIME
    53,  // TYPE_MISMATCH
    69,  // ARGUMENT_OUT_OF_BOUND
    70,  // CANNOT_CONVERT_TYPE
    72,  // CANNOT_PARSE_NUMBER
    117, // INCORRECT_DATA
    128, // TOO_LARGE_ARRAY_SIZE
    131, // TOO_LARGE_STRING_SIZE
    158, // TOO_MANY_ROWS
    190, // SIZES_OF_ARRAYS_DONT_MATCH
    307, // TOO_MANY_BYTES
    321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    376, // CANNOT_PARSE_UUID
    396, // TOO_MANY_ROWS_OR_BYTES
    407, // DECIMAL_OVERFLOW
    441, // CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
    469, // VIOLATED_CONSTRAINT
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

impl From<ConfigError> for WarehouseError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.to_string())
    }
}

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
    /// No folder to look for libchdb in.
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
        /// Path where it was searched for.
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
        /// Known details.
        detail: String,
    },
    /// A second engine: libchdb has one engine and one data path per process.
    #[error("this process runs an embedded warehouse already: there can be only one")]
    AlreadyRunning,
    /// The socket or the data directory can't be set up.
    #[error("{what}: {source}")]
    Io {
        /// Attempt that failed.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engine runs, but the schema couldn't be brought up to date.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
}

/// The number in ClickHouse's `Code: 60. DB::Exception: ...`.
pub(crate) fn code_in(message: &str) -> Option<u32> {
    let rest = &message[message.find("Code: ")? + 6..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Remedy, WarehouseError};

    fn of(message: &str) -> WarehouseError {
        clickhouse::error::Error::BadResponse(message.to_owned()).into()
    }

    #[test]
    fn every_failed_insert_has_a_remedy() {
        for (message, remedy) in [
            ("Code: 252. DB::Exception: Too many parts (300).", Remedy::Retry),
            ("Code: 159. DB::Exception: Timeout exceeded", Remedy::Retry),
            ("Code: 241. DB::Exception: Memory limit exceeded", Remedy::Retry),
            ("Code: 242. DB::Exception: Table is in readonly mode", Remedy::Retry),
            (
                "Code: 285. DB::Exception: Number of alive replicas (1) is less than quorum",
                Remedy::Retry,
            ),
            ("Code: 319. DB::Exception: Unknown quorum status", Remedy::Retry),
            ("Code: 999. Coordination::Exception: Session expired", Remedy::Retry),
            ("<html>502 Bad Gateway</html>", Remedy::Retry),
            ("Code: 516. DB::Exception: Authentication failed", Remedy::Person),
            ("Code: 497. DB::Exception: Not enough privileges", Remedy::Person),
            (
                "Code: 60. DB::Exception: Table receipts.receipts does not exist",
                Remedy::Person,
            ),
            (
                "Code: 469. DB::Exception: Constraint `c` is violated at row 1",
                Remedy::Split,
            ),
            ("Code: 53. DB::Exception: Type mismatch", Remedy::Split),
            ("Code: 100000. DB::Exception: from a newer server", Remedy::Split),
        ] {
            assert_eq!(of(message).remedy(), remedy, "{message}");
        }
        assert!(of("Code: 469. DB::Exception: Constraint").is_about_rows());
        assert!(!of("Code: 100000. DB::Exception: from a newer server").is_about_rows());
        let large = WarehouseError::TooLarge {
            what: "an insert's rows",
            size: 2,
            max: 1,
        };
        assert_eq!((large.remedy(), large.is_about_rows()), (Remedy::Split, true));
    }

    #[test]
    fn no_code_has_two_remedies() {
        let lists = [&super::MAY_PASS[..], &super::NEEDS_PERSON[..], &super::ABOUT_ROWS[..]];
        let mut codes: Vec<u32> = lists.concat();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }
}
