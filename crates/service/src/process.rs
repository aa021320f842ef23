//! The standard metrics of a process, `process_*`, as every Prometheus client has them.
//!
//! Each scrape writes their text: a gauge would be of the last update, and the recorder's counters
//! have whole numbers, which seconds of CPU aren't.

use std::fmt::Write as _;
use std::fs;

/// Ticks of a second in `/proc`: USER_HZ, which is 100 on every architecture that Rust supports.
const TICKS: f64 = 100.0;

/// State of this process.
#[derive(Debug, Clone, Copy)]
struct ProcessState {
    cpu_seconds: f64,
    threads: u64,
    start_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    open_files: usize,
    open_files_max: u64,
}

/// The metrics in Prometheus' text format; empty where `/proc` can't be read.
#[must_use]
pub fn metrics_text() -> String {
    ProcessState::read().map(|state| state.text()).unwrap_or_default()
}

impl ProcessState {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The program's name, which may have anything in it, ends with the last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // proc(5) counts from 1, and the first field here is the third.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let boot = number_after(&fs::read_to_string("/proc/stat").ok()?, "btime")?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS,
            threads: number_after(&status, "Threads:")?,
            start_seconds: boot as f64 + ticks(22)? / TICKS,
            virtual_bytes: number_after(&status, "VmSize:")? * 1_024,
            resident_bytes: number_after(&status, "VmRSS:")? * 1_024,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count(),
            open_files_max: number_after(&fs::read_to_string("/proc/self/limits").ok()?, "Max open files")?,
        })
    }

    fn text(self) -> String {
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, value: &dyn std::fmt::Display| {
            // A String takes every write.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        add(
            "process_cpu_seconds_total",
            "counter",
            "Seconds of CPU that the process has used.",
            &self.cpu_seconds,
        );
        add("process_threads", "gauge", "Threads of the process.", &self.threads);
        add(
            "process_start_time_seconds",
            "gauge",
            "When the process started, since the Unix epoch.",
            &self.start_seconds,
        );
        add(
            "process_virtual_memory_bytes",
            "gauge",
            "Address space of the process.",
            &self.virtual_bytes,
        );
        add(
            "process_resident_memory_bytes",
            "gauge",
            "Memory of the process.",
            &self.resident_bytes,
        );
        add("process_open_fds", "gauge", "Open files.", &self.open_files);
        add(
            "process_max_fds",
            "gauge",
            "Open files that are allowed.",
            &self.open_files_max,
        );
        text
    }
}

/// The first number behind `key` at the beginning of a line.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    // Without a limit there is a word.
    let word = rest.split_whitespace().next()?;
    if word == "unlimited" {
        Some(u64::MAX)
    } else {
        word.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_process_is_what_it_is() {
        let before = ProcessState::read().unwrap();
        let files: Vec<_> = (0..20).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 50 {
            std::hint::spin_loop();
        }
        let after = ProcessState::read().unwrap();
        assert!(after.open_files >= 20 && files.len() == 20, "{after:?}");
        assert!(after.cpu_seconds > before.cpu_seconds, "{before:?} {after:?}");
        assert!(after.resident_bytes > 1 << 20 && after.resident_bytes < after.virtual_bytes);
        assert!(after.threads > 0 && after.open_files_max >= after.open_files as u64);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        assert!(
            (0.0..86_400.0).contains(&(now - after.start_seconds + 1.0)),
            "{after:?}"
        );
        assert!(metrics_text().contains("\nprocess_open_fds "), "{}", metrics_text());
    }
}
