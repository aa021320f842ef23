//! A `receipts up` process under test: started on ports of its own, killed, started again on the
//! same data.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::http::client;
use crate::installation::Installation;
use crate::plan::Arguments;
use crate::process::Process;

/// An installation: a data directory, fixed ports, and the process while it runs.
pub struct Stack {
    installation: Installation,
    metrics: String,
    process: Process,
}

impl Stack {
    /// Prepares an installation; `environment` is handed to every process of it.
    ///
    /// # Errors
    /// No free ports.
    pub fn new(receipts: &Path, data: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        let [gateway, analytics, metrics] = test_engines::free_ports()?.map(|port: u16| format!("127.0.0.1:{port}"));
        let environment: Vec<(String, String)> = environment
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let installation = Installation {
            gateways: vec![format!("http://{gateway}")],
            analytics: format!("http://{analytics}"),
            receipts: receipts.to_owned(),
            data: data.to_owned(),
            environment: environment.clone(),
        };
        let ready_at = [&gateway, &analytics].map(|address| format!("http://{address}/readyz"));
        let arguments = [
            "--gateway-listen".to_owned(),
            gateway,
            "--analytics-listen".to_owned(),
            analytics,
            "--publisher-listen".to_owned(),
            "127.0.0.1:0".to_owned(),
            "--metrics-listen".to_owned(),
            metrics.clone(),
        ];
        let (program, folder): (PathBuf, PathBuf) = (receipts.to_owned(), data.to_owned());
        let command = move || {
            let mut command = test_engines::dying_with_us(&program, "KILL");
            command.args(["up", "--data"]).arg(&folder).args(&arguments);
            command.envs(environment.iter().map(|(key, value)| (key, value)));
            command
        };
        let log = data.with_extension("log");
        Ok(Self {
            installation,
            metrics: format!("http://{metrics}"),
            process: Process::new("receipts up", &log, ready_at.to_vec(), command),
        })
    }

    /// The gateway's base address.
    #[must_use]
    pub fn gateway(&self) -> String {
        self.installation.gateways.concat()
    }

    /// The analytics API's base address.
    #[must_use]
    pub fn analytics(&self) -> String {
        self.installation.analytics.clone()
    }

    /// The base address of `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.clone()
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.installation.data
    }

    /// Starts the process, without waiting for it.
    ///
    /// # Errors
    /// The process runs already, or can't be started.
    pub fn start(&mut self) -> Result<()> {
        self.process.start()
    }

    /// Waits until both HTTP services say that they are ready.
    ///
    /// # Errors
    /// The process ended, or it took too long; the text holds the end of its log.
    pub async fn ready(&mut self) -> Result<()> {
        self.process.ready(&client(1)).await
    }

    /// kill -9, and waits for the process to be gone.
    ///
    /// # Errors
    /// The process doesn't run.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// SIGTERM, and waits for the drain.
    ///
    /// # Errors
    /// The process doesn't run, or didn't end well.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.stop().await
    }

    /// The arguments of a load on this installation: an open loop with the audit at its end,
    /// with `more` for how much.
    #[must_use]
    pub fn load(&self, key: &str, publisher: &str, more: &[&str]) -> Arguments {
        self.installation.load(key, publisher, more)
    }

    /// The process's id, while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// An API key for a publisher's domain, without a limit on requests.
    ///
    /// # Errors
    /// `receipts keys create` failed.
    pub async fn create_key(&self, domain: &str) -> Result<String> {
        self.installation.create_key(domain).await
    }

    /// The last lines that the process wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}
