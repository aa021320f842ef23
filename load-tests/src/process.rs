//! A process under test: started, waited for, stopped, killed, frozen. It ends with this one,
//! whatever ends this one.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::http::{HttpClient, status_of};

/// The longest a start may take: loading the engine and reading back its tables included.
const READY_WAIT_MAX: Duration = Duration::from_secs(120);
/// The longest an orderly end may take: longer than any drain.
const STOP_WAIT_MAX: Duration = Duration::from_secs(90);
/// Lines of a log that are shown.
const TAIL_LINES: usize = 20;
const LINE_CHARS_MAX: usize = 400;
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Resident now.
    pub resident_bytes: u64,
    /// The most it ever was.
    pub peak_bytes: u64,
}

/// A program with its environment, and its process while it runs.
pub struct Process {
    name: String,
    log: PathBuf,
    ready_at: Vec<String>,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    child: Option<Child>,
}

impl Process {
    /// Prepares one, under the name that people read. Its output is added to `log`; it is ready
    /// when each address of `ready_at` answers 200.
    pub fn new(
        name: impl Into<String>,
        log: &Path,
        ready_at: Vec<String>,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            log: log.to_owned(),
            ready_at,
            command: Box::new(command),
            child: None,
        }
    }

    /// Name of the process.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process's id, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the process, without waiting for it.
    ///
    /// # Errors
    /// The process runs already, or can't be started.
    pub fn start(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.name);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("opening {}", self.log.display()))?;
        let mut command = (self.command)();
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(test_engines::spawn(command)?);
        Ok(())
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// The process ended, or took too long; the text has the end of its log.
    pub async fn ready(&mut self, http: &HttpClient) -> Result<()> {
        let deadline = Instant::now() + READY_WAIT_MAX;
        loop {
            let mut ready = true;
            for address in &self.ready_at {
                ready = ready && status_of(http, address).await.is_some_and(|status| status.is_success());
            }
            if ready {
                return Ok(());
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("{} ended with {status}:\n{}", self.name, self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("{} wasn't ready in {READY_WAIT_MAX:?}:\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// SIGKILL, also to a frozen one; done when it is gone.
    ///
    /// # Errors
    /// The process doesn't run.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().with_context(|| self.not_running())?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the drain.
    ///
    /// # Errors
    /// The process doesn't run, or didn't end well.
    pub async fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_WAIT_MAX;
        let Some(child) = &mut self.child else { return Ok(()) };
        loop {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                ensure!(
                    status.success(),
                    "{} drained with {status}:\n{}",
                    self.name,
                    self.log_tail()
                );
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{} didn't end in {STOP_WAIT_MAX:?}:\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// SIGSTOP: its connections stay open, and nothing answers.
    ///
    /// # Errors
    /// The process doesn't run.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// The process doesn't run.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Memory of the process now.
    ///
    /// # Errors
    /// The process doesn't run.
    pub fn memory(&self) -> Result<Memory> {
        let id = self.id().with_context(|| self.not_running())?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let bytes = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
            Ok(kilobytes
                .with_context(|| format!("no {name} in /proc"))?
                .parse::<u64>()?
                << 10)
        };
        Ok(Memory {
            resident_bytes: bytes("VmRSS:")?,
            peak_bytes: bytes("VmHWM:")?,
        })
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().take(LINE_CHARS_MAX).collect())
            .collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().with_context(|| self.not_running())?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    fn not_running(&self) -> String {
        format!("{} doesn't run", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
