//! Receipts against software that shares nothing with ours: the OpenSSL command line, and Node's
//! crypto and JSON.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixtures::{NOW_MS, batch, bytes, key, parse, set, signed, unsigned};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use receipt::{Algorithm, Arrival, BodyKind, Judge, Judged, Limits, RejectReason, SigningKey, canonicalize};
use serde_json::{Value, json};

fn judge(kind: BodyKind, body: &[u8], request_signature: Option<&str>) -> Vec<Option<RejectReason>> {
    let judge = Judge::new(Limits::default(), 10);
    let arrival = Arrival {
        kind,
        body,
        request_signature,
        received_at_ms: NOW_MS,
    };
    judge.judge(&arrival, &|_, judged| match judged {
        Judged::Verified(_) => None,
        Judged::Rejected(rejected) => Some(rejected.reason),
    })
}

fn payload(receipt: &Value) -> Vec<u8> {
    let mut receipt = receipt.clone();
    crate::fixtures::remove(&mut receipt, "/signature");
    crate::fixtures::remove(&mut receipt, "/signatureAlgorithm");
    serde_jcs::to_vec(&receipt).unwrap()
}

fn openssl(dir: &Path, arguments: &str) -> std::process::Output {
    let mut command = Command::new("openssl");
    command.current_dir(dir).args(arguments.split(' ')).stdin(Stdio::null());
    command
        .output()
        .expect("these tests need the openssl command (Debian: openssl)")
}

fn openssl_ok(dir: &Path, arguments: &str) {
    let output = openssl(dir, arguments);
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn openssl_genpkey(dir: &Path, algorithm: Algorithm, options: &str) {
    let kind = match algorithm {
        Algorithm::Ed25519 => "-algorithm ED25519",
        Algorithm::Rsa2048 => "-algorithm RSA -pkeyopt rsa_keygen_bits:2048",
        Algorithm::EcdsaP256 => "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    };
    openssl_ok(dir, &format!("genpkey {kind}{options} -out key.pem"));
    openssl_ok(dir, "pkey -in key.pem -pubout -out public.pem");
}

fn openssl_sign(dir: &Path, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
    std::fs::write(dir.join("message"), message).unwrap();
    openssl_ok(
        dir,
        match algorithm {
            Algorithm::Ed25519 => "pkeyutl -sign -rawin -inkey key.pem -in message -out signature",
            _ => "dgst -sha256 -sign key.pem -out signature message",
        },
    );
    std::fs::read(dir.join("signature")).unwrap()
}

fn openssl_verifies(dir: &Path, algorithm: Algorithm, public_pem: &str, message: &[u8], signature: &[u8]) -> bool {
    std::fs::write(dir.join("public.pem"), public_pem).unwrap();
    std::fs::write(dir.join("message"), message).unwrap();
    std::fs::write(dir.join("signature"), signature).unwrap();
    let arguments = match algorithm {
        Algorithm::Ed25519 => "pkeyutl -verify -pubin -inkey public.pem -rawin -in message -sigfile signature",
        _ => "dgst -sha256 -verify public.pem -signature signature message",
    };
    openssl(dir, arguments).status.success()
}

/// A receipt around a key of OpenSSL's, signed by it.
fn signed_by_openssl(dir: &Path, algorithm: Algorithm) -> Value {
    let mut receipt = unsigned(5);
    set(
        &mut receipt,
        "/client/publicKey",
        json!(std::fs::read_to_string(dir.join("public.pem")).unwrap()),
    );
    let signature = openssl_sign(dir, algorithm, &payload(&receipt));
    set(&mut receipt, "/signature", json!(STANDARD.encode(signature)));
    set(&mut receipt, "/signatureAlgorithm", json!(algorithm.as_str()));
    receipt
}

#[test]
fn what_openssl_signs_verifies() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in Algorithm::ALL {
        openssl_genpkey(dir.path(), algorithm, "");
        let mut receipt = signed_by_openssl(dir.path(), algorithm);
        let body = bytes(&receipt);
        let header = STANDARD.encode(openssl_sign(dir.path(), algorithm, &body));
        assert_eq!(judge(BodyKind::Receipt, &body, Some(&header)), [None], "{algorithm}");

        let mut batch = json!({"version": "1.0.0", "batchId": "openssl", "receipts": [receipt, receipt]});
        let signature = openssl_sign(dir.path(), algorithm, &payload(&batch));
        set(&mut batch, "/signature", json!(STANDARD.encode(signature)));
        set(&mut batch, "/signatureAlgorithm", json!(algorithm.as_str()));
        assert_eq!(judge(BodyKind::Batch, &bytes(&batch), None), [None; 2], "{algorithm}");

        set(&mut receipt, "/usage/modelId", json!("other"));
        assert_eq!(
            judge(BodyKind::Receipt, &bytes(&receipt), None),
            [Some(RejectReason::BadSignature)]
        );
        // Its private keys are ours to sign with.
        let ours = SigningKey::from_pkcs8_pem(&std::fs::read_to_string(dir.path().join("key.pem")).unwrap()).unwrap();
        assert_eq!(
            ours.public_key_pem(),
            std::fs::read_to_string(dir.path().join("public.pem")).unwrap()
        );
    }
}

#[test]
fn unusual_keys_of_openssl_verify() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Some(RejectReason::BadPublicKey);
    for (exponent, verdict) in [
        ("3", refused),
        ("17", refused),
        ("65535", refused),
        ("65537", None),
        ("4294967297", None),
    ] {
        openssl_genpkey(
            dir.path(),
            Algorithm::Rsa2048,
            &format!(" -pkeyopt rsa_keygen_pubexp:{exponent}"),
        );
        let receipt = signed_by_openssl(dir.path(), Algorithm::Rsa2048);
        assert_eq!(
            judge(BodyKind::Receipt, &bytes(&receipt), None),
            [verdict],
            "exponent {exponent}"
        );
    }
    openssl_genpkey(dir.path(), Algorithm::EcdsaP256, "");
    openssl_ok(
        dir.path(),
        "ec -in key.pem -pubout -conv_form compressed -out public.pem",
    );
    let receipt = signed_by_openssl(dir.path(), Algorithm::EcdsaP256);
    assert_eq!(
        judge(BodyKind::Receipt, &bytes(&receipt), None),
        [None],
        "compressed point"
    );
    // A curve described by its parameters instead of its name isn't a key for ECDSA-P256.
    openssl_ok(dir.path(), "ec -in key.pem -pubout -param_enc explicit -out public.pem");
    let receipt = signed_by_openssl(dir.path(), Algorithm::EcdsaP256);
    assert_eq!(
        judge(BodyKind::Receipt, &bytes(&receipt), None),
        [Some(RejectReason::BadPublicKey)]
    );
}

#[test]
fn what_we_sign_openssl_verifies() {
    let dir = tempfile::tempdir().unwrap();
    for algorithm in Algorithm::ALL {
        for value in [signed(3, algorithm), batch(2, algorithm)] {
            let signature = STANDARD.decode(value["signature"].as_str().unwrap()).unwrap();
            let pem = key(algorithm).public_key_pem();
            let mut message = payload(&value);
            assert!(
                openssl_verifies(dir.path(), algorithm, pem, &message, &signature),
                "{algorithm}"
            );
            message[5] ^= 1;
            assert!(
                !openssl_verifies(dir.path(), algorithm, pem, &message, &signature),
                "{algorithm}"
            );
        }
        std::fs::write(dir.path().join("ours.pem"), key(algorithm).to_pkcs8_pem().unwrap()).unwrap();
        openssl_ok(dir.path(), "pkey -in ours.pem -pubout -out again.pem");
        assert_eq!(
            std::fs::read_to_string(dir.path().join("again.pem")).unwrap(),
            key(algorithm).public_key_pem()
        );
    }
}

/// Numbers of every kind, and strings of every plane, for Node to write canonically.
fn values() -> Vec<String> {
    let mut seed = 7_u64;
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed ^ (seed >> 29)
    };
    let mut values: Vec<String> = (0..4_000)
        .map(|_| f64::from_bits(next()))
        .chain((-330..310).map(|exponent| 10_f64.powi(exponent)))
        .chain((0..64).map(|bit| (1_u64 << bit) as f64))
        .filter(|number| number.is_finite())
        .map(|number| format!("[{number:?}, {number:e}]"))
        .collect();
    for plane in 0..40 {
        let text: String = (0..64)
            .filter_map(|_| char::from_u32((next() as u32 & 0x3ff) + plane * 0x6f1))
            .collect();
        let members: serde_json::Map<String, Value> = text.chars().map(|c| (c.to_string(), json!(c))).collect();
        values.push(json!([text, members]).to_string());
    }
    values
}

#[test]
fn node_and_we_agree() {
    let Ok(mut node) = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        eprintln!("node isn't installed: its half of the interop tests is skipped");
        return;
    };
    let values = values();
    let ours: Vec<Value> = Algorithm::ALL.iter().map(|&algorithm| signed(3, algorithm)).collect();
    let input = bytes(&json!({"receipt": unsigned(1), "signed": ours, "values": values}));
    let mut stdin = node.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let theirs = parse(&output.stdout);

    assert_eq!(theirs["verified"], json!([true, true, true]));
    let signed = theirs["signed"].as_array().unwrap();
    assert_eq!(signed.len(), 6);
    for theirs in signed {
        let body = theirs["body"].as_str().unwrap().as_bytes();
        assert_eq!(
            judge(BodyKind::Receipt, body, theirs["header"].as_str()),
            [None],
            "{theirs}"
        );
        assert_eq!(
            judge(BodyKind::Batch, theirs["batch"].as_str().unwrap().as_bytes(), None),
            [None; 2],
            "{theirs}"
        );
    }
    for (text, theirs) in values.iter().zip(theirs["canonical"].as_array().unwrap()) {
        assert_eq!(
            std::str::from_utf8(&canonicalize(text.as_bytes(), 32).unwrap()).ok(),
            theirs.as_str()
        );
    }
}
