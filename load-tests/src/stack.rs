//! A `receipts up` process under test: started on ports of its own, killed, started again on the same data.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::Parser;
use http::{StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;
use tokio::process::{Child, Command};

use crate::plan::Arguments;
use crate::submit::client;

/// The longest a start may take: loading the engine and reading back its tables included.
const READY_WAIT_MAX: Duration = Duration::from_secs(90);

/// One installation: a data directory, fixed ports, and the process while it runs.
pub struct Stack {
    receipts: PathBuf,
    data: PathBuf,
    ports: [u16; 3],
    environment: Vec<(String, String)>,
    process: Option<Child>,
}

impl Stack {
    /// Prepares an installation; `environment` is handed to every process of it.
    ///
    /// # Errors
    /// No free ports.
    pub fn new(receipts: &Path, data: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        // All three are held at once, so that they differ; whoever binds in between makes the start fail visibly.
        let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(held) {
            *port = listener?.local_addr()?.port();
        }
        let environment = environment
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Ok(Self {
            receipts: receipts.to_owned(),
            data: data.to_owned(),
            ports,
            environment,
            process: None,
        })
    }

    /// The gateway's base address.
    #[must_use]
    pub fn gateway(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The analytics API's base address.
    #[must_use]
    pub fn analytics(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// The base address of `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[2])
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Starts the process, without waiting for it.
    ///
    /// # Errors
    /// It runs already, or can't be started.
    pub fn start(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "it runs already");
        let [gateway, analytics, metrics] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.data.with_extension("log"))?;
        let child = Command::new(&self.receipts)
            .arg("up")
            .arg("--data")
            .arg(&self.data)
            .args([
                "--gateway-listen",
                &gateway,
                "--analytics-listen",
                &analytics,
                "--metrics-listen",
                &metrics,
            ])
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.receipts.display()))?;
        self.process = Some(child);
        Ok(())
    }

    /// Waits until both HTTP services say that they are ready.
    ///
    /// # Errors
    /// The process ended, or it took too long; the text holds the end of its log.
    pub async fn ready(&mut self) -> Result<()> {
        let http = client(1);
        let deadline = Instant::now() + READY_WAIT_MAX;
        loop {
            let mut ready = 0;
            for base in [self.gateway(), self.analytics()] {
                let uri: Uri = format!("{base}/readyz").parse()?;
                let request = http::Request::get(uri).body(Full::<Bytes>::default())?;
                if http
                    .request(request)
                    .await
                    .is_ok_and(|answer| answer.status() == StatusCode::OK)
                {
                    ready += 1;
                }
            }
            if ready == 2 {
                return Ok(());
            }
            if let Some(process) = &mut self.process
                && let Some(status) = process.try_wait()?
            {
                bail!("receipts up ended with {status}:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("receipts up wasn't ready in {READY_WAIT_MAX:?}:\n{}", self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// kill -9, and waits for the process to be gone.
    ///
    /// # Errors
    /// It doesn't run.
    pub async fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("it doesn't run")?;
        process.kill().await?;
        Ok(())
    }

    /// SIGTERM, and waits for the drain.
    ///
    /// # Errors
    /// It doesn't run, or didn't end well.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("it doesn't run")?;
        let id = process.id().context("it has ended already")?;
        Command::new("kill").arg("-TERM").arg(id.to_string()).status().await?;
        let status = process.wait().await?;
        ensure!(
            status.success(),
            "receipts up drained with {status}:\n{}",
            self.log_tail()
        );
        Ok(())
    }

    /// The arguments of a load on this installation: an open loop with the audit at its end, told by `more` how much.
    #[must_use]
    pub fn load(&self, key: &str, publisher: &str, more: &[&str]) -> Arguments {
        let (gateway, analytics) = (self.gateway(), self.analytics());
        let fixed = [
            "receipts-load",
            "--gateway",
            &gateway,
            "--analytics",
            &analytics,
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
        Arguments::parse_from(words.chain(paths))
    }

    /// The process's id, while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Child::id)
    }

    /// An API key for a publisher's domain, without a limit on requests.
    ///
    /// # Errors
    /// `receipts keys create` failed.
    pub async fn create_key(&self, domain: &str) -> Result<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            api_key: String,
        }
        let arguments = [
            "keys",
            "create",
            "--domain",
            domain,
            "--tier",
            "enterprise",
            "--json",
            "--data",
        ];
        let output = Command::new(&self.receipts)
            .args(arguments)
            .arg(&self.data)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .output()
            .await?;
        ensure!(
            output.status.success(),
            "keys create: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let created: Created = serde_json::from_slice(&output.stdout).context("the JSON of keys create")?;
        Ok(created.api_key)
    }

    /// The last lines that the process wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}
