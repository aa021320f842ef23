//! Address of the warehouse.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_client::StreamConnector;

use crate::config::is_https;
use crate::{WarehouseConfig, tls};

/// Address of the warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The embedded engine's Unix socket, in this process or another.
    Socket(PathBuf),
    /// `http://host:port` or `https://host:port` of a ClickHouse server, or of an embedded engine's
    /// TCP endpoint.
    Url(String),
}

impl Target {
    /// The server that `config` names, or the embedded engine of the process that has the data
    /// directory `data`.
    #[must_use]
    pub fn of(config: &WarehouseConfig, data: &Path) -> Self {
        match &config.url {
            Some(url) => Self::Url(url.clone()),
            None => Self::Socket(data.join("warehouse.sock")),
        }
    }

    /// Connector to this address.
    ///
    /// # Errors
    /// A certificate file that can't be used, in words that name the key.
    pub(crate) fn connector(&self, config: &WarehouseConfig) -> Result<StreamConnector, String> {
        let wait_max = Duration::from_millis(config.connect_wait_ms_max);
        let tls = match self {
            Self::Socket(path) => return Ok(StreamConnector::to_socket(path.clone(), wait_max)),
            Self::Url(url) if is_https(url) => Some(tls::client_config(&config.tls_files())?),
            Self::Url(_) => None,
        };
        Ok(StreamConnector::new(tls, wait_max))
    }
}
