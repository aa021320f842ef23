//! The `[warehouse]` section.

use std::path::PathBuf;

use config::{ConfigFaults, Secret, Section};
use http::{HeaderValue, Uri};
use serde::{Deserialize, Serialize};

use crate::tls::{self, TlsFiles};

/// Address of the warehouse, and the limits of the embedded engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarehouseConfig {
    /// A ClickHouse server's HTTP address (`http://host:8123`, `https://host:8443`); none means the
    /// embedded engine.
    pub url: Option<String>,
    /// User of the server. The embedded engine's socket is guarded by its file mode instead.
    pub user: Option<String>,
    /// Password of the server.
    pub password: Option<Secret>,
    /// Whether the password may go to another machine without TLS.
    pub allow_plaintext: bool,
    /// With `https`: PEM certificates of those who may have signed the server's; none means the
    /// system's.
    pub tls_ca_file: Option<PathBuf>,
    /// With `https`: our own certificate chain in PEM, where the server requests one.
    pub tls_certificate_file: Option<PathBuf>,
    /// The private key of `tls_certificate_file`, in PEM.
    pub tls_key_file: Option<PathBuf>,
    /// The database that holds our tables.
    pub database: String,
    /// Shards in the order of their numbers, each as its server's address and its database:
    /// `http://host:8123/receipts_0`. None means one shard, in `database`. With shards, `database`
    /// has tables over all of them, which queries read.
    pub shards: Vec<String>,
    /// Cluster of `remote_servers` that has these shards, each with its `default_database`.
    pub cluster: Option<String>,
    /// Whether tables are replicated. Every replica needs the macro `replica`, and its tables by
    /// `receipts migrate`. Counts when the tables are made.
    pub replicated: bool,
    /// Replicas of a shard that must have an insert before it counts; 0 means most of them.
    pub insert_quorum: u64,
    /// Whether tables of a server are made so that an insert is synced to disk before it counts, as
    /// in the embedded engine. Counts when the tables are made.
    pub fsync: bool,
    /// Age at which receipts expire, in days. Tables drop whole months, each once its last receipt
    /// is so old; the audit checks only what is younger.
    pub receipts_days_max: u64,
    /// Age at which rejected receipts expire, in days from their arrival.
    pub rejected_days_max: u64,
    /// A storage policy of the servers with a volume `cold`, to which old parts of `evidence` and
    /// `receipts` move; none leaves them where they are. Its volume `default` has the disk that the
    /// tables are on.
    pub storage_policy: Option<String>,
    /// Age at which parts of `evidence` move to `cold`, in days.
    pub evidence_cold_days: u64,
    /// Age at which parts of `receipts` move to `cold`, in days.
    pub receipts_cold_days: u64,
    /// Connections to a server at a time; more statements wait for one.
    pub connections_max: usize,
    /// Time one connection may take to be made, in milliseconds.
    pub connect_wait_ms_max: u64,
    /// Path of libchdb.so; `None` means the cache directory that `make chdb` fills.
    pub library: Option<PathBuf>,
    /// Memory the embedded engine may use for queries, inserts and merges, in bytes.
    pub memory_bytes_max: u64,
    /// Free bytes of its file system that the embedded engine leaves alone: what would take of them
    /// is refused, an insert with an error that may pass. Below the log's own limit, so that what
    /// the log has taken can still be counted.
    pub min_free_bytes: u64,
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
    /// Requests that may wait for a query thread of the embedded engine, and as many for its insert
    /// thread; more are answered 503.
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
            allow_plaintext: false,
            tls_ca_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
            database: "receipts".to_owned(),
            shards: Vec::new(),
            cluster: None,
            replicated: false,
            insert_quorum: 0,
            fsync: true,
            receipts_days_max: 2_557,
            rejected_days_max: 90,
            storage_policy: None,
            evidence_cold_days: 30,
            receipts_cold_days: 365,
            connections_max: 32,
            connect_wait_ms_max: 5_000,
            library: None,
            memory_bytes_max: 700 << 20,
            min_free_bytes: 64 << 20,
            result_rows_max: 1_000_000,
            insert_rows_max: 200_000,
            insert_bytes_max: 64 << 20,
            insert_wait_ms_max: 60_000,
            query_wait_ms_max: 10_000,
            threads: 4,
            waiting_max: 256,
            broken_parts_max: 10_000,
        }
    }
}

impl Section for WarehouseConfig {
    /// Reads the files that it names.
    fn check(&self, faults: &mut ConfigFaults) {
        self.check_server(faults);
        self.check_limits(faults);
    }
}

impl WarehouseConfig {
    /// Whether the server is spoken to in TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.as_deref().is_some_and(is_https)
    }

    fn check_server(&self, faults: &mut ConfigFaults) {
        faults.require("database", is_name(&self.database), NAME);
        if let Some(url) = &self.url
            && let Err(fault) = check_url(url)
        {
            faults.push("url", fault);
        }
        self.check_shards(faults);
        let texts = [
            ("user", self.user.as_deref()),
            ("password", self.password.as_ref().map(Secret::reveal)),
        ];
        for (key, text) in texts {
            let is_header = text.is_none_or(|text| HeaderValue::from_str(text).is_ok());
            faults.require(key, is_header, "must be visible ASCII: it is sent in a header");
        }
        let mut servers = self.url.iter().chain(&self.shards);
        faults.require(
            "url",
            self.password.is_none() || self.allow_plaintext || !servers.any(|url| is_plaintext_away(url)),
            "must start with https://, and warehouse.shards too, where a password goes to another machine; \
             warehouse.allow_plaintext = true allows it without TLS",
        );
        if self.tls_certificate_file.is_some() != self.tls_key_file.is_some() {
            faults.push("tls_key_file", "and warehouse.tls_certificate_file must come together");
        } else if self.is_https() {
            if let Err(fault) = tls::client_config(&self.tls_files()) {
                faults.push("", fault);
            }
        } else {
            let files = [&self.tls_ca_file, &self.tls_certificate_file, &self.tls_key_file];
            let is_unused = files.iter().all(|file| file.is_none());
            faults.require(
                "url",
                is_unused,
                "must start with https:// where a warehouse.tls_*_file is given",
            );
        }
    }

    pub(crate) fn tls_files(&self) -> TlsFiles {
        TlsFiles {
            ca: self.tls_ca_file.clone(),
            certificate: self.tls_certificate_file.clone(),
            key: self.tls_key_file.clone(),
        }
    }

    fn check_shards(&self, faults: &mut ConfigFaults) {
        let together = self.shards.is_empty() == self.cluster.is_none();
        faults.require("shards", together, "and warehouse.cluster must come together");
        faults.require("cluster", self.cluster.as_deref().is_none_or(is_name), NAME);
        faults.require(
            "url",
            self.url.is_some() || (!self.replicated && self.shards.is_empty()),
            "is missing: warehouse.shards and warehouse.replicated need it, since the embedded engine has one shard",
        );
        let mut seen = Vec::new();
        for (number, text) in self.shards.iter().enumerate() {
            let (url, database) = match shard(text) {
                Ok(parts) => parts,
                Err(fault) => {
                    faults.push("shards", format!("[{number}] {fault}"));
                    continue;
                }
            };
            if self.url.is_some() && self.is_https() != is_https(url) {
                faults.push("shards", format!("[{number}] must have the scheme of warehouse.url"));
            }
            if database == self.database || seen.contains(&database) {
                let fault =
                    format!("[{number}] has the database `{database}` of another shard or of warehouse.database");
                faults.push("shards", fault);
            }
            seen.push(database);
        }
    }

    /// The configuration of each shard as a warehouse of its own.
    #[must_use]
    pub fn of_shards(&self) -> Vec<Self> {
        let shards = self.shards.iter().filter_map(|text| shard(text).ok());
        let shards = shards.map(|(url, database)| Self {
            url: Some(url.to_owned()),
            database: database.to_owned(),
            shards: Vec::new(),
            cluster: None,
            ..self.clone()
        });
        shards.collect()
    }

    fn check_limits(&self, faults: &mut ConfigFaults) {
        faults.at_least("memory_bytes_max", self.memory_bytes_max, 200 << 20, "");
        for (key, value) in [
            ("result_rows_max", self.result_rows_max),
            ("insert_rows_max", self.insert_rows_max),
            ("insert_bytes_max", self.insert_bytes_max),
            ("insert_wait_ms_max", self.insert_wait_ms_max),
            ("query_wait_ms_max", self.query_wait_ms_max),
            ("connect_wait_ms_max", self.connect_wait_ms_max),
        ] {
            faults.at_least(key, value, 1, "");
        }
        // Above what the audit leaves out, so that there is something to look at.
        faults.range("receipts_days_max", self.receipts_days_max, 120..=36_500);
        faults.require(
            "rejected_days_max",
            (60..=self.receipts_days_max).contains(&self.rejected_days_max),
            "must be 60 to warehouse.receipts_days_max",
        );
        if let Some(policy) = &self.storage_policy {
            faults.require("storage_policy", is_name(policy), NAME);
            let fault = "needs warehouse.url: the embedded engine has one disk";
            faults.require("storage_policy", self.url.is_some(), fault);
            let days_max = self.receipts_days_max.saturating_sub(1);
            faults.range("evidence_cold_days", self.evidence_cold_days, 1..=days_max);
            faults.range("receipts_cold_days", self.receipts_cold_days, 1..=days_max);
        }
        faults.range("threads", self.threads, 1..=64);
        faults.range("connections_max", self.connections_max, 1..=4_096);
        faults.range("waiting_max", self.waiting_max, 1..=65_536);
    }
}

/// A shard's server and database.
fn shard(text: &str) -> Result<(&str, &str), String> {
    let (url, database) = text
        .rsplit_once('/')
        .filter(|(_, database)| is_name(database))
        .ok_or("must be a server's address and a database, like http://host:8123/receipts_0")?;
    check_url(url)?;
    Ok((url, database))
}

/// Fault of what is no name.
const NAME: &str = "must be letters, digits and underscores";

/// Whether a text is a name that may be in SQL as it is.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Whether an address requests TLS.
pub(crate) fn is_https(url: &str) -> bool {
    url.starts_with("https://")
}

/// Whether an address is another machine's, without TLS.
fn is_plaintext_away(url: &str) -> bool {
    let uri = url.parse::<Uri>();
    let host = uri.as_ref().ok().and_then(Uri::host);
    !is_https(url) && host.is_some_and(|host| !matches!(host, "localhost" | "127.0.0.1" | "[::1]"))
}

fn check_url(url: &str) -> Result<(), &'static str> {
    if !url.starts_with("http://") && !is_https(url) {
        return Err("must start with http:// or https://");
    }
    let uri: Uri = url
        .parse()
        .map_err(|_| "is no address: it must be like https://host:8443")?;
    let authority = uri.authority().ok_or("must name a host")?;
    if authority.as_str().contains('@') {
        return Err("must not hold user or password: they have keys of their own");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("must end after the port");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn faults(change: impl FnOnce(&mut WarehouseConfig)) -> String {
        let mut config = WarehouseConfig::default();
        change(&mut config);
        config
            .checked("warehouse")
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn every_fault_names_its_key() {
        assert_eq!(faults(|_| ()), "");
        let found = faults(|config| {
            config.database = "a-b".to_owned();
            config.cluster = Some("9".to_owned());
            config.shards = vec![
                "http://a:8123/".to_owned(),
                "http://a/r".to_owned(),
                "http://b/r".to_owned(),
            ];
            config.connections_max = 0;
            config.receipts_days_max = 119;
            config.connect_wait_ms_max = 0;
            config.tls_key_file = Some("key.pem".into());
        });
        for key in [
            "database",
            "cluster: must",
            "url: is missing",
            "shards: [0] must be",
            "shards: [2] has the database `r`",
            "connections_max",
            "receipts_days_max",
            "connect_wait_ms_max",
            "tls_key_file",
        ] {
            assert!(found.contains(&format!("warehouse.{key}")), "{key} in {found}");
        }
    }

    #[test]
    fn shards_have_databases_of_their_own_and_a_cluster() {
        let shards = |config: &mut WarehouseConfig| {
            config.url = Some("http://a:8123".to_owned());
            config.shards = vec!["http://a:8123/r_0".to_owned(), "http://b:8123/r_1".to_owned()];
        };
        assert!(faults(shards).contains("must come together"));
        assert_eq!(
            faults(|config| {
                shards(config);
                config.cluster = Some("main".to_owned());
            }),
            ""
        );
        let same = faults(|config| {
            shards(config);
            config.database = "r_1".to_owned();
        });
        assert!(same.contains("warehouse.shards: [1] has the database `r_1`"), "{same}");
        let mut config = WarehouseConfig::default();
        shards(&mut config);
        let second = config.of_shards().remove(1);
        assert_eq!(
            (second.url.as_deref(), second.database.as_str()),
            (Some("http://b:8123"), "r_1")
        );
        assert!(second.shards.is_empty());
    }

    #[test]
    fn an_address_is_scheme_host_and_port() {
        for good in ["http://a:8123", "http://a:8123/", "http://[::1]:8123"] {
            assert_eq!(faults(|config| config.url = Some(good.to_owned())), "", "{good}");
        }
        for bad in [
            "a:8123",
            "tcp://a:9000",
            "http://",
            "http://u:p@a:8123",
            "http://a:8123/path",
            "http://a:8123/?user=u",
            "http://a b",
        ] {
            let found = faults(|config| config.url = Some(bad.to_owned()));
            assert!(found.contains("warehouse.url: "), "{bad}: {found}");
        }
    }

    #[test]
    fn certificates_are_read_when_the_configuration_is() {
        let found = faults(|config| {
            config.url = Some("https://a:8443".to_owned());
            config.tls_ca_file = Some("/nowhere/ca.pem".into());
        });
        assert!(
            found.contains("warehouse.tls_ca_file") && found.contains("/nowhere/ca.pem"),
            "{found}"
        );
        let found = faults(|config| {
            config.url = Some("http://a:8123".to_owned());
            config.tls_ca_file = Some("/nowhere/ca.pem".into());
        });
        assert!(found.contains("https://"), "{found}");
    }

    #[test]
    fn a_password_goes_to_another_machine_in_tls() {
        for (url, is_good) in [
            ("http://a:8123", false),
            ("https://a:8443", true),
            ("http://127.0.0.1:8123", true),
            ("http://[::1]:8123", true),
        ] {
            let with_password = |config: &mut WarehouseConfig| {
                config.url = Some(url.to_owned());
                config.password = Some("hunter2".into());
            };
            let found = faults(with_password);
            assert_eq!(found.contains("warehouse.allow_plaintext"), !is_good, "{url}: {found}");
            assert!(!found.contains("hunter2"));
            let allowed = faults(|config| {
                with_password(config);
                config.allow_plaintext = true;
            });
            assert_eq!(allowed, "", "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let config = WarehouseConfig {
            password: Some("hunter2".into()),
            ..WarehouseConfig::default()
        };
        assert!(!format!("{config:?}").contains("hunter2"));
        let found = faults(|config| config.password = Some("hunter2\n".into()));
        assert!(
            found.contains("warehouse.password") && !found.contains("hunter2"),
            "{found}"
        );
    }
}
