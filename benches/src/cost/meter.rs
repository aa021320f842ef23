//! CPU time, context switches, written bytes and memory of every process that this one started, by
//! process and thread, from `/proc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::{Stat, memory_peak_bytes, status_field};

/// Work of a thread, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// CPU time in user mode, in seconds.
    pub user: f64,
    /// CPU time in the kernel, in seconds.
    pub system: f64,
    /// Context switches, voluntary or not.
    pub switches: f64,
}

impl Work {
    /// CPU time.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }

    pub(super) fn add(&mut self, other: &Self, sign: f64) {
        self.user += sign * other.user;
        self.system += sign * other.system;
        self.switches += sign * other.switches;
    }
}

/// A stage: one process, or several of one name.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// All threads, those that have ended included.
    pub work: Work,
    /// Threads by group: the name without the number at its end.
    pub threads: BTreeMap<String, Work>,
    /// Bytes that were written to disks.
    pub written_bytes: f64,
    /// Most memory so far, in bytes; of several processes the sum.
    pub memory_peak_bytes: f64,
}

/// Reading the counters of 300 threads takes about 5 ms of a core.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Threads that ended between two samples have no other name.
const ENDED: &str = "(ended)";

/// A process as it was last seen.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: String,
    cpu: Work,
    threads: BTreeMap<u32, (String, Work)>,
    written_bytes: f64,
    memory_peak_bytes: f64,
}

/// Counts from its start on.
pub struct Meter {
    names: BTreeMap<u32, String>,
    begin: BTreeMap<u32, Seen>,
    last: BTreeMap<u32, Seen>,
    sampled: Instant,
}

impl Meter {
    /// Starts to count. `names` names the stages' processes; others have their program's name.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn start(names: BTreeMap<u32, String>) -> Result<Self> {
        let mut meter = Self {
            names,
            begin: BTreeMap::new(),
            last: BTreeMap::new(),
            sampled: Instant::now(),
        };
        meter.look()?;
        meter.begin = meter.last.clone();
        Ok(meter)
    }

    /// Reads the counters again if they are older than [`SAMPLE_EVERY`]: a thread that ends keeps
    /// those that were read last.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn sample(&mut self) -> Result<()> {
        if self.sampled.elapsed() >= SAMPLE_EVERY {
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.sampled = Instant::now();
        for (process, program) in started_by(std::process::id())? {
            let name = match self.names.get(&process) {
                Some(name) => name.clone(),
                None => program,
            };
            let seen = self.last.entry(process).or_default();
            seen.name = name;
            // A process that has just ended keeps its last numbers.
            let _ = seen.look(Path::new(&format!("/proc/{process}")), process);
        }
        Ok(())
    }

    /// Stages by name, without those that did nothing.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn finish(mut self) -> Result<BTreeMap<String, Stage>> {
        self.look()?;
        let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
        let nothing = Seen::default();
        for (process, seen) in &self.last {
            let before = self.begin.get(process).unwrap_or(&nothing);
            let stage = stages.entry(seen.name.clone()).or_default();
            stage.take(before, seen);
        }
        stages.retain(|_, stage| stage.work.cpu() > 0.0);
        Ok(stages)
    }
}

impl Stage {
    fn take(&mut self, before: &Seen, now: &Seen) {
        // The process's own count has the CPU time of ended threads, but not their switches.
        let mut ended = now.cpu;
        ended.add(&before.cpu, -1.0);
        self.work.add(&ended, 1.0);
        for (thread, (name, work)) in &now.threads {
            let mut did = *work;
            if let Some((_, earlier)) = before.threads.get(thread) {
                did.add(earlier, -1.0);
            }
            self.work.switches += did.switches;
            self.threads.entry(group(name)).or_default().add(&did, 1.0);
            did.switches = 0.0;
            ended.add(&did, -1.0);
        }
        let rest = Work {
            user: ended.user.max(0.0),
            system: ended.system.max(0.0),
            switches: 0.0,
        };
        self.threads.entry(ENDED.to_owned()).or_default().add(&rest, 1.0);
        self.written_bytes += now.written_bytes - before.written_bytes;
        self.memory_peak_bytes += now.memory_peak_bytes;
    }
}

impl Seen {
    fn look(&mut self, folder: &Path, process: u32) -> Result<()> {
        let stat = Stat::parse(&std::fs::read_to_string(folder.join("stat"))?)?;
        self.cpu = work(&stat, 0.0);
        self.written_bytes = status_field(&std::fs::read_to_string(folder.join("io"))?, "write_bytes")? as f64;
        self.memory_peak_bytes = memory_peak_bytes(process)? as f64;
        for task in std::fs::read_dir(folder.join("task"))? {
            let task = task?;
            let thread: u32 = task.file_name().to_string_lossy().parse()?;
            // A thread may end at any moment.
            if let Ok(seen) = thread_work(&task.path()) {
                self.threads.insert(thread, seen);
            }
        }
        Ok(())
    }
}

fn thread_work(task: &Path) -> Result<(String, Work)> {
    let stat = Stat::parse(&std::fs::read_to_string(task.join("stat"))?)?;
    let status = std::fs::read_to_string(task.join("status"))?;
    let switches =
        status_field(&status, "voluntary_ctxt_switches")? + status_field(&status, "nonvoluntary_ctxt_switches")?;
    let work = work(&stat, switches as f64);
    Ok((stat.name, work))
}

fn work(stat: &Stat, switches: f64) -> Work {
    Work {
        user: stat.user_s,
        system: stat.system_s,
        switches,
    }
}

/// The name of a group of threads: without numbers and separators at its end.
fn group(name: &str) -> String {
    let end = |c: char| c.is_ascii_digit() || "-_:# ".contains(c);
    name.trim_end_matches(end).to_owned()
}

/// Processes that `ancestor` or one of its processes started, with the names of their programs.
fn started_by(ancestor: u32) -> Result<Vec<(u32, String)>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").context("/proc")? {
        let entry = entry?;
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat"));
        if let Ok(stat) = stat.map_err(anyhow::Error::from).and_then(|text| Stat::parse(&text)) {
            all.insert(process, stat);
        }
    }
    let descends = |mut process: u32| {
        while let Some(stat) = all.get(&process) {
            if stat.parent == ancestor {
                return true;
            }
            process = stat.parent;
        }
        false
    };
    let started = all.iter().filter(|(process, _)| descends(**process));
    Ok(started.map(|(process, stat)| (*process, stat.name.clone())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn threads_are_grouped_by_their_names() {
        assert_eq!(group("cpu-verifier-11"), "cpu-verifier");
        assert_eq!(group("rdk:broker1001"), "rdk:broker");
        assert_eq!(group("services"), "services");
    }

    #[test]
    fn work_is_what_was_done_since_the_start_also_by_threads_that_ended() {
        let work = |user, switches| Work {
            user,
            system: 0.0,
            switches,
        };
        let thread = |name: &str, user, switches| (name.to_owned(), work(user, switches));
        let before = Seen {
            cpu: work(10.0, 0.0),
            threads: [(1, thread("main", 6.0, 5.0)), (2, thread("cpu-0", 1.0, 1.0))].into(),
            written_bytes: 100.0,
            ..Seen::default()
        };
        let now = Seen {
            cpu: work(20.0, 0.0),
            threads: [
                (1, thread("main", 7.0, 9.0)),
                (2, thread("cpu-0", 3.0, 2.0)),
                (3, thread("cpu-1", 4.0, 3.0)),
            ]
            .into(),
            written_bytes: 150.0,
            memory_peak_bytes: 7.0,
            ..Seen::default()
        };
        let mut stage = Stage::default();
        stage.take(&before, &now);
        assert_eq!(stage.work, work(10.0, 8.0));
        assert_eq!(stage.threads["main"], work(1.0, 4.0));
        assert_eq!(stage.threads["cpu"], work(6.0, 4.0));
        assert_eq!(stage.threads[ENDED], work(3.0, 0.0));
        assert_eq!((stage.written_bytes, stage.memory_peak_bytes), (50.0, 7.0));
    }

    #[test]
    fn processes_that_this_one_started_are_counted_until_they_end() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "n=0; while [ $n -lt 1000000 ]; do n=$((n+1)); done"])
            .spawn()
            .unwrap();
        let mut meter = Meter::start([(child.id(), "busy".to_owned())].into()).unwrap();
        while child.try_wait().unwrap().is_none() {
            meter.sample().unwrap();
        }
        let stages = meter.finish().unwrap();
        assert!(stages["busy"].work.cpu() > 0.0);
        assert!(stages["busy"].threads["sh"].cpu() > 0.0);
    }
}
