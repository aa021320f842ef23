//! The `receipts up` under test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use load_tests::stack::Stack;

use super::Arguments;
use crate::{process, sql};

/// A process on a data directory.
pub(super) struct Service {
    stack: Stack,
    socket: PathBuf,
    process: u32,
}

impl Service {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(arguments: &Arguments, data: &Path) -> Result<Self> {
        let folder = match &arguments.programs {
            Some(folder) => folder.clone(),
            None => std::env::current_exe()?
                .parent()
                .context("this program has no folder")?
                .to_owned(),
        };
        let program = folder.join("receipts");
        ensure!(
            program.is_file(),
            "{} isn't built: cargo build --release",
            program.display()
        );
        let environment = [
            ("RECEIPTS_TELEMETRY_LOG_LEVEL", "warn"),
            ("RECEIPTS_QUOTAS_ENTERPRISE_PER_MINUTE", "100000000"),
        ];
        let mut stack = Stack::new(&program, data, &environment)?;
        stack.start()?;
        stack.ready().await?;
        let process = stack.process_id().context("the service has no process")?;
        Ok(Self {
            stack,
            socket: data.join("warehouse.sock"),
            process,
        })
    }

    pub(super) async fn stop(&mut self) -> Result<()> {
        self.stack.stop().await
    }

    pub(super) async fn sql(&self, statement: &str) -> Result<String> {
        sql::run(&self.socket, statement).await
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn gateway(&self) -> String {
        self.stack.gateway()
    }

    pub(super) fn analytics(&self) -> String {
        self.stack.analytics()
    }

    pub(super) async fn create_key(&self, domain: &str) -> Result<String> {
        self.stack.create_key(domain).await
    }

    /// The CPU time of all its threads so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        process::cpu_seconds(self.process)
    }

    /// The most memory it had, in MB.
    pub(super) fn memory_mb(&self) -> Result<f64> {
        Ok(process::memory_peak_bytes(self.process)? as f64 / 1e6)
    }
}
