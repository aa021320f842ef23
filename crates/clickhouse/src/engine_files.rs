//! The embedded engine's files: the library, the data directory, and the configuration written into
//! it.

use std::path::{Path, PathBuf};

use crate::{EngineError, WarehouseConfig};

/// The npm package's version that `make chdb` unpacks into the cache.
const LIBRARY_VERSION: &str = "26.7.3-stable.1";

/// Path of libchdb: as configured, or in the cache directory.
pub(crate) fn library_path(config: &WarehouseConfig) -> Result<PathBuf, EngineError> {
    if let Some(path) = &config.library {
        return Ok(path.clone());
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    cached_library(variable("XDG_CACHE_HOME"), variable("HOME")).ok_or(EngineError::NoCacheDirectory)
}

/// The library in the cache directory. Relative paths are passed over, as the XDG Base Directory
/// Specification requires: a library of the working directory must not be loaded.
fn cached_library(cache_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let cache = cache_home
        .filter(absolute)
        .or_else(|| Some(home.filter(absolute)?.join(".cache")))?;
    let file = if cfg!(target_os = "macos") {
        "libchdb.dylib"
    } else {
        "libchdb.so"
    };
    let version = format!("libchdb-{LIBRARY_VERSION}");
    Some(cache.join("receipts").join(version).join(file))
}

/// A data directory that is ready to be opened.
pub(crate) struct EngineDataDir {
    /// Absolute: a relative one breaks `fsync_part_directory`.
    pub(crate) path: PathBuf,
    config_file: String,
    data: String,
}

impl EngineDataDir {
    /// Creates the directory and writes the engine's configuration into it.
    pub(crate) fn prepare(path: &Path, config: &WarehouseConfig) -> Result<Self, EngineError> {
        let failed = |source| EngineError::Io {
            what: format!("{} can't be used", path.display()),
            source,
        };
        std::fs::create_dir_all(path).map_err(failed)?;
        let absolute = path.canonicalize().map_err(failed)?;
        let text = absolute
            .to_str()
            .ok_or_else(|| failed(std::io::Error::other("the path is not UTF-8")))?
            .to_owned();
        let users = format!("{text}/users.xml");
        let config_file = format!("{text}/engine.xml");
        std::fs::write(&users, USERS).map_err(failed)?;
        std::fs::write(&config_file, engine_xml(&users, config)).map_err(failed)?;
        Ok(Self {
            path: absolute,
            config_file,
            data: text,
        })
    }

    /// The engine's command line.
    pub(crate) fn arguments(&self, config: &WarehouseConfig) -> [String; 4] {
        [
            "chdb".to_owned(),
            format!("--path={}", self.data),
            format!("--config-file={}", self.config_file),
            format!("--max_server_memory_usage={}", config.memory_bytes_max),
        ]
    }
}

/// The engine's own user. Without READ and WRITE on sources and with our table engines only,
/// `file()`, `url()`, `s3()` and the like, and tables over them, are refused by the engine itself.
const USERS: &str = "<clickhouse>
  <profiles><default></default></profiles>
  <quotas><default></default></quotas>
  <users>
    <default>
      <password></password>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, INSERT, ALTER, CHECK, CREATE DATABASE, CREATE TABLE, DROP DATABASE, DROP TABLE, TRUNCATE, OPTIMIZE, SHOW, KILL QUERY, SYSTEM MERGES, SYSTEM SYNC FILE CACHE ON *.*</query>
        <query>GRANT TABLE ENGINE ON MergeTree</query>
        <query>GRANT TABLE ENGINE ON AggregatingMergeTree</query>
        <query>GRANT TABLE ENGINE ON ReplacingMergeTree</query>
      </grants>
    </default>
  </users>
</clickhouse>
";

/// The server's configuration. Given explicitly also so that no `config.xml` of the working
/// directory is read. A merge takes ten parts of a size instead of five: with many small inserts,
/// five rewrite each row half as often again.
fn engine_xml(users: &str, config: &WarehouseConfig) -> String {
    let users = users.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!-- Written by receipts at each start. -->
<clickhouse>
  <users_config>{users}</users_config>
  <max_server_memory_usage>{memory}</max_server_memory_usage>
  <memory_worker_period_ms>500</memory_worker_period_ms>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <mark_cache_size>33554432</mark_cache_size>
  <index_mark_cache_size>8388608</index_mark_cache_size>
  <index_uncompressed_cache_size>16777216</index_uncompressed_cache_size>
  <primary_index_cache_size>33554432</primary_index_cache_size>
  <query_condition_cache_size>8388608</query_condition_cache_size>
  <compiled_expression_cache_size>16777216</compiled_expression_cache_size>
  <storage_configuration><disks><default>
    <keep_free_space_bytes>{free}</keep_free_space_bytes>
  </default></disks></storage_configuration>
  <merge_tree>
    <max_suspicious_broken_parts>{broken}</max_suspicious_broken_parts>
    <merge_selector_base>10</merge_selector_base>
  </merge_tree>
</clickhouse>
",
        memory = config.memory_bytes_max,
        free = config.min_free_bytes,
        broken = config.broken_parts_max,
    )
}

#[cfg(test)]
mod tests {
    use super::{cached_library, engine_xml, library_path};
    use crate::WarehouseConfig;

    #[test]
    fn a_path_is_escaped_in_the_configuration() {
        let text = engine_xml("/a<b>&c/users.xml", &WarehouseConfig::default());
        assert!(text.contains("<users_config>/a&lt;b&gt;&amp;c/users.xml</users_config>"));
    }

    #[test]
    fn a_configured_library_is_taken_as_it_is() {
        let config = WarehouseConfig {
            library: Some("/x/lib.so".into()),
            ..WarehouseConfig::default()
        };
        assert!(library_path(&config).is_ok_and(|path| path == std::path::Path::new("/x/lib.so")));
    }
    #[test]
    fn a_library_is_never_searched_in_the_working_directory() {
        let found =
            |cache: Option<&str>, home: Option<&str>| cached_library(cache.map(Into::into), home.map(Into::into));
        for (cache, home) in [(None, None), (Some(""), Some("")), (Some(".cache"), Some("home"))] {
            assert_eq!(found(cache, home), None, "{cache:?} {home:?}");
        }
        let below = |path: Option<std::path::PathBuf>, root: &str| path.is_some_and(|path| path.starts_with(root));
        assert!(below(found(Some("/c"), Some("/h")), "/c/receipts"));
        assert!(below(found(Some("c"), Some("/h")), "/h/.cache/receipts"));
        assert!(below(found(None, Some("/h")), "/h/.cache/receipts"));
    }
}
