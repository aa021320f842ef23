//! One service's process: its ports, its environment, its metrics.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;

use crate::http::{HttpClient, get};
use crate::process::Process;

/// Debian's libfaketime, in its form for programs with threads.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";
const LIBRARIES: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];

/// A gateway, a verifier or an analytics API.
pub struct Replica {
    /// Its process.
    pub process: Process,
    /// The base address of its service; a verifier has none, and this is nobody's.
    pub address: String,
    /// The base address of `/metrics` and `/readyz`.
    pub admin: String,
    clock: Arc<Mutex<Option<i64>>>,
}

impl Replica {
    /// Prepares the `number`-th process of a service.
    ///
    /// # Errors
    /// No free ports.
    pub fn new(
        service: &str,
        number: usize,
        program: &Path,
        folder: &Path,
        environment: &[(String, String)],
    ) -> Result<Self> {
        let [listen, metrics] = test_engines::free_ports()?.map(|port: u16| format!("127.0.0.1:{port}"));
        let name = format!("{service}-{number}");
        let mut environment = environment.to_vec();
        let mut set = |key: &str, value: String| environment.push((key.to_owned(), value));
        set("RECEIPTS_TELEMETRY_METRICS_LISTEN", metrics.clone());
        set("RECEIPTS_DATA_DIR", folder.join(&name).display().to_string());
        match service {
            "gateway" => set("RECEIPTS_GATEWAY_LISTEN", listen.clone()),
            "analytics-api" => set("RECEIPTS_ANALYTICS_LISTEN", listen.clone()),
            _ => {}
        }
        let clock: Arc<Mutex<Option<i64>>> = Arc::default();
        let (program, shift) = (program.to_owned(), Arc::clone(&clock));
        let command = move || {
            let mut command = test_engines::dying_with_us(&program, "KILL");
            command.envs(environment.iter().map(|(key, value)| (key, value)));
            if let Some(shift_s) = *shift.lock() {
                command.env("LD_PRELOAD", faketime().unwrap_or_default());
                command.env("FAKETIME", format!("{shift_s:+}"));
                // Waits and time-outs are as ever: only the clock on the wall is wrong.
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                command.env("DONT_FAKE_MONOTONIC", "1");
            }
            command
        };
        let admin = format!("http://{metrics}");
        let log = folder.join(format!("{name}.log"));
        Ok(Self {
            process: Process::new(name, &log, vec![format!("{admin}/readyz")], command),
            address: format!("http://{listen}"),
            admin,
            clock,
        })
    }

    /// From its next start on, its clock on the wall is so many seconds off; `None` sets it right.
    ///
    /// # Errors
    /// libfaketime isn't installed.
    pub fn shift_clock(&self, shift_s: Option<i64>) -> Result<()> {
        if shift_s.is_some() {
            faketime().context("libfaketime is missing: scripts/install-deps installs it")?;
        }
        *self.clock.lock() = shift_s;
        Ok(())
    }

    /// A metric's value, the sum over its labels.
    ///
    /// # Errors
    /// The process doesn't answer.
    pub async fn metric(&self, http: &HttpClient, name: &str) -> Result<f64> {
        let (_, text) = get(http, &format!("{}/metrics", self.admin)).await?;
        let text = String::from_utf8_lossy(&text);
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values = text.lines().filter(of_name);
        Ok(values
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }
}

fn faketime() -> Option<String> {
    let paths = LIBRARIES.iter().map(|folder| format!("{folder}/{FAKETIME}"));
    paths.into_iter().find(|path| Path::new(path).is_file())
}
