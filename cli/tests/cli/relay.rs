//! `receipts relay` before a gateway of a few lines, whose answers the tests choose.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::answering::{accepted, answering, answering_to, response};
use crate::command::{command, key, receipts};
use parking_lot::Mutex;
use serde_json::{Value, json};
use test_engines::http;

/// Longer than anything takes here.
const WAIT_MAX: Duration = Duration::from_secs(300);
const CLIENT_ID: &str = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";

struct RunningRelay {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl RunningRelay {
    /// Starts a relay whose key, spool, socket and log are in `dir`.
    fn start(dir: &Path, url: &str, args: &[&str]) -> Self {
        let (socket, log) = (dir.join("relay.sock"), dir.join("relay.log"));
        let stderr = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap();
        let child = command()
            .args([
                "relay",
                "--url",
                url,
                "--client-id",
                CLIENT_ID,
                "--client-name",
                "Atlas",
            ])
            .args(["--client-version", "3.1", "--organization", "Example Labs"])
            .args(["--batch-delay-ms", "50", "--key"])
            .arg(dir.join("Ed25519.key"))
            .arg("--spool")
            .arg(dir.join("spool"))
            .arg("--socket")
            .arg(&socket)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut relay = Self { child, socket, log };
        relay.until("the relay answers", |relay| {
            let ended = relay.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", relay.log());
            relay
                .request("GET", "/healthz", "")
                .is_some_and(|(status, _)| status == 200)
        });
        relay
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < WAIT_MAX, "{what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        over_socket(&self.socket, method, path, body)
    }

    fn post(&self, uses: &str) -> (u16, Value) {
        self.request("POST", "/v1/uses", uses).unwrap()
    }

    fn signal(&mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        std::process::Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn over_socket(socket: &Path, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let stream = UnixStream::connect(socket).ok()?;
    exchange(stream, &format!("{method} {path} HTTP/1.1\r\nHost: relay\r\n"), body)
}

/// Sends a request with this head; `None` if there is no whole answer.
fn exchange(stream: impl Read + Write, head: &str, body: &str) -> Option<(u16, Value)> {
    let answer = http::exchange(stream, head, body.as_bytes()).ok()?;
    Some((answer.status, serde_json::from_slice(&answer.body).ok()?))
}

fn content_use(number: usize) -> Value {
    json!({"url": format!("https://news.example/{number}"), "purpose": "inference", "context": "an answer",
           "content": format!("text {number}")})
}

fn with_time(timestamp: &str) -> Value {
    let mut content_use = content_use(0);
    content_use["timestamp"] = json!(timestamp);
    content_use
}

#[test]
fn uses_become_receipts_that_verify() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = key(dir.path(), "Ed25519");
    let (url, came) = answering(|_| accepted());
    let mut relay = RunningRelay::start(dir.path(), &url, &["--listen", "127.0.0.1:0"]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&relay.socket), mode(&dir.path().join("spool"))), (0o600, 0o700));

    let mut ids = Vec::new();
    let lines = format!("{}\n{}\n", content_use(1), content_use(2));
    for body in [content_use(0).to_string(), lines, json!([content_use(3)]).to_string()] {
        let (status, answer) = relay.post(&body);
        assert_eq!(status, 202, "{answer}");
        ids.extend(answer["receiptIds"].as_array().unwrap().clone());
    }
    assert_eq!(ids.len(), 4);
    relay.until("everything is acknowledged", |relay| {
        let (_, state) = relay.request("GET", "/v1/state", "").unwrap();
        state["acknowledged"] == 4 && state["queued"] == 0 && state["spooledBatches"] == 0
    });
    let mut arrived = Vec::new();
    for request in came.try_iter() {
        assert_eq!(request.path, "/api/v1/receipts/batch");
        let verified = receipts(&["verify"], &request.decoded()).expect(0).lines();
        arrived.extend(verified.iter().map(|line| line["receiptId"].clone()));
        let batch: Value = serde_json::from_slice(&request.decoded()).unwrap();
        assert_eq!(batch["receipts"][0]["client"]["id"], CLIENT_ID);
    }
    arrived.sort_by_key(ToString::to_string);
    ids.sort_by_key(ToString::to_string);
    assert_eq!(arrived, ids);

    let pem = std::fs::read_to_string(path).unwrap();
    let secret = pem.lines().nth(1).unwrap();
    assert!(!relay.log().contains(secret) && !relay.log().contains("text 1"));
    let second = RunningRelay::try_start(&dir, &url, "relay.sock");
    assert!(second.contains("another process answers on it"), "{second}");
    let in_the_way = RunningRelay::try_start(&dir, &url, "Ed25519.key");
    assert!(in_the_way.contains("not a socket"), "{in_the_way}");
    assert_eq!(std::fs::read_to_string(dir.path().join("Ed25519.key")).unwrap(), pem);
    assert_eq!(relay.signal("-TERM"), Some(0), "{}", relay.log());
    assert!(!relay.socket.exists());
}

impl RunningRelay {
    /// Runs a second relay with a socket in `dir` to its end; returns what it logged.
    fn try_start(dir: &tempfile::TempDir, url: &str, socket: &str) -> String {
        let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (key, spool, socket) = (file("Ed25519.key"), file("spool"), file(socket));
        let args = [
            "relay", "--url", url, "--key", &key, "--spool", &spool, "--socket", &socket,
        ];
        let client = [
            "--client-id",
            CLIENT_ID,
            "--client-name",
            "A",
            "--client-version",
            "1",
            "--organization",
            "L",
        ];
        receipts(&[&args[..], &client].concat(), b"").expect(3).stderr
    }
}

#[test]
fn wrong_requests_are_refused_with_their_faults() {
    let dir = tempfile::tempdir().unwrap();
    key(dir.path(), "Ed25519");
    let (url, came) = answering(|_| accepted());
    let args = ["--listen", "127.0.0.1:0", "--body-kib-max", "16"];
    let relay = RunningRelay::start(dir.path(), &url, &args);
    let mut wrong = content_use(1);
    wrong["purpose"] = json!("fun");
    wrong["entryId"] = json!("12");
    let (status, answer) = relay.post(&json!([content_use(0), wrong]).to_string());
    let faults: BTreeSet<_> = answer["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["pointer"].as_str())
        .collect();
    let wanted = BTreeSet::from([Some("/1/purpose"), Some("/1/entryId")]);
    assert_eq!((status, faults), (400, wanted), "{answer}");
    for (method, path, body, status) in [
        ("POST", "/v1/uses", "nonsense".to_owned(), 400),
        (
            "POST",
            "/v1/uses",
            r#"{"url": "https://news.example/", "spelt": "wrong"}"#.to_owned(),
            400,
        ),
        (
            "POST",
            "/v1/uses",
            with_time("2026-11-25T10:00:00+24:00").to_string(),
            400,
        ),
        ("POST", "/v1/uses", format!("[\"{}\"]", "x".repeat(17 << 10)), 413),
        ("GET", "/v1/uses", String::new(), 405),
        ("POST", "/v1/state", String::new(), 405),
        ("GET", "/", String::new(), 404),
    ] {
        let (answered, problem) = relay.request(method, path, &body).unwrap();
        assert_eq!(answered, status, "{method} {path}: {problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty());
    }

    // On the port, nothing that a web page could send.
    let log = relay.log();
    let address = log.split("127.0.0.1:").nth(1).unwrap();
    let port: u16 = address
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let json = "Content-Type: application/json\r\n";
    for (headers, status) in [
        (format!("Host: localhost:{port}\r\n{json}"), 202),
        (format!("Host: localhost:{port}\r\n"), 415),
        (
            format!("Host: localhost:{port}\r\n{json}Origin: https://evil.example\r\n"),
            400,
        ),
        (format!("Host: evil.example\r\n{json}"), 400),
    ] {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = format!("POST /v1/uses HTTP/1.1\r\n{headers}");
        let (answered, answer) = exchange(stream, &head, &content_use(7).to_string()).unwrap();
        assert_eq!(answered, status, "{headers}: {answer}");
    }
    // A target in absolute form names its host, and two hosts are one too many.
    for (target, hosts) in [
        ("http://evil.example/v1/uses", "Host: localhost\r\n"),
        ("/v1/uses", "Host: localhost\r\nHost: localhost\r\n"),
        ("/v1/uses", "Host: localhost\r\nHost: evil.example\r\n"),
    ] {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = format!("POST {target} HTTP/1.1\r\n{hosts}{json}");
        let (status, answer) = exchange(stream, &head, &content_use(7).to_string()).unwrap();
        assert_eq!(status, 400, "{target} {hosts}: {answer}");
    }
    let stream = UnixStream::connect(&relay.socket).unwrap();
    let head = "POST /v1/uses HTTP/1.1\r\nHost: relay\r\nHost: relay\r\n";
    assert_eq!(exchange(stream, head, &content_use(7).to_string()).unwrap().0, 400);
    drop(relay);
    let receipts: usize = came
        .try_iter()
        .map(|request| {
            serde_json::from_slice::<Value>(&request.decoded()).unwrap()["receipts"]
                .as_array()
                .unwrap()
                .len()
        })
        .sum();
    assert!(receipts <= 1, "{receipts} receipts were sent of one use");
}

#[test]
fn a_full_spool_refuses_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    key(dir.path(), "Ed25519");
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let (url, _came) = answering(move |_| {
        if away.load(Ordering::Relaxed) {
            response(
                "503 Service Unavailable",
                "Retry-After: 0\r\n",
                r#"{"code":"overloaded"}"#,
            )
        } else {
            accepted()
        }
    });
    let mut relay = RunningRelay::start(dir.path(), &url, &["--spool-receipts-max", "10"]);
    let uses = |count: usize| json!((0..count).map(content_use).collect::<Vec<_>>()).to_string();
    assert_eq!(relay.post(&uses(8)).0, 202);
    let (status, problem) = relay.post(&uses(3));
    assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{problem}");
    assert_eq!(relay.post(&uses(2)).0, 202);
    is_away.store(false, Ordering::Relaxed);
    relay.until("all ten are acknowledged", |relay| {
        relay.request("GET", "/v1/state", "").unwrap().1["acknowledged"] == 10
    });
    assert_eq!(relay.post(&uses(3)).0, 202);
}

/// The commands of docs/relay.md for batches in `rejected/`.
#[test]
fn a_batch_that_was_refused_as_a_whole_is_sent_again_when_it_is_moved_back() {
    let dir = tempfile::tempdir().unwrap();
    key(dir.path(), "Ed25519");
    let is_known = Arc::new(AtomicBool::new(false));
    let is_registered = Arc::clone(&is_known);
    let (url, came) = answering(move |_| {
        if is_registered.load(Ordering::Relaxed) {
            return accepted();
        }
        let problem = json!({"type": "https://receipts.example.com/problems/client_key_unknown",
                             "code": "client_key_unknown", "status": 401, "detail": "register the key"});
        let headers = "Content-Type: application/problem+json\r\n";
        response("401 Unauthorized", headers, &problem.to_string())
    });
    let mut relay = RunningRelay::start(dir.path(), &url, &[]);
    assert_eq!(relay.post(&content_use(1).to_string()).0, 202);
    relay.until("the batch is refused", |relay| {
        relay.request("GET", "/v1/state", "").unwrap().1["refused"] == 1
    });
    let refused = came.recv().unwrap().decoded();
    assert_eq!(relay.signal("-TERM"), Some(0));
    is_known.store(true, Ordering::Relaxed);
    let document = include_str!("../../../docs/relay.md");
    let command = document.lines().find(|line| line.starts_with("mv ")).unwrap();
    let moved = std::process::Command::new("sh")
        .args(["-c", &command.replace("/var/lib/receipts-relay", "spool")])
        .current_dir(dir.path())
        .status();
    assert!(moved.unwrap().success());
    let mut relay = RunningRelay::start(dir.path(), &url, &[]);
    relay.until("the batch is acknowledged", |relay| {
        relay.request("GET", "/v1/state", "").unwrap().1["acknowledged"] == 1
    });
    assert_eq!(came.recv().unwrap().decoded(), refused);
}

/// A gateway that answers two of three requests badly, and knows which receipts it accepted.
struct UnreliableGateway {
    /// Batch ID to body.
    batches: BTreeMap<String, Vec<u8>>,
    /// Receipt ID to the batches that it was in.
    receipts: BTreeMap<String, BTreeSet<String>>,
    accepted: BTreeSet<String>,
    problems: Vec<String>,
}

impl UnreliableGateway {
    fn answer(&mut self, n: usize, body: &[u8]) -> String {
        let batch: Value = serde_json::from_slice(body).unwrap();
        let batch_id = batch["batchId"].as_str().unwrap().to_owned();
        let first = self.batches.entry(batch_id.clone()).or_insert_with(|| body.to_vec());
        if first != body {
            self.problems.push(format!("batch {batch_id} changed"));
        }
        let ids: Vec<String> = batch["receipts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|receipt| receipt["receiptId"].as_str().unwrap().to_owned())
            .collect();
        for id in &ids {
            self.receipts.entry(id.clone()).or_default().insert(batch_id.clone());
        }
        match n % 6 {
            0 | 3 => response(
                "503 Service Unavailable",
                "Retry-After: 0\r\n",
                r#"{"code":"overloaded"}"#,
            ),
            // Stored, and the answer is lost.
            1 => {
                self.accepted.extend(ids);
                String::new()
            }
            _ => {
                self.accepted.extend(ids);
                accepted()
            }
        }
    }
}

#[test]
fn kill_9_under_load_loses_nothing_that_was_answered() {
    const ROUNDS: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    key(dir.path(), "Ed25519");
    let gateway = Arc::new(Mutex::new(UnreliableGateway {
        batches: BTreeMap::new(),
        receipts: BTreeMap::new(),
        accepted: BTreeSet::new(),
        problems: Vec::new(),
    }));
    let answering = Arc::clone(&gateway);
    let (url, _came) = answering_to(move |n, came| answering.lock().answer(n, &came.decoded()));
    let mut relay = RunningRelay::start(dir.path(), &url, &[]);
    let (answered, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4_usize)
        .map(|client| {
            let (answered, stop, socket) = (Arc::clone(&answered), Arc::clone(&stop), relay.socket.clone());
            std::thread::spawn(move || {
                let mut number = client * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    let uses: Vec<Value> = (0..10).map(|index| content_use(number + index)).collect();
                    number += 10;
                    if let Some((202, answer)) = over_socket(&socket, "POST", "/v1/uses", &json!(uses).to_string()) {
                        let ids = answer["receiptIds"].as_array().unwrap();
                        answered
                            .lock()
                            .extend(ids.iter().map(|id| id.as_str().unwrap().to_owned()));
                    }
                }
            })
        })
        .collect();
    for round in 0..ROUNDS {
        let before = answered.lock().len();
        relay.until("uses are answered", |_| answered.lock().len() > before + 200);
        std::thread::sleep(Duration::from_millis(37 * round as u64));
        relay.signal("-KILL");
        relay = RunningRelay::start(dir.path(), &url, &[]);
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    relay.until("everything is delivered", |relay| {
        let (_, state) = relay.request("GET", "/v1/state", "").unwrap();
        state["queued"] == 0 && state["inFlight"] == 0
    });
    let (answered, gateway) = (answered.lock().clone(), gateway.lock());
    assert!(answered.len() >= ROUNDS * 200, "{} uses were answered", answered.len());
    assert_eq!(gateway.problems, Vec::<String>::new());
    let lost: Vec<_> = answered.iter().filter(|id| !gateway.accepted.contains(*id)).collect();
    assert!(
        lost.is_empty(),
        "{} of {} receipts are lost: {:?}",
        lost.len(),
        answered.len(),
        lost.first()
    );
    let twice = gateway.receipts.iter().find(|(_, batches)| batches.len() > 1);
    assert!(twice.is_none(), "a receipt was in two batches: {twice:?}");
    let left: Vec<_> = std::fs::read_dir(dir.path().join("spool/0")).unwrap().collect();
    assert_eq!(left.len(), 1, "only the lock is left: {left:?}");
}
