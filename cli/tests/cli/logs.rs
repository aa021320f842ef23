//! Log of `receipts up` at its most talkative: nothing that is anybody's secret,
//! whatever is sent to it; and each line an object with the fields that docs/logs.md names for all.

use std::fs::File;
use std::process::Stdio;

use crate::command::{key, ndjson, receipt, receipts, receipts_with, sign};
use crate::running::{Up, get, new_api_key, on, post, until};
use serde_json::{Value, json};

#[test]
fn no_secret_and_no_receipt_gets_into_a_line_at_any_level() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &[]);
    let log = dir.path().join("log");
    let password = "correct-horse-battery-staple";
    let up = Up::start_with_stderr(
        &data,
        &[
            ("RECEIPTS_TELEMETRY_LOG_LEVEL", "trace"),
            ("RECEIPTS_TELEMETRY_LOG_FORMAT", "json"),
            ("RECEIPTS_SMTP_PASSWORD", password),
            ("RECEIPTS_SMTP_USER", "receipts"),
            ("RECEIPTS_SMTP_HOST", "127.0.0.1"),
            ("RECEIPTS_SMTP_FROM", "noreply@news.example"),
        ],
        Stdio::from(File::create(&log).unwrap()),
    );
    let (gateway, analytics, publisher) = (up.url("gateway"), up.url("analytics"), up.url("publisher"));
    let jwt = on(&data, &["dev-token"]).expect(0).stdout.trim().to_owned();

    // Good, tampered and batched receipts, with a mark in their bodies.
    let mark = "MARK-of-a-receipts-body";
    let (key_path, public) = key(dir.path(), "Ed25519");
    let mut unsigned = [(); 20].map(|()| receipt(&public));
    for one in &mut unsigned {
        one["usage"]["context"] = json!(mark);
    }
    let mut signed = sign(&key_path, &unsigned);
    signed[3]["usage"]["datasetId"] = json!("changed");
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap(), "--json"];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    receipts(&[&send[..], &["--batch", "5"]].concat(), ndjson(&signed).as_bytes()).expect(0);
    // What isn't one, and signatures that aren't.
    let signature = "U0lHTkFUVVJFLW9mLWEtcmVxdWVzdA==";
    let headers = format!("Content-Type: application/json\r\nX-Service-Signature: {signature}\r\n");
    for body in [
        format!("{{\"{mark}\": 1}}"),
        format!("{mark} isn't JSON"),
        signed[0].to_string(),
    ] {
        assert!(post(&gateway, "/api/v1/receipts", &headers, body.as_bytes()).0 >= 400);
        assert!(post(&gateway, "/api/v1/receipts/batch", &headers, body.as_bytes()).0 >= 400);
    }
    // Keys and tokens: good, cut short, of nobody.
    let wrong_key = format!("{}x", &api_key[..api_key.len() - 1]);
    let wrong_jwt = format!("{}AAAA", &jwt[..jwt.len() - 4]);
    until("the numbers", || {
        get(&analytics, "/api/v1/analytics/dashboard", &api_key).1["totalReceipts"].as_u64() >= Some(19)
    });
    for bearer in [&api_key, &wrong_key, &jwt, &wrong_jwt] {
        for (url, path) in [
            (&analytics, "/api/v1/analytics/dashboard"),
            (&analytics, "/api/v1/analytics/refusals"),
            (&publisher, "/api/v1/user"),
            (&publisher, "/api/v1/publisher/domains"),
            (&gateway, "/readyz"),
        ] {
            get(url, path, bearer);
        }
    }
    let created = post(
        &publisher,
        "/api/v1/publisher/keys",
        &format!("Content-Type: application/json\r\nAuthorization: Bearer {jwt}\r\n"),
        json!({"name": mark}).to_string().as_bytes(),
    );
    assert!(created.0 > 0);
    assert_eq!(up.stop(), 0);

    let lines = std::fs::read_to_string(&log).unwrap();
    let levels = ["TRACE", "DEBUG", "INFO"];
    for level in levels {
        assert!(lines.contains(&format!("\"level\":\"{level}\"")), "nothing at {level}");
    }
    let secret_of = |bearer: &str| bearer[bearer.len() - 12..].to_owned();
    let private = std::fs::read_to_string(&key_path).unwrap();
    let pem = |text: &str| text.lines().nth(1).unwrap()[..32].to_owned();
    let receipt_signature = signed[0]["signature"].as_str().unwrap()[..32].to_owned();
    for (what, secret) in [
        ("an API key", secret_of(&api_key)),
        ("a wrong API key", secret_of(&wrong_key)),
        ("a JWT", secret_of(&jwt)),
        ("a wrong JWT", secret_of(&wrong_jwt)),
        ("a JWT's claims", jwt.split('.').nth(1).unwrap().to_owned()),
        ("a receipt's body", mark.to_owned()),
        ("a public key's PEM", pem(&public)),
        ("a private key's PEM", pem(&private)),
        ("a receipt's signature", receipt_signature),
        ("a request's signature", signature.to_owned()),
        ("a password", password.to_owned()),
    ] {
        if let Some(line) = lines.lines().find(|line| line.contains(&secret)) {
            panic!("{what} stands in the log: {line}");
        }
    }
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "target"] {
            assert!(line[field].is_string(), "{line}");
        }
    }
}

#[test]
fn a_process_that_does_not_start_says_so_in_the_format_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let missing = dir.path().join("missing").display().to_string();
    for (name, value) in [
        ("RECEIPTS_TELEMETRY_LOG_LEVEL", "loud"),
        ("RECEIPTS_WAREHOUSE_LIBRARY", &missing),
    ] {
        let variables = [("RECEIPTS_TELEMETRY_LOG_FORMAT", "json"), (name, value)];
        let ran = receipts_with(&variables, &["up", "--data", data.to_str().unwrap()], b"");
        assert_ne!(ran.code, 0);
        let lines: Vec<Value> = ran
            .stderr
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "ERROR");
        assert!(last["message"].as_str().unwrap().contains(value), "{last}");
    }
}
