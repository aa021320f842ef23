//! The way of a newcomer, with samples, and what `receipts tail` shows of a running service.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::command::{command, key, receipts};
use crate::running::{Up, get, new_api_key, on, until};
use serde_json::{Value, json};

/// Longer than any line takes: reaching it is a failure.
const LINE_WAIT: Duration = Duration::from_secs(300);

/// `receipts tail` with its lines.
struct Tailing {
    child: Child,
    lines: Receiver<Value>,
}

impl Tailing {
    fn start(url: &str, api_key: &str, args: &[&str]) -> Self {
        let mut child = command()
            .args(["tail", "--url", url])
            .args(args)
            .env("RECEIPTS_API_KEY", api_key)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).expect(&line));
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(LINE_WAIT).expect("a line")
    }

    /// The exit code, after the rest of the lines.
    fn end(mut self) -> (i32, Vec<Value>) {
        let code = self.child.wait().unwrap().code().unwrap();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Tailing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pasted_commands_lead_from_an_empty_folder_to_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"));
    let programs = dir.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_receipts"), programs.join("receipts")).unwrap();
    let script = "
receipts keygen --out client.pem
RECEIPTS_API_KEY=$(receipts keys create --domain news.example --json | jq -r .apiKey)
echo 'All the news' > article.html
receipts new https://news.example/lead article.html --purpose training \\
  --context 'pre-training of Atlas' --client-name Atlas --client-version 3.1 \\
  --organization 'Example Labs' > receipt.json
receipts sign --key client.pem receipt.json |
  receipts send --url http://127.0.0.1:8080 --key client.pem
until curl -s -H \"Authorization: Bearer $RECEIPTS_API_KEY\" http://127.0.0.1:8081/api/v1/analytics/dashboard |
  jq -e '.totalReceipts == 1'; do sleep 3; done
";
    let script = script
        .replace("http://127.0.0.1:8080", &up.url("gateway"))
        .replace("http://127.0.0.1:8081", &up.url("analytics"));
    let ran = Command::new("timeout")
        .args(["120", "bash", "-euo", "pipefail", "-c", &script])
        .current_dir(dir.path())
        .env(
            "PATH",
            format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()),
        )
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(up.stop(), 0);
}

/// Sends a sample to the service on `data`; its receipts and the summary.
fn send_sample(data: &Path, key: &Path, sample: &str, exit_code: i32) -> (Vec<Value>, Value) {
    let key = key.to_str().unwrap();
    let written = receipts(&["new", &format!("--sample={sample}"), "--key", key], b"").expect(0);
    let documents = written.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let documents = documents.collect();
    let data = data.to_str().unwrap();
    let args = ["send", "--data", data, "--key", key, "--concurrency", "1", "--json"];
    let sent = receipts(&args, written.stdout.as_bytes()).expect(exit_code);
    (documents, sent.json())
}

#[test]
fn samples_become_of_a_service_what_the_help_says() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &[]);
    let help = receipts(&["new", "--help"], b"").expect(0).stdout;
    let (key, _) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    for (sample, refused) in [
        ("receipt", None),
        ("duplicate", None),
        ("conflict", None),
        ("bad-signature", None),
        ("bad-format", Some("invalid_content_hash")),
        ("old-timestamp", Some("timestamp_out_of_range")),
    ] {
        assert!(help.contains(&format!("- {sample}:")), "{sample} isn't in {help}");
        let (_, summary) = send_sample(&data, &key, sample, i32::from(refused.is_some()));
        assert_eq!(summary["refused"][0]["code"].as_str(), refused, "{summary}");
    }
    // One of `receipt`, one of `duplicate`, and two payloads of `conflict` are stored.
    let totals = || on(&data, &["audit", "--json"]).expect(0).json()["totals"].clone();
    until("the verifier", || totals()["receiptsIn"] == 6);
    let counted = ["accepted", "rejected", "receipts"].map(|name| totals()[name].clone());
    assert_eq!(counted, [5, 1, 4].map(|count| json!(count)));
    let (_, dashboard) = get(&up.url("analytics"), "/api/v1/analytics/dashboard", &api_key);
    assert!(dashboard["totalReceipts"].as_u64().unwrap() >= 3, "{dashboard}");

    let listed = on(&data, &["keys", "list"]).expect(0).stdout;
    let row = listed.lines().nth(1).unwrap();
    assert!(
        row.contains(" free ") && row.contains(" news.example ") && row.contains(" valid "),
        "{listed}"
    );
    assert_eq!(up.stop(), 0);
    let gone = on(&data, &["send", "--key", key.to_str().unwrap()]).expect(2);
    assert!(gone.stderr.contains("--url http://HOST:PORT"), "{}", gone.stderr);
}

#[test]
fn tail_shows_each_receipt_once_and_continues_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = &new_api_key(&data, "news.example", &[]);
    let (key, _) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let analytics = up.url("analytics");
    let listen = analytics.strip_prefix("http://").unwrap().to_owned();
    let tail = Tailing::start(&analytics, api_key, &["--totals", "--count", "3"]);
    assert_eq!(tail.next()["event"], "totals");

    let (sent, _) = send_sample(&data, &key, "duplicate", 0);
    let receipt = |tail: &Tailing| loop {
        let line = tail.next();
        assert_ne!(line["event"], "reload", "{line}");
        if line["event"] == "receipt" {
            return line;
        }
    };
    let first = receipt(&tail);
    assert_eq!(first["receipt"]["receiptId"], sent[0]["receiptId"]);
    assert_eq!(first["receipt"]["clientName"], "Sample");

    // The stream breaks, and a receipt is counted while nobody follows.
    assert_eq!(up.stop(), 0);
    let up = Up::start(&data);
    let (while_away, _) = send_sample(&data, &key, "receipt", 0);
    until("the receipt", || {
        get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).1["totalReceipts"] == 2
    });
    assert_eq!(up.stop(), 0);
    let _up = Up::start_at(&data, &listen);
    let second = receipt(&tail);
    assert_eq!(second["receipt"]["receiptId"], while_away[0]["receiptId"]);

    let (last, _) = send_sample(&data, &key, "receipt", 0);
    let third = receipt(&tail);
    assert_eq!(third["receipt"]["receiptId"], last[0]["receiptId"]);
    assert_eq!(tail.end(), (0, Vec::new()));

    // Another run continues behind an event of the first.
    let again = Tailing::start(
        &analytics,
        api_key,
        &["--count", "2", "--after", first["id"].as_str().unwrap()],
    );
    let ids = [again.next(), again.next()].map(|line| line["receipt"]["receiptId"].clone());
    assert_eq!(
        ids,
        [
            second["receipt"]["receiptId"].clone(),
            third["receipt"]["receiptId"].clone()
        ]
    );
    assert_eq!(again.end().0, 0);
}

#[test]
fn tail_says_what_is_wrong_with_a_key_or_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let create = ["keys", "create", "--domain", "news.example", "--json"];
    let made = on(&data, &create).expect(0).json();
    let account = made["accountId"].as_str().unwrap();
    let writes = on(
        &data,
        &[&create[..], &["--account", account, "--scope", "write"]].concat(),
    )
    .expect(0)
    .json();
    let up = Up::start(&data);
    let (analytics, gateway) = (up.url("analytics"), up.url("gateway"));
    let tail = |url: &str, api_key: &Value, more: &[&str]| {
        let args = ["tail", "--url", url, "--api-key", api_key.as_str().unwrap()];
        receipts(&[&args, more].concat(), b"")
    };
    let (good, writing) = (&made["apiKey"], &writes["apiKey"]);
    for (ran, wanted) in [
        (tail(&analytics, &json!("rcpt_nonsense"), &[]), "401"),
        (tail(&analytics, writing, &[]), "403"),
        (tail(&analytics, good, &["--domain", "other.example"]), "403"),
        (tail(&analytics, good, &["--tz", "Mars/Base"]), "--tz"),
        (tail(&analytics, &json!("a\nb"), &[]), "--api-key"),
        (tail(&gateway, good, &[]), "no analytics API"),
        (
            tail("ftp://127.0.0.1", good, &[]),
            "must start with http:// or https://",
        ),
        (receipts(&["tail", "--url", &analytics], b""), "--api-key"),
    ] {
        let ran = ran.expect(2);
        assert!(ran.stderr.contains(wanted), "{wanted}: {}", ran.stderr);
        assert!(!ran.stderr.contains("rcpt_nonsense"), "{}", ran.stderr);
    }
    // A key that is revoked ends the stream, and the command says why.
    let following = Tailing::start(&analytics, good.as_str().unwrap(), &["--totals"]);
    assert_eq!(following.next()["event"], "totals");
    receipts(
        &[
            "keys",
            "revoke",
            "--data",
            data.to_str().unwrap(),
            made["keyId"].as_str().unwrap(),
        ],
        b"",
    )
    .expect(0);
    assert_eq!(following.end().0, 2);
    assert_eq!(up.stop(), 0);
    let gone = tail(&analytics, good, &[]).expect(3).stderr;
    assert!(gone.contains("doesn't answer"), "{gone}");
}
