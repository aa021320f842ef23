//! Options that name a running service.

use std::path::PathBuf;

use crate::data_dir::{Addresses, DataDir};
use crate::failure::CommandFailure;

/// The options `--url`, `--data` and `--cacert`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServiceAddress {
    /// Address of the service [default: that of the `receipts up` which runs on --data]
    #[arg(long, value_name = "U", env = "RECEIPTS_URL")]
    url: Option<String>,
    /// Data directory of a `receipts up` on this machine, to find its address
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// For https: PEM file of the authorities to trust instead of the system's
    #[arg(long, value_name = "FILE", env = "RECEIPTS_CACERT")]
    pub(crate) cacert: Option<PathBuf>,
}

impl ServiceAddress {
    /// Base URL of the gateway.
    ///
    /// # Errors
    /// No URL is given, and nothing runs on the data directory.
    pub(crate) fn gateway(&self) -> Result<String, CommandFailure> {
        self.find(|running| running.gateway)
    }

    /// Base URL of the analytics API.
    pub(crate) fn analytics(&self) -> Result<String, CommandFailure> {
        self.find(|running| running.analytics)
    }

    fn find(&self, choose: impl FnOnce(Addresses) -> String) -> Result<String, CommandFailure> {
        if let Some(url) = self.url.as_ref().filter(|url| !url.is_empty()) {
            return Ok(url.clone());
        }
        let file = DataDir::new(&self.data)?.addresses();
        let running = std::fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        running.map(choose).ok_or_else(|| {
            CommandFailure::Input(format!(
                "no `receipts up` runs on {}: start it, or name the service with --url http://HOST:PORT",
                self.data.display()
            ))
        })
    }
}
