//! `receipts serve`: services as processes, configured by variables and options. Drills run all of
//! them together (load-tests).

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::{Ran, command, key, ndjson, receipts, sign};
use crate::running::{get, post, text, until};
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogInspector};
use serde_json::{Value, json};
use test_engines::free_ports;

const ENTRY: &str = "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10";

pub(crate) struct Service {
    child: Child,
    pub(crate) address: String,
    metrics: String,
}

impl Service {
    /// Starts a service, and waits until it is alive.
    pub(crate) fn start(name: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_logging(name, args, variables, Stdio::null())
    }

    /// With its log lines going to `log`.
    pub(crate) fn start_logging(name: &str, args: &[&str], variables: &[(&str, &str)], log: Stdio) -> Self {
        let [port, metrics] = free_ports().unwrap().map(|port: u16| format!("127.0.0.1:{port}"));
        let mut serve = command();
        serve.args(["serve", name, "--metrics-listen", &metrics]).args(args);
        if !matches!(name, "verifier" | "writer") {
            serve.args(["--listen", &port]);
        }
        serve.envs(variables.iter().copied());
        let mut child = serve.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        until("the service", || {
            assert!(child.try_wait().unwrap().is_none(), "{name} ended");
            get(&format!("http://{metrics}"), "/healthz", "").0 == 200
        });
        Self {
            child,
            address: format!("http://{port}"),
            metrics: format!("http://{metrics}"),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        get(&self.metrics, "/readyz", "").0 == 200
    }

    /// The value of a series that is named with its labels, if there is one.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let metrics = text(&self.metrics, "/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(series))?;
        value.trim().parse().ok()
    }

    fn signal(&self, signal: &str) {
        let (pid, signal) = (self.child.id().to_string(), format!("-{signal}"));
        assert!(Command::new("kill").args([&signal, &pid]).status().unwrap().success());
    }

    /// Signals the end, and returns the exit code.
    fn stop(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        until("the drain", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a service that is expected to refuse to start, and to say why.
fn refused(args: &[&str], variables: &[(&str, &str)], reason: &str) {
    let output = command()
        .arg("serve")
        .args(args)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(stderr.contains(reason), "{args:?}: {stderr}");
}

#[test]
fn a_webhook_takes_receipts_and_stores_them_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (data, entries) = (folder.path().join("data"), folder.path().join("entries.txt"));
    std::fs::write(&entries, format!("{ENTRY}\n")).unwrap();
    let (key, public) = key(folder.path(), "Ed25519");
    let signed = |entry: &str| {
        let mut unsigned = crate::command::receipt(&public);
        unsigned["content"]["entryId"] = json!(entry);
        ndjson(&sign(&key, &[unsigned]))
    };
    let variables = [
        ("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES", "required"),
        ("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES_FILE", entries.to_str().unwrap()),
    ];
    for _ in 0..2 {
        let webhook = Service::start("webhook", &["--data", data.to_str().unwrap()], &variables);
        let send = |path: &str, body: &str| -> (u16, Value) {
            let json = "Content-Type: application/json\r\n";
            let (status, answer) = post(&webhook.address, path, json, body.as_bytes());
            (status, serde_json::from_str(&answer).unwrap())
        };
        let (status, answer) = send("/api/service/receipt", &signed(ENTRY));
        assert_eq!((status, &answer["status"]), (200, &json!("verified")), "{answer}");
        let (status, answer) = send("/api/service/receipt", &signed("7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11"));
        assert_eq!((status, &answer["code"]), (404, &json!("entry_unknown")), "{answer}");
        assert_eq!(send("/api/v1/receipts", &signed(ENTRY)).0, 404);
        assert_eq!(webhook.stop("TERM"), Some(0));
    }
    assert_eq!(records(&data.join("log")), 2);
}

/// Records in an embedded log.
fn records(folder: &Path) -> u64 {
    let log = EmbeddedLog::open(folder, EmbeddedConfig::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let partitions = runtime.block_on(log.partitions("any")).unwrap();
    log.close();
    partitions[0].end_offset
}

#[test]
fn a_hangup_ends_nothing_and_both_signals_drain() {
    let folder = tempfile::tempdir().unwrap();
    for (name, signal) in [
        ("gateway", "TERM"),
        ("verifier", "INT"),
        ("publisher-api", "TERM"),
        ("webhook", "INT"),
    ] {
        let data = folder.path().join(name);
        // SQLite's file needs the directory.
        std::fs::create_dir(&data).unwrap();
        let service = Service::start(name, &["--data", data.to_str().unwrap()], &[]);
        service.signal("HUP");
        assert_eq!(service.stop(signal), Some(0), "{name} after SIG{signal}");
    }
}

#[test]
fn a_hangup_reads_the_log_level_again_and_keeps_it_when_the_file_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let [config, log, data] = ["receipts.toml", "log", "data"].map(|name| folder.path().join(name));
    let set = |level: &str| std::fs::write(&config, format!("[telemetry]\nlog_level = \"{level}\"\n")).unwrap();
    set("warn");
    let paths = [&config, &data].map(|path| path.to_str().unwrap());
    let service = Service::start_logging(
        "gateway",
        &["--config", paths[0], "--data", paths[1]],
        &[],
        std::fs::File::create(&log).unwrap().into(),
    );
    let logged = |words: &str| std::fs::read_to_string(&log).unwrap().contains(words);
    assert!(!logged("INFO"));
    set("info");
    service.signal("HUP");
    until("the new level", || logged("SIGHUP: read again"));
    set("loud");
    service.signal("HUP");
    until("the fault", || logged("`loud` is no level"));
    assert_eq!(service.stop("TERM"), Some(0));
    assert!(logged("draining"), "the level before is in use");
}

#[test]
fn what_a_service_needs_is_checked_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let kafka = ("RECEIPTS_KAFKA_BROKERS", "127.0.0.1:9");
    let registered = ("RECEIPTS_POLICY_CLIENTS", "registered");
    refused(
        &["gateway", "--data", data],
        &[kafka],
        "gateway.acknowledgement_keys: is empty",
    );
    refused(
        &["gateway", "--data", data],
        &[registered],
        "set accounts.url to its PostgreSQL",
    );
    refused(&["verifier", "--data", data], &[kafka], "accounts.url: is missing");
    refused(&["analytics-api", "--data", data], &[], "contains no warehouse");
    let shards = [
        ("RECEIPTS_WAREHOUSE_URL", "http://127.0.0.1:9"),
        ("RECEIPTS_WAREHOUSE_CLUSTER", "main"),
        (
            "RECEIPTS_WAREHOUSE_SHARDS",
            r#"["http://127.0.0.1:9/r0", "http://127.0.0.1:9/r1"]"#,
        ),
    ];
    refused(
        &["writer", "--data", data],
        &shards,
        "RECEIPTS_WAREHOUSE_SHARDS: needs kafka.brokers",
    );
    refused(
        &["verifier", "--data", data, "--listen", "127.0.0.1:0"],
        &[],
        "--metrics-listen",
    );
    let batches = ("RECEIPTS_LIMITS_BATCH_BYTES_MAX", "9437184");
    refused(&["webhook", "--data", data], &[batches], "log.record_bytes_max: is");
    refused(&["gateway", "--partition", "1"], &[], "--partition");
    refused(&["gateways"], &[], "analytics-api");
    assert!(!Path::new(data).exists());

    // The gateway itself refuses this once its log is open.
    let required = ("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES", "required");
    let [port, metrics] = free_ports().unwrap().map(|port: u16| format!("127.0.0.1:{port}"));
    let listen = ["--listen", &port, "--metrics-listen", &metrics];
    refused(
        &[&["webhook", "--data", data], &listen[..]].concat(),
        &[required],
        "webhook_entries_file",
    );
}

#[test]
fn the_help_lists_every_service_with_examples_and_exit_codes() {
    for name in [
        "gateway",
        "verifier",
        "writer",
        "analytics-api",
        "publisher-api",
        "webhook",
    ] {
        let Ran { stdout, .. } = receipts(&["serve", name, "--help"], b"").expect(0);
        for part in [&format!("- {name}:"), "Examples:", "Exit codes:"] {
            assert!(stdout.contains(part), "{part}: {stdout}");
        }
    }
}
