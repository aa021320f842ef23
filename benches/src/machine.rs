//! Machine of a run.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// The set-up of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores this program may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// The compiler.
    pub rustc: String,
    /// `release` or `dev`.
    pub profile: &'static str,
    /// The commit, with `+` behind it if files were changed since.
    pub commit: String,
    /// The file system logs were written to.
    pub file_system: String,
    /// Runnable threads over the last minute, before the run: far from 0, others were at work too.
    pub load_before: f64,
}

impl Machine {
    /// Returns the set-up as a line, without the processor.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} cores, Linux {}, {}, {}, {}, commit {}",
            self.cores, self.kernel, self.rustc, self.profile, self.file_system, self.commit
        )
    }

    /// Describes the machine; `scratch` is where logs are written.
    #[must_use]
    pub fn look(scratch: &Path) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let meminfo = read("/proc/meminfo");
        let memory_kib =
            field(&meminfo, "MemTotal").and_then(|kib| kib.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            cpu: cpu_name(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory_bytes: memory_kib.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: output("rustc", &["--version"]),
            profile: if cfg!(debug_assertions) { "dev" } else { "release" },
            commit: commit(),
            file_system: file_system(scratch),
            load_before: load(),
        }
    }
}

/// Runnable threads over the last minute.
#[must_use]
pub fn load() -> f64 {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Virtual machines often hide the model's name; family and model number tell it then.
fn cpu_name(cpuinfo: &str) -> String {
    let name = field(cpuinfo, "model name").unwrap_or("unknown");
    match (field(cpuinfo, "cpu family"), field(cpuinfo, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family} model {model})"),
        _ => name.to_owned(),
    }
}

fn commit() -> String {
    let short = output("git", &["rev-parse", "--short", "HEAD"]);
    let changed = output("git", &["status", "--porcelain", "--untracked-files=no"]);
    if changed.is_empty() || changed == "unknown" {
        short
    } else {
        format!("{short}+")
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// The type of the mount that holds `path`: the longest mount point that is a beginning of it.
fn file_system(path: &Path) -> String {
    let mounts = read("/proc/self/mounts");
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let holding = mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    holding.map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}
