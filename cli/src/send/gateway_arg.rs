//! Options that name a gateway.

use std::path::PathBuf;
use std::time::Duration;

use receipts_client::{GatewayClient, GatewayUrlError};

use crate::failure::CommandFailure;

/// Address of a gateway, and whom to trust there.
#[derive(Debug, Clone, clap::Args)]
pub struct GatewayArg {
    /// The gateway's address
    #[arg(long, value_name = "U", env = "RECEIPTS_URL")]
    pub url: String,
    /// For https: PEM file of the authorities to trust instead of the system's
    #[arg(long, value_name = "FILE", env = "RECEIPTS_CACERT")]
    pub cacert: Option<PathBuf>,
}

impl GatewayArg {
    /// Returns a client, whose connections take at most `connect_wait` to open.
    ///
    /// # Errors
    /// The address isn't a URL, or nobody can be trusted.
    pub fn client(&self, connect_wait: Duration) -> Result<GatewayClient, CommandFailure> {
        let client = GatewayClient::new(&self.url, connect_wait, self.cacert.as_deref());
        client.map_err(|error| match error {
            GatewayUrlError::Url { .. } => CommandFailure::Input(format!("--url {error}")),
            GatewayUrlError::Trust(_) if self.cacert.is_some() => CommandFailure::Input(format!("--cacert: {error}")),
            GatewayUrlError::Trust(_) => CommandFailure::input(error),
        })
    }
}
