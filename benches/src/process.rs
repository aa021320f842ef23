//! A server in a process of its own, so that what it costs isn't mixed with the client's cost.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// `utime` and `stime` are in these, on every architecture Linux shows them on (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Address of the server.
    pub address: SocketAddr,
    /// The core it is kept on, if it is.
    pub core: Option<usize>,
}

impl Server {
    /// Starts this program as the server `arguments` name, on a core of its own where there are
    /// several and `taskset` is at hand: the client gets the others.
    ///
    /// # Errors
    /// The server didn't start.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe()?;
        let cores = std::thread::available_parallelism()?.get();
        let taskset = find_in_path("taskset").filter(|_| cores > 1);
        let core = taskset.is_some().then_some(cores - 1);
        let mut command = match (taskset, core) {
            (Some(taskset), Some(core)) => {
                let mut command = Command::new(taskset);
                command.arg("--cpu-list").arg(core.to_string()).arg(&program);
                command
            }
            _ => Command::new(&program),
        };
        command.arg("serve").args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line
            .trim()
            .parse()
            .with_context(|| format!("the server {arguments:?} said {line:?}"))?;
        Ok(Self { child, address, core })
    }

    /// The CPU time it took so far, all threads, in seconds.
    ///
    /// # Errors
    /// The server has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.child.id())
    }

    /// The most memory it had so far, in bytes.
    ///
    /// # Errors
    /// The server has ended.
    pub fn memory_peak_bytes(&self) -> Result<u64> {
        memory_peak_bytes(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It stops by itself when its input ends; nothing it holds is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU time a process took so far, all threads, in seconds.
///
/// # Errors
/// There is no such process.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the program's name in parentheses and may hold anything; utime and stime
    // are 14 and 15.
    let (_, rest) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || -> Result<f64> { Ok(fields.next().context("/proc/PID/stat is short")?.parse()?) };
    Ok((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// The most memory a process had resident so far, in bytes.
///
/// # Errors
/// There is no such process.
pub fn memory_peak_bytes(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// A program of that name in PATH.
#[must_use]
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn this_process_has_taken_time_and_memory() {
        let process = std::process::id();
        let before = cpu_seconds(process).unwrap();
        while cpu_seconds(process).unwrap() <= before {}
        assert!(memory_peak_bytes(process).unwrap() > 100_000);
    }
}
