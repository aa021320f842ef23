//! The `[warehouse]` section.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How to reach the warehouse, and the limits of the embedded engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarehouseConfig {
    /// A ClickHouse server's HTTP address (`http://host:8123`); none means the embedded engine.
    pub url: Option<String>,
    /// User of the server. The embedded engine's socket is guarded by its file mode instead.
    pub user: Option<String>,
    /// Password of the server.
    pub password: Option<String>,
    /// The database that holds our tables.
    pub database: String,
    /// Where libchdb.so lies; none means the cache directory that `make chdb` fills.
    pub library: Option<PathBuf>,
    /// Memory the embedded engine may use for queries, inserts and merges, in bytes.
    pub memory_bytes_max: u64,
    /// Result rows of one query. A query that would return more is refused.
    pub result_rows_max: u64,
    /// Rows of one insert. More are refused before anything is sent.
    pub insert_rows_max: u64,
    /// Bytes of one insert. More are refused before anything is sent, and by the endpoint.
    pub insert_bytes_max: u64,
    /// Time one insert may take, in milliseconds.
    pub insert_wait_ms_max: u64,
    /// Time one query may take, in milliseconds.
    pub query_wait_ms_max: u64,
    /// Threads of the embedded engine that run queries; so many run at once.
    pub threads: usize,
    /// Threads of the embedded engine that run inserts.
    pub insert_threads: usize,
    /// Requests that may wait for a query thread, and as many for an insert thread; more are answered 503.
    pub waiting_max: usize,
    /// Broken parts of a table at which the embedded engine refuses to open it.
    pub broken_parts_max: u64,
}

impl Default for WarehouseConfig {
    fn default() -> Self {
        Self {
            url: None,
            user: None,
            password: None,
            database: "receipts".to_owned(),
            library: None,
            memory_bytes_max: 700 << 20,
            result_rows_max: 1_000_000,
            insert_rows_max: 200_000,
            insert_bytes_max: 64 << 20,
            insert_wait_ms_max: 60_000,
            query_wait_ms_max: 10_000,
            threads: 4,
            insert_threads: 2,
            waiting_max: 256,
            broken_parts_max: 10_000,
        }
    }
}

impl WarehouseConfig {
    /// What is wrong with the configuration, in words that name the key.
    ///
    /// # Errors
    /// The first key that can't be used.
    pub fn validate(&self) -> Result<(), String> {
        let name_ok = !self.database.is_empty()
            && self
                .database
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !self.database.as_bytes()[0].is_ascii_digit();
        if !name_ok {
            return Err("warehouse.database must be letters, digits and underscores".to_owned());
        }
        if let Some(url) = &self.url
            && !url.starts_with("http://")
        {
            return Err("warehouse.url must start with http://".to_owned());
        }
        if self.memory_bytes_max < 200 << 20 {
            return Err("warehouse.memory_bytes_max must be at least 209715200 (200 MiB)".to_owned());
        }
        for (name, value) in [
            ("result_rows_max", self.result_rows_max),
            ("insert_rows_max", self.insert_rows_max),
            ("insert_bytes_max", self.insert_bytes_max),
            ("insert_wait_ms_max", self.insert_wait_ms_max),
            ("query_wait_ms_max", self.query_wait_ms_max),
        ] {
            if value == 0 {
                return Err(format!("warehouse.{name} must be above 0"));
            }
        }
        for (name, value) in [("threads", self.threads), ("insert_threads", self.insert_threads)] {
            if !(1..=64).contains(&value) {
                return Err(format!("warehouse.{name} must be from 1 to 64"));
            }
        }
        if !(1..=65_536).contains(&self.waiting_max) {
            return Err("warehouse.waiting_max must be from 1 to 65536".to_owned());
        }
        Ok(())
    }
}
