//! An installation under test, as a load sees it: where it is, and how its books are audited.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::Deserialize;
use tokio::process::Command;

use crate::plan::Arguments;

/// Parts that are equal for `receipts up` and for a fleet of processes.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The gateways' base addresses.
    pub gateways: Vec<String>,
    /// The analytics API's base address.
    pub analytics: String,
    /// The `receipts` binary.
    pub receipts: PathBuf,
    /// The data directory for `--data`.
    pub data: PathBuf,
    /// Configuration as variables: what leads `receipts` to the same engines.
    pub environment: Vec<(String, String)>,
}

impl Installation {
    /// The arguments of a load on this installation: with the audit at its end; `more` says how
    /// much.
    #[must_use]
    pub fn load(&self, key: &str, publisher: &str, more: &[&str]) -> Arguments {
        let gateways = self.gateways.join(",");
        let fixed = [
            "receipts-load",
            "--gateway",
            &gateways,
            "--analytics",
            &self.analytics,
            "--api-key",
            key,
        ];
        let rest = ["--publisher", publisher, "--sample-ms", "0", "--json"];
        let paths = [
            OsStr::new("--data"),
            self.data.as_os_str(),
            OsStr::new("--receipts"),
            self.receipts.as_os_str(),
        ];
        let words = fixed.iter().chain(&rest).chain(more).map(OsStr::new);
        Arguments {
            audit_environment: self.environment.clone(),
            ..Arguments::parse_from(words.chain(paths))
        }
    }

    /// An API key for a publisher's domain, of tier enterprise.
    ///
    /// # Errors
    /// `receipts keys create` or `receipts accounts set-tier` failed.
    pub async fn create_key(&self, domain: &str) -> Result<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            api_key: String,
        }
        let created = self.run(&["keys", "create", "--domain", domain, "--json"]).await?;
        self.run(&["accounts", "set-tier", domain, "enterprise"]).await?;
        let created: Created = serde_json::from_slice(&created).context("the JSON of keys create")?;
        Ok(created.api_key)
    }

    /// Runs a command on the installation, and returns its output.
    async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(&self.receipts)
            .args(arguments)
            .arg("--data")
            .arg(&self.data)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .output()
            .await
            .with_context(|| format!("running {}", self.receipts.display()))?;
        ensure!(
            output.status.success(),
            "{}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output.stdout)
    }
}
