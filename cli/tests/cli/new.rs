//! `receipts new`, and the check that `receipts sign` makes.

use std::fs;

use crate::command::{Ran, command, key, receipt, receipts};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Options that a receipt can't do without.
const USE: [&str; 8] = [
    "--purpose",
    "inference",
    "--context",
    "answer",
    "--client-name",
    "Atlas",
    "--client-version",
    "3.1",
];

fn new(args: &[&str], input: &[u8]) -> Ran {
    receipts(&[&["new"], args, &USE, &["--organization", "Lab"]].concat(), input)
}

#[test]
fn a_new_receipt_is_complete_and_verifies_once_it_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let (key, public) = key(dir.path(), "Ed25519");
    let page = dir.path().join("page.html");
    fs::write(&page, "All the news").unwrap();
    let url = "https://News.example/2026/11/lead#top";
    let made = new(&[url, page.to_str().unwrap()], b"").expect(0);
    let before = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(1);
    assert_eq!(made.stdout.lines().count(), 1, "a line for each receipt");
    let receipt = made.json();
    assert_eq!(receipt["content"]["url"], url);
    assert_eq!(receipt["content"]["publisher"], "news.example");
    let hash = format!("sha256:{}", hex::encode(Sha256::digest("All the news")));
    assert_eq!(receipt["content"]["contentHash"], hash);
    let timestamp = receipt["timestamp"].as_str().unwrap();
    assert!(
        timestamp.parse::<jiff::Timestamp>().unwrap() > before && timestamp.len() == 24,
        "{timestamp}"
    );
    assert_eq!(receipt["usage"], json!({"purpose": "inference", "context": "answer"}));
    assert_eq!(receipt["client"]["publicKey"], Value::Null);

    let key = key.to_str().unwrap();
    let signed = receipts(&["sign", "--key", key], made.stdout.as_bytes()).expect(0);
    receipts(&["verify"], signed.stdout.as_bytes()).expect(0);
    let at_once = new(&[url, "-", "--sign", "--key", key], b"All the news").expect(0);
    receipts(&["verify"], at_once.stdout.as_bytes()).expect(0);
    let at_once = at_once.json();
    for (part, member) in [("content", "entryId"), ("content", "contentHash"), ("client", "id")] {
        assert_eq!(
            at_once[part][member], receipt[part][member],
            "{member} is the same each time"
        );
    }
    assert_ne!(at_once["receiptId"], receipt["receiptId"]);
    let unsigned = new(&[url, "-", "--key", key], b"x").expect(0).json();
    assert_eq!(
        (&unsigned["client"]["publicKey"], &unsigned["signature"]),
        (&json!(public), &Value::Null)
    );
}

#[test]
fn every_member_has_an_option_and_clients_have_variables() {
    let entry = "0b9a7f5e-4c1e-4b8e-9a66-3f3f9d3c1a01";
    let id = "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03";
    let hash = format!("sha256:{}", "ab".repeat(32));
    let mut child = command();
    child.args([
        "new",
        "https://www.news.example/",
        "--content-hash",
        &hash,
        "--entry-id",
        entry,
    ]);
    child.args([
        "--publisher",
        "news.example",
        "--purpose",
        "research",
        "--context",
        "c",
        "--receipt-id",
        id,
    ]);
    child.args([
        "--dataset",
        "d",
        "--model",
        "m",
        "--query",
        "q",
        "--session",
        "s",
        "--study",
        "st",
    ]);
    child.args(["--researcher", "r", "--timestamp"]);
    child.arg(format!(
        "{:.6}",
        jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48)
    ));
    child.envs([("RECEIPTS_CLIENT_ID", id), ("RECEIPTS_CLIENT_NAME", "Atlas")]);
    child.envs([("RECEIPTS_CLIENT_VERSION", "3"), ("RECEIPTS_ORGANIZATION", "Lab")]);
    let output = child.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    let usage = json!({
        "purpose": "research", "context": "c", "datasetId": "d", "modelId": "m", "queryId": "q", "sessionId": "s",
        "studyId": "st", "researcherId": "r",
    });
    assert_eq!(receipt["usage"], usage);
    assert_eq!(receipt["receiptId"], id);
    assert_eq!(
        receipt["client"],
        json!({"id": id, "name": "Atlas", "version": "3", "organization": "Lab"})
    );
    assert_eq!(
        (&receipt["content"]["entryId"], &receipt["content"]["publisher"]),
        (&json!(entry), &json!("news.example"))
    );
    // A service in the same environment isn't bothered by a client's variables.
    let mut service = command();
    service.args(["config", "check"]).env("RECEIPTS_CLIENT_ID", id);
    assert_eq!(service.output().unwrap().status.code(), Some(0));
}

#[test]
fn a_receipt_that_would_be_refused_names_the_options_to_change() {
    let long = "x".repeat(5_000);
    let url = "https://news.example/lead";
    for (args, input, wanted) in [
        (vec![url, "-"], "", "standard input is empty"),
        (vec![url, "/does/not/exist"], "", "can't be opened"),
        (vec![url, "--content-hash", "abc"], "", "--content-hash: must be"),
        (vec![url, "-", "--publisher", "other.example"], "x", "URL: "),
        (vec!["news.example/lead", "-"], "x", "must be an http or https URL"),
        (vec!["https://127.0.0.1/", "-"], "x", "must be a domain name"),
        (vec![url, "-", "--model", &long], "x", "--model: "),
        (
            vec![url, "-", "--timestamp", "2020-01-01T00:00:00Z"],
            "x",
            "--timestamp: ",
        ),
        (vec![url, "-", "--sign"], "x", "--key"),
        (vec![url, "-", "--entry-id", "1"], "x", "--entry-id"),
    ] {
        let ran = new(&args, input.as_bytes()).expect(2);
        assert!(
            ran.stderr.contains(wanted) && ran.stdout.is_empty(),
            "{args:?}: {}",
            ran.stderr
        );
    }
    let international = new(&["https://bücher.example./", "-"], b"x").expect(0).json();
    assert_eq!(international["content"]["publisher"], "xn--bcher-kva.example");
    let both = new(
        &[url, "-", "--model", &long, "--timestamp", "2020-01-01T00:00:00Z"],
        b"x",
    );
    let both = both.expect(2).stderr;
    assert!(both.contains("--model: ") && both.contains("--timestamp: "), "{both}");
    // Everything that is missing is named at once.
    let missing = receipts(&["new", url, "-"], b"x").expect(2).stderr;
    for option in [
        "--purpose",
        "--context",
        "--client-name",
        "--client-version",
        "--organization",
    ] {
        assert!(missing.contains(option), "{option}: {missing}");
    }
}

#[test]
fn sign_lists_faults_with_their_pointers_unless_it_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let (key, public) = key(dir.path(), "Ed25519");
    let key = key.to_str().unwrap();
    let mut bad = receipt(&public);
    bad["usage"]["purpose"] = json!("advertising");
    bad["content"].as_object_mut().unwrap().remove("contentHash");
    let input = format!("{}\n{bad}\n", receipt(&public));
    let ran = receipts(&["sign", "--key", key], input.as_bytes()).expect(2);
    assert_eq!(ran.lines().len(), 1, "the receipt before it is signed");
    for wanted in [
        "line 2",
        "/content/contentHash: add the required member",
        "(missing_member)",
        "/usage/purpose: must be",
        "(invalid_purpose)",
        "--force",
    ] {
        assert!(ran.stderr.contains(wanted), "{wanted}: {}", ran.stderr);
    }
    let forced = receipts(&["sign", "--force", "--key", key], input.as_bytes()).expect(0);
    assert_eq!(forced.lines().len(), 2);
    assert_eq!(forced.lines()[1]["signatureAlgorithm"], "Ed25519");

    let batch = json!({"version": "1.0.0", "batchId": "", "receipts": [receipt(&public), bad]}).to_string();
    let ran = receipts(&["sign", "--key", key], batch.as_bytes()).expect(2);
    for wanted in ["/receipts/1/usage/purpose: ", "/batchId: "] {
        assert!(ran.stderr.contains(wanted), "{wanted}: {}", ran.stderr);
    }
    receipts(&["sign", "--force", "--key", key], batch.as_bytes()).expect(0);
    let ran = receipts(&["sign", "--force", "--key", key], b"{\"a\": nope}").expect(2);
    assert!(ran.stderr.contains("(invalid_json)"), "{}", ran.stderr);
}
