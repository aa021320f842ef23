//! Starts processes that end with this one.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use anyhow::Context;

struct Job {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// `program` under a death signal: the kernel sends `signal` when the thread that started it ends.
#[must_use]
pub fn dying_with_us(program: impl AsRef<std::ffi::OsStr>, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// Spawns from one thread that lives as long as this process. The death signal is sent at the end
/// of the *thread* that spawned, and a test's thread ends with its test, while an engine may be
/// shared.
///
/// # Errors
///
/// The command can't be started.
pub fn spawn(command: Command) -> anyhow::Result<Child> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    let jobs = SPAWNER.get_or_init(|| {
        let (jobs, received) = channel::<Job>();
        std::thread::spawn(move || {
            for mut job in received {
                let _ = job.reply.send(job.command.spawn());
            }
        });
        jobs
    });
    let what = command.get_program().to_string_lossy().into_owned();
    let (reply, answer) = channel();
    jobs.send(Job { command, reply })
        .ok()
        .context("the spawning thread ended")?;
    answer
        .recv()
        .context("the spawning thread ended")?
        .with_context(|| format!("starting {what}"))
}
