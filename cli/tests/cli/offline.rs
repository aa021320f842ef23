//! The commands that need no server: good and bad input, and what they exit with.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::command::{command, key, ndjson, receipt, receipts, sign};
use serde_json::{Value, json};

const ALGORITHMS: [&str; 3] = ["Ed25519", "RSA-2048", "ECDSA-P256"];

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    receipts(&[], b"").expect(2);
    receipts(&["verfiy"], b"").expect(2);
    receipts(&["verify", "--nonsense"], b"").expect(2);
    receipts(&["verify", "/does/not/exist"], b"").expect(2);
    receipts(&["verify", "/"], b"").expect(2);
    let help = receipts(&["verify", "--help"], b"").expect(0);
    assert!(help.stdout.contains("Exit codes:"), "{}", help.stdout);
}

#[test]
fn keygen_guards_its_files() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in ALGORITHMS {
        let (path, public) = key(dir.path(), algorithm);
        let private = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(private.starts_with("-----BEGIN PRIVATE KEY-----"), "{private}");
        assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"), "{public}");

        let path = path.to_str().unwrap();
        let refused = receipts(&["keygen", "--algorithm", algorithm, "--out", path], b"").expect(2);
        assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
        assert_eq!(fs::read_to_string(path).unwrap(), private, "the old key stands");
        receipts(&["keygen", "--algorithm", algorithm, "--out", path, "--force"], b"").expect(0);
        assert_ne!(fs::read_to_string(path).unwrap(), private);
    }
    receipts(&["keygen", "--algorithm", "HS256", "--out", "x"], b"").expect(2);
    receipts(&["keygen", "--out", "/does/not/exist/key"], b"").expect(2);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 6, "no temporary file is left");
}

#[test]
fn what_is_signed_verifies_in_every_spelling_of_the_input() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in ALGORITHMS {
        let (path, public) = key(dir.path(), algorithm);
        let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": [receipt(&public), receipt(&public)]});
        let documents = [receipt(&public), batch];
        let signed = sign(&path, &documents);
        assert_eq!(signed.len(), 2);
        assert_eq!(signed[0]["signatureAlgorithm"], algorithm);

        let lines = receipts(&["verify"], ndjson(&signed).as_bytes()).expect(0).lines();
        assert_eq!(lines.len(), 3);
        let wanted = json!({"receiptId": signed[0]["receiptId"], "outcome": "verified", "reason": null});
        assert_eq!(lines[0], wanted);
        let pretty = serde_json::to_string_pretty(&signed).unwrap();
        assert_eq!(receipts(&["verify", "-"], pretty.as_bytes()).expect(0).lines(), lines);

        let file = dir.path().join("signed.json");
        fs::write(&file, serde_json::to_string_pretty(&signed[1]).unwrap()).unwrap();
        assert_eq!(
            receipts(&["verify", file.to_str().unwrap()], b"").expect(0).lines(),
            lines[1..]
        );
    }
}

#[test]
fn what_cannot_be_signed_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let path = path.to_str().unwrap();
    let input = format!("{}\n{{\"receiptId\": nope}}\n", receipt(&public));
    let ran = receipts(&["sign", "--key", path], input.as_bytes()).expect(2);
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
    assert_eq!(ran.lines().len(), 1, "what stood before is written");

    receipts(&["sign", "--key", path], b"  \n").expect(2);
    receipts(&["sign", "--key", "/does/not/exist"], b"{}").expect(2);
    let not_a_key = dir.path().join("not-a-key");
    fs::write(&not_a_key, "hello").unwrap();
    receipts(&["sign", "--key", not_a_key.to_str().unwrap()], b"{}").expect(2);
}

#[test]
fn verify_names_each_reason_and_keeps_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let (other_path, _) = key(dir.path(), "ECDSA-P256");
    let mut old = receipt(&public);
    old["timestamp"] = json!("2020-01-01T00:00:00.000Z");
    let signed = sign(&path, &[receipt(&public), receipt(&public), old]);
    let mut tampered = signed[1].clone();
    tampered["usage"]["context"] = json!("another");
    let mut of_other_kind = signed[0].clone();
    of_other_kind["signatureAlgorithm"] = json!("ECDSA-P256");
    let mut batch = sign(
        &path,
        &[json!({"version": "1.0.0", "batchId": "b", "receipts": [receipt(&public)]})],
    )
    .remove(0);
    batch["batchId"] = json!("another");
    let input = format!(
        "{}not json\n{}",
        ndjson(&[signed[0].clone(), tampered, of_other_kind]),
        ndjson(&[signed[2].clone(), batch, signed[1].clone()])
    );
    let ran = receipts(&["verify"], input.as_bytes()).expect(1);
    let reasons: Vec<Value> = ran.lines().iter().map(|line| line["reason"].clone()).collect();
    let wanted = [
        Value::Null,
        json!("bad_signature"),
        json!("key_algorithm_mismatch"),
        json!("malformed"),
        json!("timestamp_out_of_range"),
        json!("bad_batch_signature"),
        Value::Null,
    ];
    assert_eq!(reasons, wanted);
    assert_eq!(ran.lines()[3]["receiptId"], Value::Null);

    let archived = signed[2].to_string();
    assert_eq!(
        receipts(&["verify", "--received-at", "any"], archived.as_bytes())
            .expect(0)
            .lines()
            .len(),
        1
    );
    receipts(
        &["verify", "--received-at", "2020-01-02T00:00:00Z"],
        archived.as_bytes(),
    )
    .expect(0);
    receipts(
        &["verify", "--received-at", "2020-03-02T00:00:00Z"],
        archived.as_bytes(),
    )
    .expect(1);
    receipts(&["verify", "--received-at", "yesterday"], b"").expect(2);
    receipts(&["verify"], b"").expect(2);
    receipts(&["verify"], b"[]").expect(2);
    let _ = other_path;
}

#[test]
fn explain_shows_the_signed_bytes_and_each_check() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[receipt(&public)]).remove(0);
    let explained = receipts(&["verify", "--explain", "--json"], signed.to_string().as_bytes())
        .expect(0)
        .json();
    let mut unsigned = signed.clone();
    for member in ["signature", "signatureAlgorithm"] {
        unsigned.as_object_mut().unwrap().remove(member);
    }
    let canonical = receipts(&["canonicalize"], unsigned.to_string().as_bytes())
        .expect(0)
        .stdout;
    assert_eq!(explained["canonical"], canonical);

    let mut tampered = signed;
    tampered["client"]["name"] = json!("Other");
    let shown = receipts(&["verify", "--explain"], tampered.to_string().as_bytes())
        .expect(1)
        .stdout;
    assert!(
        shown.contains("rejected: bad_signature") && shown.contains("payload hash"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no colours into a pipe");
    // What a stranger wrote doesn't act on the terminal.
    for hidden in ['\u{9b}', '\u{7f}', '\u{202e}', '\u{2066}'] {
        tampered["client"]["name"] = json!(format!("a{hidden}b"));
        tampered[format!("member{hidden}")] = json!(1);
        let text = tampered.to_string();
        let shown = receipts(&["verify", "--explain"], text.as_bytes()).expect(1).stdout;
        let escaped = hidden.escape_unicode().to_string();
        assert!(!shown.contains(hidden) && shown.contains(&escaped), "{shown}");
        let repeated = text.replacen('{', &format!("{{\"member{hidden}\":1,"), 1);
        let failed = receipts(&["sign", "--key", path.to_str().unwrap()], repeated.as_bytes()).expect(2);
        assert!(
            !failed.stderr.contains(hidden) && failed.stderr.contains(&escaped),
            "{}",
            failed.stderr
        );
    }
    receipts(&["verify", "--explain"], b"").expect(2);
}

#[test]
fn canonicalize_writes_a_line_for_each_line_and_names_the_line_of_a_fault() {
    let ran = receipts(
        &["canonicalize", "--lines"],
        b"[1.0, 2]\n{\"b\":1e3,\"a\":\"\\u20ac\"}\n",
    )
    .expect(0);
    assert_eq!(ran.stdout, "[1,2]\n{\"a\":\"€\",\"b\":1000}\n");
    let ran = receipts(&["canonicalize", "--lines"], b"[1]\n[2\n").expect(2);
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
}

#[test]
fn canonicalize_writes_bytes_or_exits_with_2() {
    // RFC 8785 section 3.2.3's sorting example, and numbers of its appendix B.
    let input = "{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7,\n \"n\":[1E30,4.50,2e-3,-0]}";
    let wanted = "{\"\\r\":2,\"1\":4,\"n\":[1e+30,4.5,0.002,0],\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}";
    assert_eq!(receipts(&["canonicalize"], input.as_bytes()).expect(0).stdout, wanted);
    for scalar in ["null", "true", "\"a\"", "1.0"] {
        receipts(&["canonicalize"], scalar.as_bytes()).expect(0);
    }
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    for bad in [
        "",
        "{",
        "{}{}",
        "{\"a\":1,\"a\":2}",
        "\"\\ud800\"",
        "1e999",
        "\u{feff}{}",
        "nope",
        deep.as_str(),
    ] {
        let ran = receipts(&["canonicalize"], bad.as_bytes()).expect(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{bad}: {}", ran.stderr);
    }
    receipts(&["canonicalize"], b"\"\xff\"").expect(2);
}

#[test]
fn raw_signatures_agree_with_themselves_in_any_block() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    let dir = tempfile::tempdir().unwrap();
    let mut checks = Vec::new();
    for algorithm in ALGORITHMS {
        let (path, public) = key(dir.path(), algorithm);
        let signed = sign(&path, &[receipt(&public)]).remove(0);
        let explained = receipts(&["verify", "--explain", "--json"], signed.to_string().as_bytes())
            .expect(0)
            .json();
        let message = STANDARD.encode(explained["canonical"].as_str().unwrap());
        let check = json!({"id": algorithm, "algorithm": algorithm, "publicKey": public, "message": message, "signature": signed["signature"]});
        checks.push((check.clone(), Value::Null));
        let with = |member: &str, value: Value| {
            let mut changed = check.clone();
            changed[member] = value;
            changed
        };
        checks.push((with("message", json!("b3RoZXI=")), json!("bad_signature")));
        checks.push((with("algorithm", json!("HS256")), json!("unsupported_algorithm")));
        checks.push((with("publicKey", json!("nonsense")), json!("bad_public_key")));
        checks.push((with("signature", json!("***")), json!("malformed_input")));
        checks.push((with("message", json!(7)), json!("malformed_input")));
    }
    checks.push((json!({"id": {"any": "thing"}}), json!("malformed_input")));
    let mut input: String = checks.iter().map(|(check, _)| format!("{check}\n")).collect();
    input.push_str("\nnot json at all\n");
    for block in ["1", "4", "256"] {
        let lines = receipts(&["verify", "--raw-signatures", "--block", block], input.as_bytes())
            .expect(1)
            .lines();
        assert_eq!(lines.len(), checks.len() + 1);
        for (line, (check, reason)) in lines.iter().zip(&checks) {
            assert_eq!(line["id"], check["id"]);
            assert_eq!(line["valid"], json!(reason.is_null()));
            let given = line["reason"].as_str().map(|text| text.split(':').next().unwrap());
            assert_eq!(given, reason.as_str(), "{check}");
        }
        assert_eq!(lines.last().unwrap()["id"], Value::Null);
    }
    let good: String = checks
        .iter()
        .filter(|(_, r)| r.is_null())
        .map(|(check, _)| format!("{check}\n"))
        .collect();
    receipts(&["verify", "--raw-signatures"], good.as_bytes()).expect(0);
    receipts(&["verify", "--raw-signatures", "--block", "0"], b"").expect(2);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, public) = key(dir.path(), "Ed25519");
    let signed = sign(&path, &[receipt(&public)]).remove(0);
    let file = dir.path().join("many.ndjson");
    fs::write(&file, format!("{signed}\n").repeat(5_000)).unwrap();
    let mut child = command()
        .arg("verify")
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap()),
        (Some(0), String::new())
    );
}
