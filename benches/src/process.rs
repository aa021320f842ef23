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
    /// The core it is pinned to, if it is.
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
        Self::spawn(command, core)
    }

    /// Starts a program on all cores. It prints its address as one line, and ends with its input.
    ///
    /// # Errors
    /// The server didn't start.
    pub fn start_program(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, None)
    }

    fn spawn(mut command: Command, core: Option<usize>) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line
            .trim()
            .parse()
            .with_context(|| format!("{:?} printed {line:?}", command.get_program()))?;
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

/// `/proc/PID/stat`, or that of a thread.
#[derive(Debug, PartialEq)]
pub struct Stat {
    /// Name of the program or thread, at most 15 bytes.
    pub name: String,
    /// The process that started it.
    pub parent: u32,
    /// CPU time in user mode, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub system_s: f64,
}

impl Stat {
    /// Parses the file's text.
    ///
    /// # Errors
    /// The text is of another form.
    pub fn parse(text: &str) -> Result<Self> {
        // The second field is the name in parentheses and may hold anything; the parent's id is
        // field 4, utime and stime are 14 and 15.
        let whole = || {
            let (head, rest) = text.rsplit_once(')')?;
            let (_, name) = head.split_once('(')?;
            let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
            let seconds = |field: usize| Some(fields.get(field)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
            Some(Self {
                name: name.to_owned(),
                parent: fields.get(1)?.parse().ok()?,
                user_s: seconds(11)?,
                system_s: seconds(12)?,
            })
        };
        whole().with_context(|| format!("/proc/PID/stat is {text:?}"))
    }
}

/// The CPU time a process took so far, all threads, in seconds.
///
/// # Errors
/// There is no such process.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = Stat::parse(&std::fs::read_to_string(format!("/proc/{process}/stat"))?)?;
    Ok(stat.user_s + stat.system_s)
}

/// The most memory a process had resident so far, in bytes.
///
/// # Errors
/// There is no such process.
pub fn memory_peak_bytes(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(status_field(&status, "VmHWM")? * 1024)
}

/// The number of a line `name: number` in a file of `/proc`, without its unit.
///
/// # Errors
/// There is no such line.
pub fn status_field(text: &str, name: &str) -> Result<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .with_context(|| format!("no {name}"))?;
    Ok(value.trim().trim_end_matches("kB").trim().parse()?)
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
    fn files_of_proc_are_read_whatever_a_name_contains() {
        let text = "42 (a) (b 1) S 7 42 42 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 9 0 0";
        let stat = Stat {
            name: "a) (b 1".to_owned(),
            parent: 7,
            user_s: 2.5,
            system_s: 0.5,
        };
        assert_eq!(Stat::parse(text).unwrap(), stat);
        assert!(Stat::parse("42 (cut) S 7").is_err());
        let status = "VmHWM:\t  1840 kB\nvoluntary_ctxt_switches:\t12\n";
        assert_eq!(status_field(status, "VmHWM").unwrap(), 1840);
        assert_eq!(status_field(status, "voluntary_ctxt_switches").unwrap(), 12);
        assert!(status_field(status, "ctxt_switches").is_err());
    }

    #[test]
    fn this_process_has_taken_time_and_memory() {
        let process = std::process::id();
        let before = cpu_seconds(process).unwrap();
        while cpu_seconds(process).unwrap() <= before {}
        assert!(memory_peak_bytes(process).unwrap() > 100_000);
    }
}
