//! The way of a newcomer, and what `receipts trigger` and `receipts tail` show of a running
//! service.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::answering::{answering, response};
use crate::command::{Ran, command, receipts};
use crate::running::{Up, get, on, until};
use serde_json::{Value, json};

/// Longer than any line takes: reaching it is a failure.
const LINE_WAIT: Duration = Duration::from_secs(120);

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

#[test]
fn a_service_answers_every_sample_as_expected() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let nothing = on(&data, &["trigger"]).expect(2).stderr;
    assert!(nothing.contains("--url http://HOST:PORT"), "{nothing}");
    let up = Up::start(&data);

    // Before the domain is recorded, its totals leave receipts out, and the report says so.
    let early = on(&data, &["trigger", "--wait"]).expect(0).stdout;
    assert!(
        early.contains("verified") && early.contains("receipts keys create --domain news.example"),
        "{early}"
    );
    let made = on(&data, &["keys", "create", "--domain", "news.example", "--json"])
        .expect(0)
        .json();

    let help = receipts(&["trigger", "--help"], b"").expect(0).stdout;
    let mut samples = 0;
    for sample in [
        "receipt",
        "batch",
        "duplicate",
        "conflict",
        "bad-signature",
        "bad-receipt-in-batch",
        "bad-batch-signature",
        "bad-request-signature",
        "unsigned-request",
        "bad-format",
        "old-timestamp",
    ] {
        let ran = on(&data, &["trigger", sample, "--wait", "--json"]).expect(0).json();
        assert_eq!(
            (&ran["sample"], &ran["asExpected"]),
            (&json!(sample), &json!(true)),
            "{ran}"
        );
        let is_stored = ran["requests"][0]["status"] == 202;
        assert_eq!(ran["outcome"].is_null(), !is_stored, "{ran}");
        assert!(help.contains(&format!("- {sample}:")), "{sample} isn't in {help}");
        samples += 1;
        let text = on(&data, &["trigger", sample]).expect(0).stdout;
        assert!(text.contains("next  receipts ") && !text.contains('\u{1b}'), "{text}");
    }
    assert_eq!(help.matches("\n          - ").count(), samples, "{help}");

    // With every algorithm, and to another address.
    let (gateway, analytics) = (up.url("gateway"), up.url("analytics"));
    for algorithm in ["RSA-2048", "ECDSA-P256"] {
        let args = [
            "trigger",
            "--url",
            &gateway,
            "--algorithm",
            algorithm,
            "--json",
            "--wait",
        ];
        let ran = receipts(&[&args[..], &["--analytics-url", &analytics]].concat(), b"")
            .expect(0)
            .json();
        assert_eq!(ran["outcome"]["receipts"][0]["signatureAlgorithm"], algorithm);
        assert_eq!(ran["outcome"]["receipts"][0]["beforeVerification"], false);
    }
    let api_key = made["apiKey"].as_str().unwrap();
    let (_, dashboard) = get(&analytics, "/api/v1/analytics/dashboard", api_key);
    assert!(dashboard["totalReceipts"].as_u64().unwrap() > 5, "{dashboard}");

    let listed = on(&data, &["keys", "list"]).expect(0).stdout;
    let row = listed.lines().nth(1).unwrap();
    assert!(
        row.contains(" free ") && row.contains(" news.example ") && row.contains(" valid "),
        "{listed}"
    );
    assert_eq!(up.stop(), 0);
    let gone = receipts(&["trigger", "--url", &gateway], b"").expect(3).stderr;
    assert!(gone.contains("doesn't answer"), "{gone}");
}

#[test]
fn an_unexpected_answer_exits_with_1() {
    let (url, _came) = answering(|_| response("202 Accepted", "", r#"{"status":"queued"}"#));
    let ran = receipts(&["trigger", "unsigned-request", "--url", &url], b"").expect(1);
    assert!(ran.stdout.contains("✗ 202"), "{}", ran.stdout);
    let (url, _came) = answering(|_| response("418 I'm a teapot", "", "<html>"));
    let ran = receipts(&["trigger", "--url", &url, "--json"], b"").expect(1).json();
    assert_eq!(
        (&ran["asExpected"], &ran["requests"][0]["status"]),
        (&json!(false), &json!(418))
    );
}

fn trigger(up: &Up, sample: &str) -> Ran {
    receipts(&["trigger", sample, "--url", &up.url("gateway"), "--json"], b"").expect(0)
}

#[test]
fn tail_shows_each_receipt_once_and_continues_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let made = on(&data, &["keys", "create", "--domain", "news.example", "--json"])
        .expect(0)
        .json();
    let api_key = made["apiKey"].as_str().unwrap();
    let up = Up::start(&data);
    let analytics = up.url("analytics");
    let listen = analytics.strip_prefix("http://").unwrap().to_owned();
    let tail = Tailing::start(&analytics, api_key, &["--totals", "--count", "3"]);
    assert_eq!(tail.next()["event"], "totals");

    let sent = trigger(&up, "duplicate").json();
    let receipt = |tail: &Tailing| loop {
        let line = tail.next();
        assert_ne!(line["event"], "reload", "{line}");
        if line["event"] == "receipt" {
            return line;
        }
    };
    let first = receipt(&tail);
    assert_eq!(
        first["receipt"]["receiptId"],
        sent["requests"][0]["answer"]["receiptId"]
    );
    assert_eq!(first["receipt"]["clientName"], "receipts trigger");

    // The stream breaks, and a receipt is counted while nobody follows.
    assert_eq!(up.stop(), 0);
    let up = Up::start(&data);
    let while_away = trigger(&up, "receipt").json();
    until("the receipt", || {
        get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).1["totalReceipts"] == 2
    });
    assert_eq!(up.stop(), 0);
    let up = Up::start_at(&data, &listen);
    let second = receipt(&tail);
    assert_eq!(
        second["receipt"]["receiptId"],
        while_away["requests"][0]["answer"]["receiptId"]
    );

    let last = trigger(&up, "receipt").json();
    let third = receipt(&tail);
    assert_eq!(
        third["receipt"]["receiptId"],
        last["requests"][0]["answer"]["receiptId"]
    );
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
