//! Evidence of receipts: from what was sent, through `receipts up`, to OpenSSL, Node and
//! `receipts verify`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{key, receipt, receipts};
use crate::running::{Up, get, new_api_key, until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Members that the service doesn't know, with numbers and texts whose canonical form differs.
const EXTRA: &str =
    r#"{"z":1E+2,"a":-0,"big":1e21,"small":1E-7,"half":0.50,"text":"\u00e9\u0041\/","list":[ 1.0, {"b":1,"a":2} ]}"#;

/// Canonical form of them (RFC 8785).
const CANONICAL_EXTRA: &str =
    r#"{"a":0,"big":1e+21,"half":0.5,"list":[1,{"a":2,"b":1}],"small":1e-7,"text":"éA/","z":100}"#;

/// Prints a file of the archive that its arguments name.
const UNPACK: &str = "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";

/// Verifies what is on its standard input with Node's crypto alone: the answer of the API.
const NODE: &str = r#"
const crypto = require('node:crypto');
const answer = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
for (const one of answer.evidence) {
  const bytes = (text) => Buffer.from(text, 'base64');
  const hash = crypto.createHash('sha256').update(bytes(one.signedBytes)).digest('hex');
  if (`sha256:${hash}` !== one.payloadHash) throw new Error('hash');
  const key = crypto.createPublicKey(one.publicKey);
  const fingerprint = crypto.createHash('sha256').update(key.export({ type: 'spki', format: 'der' })).digest('hex');
  if (fingerprint !== one.keyFingerprint) throw new Error('fingerprint');
  const digest = one.signatureAlgorithm === 'Ed25519' ? null : 'sha256';
  const signature = bytes(one.signature);
  const options = signature.length === 64 ? { key, dsaEncoding: 'ieee-p1363' } : key;
  if (!crypto.verify(digest, bytes(one.signedBytes), options, signature)) throw new Error('signature');
  // The signed bytes are the received receipt's, whatever their form.
  const { signature: _, signatureAlgorithm: __, ...received } = JSON.parse(bytes(one.receivedBytes).toString());
  require('node:assert').deepEqual(JSON.parse(bytes(one.signedBytes).toString()), received);
}
console.log(answer.evidence.length);
"#;

/// Takes receipts without a signature of the request.
const WEBHOOK: &str = "/api/service/receipt";

/// An unsigned receipt with members that the service doesn't know.
fn unsigned(public: &str) -> (String, String) {
    let plain = receipt(public);
    let id = plain["receiptId"].as_str().unwrap().to_owned();
    let text = plain.to_string();
    (id, format!("{},\"extra\":{EXTRA}}}", text.strip_suffix('}').unwrap()))
}

/// Signs a receipt or a batch, and takes its bytes out of their canonical form.
fn signed(key: &Path, document: &str) -> String {
    let line = receipts(&["sign", "--key", key.to_str().unwrap()], document.as_bytes()).expect(0);
    assert!(line.stdout.contains(CANONICAL_EXTRA), "{}", line.stdout);
    let line = line.stdout.trim_end().replacen('{', "{ \t", 1);
    line.replace(CANONICAL_EXTRA, EXTRA)
}

/// `X-Service-Signature` of a body, made by OpenSSL.
fn request_signature(dir: &Path, key: &Path, algorithm: &str, body: &str) -> String {
    let file = dir.join("body");
    std::fs::write(&file, body).unwrap();
    let mut openssl = Command::new("openssl");
    match algorithm {
        "Ed25519" => openssl
            .args(["pkeyutl", "-sign", "-rawin", "-inkey"])
            .arg(key)
            .arg("-in")
            .arg(&file),
        _ => openssl.args(["dgst", "-sha256", "-sign"]).arg(key).arg(&file),
    };
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    STANDARD.encode(output.stdout)
}

fn post(url: &str, path: &str, signature: Option<&str>, body: &str) {
    let signature = signature.map_or_else(String::new, |text| format!("X-Service-Signature: {text}\r\n"));
    let headers = format!("Content-Type: application/json\r\n{signature}");
    let (status, answer) = crate::running::post(url, path, &headers, body.as_bytes());
    assert_eq!(status, if path == WEBHOOK { 200 } else { 202 }, "{answer}");
}

fn node(answer: &Value) -> (bool, String) {
    let mut node = Command::new("node")
        .args(["-e", NODE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Node is installed by `make deps`");
    node.stdin
        .take()
        .unwrap()
        .write_all(answer.to_string().as_bytes())
        .unwrap();
    let output = node.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

fn openssl(evidence: &Value) -> bool {
    let command = evidence["opensslCommand"].as_str().unwrap();
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    output.status.success()
}

#[test]
fn receipts_are_verified_again_from_the_answer_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = &new_api_key(&data, "news.example", &["--tier", "enterprise"]);
    let up = Up::start(&data);
    let gateway = up.url("gateway");

    // Identifier, body, and whether the body is a batch.
    let mut sent: Vec<(String, String, bool)> = Vec::new();
    for algorithm in ["Ed25519", "RSA-2048", "ECDSA-P256"] {
        let (key, public) = key(dir.path(), algorithm);
        let (id, document) = unsigned(&public);
        let body = signed(&key, &document);
        let signature = request_signature(dir.path(), &key, algorithm, &body);
        post(&gateway, "/api/v1/receipts", Some(&signature), &body);
        sent.push((id, body, false));

        let batch: Vec<(String, String)> = (0..3).map(|_| unsigned(&public)).collect();
        let documents: Vec<&str> = batch.iter().map(|(_, document)| document.as_str()).collect();
        let documents = documents.join(",");
        let document = format!(r#"{{"version":"1.0.0","batchId":"{algorithm}","receipts":[{documents}]}}"#);
        let body = signed(&key, &document);
        post(&gateway, "/api/v1/receipts/batch", None, &body);
        sent.extend(batch.into_iter().map(|(id, _)| (id, body.clone(), true)));
    }

    let analytics = up.url("analytics");
    let stored = |id: &str| {
        let path = format!("/api/v1/receipts/{id}/evidence");
        let mut found = (0, Value::Null);
        until("evidence", || {
            found = get(&analytics, &path, api_key);
            found.0 != 404
        });
        let (status, answer) = found;
        assert_eq!((status, &answer["receiptId"]), (200, &json!(id)), "{answer}");
        answer
    };
    let mut answers = Vec::new();
    for (id, body, in_batch) in &sent {
        let answer = stored(id);
        let evidence = &answer["evidence"][0];
        assert_eq!(answer["evidence"].as_array().unwrap().len(), 1);
        let received = STANDARD.decode(evidence["receivedBytes"].as_str().unwrap()).unwrap();
        let received = String::from_utf8(received).unwrap();
        assert!(received.contains(id) && received.contains(EXTRA), "{received}");
        if *in_batch {
            assert!(body.contains(&received), "bytes as they were sent");
        } else {
            assert_eq!(*body, received, "bytes as they were sent");
        }
        assert_eq!(evidence["batch"].is_object(), *in_batch, "{evidence}");
        assert!(openssl(evidence), "{evidence}");
        assert_eq!(node(&answer), (true, "1\n".to_owned()));
        answers.push(answer);
    }
    // Receipts of one batch have the batch's signature.
    assert_eq!(answers[1]["evidence"][0]["batch"], answers[2]["evidence"][0]["batch"]);
    assert_ne!(answers[1]["evidence"][0]["batch"], answers[5]["evidence"][0]["batch"]);

    // Whoever has the bytes can deliver copies: padded, and without the batch.
    for answer in &answers {
        let received = STANDARD
            .decode(answer["evidence"][0]["receivedBytes"].as_str().unwrap())
            .unwrap();
        let copy = format!("{}{}", " ".repeat(60_000), String::from_utf8(received).unwrap());
        post(&gateway, WEBHOOK, None, &copy);
    }
    // Evidence is stored in the log's order: that of the copies before this one's.
    let apart = tempfile::tempdir().unwrap();
    let (key, public) = key(apart.path(), "Ed25519");
    let (last, document) = unsigned(&public);
    post(&gateway, WEBHOOK, None, &signed(&key, &document));
    stored(&last);
    for ((id, ..), answer) in sent.iter().zip(&answers) {
        assert_eq!(
            stored(id)["evidence"],
            answer["evidence"],
            "the first arrival's, as a whole"
        );
    }

    let files: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    let verdicts = receipts(&["verify"], files.as_bytes()).expect(0).lines();
    let expected: Vec<Value> = sent
        .iter()
        .map(|(id, ..)| json!({"receiptId": id, "outcome": "verified", "reason": null}))
        .collect();
    assert_eq!(verdicts, expected);

    a_month_has_the_same_evidence(dir.path(), &analytics, api_key, &answers);
    forged_evidence_is_refused(&answers[0], &answers[1]);
    strangers_get_none(&data, &analytics, &sent[0].0);
}

/// The month as a file has each receipt's evidence, and `receipts verify` accepts its lines.
fn a_month_has_the_same_evidence(dir: &Path, analytics: &str, api_key: &str, answers: &[Value]) {
    let month = &answers[0]["evidence"][0]["receivedAt"].as_str().unwrap()[..7];
    let line = format!("GET /api/v1/analytics/months/{month}");
    let headers = format!("Authorization: Bearer {api_key}\r\n");
    let archive = test_engines::http::request(analytics, &line, &headers, b"").unwrap();
    assert_eq!(archive.status, 200);
    let path = dir.join("month.zip");
    std::fs::write(&path, &archive.body).unwrap();
    let mut python = Command::new(test_engines::python().unwrap());
    let unpacked = python.args(["-c", UNPACK]).arg(&path).arg("receipts.ndjson").output();
    let lines = unpacked.unwrap().stdout;
    let listed: Vec<Value> = lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    for answer in answers {
        let line = listed.iter().find(|line| line["receiptId"] == answer["receiptId"]);
        assert_eq!(line.unwrap()["evidence"], answer["evidence"]);
    }
    let verdicts = receipts(&["verify"], &lines).expect(0).lines();
    assert_eq!(verdicts.len(), listed.len());
    assert!(verdicts.iter().all(|verdict| verdict["outcome"] == "verified"));
}

fn forged_evidence_is_refused(answer: &Value, other: &Value) {
    let mut forged = answer.clone();
    let received = STANDARD
        .decode(forged["evidence"][0]["receivedBytes"].as_str().unwrap())
        .unwrap();
    let received = String::from_utf8(received).unwrap().replace("training", "research");
    forged["evidence"] = json!([{"receivedBytes": STANDARD.encode(received)}]);
    let verdict = receipts(&["verify"], forged.to_string().as_bytes()).expect(1).json();
    assert_eq!(
        (&verdict["outcome"], &verdict["reason"]),
        (&json!("rejected"), &json!("bad_signature"))
    );
    for member in ["signedBytes", "signature", "publicKey", "keyFingerprint", "payloadHash"] {
        let mut forged = answer.clone();
        forged["evidence"][0][member] = match member {
            "publicKey" | "keyFingerprint" => json!("another"),
            _ => other["evidence"][0][member].clone(),
        };
        let verdict = receipts(&["verify", "--detail"], forged.to_string().as_bytes())
            .expect(1)
            .json();
        assert!(verdict["detail"].as_str().unwrap().contains(member), "{verdict}");
    }
    // OpenSSL and Node aren't easier to convince.
    let mut forged = answer.clone();
    forged["evidence"][0]["signature"] = other["evidence"][0]["signature"].clone();
    assert!(!node(&forged).0);
}

fn strangers_get_none(data: &Path, analytics: &str, id: &str) {
    let api_key = new_api_key(data, "other.example", &[]);
    let path = format!("/api/v1/receipts/{id}/evidence");
    let (status, problem) = get(analytics, &path, &api_key);
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
    assert_eq!(get(analytics, &path, "rcpt_nonsense").0, 401);
}
