//! Signed acknowledgements: verified by OpenSSL and by Node, from the gateway's answers alone.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::Answer;
use crate::log::Mood;
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt};

const KEYS: &str = "/.well-known/receipts-keys.json";

/// Verifies an acknowledgement with the keys, and prints whether it is good.
const NODE: &str = r"
const { createHash, createPublicKey, verify } = require('node:crypto');
const [response, keys] = process.argv.slice(1).map((text) => JSON.parse(text));
const { signature, path, ...members } = response.acknowledgement;
const sorted = (value) => value === null || typeof value !== 'object' ? value
  : Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
const jwk = keys.keys.find(({ kid }) => kid === members.keyId);
const key = createPublicKey({ key: jwk, format: 'jwk' });
const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
const hash = (text) => Buffer.from(text, 'base64');
const leaf = Buffer.from(JSON.stringify(sorted(members)));
const root = path?.reduce((node, { left, right }) => left ? sha256(Buffer.of(1), hash(left), node)
  : sha256(Buffer.of(1), node, hash(right)), sha256(Buffer.of(0), leaf));
console.log(verify(null, root ?? leaf, key, hash(signature)));
";

fn verified_by_node(response: &Value, keys: &Value) -> bool {
    let node = output(Command::new("node").args(["-e", NODE, &response.to_string(), &keys.to_string()]));
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    String::from_utf8(node.stdout).unwrap().trim() == "true"
}

/// Runs the commands of docs/acknowledgements.md.
fn verified_by_the_documents_commands(response: &Value, keys: &Value) -> bool {
    let document = include_str!("../../../docs/acknowledgements.md");
    let (_, rest) = document.split_once("```sh\n").unwrap();
    let (commands, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "response.json", response);
    write(folder.path(), "receipts-keys.json", keys);
    let script = format!("set -eu\n{commands}");
    let mut bash = Command::new("bash");
    output(bash.args(["-c", &script]).current_dir(folder.path()))
        .status
        .success()
}

fn write(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

fn output(command: &mut Command) -> Output {
    command.output().expect("scripts/install-deps installs it")
}

fn assert_verifies(answer: &Answer, keys: &Value) {
    let response = answer.json();
    assert!(verified_by_node(&response, keys));
    assert!(verified_by_the_documents_commands(&response, keys));
    for (member, value) in [
        ("requestDigest", json!("sha256:00")),
        ("receivedAt", json!("2026-01-01T00:00:00.000Z")),
        ("logPosition", json!({"epoch": 1, "partition": 0, "offset": 77})),
    ] {
        let mut forged = response.clone();
        forged["acknowledgement"][member] = value;
        assert!(!verified_by_node(&forged, keys), "{member}");
    }
    let mut forged = response;
    forged["acknowledgement"]["outcome"] = "/elsewhere".into();
    assert!(!verified_by_the_documents_commands(&forged, keys));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_implementations_verify_them() {
    let gateway = Running::start().await;
    let published = gateway.connect().await.get(KEYS).await;
    assert_eq!(
        (published.status, published.field("content-type")),
        (200, "application/jwk-set+json")
    );
    let keys = published.json();
    let (body, id) = receipt();
    let answer = gateway.post(RECEIPTS, FIELDS, &body).await;
    assert_eq!(answer.status, 202);
    let acknowledgement = &answer.json()["acknowledgement"];
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&body)));
    let outcome = format!("/api/v1/receipts/{id}");
    assert_eq!(
        [
            &acknowledgement["requestDigest"],
            &acknowledgement["receiptId"],
            &acknowledgement["outcome"]
        ],
        [&json!(digest), &json!(id), &json!(outcome)]
    );
    assert_eq!(
        acknowledgement["logPosition"],
        json!({"epoch": 1, "partition": 0, "offset": 0})
    );
    assert_verifies(&answer, &keys);

    let body = batch(3);
    let zipped = zstd::encode_all(body.as_slice(), 1).unwrap();
    let mut fields = JSON.to_vec();
    fields.push(("content-encoding", "zstd"));
    let answer = gateway.post(BATCH, &fields, &zipped).await;
    let acknowledgement = &answer.json()["acknowledgement"];
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&body)));
    assert_eq!(
        (answer.status, &acknowledgement["requestDigest"]),
        (202, &json!(digest))
    );
    assert_eq!(acknowledgement["receiptCount"], 3);
    assert_eq!(acknowledgement["logPosition"]["offset"], 1);
    assert_verifies(&answer, &keys);
    gateway.stop().await;
}

#[tokio::test]
async fn records_that_are_stored_together_share_a_signature() {
    let gateway = Running::start().await;
    let keys = gateway.connect().await.get(KEYS).await.json();
    gateway.log.set(Mood::Silent);
    let stored = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        gateway.log.set(Mood::Takes);
    };
    let receipts: Vec<_> = (0..5).map(|_| receipt().0).collect();
    let requests = join_all(receipts.iter().map(|body| gateway.post(RECEIPTS, FIELDS, body)));
    let (answers, ()) = tokio::join!(requests, stored);
    assert!(answers.iter().all(|answer| answer.status == 202));
    let signature = |answer: &Answer| answer.json()["acknowledgement"]["signature"].to_string();
    let signatures: HashSet<String> = answers.iter().map(signature).collect();
    assert!(signatures.len() < answers.len(), "{signatures:?}");
    let has_path = |answer: &&Answer| answer.json()["acknowledgement"]["path"].is_array();
    assert_verifies(answers.iter().find(has_path).unwrap(), &keys);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refusal_has_none() {
    let gateway = Running::start().await;
    let answer = gateway.post(RECEIPTS, FIELDS, b"{}").await;
    assert_eq!((answer.status, answer.json().get("acknowledgement")), (400, None));
    gateway.stop().await;
}

#[tokio::test]
async fn an_acknowledgement_has_the_logs_instant_and_readiness_names_a_clock_that_differs() {
    let gateway = Running::start().await;
    gateway.log.ahead_ms.store(240_000, Ordering::Relaxed);
    let before_ms = service::instant::now_ms() + 240_000;
    let answer = gateway.post(RECEIPTS, FIELDS, &receipt().0).await;
    let received = answer.json()["acknowledgement"]["receivedAt"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(received >= service::instant::rfc3339_ms(before_ms), "{received}");
    let mut client = gateway.connect().await;
    loop {
        let health = client.get("/readyz").await;
        assert_eq!(
            health.status, 200,
            "another gateway's clock may be the one that is wrong"
        );
        let clock = &health.json()["components"]["clock"];
        if clock["status"] == "degraded" {
            assert!(clock["reason"].to_string().contains("s behind the log's"), "{clock}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway.stop().await;
}
