//! `receipts up` as a child process, and what a test asks of it and of its data directory.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_engines::http::{self, Answer};

use crate::command::{Ran, command, receipts};

/// Longer than any start or drain takes: reaching it is a failure. A running audit pauses 50 times
/// as long as its last check took, so beside a build its next check can be minutes away.
const WAIT_MAX: Duration = Duration::from_secs(600);

pub(crate) struct Up {
    child: Child,
    addresses: Value,
}

impl Up {
    pub(crate) fn start_unready(data: &Path) -> Self {
        Self::start_with(data, &[], Stdio::null())
    }

    pub(crate) fn start_with(data: &Path, args: &[&str], stdout: Stdio) -> Self {
        Self::spawn(data, args, &[], stdout, Stdio::null())
    }

    /// A port for each service.
    fn spawn(data: &Path, args: &[&str], variables: &[(&str, &str)], stdout: Stdio, stderr: Stdio) -> Self {
        // A free port each, unless the test chooses one.
        let own: Vec<&str> = ["--analytics-listen", "--publisher-listen"]
            .iter()
            .filter(|option| !args.contains(option))
            .flat_map(|option| [*option, "127.0.0.1:0"])
            .collect();
        let args: Vec<&str> = own.iter().chain(args).copied().collect();
        Self::spawn_at_one_address(data, &args, variables, stdout, stderr)
    }

    fn spawn_at_one_address(
        data: &Path,
        args: &[&str],
        variables: &[(&str, &str)],
        stdout: Stdio,
        stderr: Stdio,
    ) -> Self {
        let ports = ["--gateway-listen", "--metrics-listen"]
            .iter()
            .filter(|option| !args.contains(option))
            .flat_map(|option| [*option, "127.0.0.1:0"]);
        let child = command()
            .envs(variables.iter().copied())
            .arg("up")
            .args(ports)
            .arg("--data")
            .arg(data)
            .args(args)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut up = Self {
            child,
            addresses: Value::Null,
        };
        let file = data.join("addresses.json");
        until("addresses.json", || {
            assert!(up.child.try_wait().unwrap().is_none(), "receipts up ended");
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            up.addresses = serde_json::from_str(&text).unwrap_or_default();
            up.addresses["pid"] == json!(up.child.id())
        });
        up
    }

    /// With all services on one port.
    pub(crate) fn start_at_one_address(data: &Path) -> Self {
        Self::start_set_at_one_address(data, &[])
    }

    /// With settings as environment variables, and all services on one port.
    pub(crate) fn start_set_at_one_address(data: &Path, variables: &[(&str, &str)]) -> Self {
        let up = Self::spawn_at_one_address(data, &[], variables, Stdio::null(), Stdio::null());
        until("readiness", || {
            ["gateway", "metrics"]
                .iter()
                .all(|name| get(&up.url(name), "/readyz", "").0 == 200)
        });
        up
    }

    pub(crate) fn start(data: &Path) -> Self {
        Self::start_set(data, &[])
    }

    /// With settings as environment variables.
    pub(crate) fn start_set(data: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_with_stderr(data, variables, Stdio::null())
    }

    /// With its log lines going to `log`.
    pub(crate) fn start_with_stderr(data: &Path, variables: &[(&str, &str)], log: Stdio) -> Self {
        Self::spawn(data, &[], variables, Stdio::null(), log).ready()
    }

    /// With the analytics API at an address that the test chooses.
    pub(crate) fn start_at(data: &Path, analytics: &str) -> Self {
        let args = ["--analytics-listen", analytics];
        Self::spawn(data, &args, &[], Stdio::null(), Stdio::null()).ready()
    }

    fn ready(self) -> Self {
        until("readiness", || {
            ["gateway", "analytics", "metrics"]
                .iter()
                .all(|name| get(&self.url(name), "/readyz", "").0 == 200)
        });
        self
    }

    pub(crate) fn url(&self, name: &str) -> String {
        self.addresses[name].as_str().unwrap().to_owned()
    }

    /// Processor time of the process so far, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // proc(5): utime and stime are fields 14 and 15, in hundredths; the name may have spaces.
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
    }

    /// SIGTERM; returns the exit code.
    pub(crate) fn stop(mut self) -> i32 {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        until("the drain", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until it is so, and less often the longer that takes: what it waits for needs the CPU.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        let waited = started.elapsed();
        assert!(waited < WAIT_MAX, "waiting for {what}");
        std::thread::sleep((waited / 4).clamp(Duration::from_millis(20), Duration::from_millis(500)));
    }
}

pub(crate) fn text(url: &str, path: &str) -> String {
    http::request(url, &format!("GET {path}"), "", b"").unwrap().text()
}

/// Status and JSON of an answer; 0 if nobody listens.
pub(crate) fn get(url: &str, path: &str, api_key: &str) -> (u16, Value) {
    get_answer(url, path, api_key).map_or((0, Value::Null), |answer| {
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    })
}

pub(crate) fn get_answer(url: &str, path: &str, api_key: &str) -> Option<Answer> {
    let bearer = format!("Authorization: Bearer {api_key}\r\n");
    http::request(url, &format!("GET {path}"), &bearer, b"").ok()
}

pub(crate) fn on(data: &Path, args: &[&str]) -> Ran {
    let args: Vec<&str> = args.iter().copied().chain(["--data", data.to_str().unwrap()]).collect();
    receipts(&args, b"")
}

/// Makes an API key for a domain, with `more` arguments.
pub(crate) fn new_api_key(data: &Path, domain: &str, more: &[&str]) -> String {
    let create = ["keys", "create", "--domain", domain, "--json"];
    let created = on(data, &[&create, more].concat()).expect(0).json();
    created["apiKey"].as_str().unwrap().to_owned()
}

/// Sends a POST request, and returns status and answer. `headers` are lines with their ends.
pub(crate) fn post(url: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let answer = http::request(url, &format!("POST {path}"), headers, body).unwrap();
    (answer.status, answer.text())
}

/// Has the running engine execute a statement, which no service would. Returns the answer.
pub(crate) fn execute(data: &Path, statement: &str) -> String {
    let stream = UnixStream::connect(data.join("warehouse.sock")).unwrap();
    let head = "POST /?database=receipts HTTP/1.1\r\nHost: x\r\n";
    let answer = http::exchange(stream, head, statement.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}
