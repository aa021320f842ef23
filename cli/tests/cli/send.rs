//! `receipts send` against a gateway of a few lines, whose answers the tests choose.

use std::net::TcpListener;

use crate::answering::{Came, accepted, answering, answering_to, response};
use crate::command::{key, ndjson, receipt, receipts, receipts_with, sign};
use serde_json::{Value, json};

/// The gateway's own problem, which judges the body.
const PROBLEM: &str = r#"{"type":"/problems/invalid_receipt","code":"wrong_type","detail":"d","errors":[{"pointer":"/usage/context","code":"wrong_type","detail":"must be a string"}]}"#;

#[test]
fn bodies_go_as_they_are_with_a_signature_over_them() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": [receipt(&public), receipt(&public)]});
    let signed = sign(&path, &[receipt(&public), batch]);
    let (url, came) = answering(|_| accepted());
    let args = [
        "send",
        "--url",
        &url,
        "--key",
        path.to_str().unwrap(),
        "--concurrency",
        "1",
        "--json",
    ];
    let summary = receipts(&args, ndjson(&signed).as_bytes()).expect(0).json();
    assert_eq!(summary["accepted"], json!({"receipts": 3, "requests": 2}));
    assert_eq!((&summary["refused"], &summary["retries"]), (&json!([]), &json!(0)));

    let came: Vec<Came> = came.try_iter().collect();
    let paths: Vec<&str> = came.iter().map(|c| c.path.as_str()).collect();
    assert_eq!(paths, ["/api/v1/receipts", "/api/v1/receipts/batch"]);
    for (request, document) in came.iter().zip(&signed) {
        assert_eq!(request.body, document.to_string().as_bytes());
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_signature(request, &request.body, &public);
    }
}

#[track_caller]
fn assert_signature(request: &Came, body: &[u8], public: &str) {
    use base64::Engine as _;
    let message = base64::engine::general_purpose::STANDARD.encode(body);
    let signature = request.header("x-service-signature").unwrap();
    let check =
        json!({"id": 1, "algorithm": "Ed25519", "publicKey": public, "message": message, "signature": signature});
    receipts(&["verify", "--raw-signatures"], check.to_string().as_bytes()).expect(0);
}

#[test]
fn single_receipts_become_signed_batches() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[(); 5].map(|()| receipt(&public)));
    for compression in ["--gzip", "--zstd"] {
        let (url, came) = answering_to(|_, came| match came.path.as_str() {
            "/api/v1/receipts/batch" => accepted(),
            _ => response("400 Bad Request", "", PROBLEM),
        });
        let args = [
            "send",
            "--url",
            &url,
            "--key",
            path.to_str().unwrap(),
            "--batch",
            "2",
            compression,
            "--json",
        ];
        let input = format!("{}not json\n", ndjson(&signed));
        let summary = receipts(&args, input.as_bytes()).expect(1).json();
        assert_eq!(summary["accepted"], json!({"receipts": 5, "requests": 3}));

        let mut in_batches = Vec::new();
        for request in came.try_iter() {
            assert_eq!(request.header("content-encoding"), Some(&compression[2..]));
            let body = request.decoded();
            assert_signature(&request, &body, &public);
            if request.path == "/api/v1/receipts/batch" {
                let lines = receipts(&["verify"], &body).expect(0).lines();
                assert!((1..=2).contains(&lines.len()));
                in_batches.extend(lines.iter().map(|line| line["receiptId"].clone()));
            } else {
                assert_eq!(body, b"not json", "what would spoil a batch goes alone");
            }
        }
        let mut wanted: Vec<Value> = signed.iter().map(|receipt| receipt["receiptId"].clone()).collect();
        for ids in [&mut wanted, &mut in_batches] {
            ids.sort_by_key(ToString::to_string);
        }
        assert_eq!(in_batches, wanted);
    }
}

#[test]
fn what_may_be_tried_again_is_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[receipt(&public), receipt(&public)]);
    let (url, came) = answering(move |n| match n {
        0 => response(
            "503 Service Unavailable",
            "Retry-After: 0\r\n",
            r#"{"code":"log_unavailable"}"#,
        ),
        1 => response("429 Too Many Requests", "Retry-After: 1\r\n", "not even JSON"),
        // The connection breaks before an answer.
        2 => String::new(),
        3 => accepted(),
        // A code alone isn't the gateway's, and a 202 alone no acknowledgement.
        4 => response("403 Forbidden", "", r#"{"code":"client_key_unknown","detail":"no"}"#),
        5 => response("202 Accepted", "", r#"{"status":"queued"}"#),
        6 => response("404 Not Found", "", "<html>"),
        _ => response("400 Bad Request", "", PROBLEM),
    });
    let args = [
        "send",
        "--url",
        &url,
        "--key",
        path.to_str().unwrap(),
        "--concurrency",
        "1",
        "--json",
    ];
    let summary = receipts(&args, ndjson(&signed).as_bytes()).expect(1).json();
    assert_eq!(summary["accepted"]["receipts"], 1);
    assert_eq!(summary["retries"], 6);
    let first = json!({"line": 2, "pointer": "/usage/context", "detail": "must be a string"});
    let refused = json!([{"status": 400, "code": "wrong_type", "receipts": 1, "requests": 1, "first": first}]);
    assert_eq!(summary["refused"], refused);
    let bodies: Vec<Vec<u8>> = came.try_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 8);
    for tries in [&bodies[..4], &bodies[4..]] {
        assert!(tries.iter().all(|body| *body == tries[0]), "a retry is the same bytes");
    }
}

#[test]
fn an_unavailable_gateway_exits_with_3_and_wrong_usage_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = ndjson(&sign(&path, &[receipt(&public)]));
    let path = path.to_str().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let ran = receipts(
        &["send", "--url", &url, "--key", path, "--attempts", "2", "--json"],
        signed.as_bytes(),
    )
    .expect(3);
    assert_eq!(ran.json()["unknown"]["receipts"], 1);
    assert!(ran.stderr.contains("after 2 tries"), "{}", ran.stderr);

    let (url, _came) = answering(|_| response("503 Service Unavailable", "Retry-After: 0\r\n", ""));
    receipts(
        &["send", "--url", &url, "--key", path, "--attempts", "2"],
        signed.as_bytes(),
    )
    .expect(3);
    // A wrong address, behind which something else answers.
    let (page, _came) = answering(|_| response("404 Not Found", "", "<html>nothing here</html>"));
    let args = ["send", "--url", &page, "--key", path, "--attempts", "2"];
    let ran = receipts(&args, signed.as_bytes()).expect(3);
    assert!(
        ran.stderr.contains("404") && ran.stderr.contains("nothing here"),
        "{}",
        ran.stderr
    );
    receipts(&["send", "--url", &url, "--key", path], b"").expect(2);
    receipts(&["send", "--url", "ftp://localhost", "--key", path], signed.as_bytes()).expect(2);
    receipts(&["send", "--url", "localhost", "--key", path], signed.as_bytes()).expect(2);
    receipts(&["send", "--key", path], signed.as_bytes()).expect(2);
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = ndjson(&sign(&path, &[receipt(&public)]));
    let send = |variables: &[(&str, &str)], url: &str| {
        let path = path.to_str().unwrap();
        let args = ["send", "--url", url, "--key", path, "--attempts", "1", "--json"];
        receipts_with(variables, &args, signed.as_bytes())
    };
    // Nobody resolves the gateway's name: the proxy gets it.
    let (proxy, came) = answering_to(|_, came| match came.path.as_str() {
        "http://gateway.invalid/api/v1/receipts" => accepted(),
        _ => response("502 Bad Gateway", "", ""),
    });
    let summary = send(&[("http_proxy", &proxy)], "http://gateway.invalid")
        .expect(0)
        .json();
    assert_eq!(summary["accepted"]["receipts"], 1);
    let with_password = proxy.replace("http://", "http://user:secret@");
    send(&[("HTTPS_PROXY", &with_password)], "https://gateway.invalid").expect(3);
    let tunnel = came.try_iter().last().unwrap();
    assert_eq!(tunnel.path, "gateway.invalid:443");
    assert_eq!(tunnel.header("proxy-authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
    let left_out = [("http_proxy", proxy.as_str()), ("no_proxy", "gateway.invalid")];
    send(&left_out, "http://gateway.invalid").expect(3);
    assert_eq!(came.try_iter().count(), 0);
    // This machine isn't behind a proxy.
    let (gateway, _came) = answering(|_| accepted());
    send(&[("http_proxy", &proxy)], &gateway).expect(0);
    assert_eq!(came.try_iter().count(), 0);
}
