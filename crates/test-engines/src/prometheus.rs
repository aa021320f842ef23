//! Prometheus, from Debian's package, unpacked into the cache by scripts/fetch-prometheus.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::cache::cached;
use crate::engine::Engine;
use crate::folder::Folder;
use crate::spawner::dying_with_us;
use crate::{http, ports};

/// A running server with rules, which asks its targets every second.
#[derive(Debug)]
pub struct Prometheus {
    // Held for its end.
    _engine: Engine,
    port: u16,
    // After the engine: dropped in this order.
    _folder: Folder,
}

impl Prometheus {
    /// Starts one that scrapes `targets` (job, `host:port`) and evaluates the rule files that match
    /// `rules`.
    ///
    /// # Errors
    ///
    /// Prometheus isn't in the cache (`make prometheus`), or doesn't start.
    pub fn start(targets: &[(&str, &str)], rules: &Path) -> anyhow::Result<Self> {
        let program = program("prometheus")?;
        let folder = Folder::new("prometheus")?;
        let [port] = ports::free()?;
        let mut lines = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\nscrape_configs:\n",
            rules.display()
        );
        // A job is there once, with all its targets.
        let mut jobs = BTreeMap::<_, Vec<_>>::new();
        for (job, target) in targets {
            jobs.entry(job).or_default().push(format!("\"{target}\""));
        }
        for (job, targets) in jobs {
            let targets = targets.join(", ");
            lines += &format!("  - job_name: {job}\n    static_configs: [{{targets: [{targets}]}}]\n");
        }
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, lines)?;
        let data = folder.path().join("data");
        let command = move || {
            let mut command = dying_with_us(&program, "KILL");
            command
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--storage.tsdb.path={}", data.display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command
        };
        let answers = move |_: &Path| http::query(port, "GET /-/ready", "").is_ok();
        let log = folder.path().join("prometheus.log");
        Ok(Self {
            _engine: Engine::start("Prometheus", log, Signal::KILL, command, answers)?,
            port,
            _folder: folder,
        })
    }

    /// The body of the answer to `GET path`, of its HTTP API.
    ///
    /// # Errors
    ///
    /// No answer, or another status than 200; the body is in the error.
    pub fn get(&self, path: &str) -> anyhow::Result<String> {
        http::query(self.port, &format!("GET {path}"), "")
    }

    /// Returns the answer as JSON.
    ///
    /// # Errors
    ///
    /// Errors of [`get`](Self::get), or a body that isn't JSON.
    pub fn json(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.get(path)?)?)
    }

    /// Series that a query in PromQL finds now, with their values.
    ///
    /// # Errors
    ///
    /// No answer, or a question that Prometheus can't read.
    pub fn query(&self, question: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.json(&format!("/api/v1/query?query={}", encoded(question)))?;
        let found = answer["data"]["result"].as_array();
        Ok(found.with_context(|| question.to_owned())?.clone())
    }

    /// The labels of every series that a selector finds.
    ///
    /// # Errors
    ///
    /// No answer, or a selector that Prometheus can't read.
    pub fn series(&self, selector: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.json(&format!("/api/v1/series?match[]={}", encoded(selector)))?;
        let found = answer["data"].as_array();
        Ok(found.with_context(|| selector.to_owned())?.clone())
    }

    /// Findings of `promtool check metrics` on a page of `/metrics`; empty if it finds no
    /// fault.
    ///
    /// # Errors
    ///
    /// Prometheus isn't in the cache (`make prometheus`), or doesn't start.
    pub fn lint(page: &str) -> anyhow::Result<String> {
        let mut tool = Command::new(program("promtool")?)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = tool.stdin.take().context("no pipe")?;
        let page = page.to_owned();
        // Beside the reading, so that neither pipe fills up.
        let writer = std::thread::spawn(move || input.write_all(page.as_bytes()));
        let output = tool.wait_with_output()?;
        writer.join().ok().context("the writer panicked")??;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .fold(String::new(), |out, byte| out + &format!("%{byte:02X}"))
}

fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = cached("prometheus")?.join(name);
    if !path.exists() {
        bail!("{} isn't there: `make prometheus` fetches it", path.display());
    }
    Ok(path)
}
