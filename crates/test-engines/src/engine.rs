//! Process of an engine: started, watched until it answers, killed, frozen, started again.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::spawner;

/// Longest time until an engine answers: many times the usual one, since tests may have most of
/// the processor.
const START_MAX: Duration = Duration::from_secs(120);
const TRIES: u32 = 5;
const PROBE_EVERY: Duration = Duration::from_millis(50);

/// A process, how to start it, and how to see that it answers.
pub(crate) struct Engine {
    name: &'static str,
    log: PathBuf,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// Whether it answers, given its log.
    answers: Box<dyn Fn(&Path) -> bool + Send + Sync>,
    /// Sent when the handle is dropped.
    farewell: Signal,
    child: Mutex<Option<Child>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts `command` and waits until it `answers`.
    pub(crate) fn start(
        name: &'static str,
        log: PathBuf,
        farewell: Signal,
        command: impl Fn() -> Command + Send + Sync + 'static,
        answers: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let engine = Self {
            name,
            log,
            command: Box::new(command),
            answers: Box::new(answers),
            farewell,
            child: Mutex::new(None),
        };
        engine.restart()?;
        Ok(engine)
    }

    /// Starts it again; it must not be running. Tried more than once: a killed PostgreSQL's
    /// children hold its shared memory for a moment, and another process may have taken a port
    /// meanwhile.
    pub(crate) fn restart(&self) -> anyhow::Result<()> {
        let mut tries = 1;
        loop {
            match self.launch() {
                Err(_) if tries < TRIES && self.child.lock().is_none() => tries += 1,
                other => return other,
            }
            pause();
        }
    }

    fn launch(&self) -> anyhow::Result<()> {
        let mut slot = self.child.lock();
        if slot.is_some() {
            bail!("{} is running", self.name);
        }
        let log = File::create(&self.log).with_context(|| format!("creating {}", self.log.display()))?;
        let mut command = (self.command)();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Out of reach of a Ctrl-C: who uses it stops it, or ends.
            .process_group(0);
        let child = slot.insert(spawner::spawn(command)?);
        let deadline = Instant::now() + START_MAX;
        while !(self.answers)(&self.log) {
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let how = ended.map_or_else(|| "doesn't answer".to_owned(), |status| format!("ended: {status}"));
                let _ = child.kill();
                let _ = child.wait();
                *slot = None;
                bail!("{} {how}\n{}", self.name, self.last_lines());
            }
            pause();
        }
        Ok(())
    }

    /// SIGKILL, also to a frozen one; done when it is gone.
    pub(crate) fn kill(&self) -> anyhow::Result<()> {
        let mut slot = self.child.lock();
        let mut child = slot.take().with_context(|| format!("{} isn't running", self.name))?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits: an orderly stop.
    pub(crate) fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let mut slot = self.child.lock();
        if let Some(mut child) = slot.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// SIGSTOP: its connections stay open, and nothing answers.
    pub(crate) fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        self.signal_children(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) -> anyhow::Result<()> {
        self.signal_children(Signal::CONT)?;
        self.signal(Signal::CONT)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let slot = self.child.lock();
        let child = slot.as_ref().with_context(|| format!("{} isn't running", self.name))?;
        Ok(Pid::from_child(child))
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// To PostgreSQL's processes, one for each connection.
    fn signal_children(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid()?.as_raw_nonzero();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_whitespace() {
            if let Some(child) = Pid::from_raw(child.parse()?) {
                // It may have ended since.
                let _ = kill_process(child, signal);
            }
        }
        Ok(())
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A frozen one would hear nothing else.
        let _ = self.thaw();
        if let Some(mut child) = self.child.get_mut().take() {
            let pid = Pid::from_child(&child);
            let _ = kill_process(pid, self.farewell);
            let _ = child.wait();
        }
    }
}

/// Runs `command` to its end and gives its output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        bail!(
            "{program}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[allow(clippy::disallowed_methods)] // Watching a real process.
fn pause() {
    std::thread::sleep(PROBE_EVERY);
}

/// Controls of every engine from outside.
macro_rules! controls {
    ($engine:ty) => {
        impl $engine {
            /// SIGKILL, also to a frozen one; returns when it is gone.
            ///
            /// # Errors
            ///
            /// The engine isn't running.
            pub fn kill(&self) -> anyhow::Result<()> {
                self.engine.kill()
            }

            /// An orderly stop (SIGTERM); returns when it is gone.
            ///
            /// # Errors
            ///
            /// The engine isn't running.
            pub fn stop(&self) -> anyhow::Result<()> {
                self.engine.stop()
            }

            /// Starts it again, on the same data and ports, and waits until it answers.
            ///
            /// # Errors
            ///
            /// The engine runs already, or doesn't start.
            pub fn restart(&self) -> anyhow::Result<()> {
                self.engine.restart()
            }

            /// SIGSTOP: its connections stay open and nothing answers.
            ///
            /// # Errors
            ///
            /// The engine isn't running.
            pub fn freeze(&self) -> anyhow::Result<()> {
                self.engine.freeze()
            }

            /// SIGCONT.
            ///
            /// # Errors
            ///
            /// The engine isn't running.
            pub fn thaw(&self) -> anyhow::Result<()> {
                self.engine.thaw()
            }
        }
    };
}
pub(crate) use controls;
