//! `receipts send --webhook`: against a webhook whose answers the tests choose, and against a
//! publisher's receiver whose receipts are then counted.

use std::path::Path;
use std::sync::Arc;

use crate::answering::{Came, answering, response};
use crate::command::{Ran, key, ndjson, receipt, receipts, sign};
use crate::running::{Up, new_api_key, on};
use receipt::Limits;
use receipt_log::{EmbeddedConfig, EmbeddedLog};
use serde_json::{Value, json};
use service::cpu::CpuPool;
use service::health::Health;
use tokio_util::sync::CancellationToken;
use webhook::{AcknowledgementKeys, Deps, GatewayConfig, GatewayError, Routes};

fn deliver(url: &str, more: &[&str], documents: &[Value]) -> Ran {
    let args = [
        "send",
        "--webhook",
        url,
        "--allow-loopback",
        "--concurrency",
        "1",
        "--json",
    ];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    receipts(&args, ndjson(documents).as_bytes())
}

fn verified() -> String {
    response("200 OK", "", r#"{"status":"verified"}"#)
}

#[test]
fn receipts_go_as_they_are_and_batches_are_signed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[(); 3].map(|()| receipt(&public)));
    let (url, came) = answering(|_| verified());
    let hook = format!("{url}/api/service/receipt?token=x");
    let summary = deliver(&hook, &[], &signed).expect(0).json();
    assert_eq!(summary["accepted"], json!({"receipts": 3, "requests": 3}));
    let came: Vec<Came> = came.try_iter().collect();
    for (request, document) in came.iter().zip(&signed) {
        assert_eq!(request.path, "/api/service/receipt?token=x");
        assert_eq!(request.body, document.to_string().as_bytes());
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("x-service-signature"), None);
    }

    let (url, came) = answering(|_| verified());
    let summary = deliver(&url, &["--batch", "2", "--key", path.to_str().unwrap()], &signed)
        .expect(0)
        .json();
    assert_eq!(summary["accepted"], json!({"receipts": 3, "requests": 2}));
    let batch: Value = serde_json::from_slice(&came.try_iter().next().unwrap().body).unwrap();
    receipts(&["verify"], batch.to_string().as_bytes()).expect(0);
    deliver(&url, &["--batch", "2"], &signed).expect(2);
}

#[test]
fn every_status_is_taken_refused_or_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[receipt(&public)]);
    let exits = |status: u16| match status {
        200..=299 => 0,
        408 | 429 | 500 | 502 | 503 | 504 => 3,
        _ => 1,
    };
    for status in [
        200, 201, 202, 204, 301, 304, 307, 400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 501, 502, 503, 504,
        505,
    ] {
        let line = format!("{status} Something");
        let (url, came) = answering(move |_| response(&line, "Retry-After: 0\r\nLocation: /elsewhere\r\n", ""));
        let ran = deliver(&url, &["--attempts", "2"], &signed).expect(exits(status));
        let summary = ran.json();
        let tries = if exits(status) == 3 { 2 } else { 1 };
        assert_eq!(
            (came.try_iter().count(), &summary["retries"]),
            (tries, &json!(tries - 1)),
            "{status}: {summary}"
        );
        if exits(status) == 1 {
            assert_eq!(summary["refused"][0]["status"], status, "{summary}");
        }
    }
}

#[test]
fn what_passes_is_waited_for_and_a_refusal_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[receipt(&public), receipt(&public)]);
    let problem = r#"{"code":"entry_unknown","detail":"content.entryId is no entry here"}"#;
    let (url, came) = answering(move |n| match n {
        0 => response("500 Internal Server Error", "", ""),
        1 => response("429 Too Many Requests", "Retry-After: 1\r\n", ""),
        // The connection breaks before an answer.
        2 => String::new(),
        3 => verified(),
        _ => response("404 Not Found", "", problem),
    });
    let summary = deliver(&url, &[], &signed).expect(1).json();
    assert_eq!(
        (&summary["accepted"]["receipts"], &summary["retries"]),
        (&json!(1), &json!(3))
    );
    let first = json!({"line": 2, "pointer": "", "detail": "content.entryId is no entry here"});
    let refused = json!([{"status": 404, "code": "entry_unknown", "receipts": 1, "requests": 1, "first": first}]);
    assert_eq!(summary["refused"], refused);
    assert_eq!(came.try_iter().count(), 5);

    // A wait that goes beyond the whole time isn't begun.
    let (url, came) = answering(|_| response("503 Service Unavailable", "Retry-After: 50\r\n", ""));
    let ran = deliver(&url, &["--give-up", "20"], &signed[..1]).expect(3);
    assert_eq!(
        (ran.json()["unknown"]["receipts"].as_u64(), came.try_iter().count()),
        (Some(1), 1)
    );
}

#[test]
fn a_url_that_is_not_to_be_asked_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = ndjson(&sign(&path, &[receipt(&public)]));
    let (url, came) = answering(|_| verified());
    let port = url.rsplit(':').next().unwrap();
    for url in [
        url.as_str(),
        &format!("https://127.0.0.1:{port}/"),
        "https://127.0.0.1/",
        "https://169.254.169.254/",
        "https://[::1]/",
        "https://2130706433/",
        "https://user:password@news.example/",
        "https://news.example:8443/",
        "news.example",
    ] {
        let ran = receipts(&["send", "--webhook", url], signed.as_bytes()).expect(2);
        assert!(ran.stderr.contains("--webhook: "), "{url}: {}", ran.stderr);
    }
    // With the exception for this machine, only this machine.
    for url in ["http://10.0.0.1/", "https://169.254.169.254/", "http://8.8.8.8/"] {
        receipts(&["send", "--allow-loopback", "--webhook", url], signed.as_bytes()).expect(2);
    }
    receipts(&["send", "--allow-loopback", "--webhook", &url], b"").expect(2);
    assert_eq!(came.try_iter().count(), 0);
}

/// A publisher's receiver on the embedded log in `data`, for as long as `then` takes with its URL.
fn with_receiver(data: &Path, then: impl FnOnce(&str)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let log = Arc::new(EmbeddedLog::open(&data.join("log"), EmbeddedConfig::default()).unwrap());
    let deps = Deps {
        limits: Limits::default(),
        log: Arc::clone(&log) as Arc<_>,
        cpu: CpuPool::new("receiver", 2, 1_024).unwrap(),
        health: Health::new(),
        // The receiver has its one address in any case.
        routes: Routes::All,
        entries: None,
        registry: None,
        acknowledgement_keys: Arc::new(AcknowledgementKeys::generate().unwrap()),
    };
    let shutdown = CancellationToken::new();
    let (url, ended) = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/service/receipt", listener.local_addr().unwrap());
        let served = webhook::run(listener, GatewayConfig::default(), deps, shutdown.clone());
        (url, tokio::spawn(served))
    });
    then(&url);
    shutdown.cancel();
    let ended: Result<(), GatewayError> = runtime.block_on(ended).unwrap();
    ended.unwrap();
    drop(runtime);
    log.close();
}

#[test]
fn what_a_receiver_took_is_counted_by_a_verifier_on_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (path, public) = key(dir.path(), "Ed25519");
    let api_key = new_api_key(&data, "news.example", &["--scope", "read,write"]);
    let signed = sign(&path, &[(); 8].map(|()| receipt(&public)));
    let mut tampered = signed[6].clone();
    tampered["usage"]["context"] = json!("changed");
    with_receiver(&data, |url| {
        let mut all = signed[..4].to_vec();
        all.push(tampered);
        let summary = deliver(url, &[], &all).expect(1).json();
        assert_eq!(
            (&summary["accepted"]["receipts"], &summary["refused"][0]["code"]),
            (&json!(4), &json!("bad_signature"))
        );
        let batches = ["--batch", "2", "--key", path.to_str().unwrap()];
        deliver(url, &batches, &signed[4..7]).expect(0);
        // Delivered again: taken again, and counted once.
        deliver(url, &[], &signed[..2]).expect(0);
    });

    // The gateway has the webhook too, and here it wants entries to exist.
    let up = Up::start_set(&data, &[("RECEIPTS_GATEWAY_WEBHOOK_ENTRIES", "required")]);
    let hook = format!("{}/api/service/receipt", up.url("gateway"));
    let summary = deliver(&hook, &[], &signed[7..]).expect(1).json();
    assert_eq!(summary["refused"][0]["code"], "entry_unknown");
    create_entry(&up.url("publisher"), &api_key, &signed[7]["content"]);
    deliver(&hook, &[], &signed[7..]).expect(0);
    // The entry is news.example's, and nobody else's.
    let mut foreign = receipt(&public);
    foreign["content"]["entryId"] = signed[7]["content"]["entryId"].clone();
    foreign["content"]["publisher"] = json!("other.example");
    foreign["content"]["url"] = json!("https://other.example/lead");
    let summary = deliver(&hook, &[], &sign(&path, &[foreign])).expect(1).json();
    assert_eq!(summary["refused"][0]["code"], "entry_unknown");
    crate::running::until("the verifier", || {
        on(&data, &["audit", "--json"]).expect(0).json()["partitions"][0]["committedOffset"] == json!(9)
    });
    let totals = on(&data, &["audit", "--json"]).expect(0).json()["totals"].clone();
    let counted = ["receiptsIn", "accepted", "rejected", "receipts"].map(|name| totals[name].clone());
    assert_eq!(counted, [10, 10, 0, 8].map(|count| json!(count)), "{totals}");
    assert_eq!(up.stop(), 0);
}

/// Lists the content of a receipt, as its publisher does.
fn create_entry(publisher: &str, api_key: &str, content: &Value) {
    let entry = json!({"entryId": content["entryId"], "url": content["url"], "title": "The lead"}).to_string();
    let headers = format!("Authorization: Bearer {api_key}\r\nContent-Type: application/json\r\n");
    let (status, answer) = crate::running::post(publisher, "/api/v1/publisher/entries", &headers, entry.as_bytes());
    assert_eq!(status, 201, "{answer}");
}
