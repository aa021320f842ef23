//! Process of a service: its ports, its environment, its metrics.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;

use crate::http::{HttpClient, get};
use crate::process::Process;

/// Library that is preloaded into a process whose clock is to be wrong.
const WRONG_CLOCK: &str = include_str!("wrong_clock.c");

/// A gateway, a verifier, a writer, an analytics API or a publisher API.
pub struct Replica {
    /// Process of the replica.
    pub process: Process,
    /// The base address of its service; a verifier and a writer have none, and this is nobody's.
    pub address: String,
    /// The base address of `/metrics` and `/readyz`.
    pub admin: String,
    clock: Arc<Mutex<Option<i64>>>,
    wrong_clock: PathBuf,
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
            "publisher-api" => set("RECEIPTS_PUBLISHER_LISTEN", listen.clone()),
            _ => {}
        }
        let clock: Arc<Mutex<Option<i64>>> = Arc::default();
        let (program, service, shift) = (program.to_owned(), service.to_owned(), Arc::clone(&clock));
        let wrong_clock = folder.join("wrong_clock.so");
        let library = wrong_clock.clone();
        let command = move || {
            let mut command = test_engines::dying_with_us(&program, "KILL");
            command.args(["serve", &service]);
            command.envs(environment.iter().map(|(key, value)| (key, value)));
            if let Some(shift_s) = *shift.lock() {
                command.env("LD_PRELOAD", &library);
                command.env("RECEIPTS_TEST_CLOCK_SHIFT_S", shift_s.to_string());
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
            wrong_clock,
        })
    }

    /// Environment of a command whose clock is so many seconds off.
    ///
    /// # Errors
    /// There is no C compiler.
    pub fn shifted_clock(&self, shift_s: i64) -> Result<Vec<(String, String)>> {
        compile(&self.wrong_clock)?;
        let library = self.wrong_clock.display().to_string();
        Ok(vec![
            ("LD_PRELOAD".to_owned(), library),
            ("RECEIPTS_TEST_CLOCK_SHIFT_S".to_owned(), shift_s.to_string()),
        ])
    }

    /// From its next start on, its clock on the wall is so many seconds off; `None` sets it right.
    ///
    /// # Errors
    /// There is no C compiler.
    pub fn shift_clock(&self, shift_s: Option<i64>) -> Result<()> {
        if shift_s.is_some() {
            compile(&self.wrong_clock)?;
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
            // The sum of nothing would be -0.
            .fold(0.0, |sum, value| sum + value))
    }
}

fn compile(library: &Path) -> Result<()> {
    let source = library.with_extension("c");
    std::fs::write(&source, WRONG_CLOCK)?;
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(library)
        .arg(&source)
        .status()
        .context("starting cc")?;
    ensure!(status.success(), "cc: {status}");
    Ok(())
}
