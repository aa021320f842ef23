//! `receipts up` without addresses for its services: all of them on the gateway's.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::command::{key, ndjson, receipt, receipts, sign};
use crate::running::{Up, get, new_api_key, post, until};
use serde_json::{Value, json};
use test_engines::http::{self, Answer};

fn browse(url: &str, path: &str) -> Answer {
    http::request(url, &format!("GET {path}"), "Accept: text/html\r\n", b"").unwrap()
}

/// Every value of `links`, whatever list it is in.
fn links(of: &Value) -> Vec<String> {
    match of {
        Value::String(link) => vec![link.clone()],
        Value::Object(lists) => lists.values().flat_map(links).collect(),
        _ => Vec::new(),
    }
}

/// From SIGTERM on for `drain_delay_ms`: a load balancer that learns late gets answers, of all
/// services, and connections are closed after their answers.
#[test]
fn a_process_that_ends_serves_until_load_balancers_know() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &[]);
    let variables = [("RECEIPTS_GATEWAY_DRAIN_DELAY_MS", "10000")];
    let up = Up::start_set_at_one_address(&data, &variables);
    let (url, metrics) = (up.url("gateway"), up.url("metrics"));
    let mut resting = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    // Head of the next answer, behind the body of the one before.
    let mut ask = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api_key}\r\n\r\n");
        resting.write_all(head.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0; 1];
            resting.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap().to_ascii_lowercase()
    };
    assert!(!ask("/healthz").contains("connection: close"));
    let ending = std::thread::spawn(move || up.stop());
    until("the drain", || get(&metrics, "/readyz", "").0 == 503);
    assert_eq!(get(&metrics, "/readyz", "").1["status"], "draining");
    for (path, wanted) in [
        ("/.well-known/receipts-keys.json", 200),
        ("/api/v1/analytics/dashboard", 200),
        ("/api/v1/publisher/entries", 200),
    ] {
        assert_eq!(get(&url, path, &api_key).0, wanted, "{path}");
    }
    let head = ask("/.well-known/receipts-keys.json");
    assert!(
        head.contains("http/1.1 200") && head.contains("connection: close"),
        "{head}"
    );
    assert_eq!(ending.join().unwrap(), 0);
    assert!(TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err());
}

#[test]
fn one_address_serves_receipts_numbers_keys_and_pages() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = &new_api_key(&data, "news.example", &[]);
    let up = Up::start_at_one_address(&data);
    let url = up.url("gateway");
    assert_eq!((up.url("analytics"), up.url("publisher")), (url.clone(), url.clone()));
    assert_ne!(up.url("metrics"), url);

    // The gateway's addresses, also those below which the analytics API has others.
    let (key_path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&key_path, &[(); 3].map(|()| receipt(&public)));
    let send = ["send", "--url", &url, "--key", key_path.to_str().unwrap(), "--json"];
    let sent = receipts(&send, ndjson(&signed).as_bytes()).expect(0).json();
    assert_eq!(sent["accepted"]["receipts"], 3);
    assert_eq!(get(&url, "/api/v1/receipts/batch", api_key).0, 405);
    // Without a signature.
    assert_eq!(post(&url, "/api/v1/receipts", "", b"{}").0, 401);
    assert_eq!(get(&url, "/.well-known/receipts-keys.json", "").0, 200);

    // The analytics API's.
    until("the receipts", || {
        get(&url, "/api/v1/analytics/dashboard", api_key).1["totalReceipts"] == json!(3)
    });
    let id = signed[0]["receiptId"].as_str().unwrap();
    let found = get(&url, &format!("/api/v1/receipts/{id}"), api_key);
    assert_eq!((found.0, &found.1["status"]), (200, &json!("verified")));
    // The publisher API's.
    assert_eq!(get(&url, "/api/v1/publisher/entries", api_key).0, 200);
    assert_eq!(get(&url, "/api/v1/publisher/entries", "rcpt_nonsense").0, 401);
    // Nobody's.
    let nothing = get(&url, "/api/v1/nothing", api_key);
    assert_eq!((nothing.0, &nothing.1["code"]), (404, &json!("not_found")));

    for service in ["analytics", "publisher"] {
        let document = get(&url, &format!("/openapi/{service}.json"), "").1;
        assert_eq!(document["openapi"], "3.1.0", "{service}");
        let page = browse(&url, &format!("/docs/{service}/"));
        assert!(
            page.status == 200 && page.text().contains("swagger-ui"),
            "{service}: {page:?}"
        );
    }
    let answer = browse(&url, "/");
    let (page, kind) = (answer.text(), answer.header("content-type"));
    assert!(answer.status == 200 && kind.starts_with("text/html"), "{kind}");
    let policy = answer.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-") && !page.contains("<script"),
        "{policy}"
    );
    let reported = get(&url, "/", "").1;
    let named = links(&reported);
    assert!(named.len() > 5, "{reported}");
    for path in named.iter().filter(|link| link.starts_with('/')) {
        let answer = browse(&url, path);
        assert!(answer.status < 400, "{path}: {answer:?}");
    }
    for link in ["/dashboard", "/docs", "/healthz", "/readyz"] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}: {page}");
    }
    assert!(
        page.contains(&format!("href=\"{}/metrics\"", up.url("metrics"))),
        "{page}"
    );
    let docs = browse(&url, "/docs").text();
    for service in ["/docs/gateway", "/docs/analytics/", "/docs/publisher/"] {
        assert!(docs.contains(&format!("href=\"{service}\"")), "{service}: {docs}");
    }
    assert_eq!(up.stop(), 0);
}

#[test]
fn a_live_stream_does_not_hold_up_the_drain_of_the_one_address() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = &new_api_key(&data, "news.example", &[]);
    let up = Up::start_at_one_address(&data);
    let url = up.url("gateway");
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head =
        format!("GET /api/v1/analytics/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {api_key}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(up.stop(), 0);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(
        rest.ends_with(b"0\r\n\r\n"),
        "the stream was cut at the end of the drain"
    );
}
