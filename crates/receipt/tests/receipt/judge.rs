//! Verdicts: every receipt ends in exactly one outcome, with the right reason.

use crate::fixtures::{NOW_MS, batch, bytes, key, remove, set, signed};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use receipt::{
    Algorithm, Arrival, BodyKind, Judge, Judged, Limits, NotSigned, Origin, RejectReason, SigningKey, canonicalize,
    sign_batch, sign_receipt,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A well-formed P-256 key whose point isn't on the curve.
const OFF_CURVE: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==\n-----END PUBLIC KEY-----\n";
const ED25519: Algorithm = Algorithm::Ed25519;

fn judge() -> &'static Judge {
    static JUDGE: std::sync::LazyLock<Judge> = std::sync::LazyLock::new(|| Judge::new(Limits::default(), 100));
    &JUDGE
}

fn arrival(kind: BodyKind, body: &[u8]) -> Arrival<'_> {
    Arrival {
        kind,
        body,
        request_signature: None,
        received_at_ms: NOW_MS,
    }
}

/// The reasons of a record's receipts, `None` for verified ones; checks indices and what comes
/// along.
fn reasons(arrival: &Arrival<'_>) -> Vec<Option<RejectReason>> {
    let results = judge().judge(arrival, &|index, judged| match judged {
        Judged::Verified(verified) => {
            assert_eq!(verified.payload_hash, payload_hash(verified.receipt.raw));
            (index, None)
        }
        Judged::Rejected(rejected) => {
            assert!(!rejected.detail.is_empty() && rejected.detail.len() < 500);
            if let Some(hash) = rejected.payload_hash
                && let Ok(Value::Object(_)) = serde_json::from_slice(rejected.raw)
            {
                assert_eq!(hash, payload_hash(rejected.raw));
            }
            (index, Some(rejected.reason))
        }
    });
    let indices: Vec<usize> = results.iter().map(|&(index, _)| usize::from(index)).collect();
    assert_eq!(indices, (0..results.len()).collect::<Vec<_>>());
    results.into_iter().map(|(_, reason)| reason).collect()
}

fn reason(body: &[u8]) -> Option<RejectReason> {
    let reasons = reasons(&arrival(BodyKind::Receipt, body));
    assert_eq!(reasons.len(), 1);
    reasons[0]
}

fn batch_reasons(value: &Value) -> Vec<Option<RejectReason>> {
    reasons(&arrival(BodyKind::Batch, &bytes(value)))
}

/// The naive way, which our canonical bytes and hash are compared with.
fn payload_hash(raw: &[u8]) -> [u8; 32] {
    let mut value = crate::fixtures::parse(raw);
    remove(&mut value, "/signature");
    remove(&mut value, "/signatureAlgorithm");
    Sha256::digest(serde_jcs::to_vec(&value).unwrap()).into()
}

#[test]
fn good_receipts_verify() {
    for algorithm in Algorithm::ALL {
        let value = signed(7, algorithm);
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        for body in [bytes(&value), pretty] {
            assert_eq!(reason(&body), None, "{algorithm}");
        }
        let pem = key(algorithm).public_key_pem();
        let der = STANDARD
            .decode(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>())
            .unwrap();
        let fingerprint: [u8; 32] = Sha256::digest(der).into();
        let body = bytes(&value);
        let _ = judge().judge(&arrival(BodyKind::Receipt, &body), &|_, judged| match judged {
            Judged::Verified(verified) => {
                assert_eq!(verified.key_fingerprint, fingerprint);
                assert_eq!(verified.receipt.publisher, "news.example.com");
            }
            Judged::Rejected(rejected) => panic!("{rejected:?}"),
        });
        assert_eq!(batch_reasons(&batch(3, algorithm)), [None; 3]);
    }
}

/// But for the "e" of a number, which may be a capital, no byte can change without changing what
/// the receipt says.
#[test]
fn any_changed_byte_is_refused() {
    for algorithm in Algorithm::ALL {
        let good = bytes(&signed(1, algorithm));
        assert_eq!(reason(&good), None);
        for at in 0..good.len() {
            for flip in [0x01, 0x02, 0x20] {
                let mut body = good.clone();
                body[at] ^= flip;
                if canonicalize(&body, 32).ok() == canonicalize(&good, 32).ok() {
                    assert_eq!(&good[at - 1..at + 3], b"1e+2");
                } else {
                    assert!(
                        reason(&body).is_some(),
                        "byte {at} ^ {flip}: {}",
                        String::from_utf8_lossy(&body)
                    );
                }
            }
        }
    }
}

#[test]
fn changed_members_have_their_reasons() {
    use RejectReason::*;
    let rsa = key(Algorithm::Rsa2048).public_key_pem();
    let stranger = SigningKey::generate(ED25519).unwrap();
    for (pointer, value, wanted) in [
        (
            "/receiptId",
            json!("550e8400-e29b-41d4-a716-0000000000ff"),
            BadSignature,
        ),
        ("/timestamp", json!("2025-06-30T12:34:56.788Z"), BadSignature),
        ("/timestamp", json!("2025-06-30T12:34:56.789+00:00"), BadSignature),
        ("/timestamp", json!("2025-06-30T12:44:56.789Z"), TimestampOutOfRange),
        ("/timestamp", json!("2024-06-30T12:44:56.789Z"), TimestampOutOfRange),
        ("/timestamp", json!("2024-06-30"), Malformed),
        ("/version", json!("1.0.1"), UnsupportedVersion),
        ("/content/url", json!("https://news.example.com/"), BadSignature),
        ("/content/url", json!("https://example.com/"), Malformed),
        ("/content/url", json!("example.com"), Malformed),
        (
            "/content/contentHash",
            json!("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b856"),
            BadSignature,
        ),
        ("/content/contentHash", json!("sha256:e3b0"), BadContentHash),
        ("/content/publisher", json!("news.example.com"), BadSignature),
        ("/client/name", json!("Other Model"), BadSignature),
        ("/client/publicKey", json!(stranger.public_key_pem()), BadSignature),
        ("/client/publicKey", json!(rsa), KeyAlgorithmMismatch),
        ("/client/publicKey", json!("-----BEGIN PUBLIC KEY-----"), BadPublicKey),
        ("/client/publicKey", json!(OFF_CURVE), BadPublicKey),
        ("/usage/purpose", json!("training"), BadSignature),
        ("/usage/purpose", json!("none"), Malformed),
        ("/usage/modelId", json!("m-2"), BadSignature),
        ("/extra/a", json!("also signed over"), BadSignature),
        ("/extra/b/0", json!(1.0000000000000002), BadSignature),
        ("/new", json!(null), BadSignature),
        ("/signature", json!(STANDARD.encode([0; 64])), BadSignature),
        ("/signature", json!(STANDARD.encode([0; 63])), BadSignature),
        ("/signature", json!("?"), BadSignature),
        ("/signature", json!(7), Malformed),
        ("/signatureAlgorithm", json!("RSA-2048"), KeyAlgorithmMismatch),
        ("/signatureAlgorithm", json!("RSA-1024"), UnsupportedAlgorithm),
    ] {
        let mut receipt = signed(1, ED25519);
        set(&mut receipt, pointer, value.clone());
        assert_eq!(reason(&bytes(&receipt)), Some(wanted), "{pointer} {value}");
        // In a signed batch the receipt alone is to blame.
        if !pointer.starts_with("/client/publicKey") {
            let mut batch = batch(2, ED25519);
            batch["receipts"][1] = receipt;
            assert_eq!(batch_reasons(&batch), [Some(BadBatchSignature)], "{pointer} {value}");
            let signed = sign_batch(&bytes(&batch), key(ED25519), &Limits::default()).unwrap();
            let found = reasons(&arrival(BodyKind::Batch, &signed));
            assert_eq!(found, [None, Some(wanted)], "{pointer} {value}");
        }
    }
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, "/version", json!("2.0.0"));
    remove(&mut receipt, "/usage");
    assert_eq!(
        reason(&bytes(&receipt)),
        Some(UnsupportedVersion),
        "explains whatever else is different"
    );
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, "/timestamp", json!("2020-06-30T12:44:56.789Z"));
    remove(&mut receipt, "/usage");
    assert_eq!(reason(&bytes(&receipt)), Some(Malformed));
}

#[test]
fn rejected_receipts_keep_what_could_be_read() {
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, "/usage/purpose", json!("none"));
    set(&mut receipt, "/client/id", json!("?"));
    let body = bytes(&receipt);
    let _ = judge().judge(&arrival(BodyKind::Receipt, &body), &|_, judged| match judged {
        Judged::Rejected(rejected) => {
            assert_eq!(
                rejected.receipt_id.unwrap().to_string(),
                "550e8400-e29b-41d4-a716-000000000001"
            );
            assert_eq!(rejected.publisher.as_deref(), Some("news.example.com"));
            assert_eq!(
                rejected.entry_id.unwrap().to_string(),
                "7c9e6679-7425-40de-944b-e07fc1f90ae7"
            );
            assert_eq!(rejected.client_id, None);
            assert_eq!(rejected.payload_hash, Some(payload_hash(&body)));
            assert_eq!(rejected.raw, body);
        }
        Judged::Verified(_) => panic!("verified"),
    });
}

#[test]
fn a_record_that_is_no_receipt_is_one_rejected_receipt() {
    let good = bytes(&signed(1, ED25519));
    let long = vec![b' '; 65_537];
    for body in [
        &b""[..],
        b"{",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        &good[1..],
        &[good.clone(), good.clone()].concat(),
        &long,
    ] {
        assert_eq!(reason(body), Some(RejectReason::Malformed));
        assert_eq!(
            reasons(&arrival(BodyKind::Batch, body)),
            [Some(RejectReason::Malformed)]
        );
        let whole = judge().judge(&arrival(BodyKind::Batch, body), &|_, judged| match judged {
            Judged::Rejected(rejected) => rejected.raw.len(),
            Judged::Verified(_) => 0,
        });
        assert_eq!(whole, [body.len()]);
    }
    // A receipt isn't a batch, nor a batch a receipt.
    assert_eq!(
        reasons(&arrival(BodyKind::Batch, &good)),
        [Some(RejectReason::Malformed)]
    );
    assert_eq!(reason(&bytes(&batch(2, ED25519))), Some(RejectReason::Malformed));
}

#[test]
fn batches_with_a_fault_of_their_own_are_one_rejected_receipt() {
    use RejectReason::*;
    let other = SigningKey::generate(ED25519).unwrap();
    for (pointer, value, wanted) in [
        ("/version", json!("9"), UnsupportedVersion),
        ("/signatureAlgorithm", json!("none"), UnsupportedAlgorithm),
        ("/signatureAlgorithm", json!("ECDSA-P256"), KeyAlgorithmMismatch),
        ("/signature", json!("?"), BadBatchSignature),
        ("/batchId", json!(1), Malformed),
        ("/receipts", json!([]), Malformed),
        ("/receipts", json!({}), Malformed),
        ("/receipts/1/client/publicKey", json!(other.public_key_pem()), Malformed),
    ] {
        let mut batch = batch(3, ED25519);
        set(&mut batch, pointer, value.clone());
        assert_eq!(batch_reasons(&batch), [Some(wanted)], "{pointer} {value}");
    }
}

#[test]
fn the_signature_of_a_batch_is_over_all_of_it() {
    let refused = [Some(RejectReason::BadBatchSignature)];
    for algorithm in Algorithm::ALL {
        let good = batch(3, algorithm);
        for (pointer, value) in [
            ("/batchId", json!("batch-2")),
            ("/note", json!("added")),
            ("/receipts/1", signed(9, algorithm)),
            ("/signature", json!(STANDARD.encode([1; 64]))),
        ] {
            let mut batch = good.clone();
            set(&mut batch, pointer, value);
            assert_eq!(batch_reasons(&batch), refused, "{pointer}");
        }
        let mut swapped = good.clone();
        swapped["receipts"].as_array_mut().unwrap().swap(0, 2);
        assert_eq!(batch_reasons(&swapped), refused);
        // Written otherwise it is the same batch.
        let pretty = serde_json::to_vec_pretty(&good).unwrap();
        assert_eq!(reasons(&arrival(BodyKind::Batch, &pretty)), [None; 3]);
    }
    // A receipt's own fault leaves the others alone.
    let mut receipts: Vec<Value> = (0..40).map(|n| signed(n, ED25519)).collect();
    set(&mut receipts[17], "/usage/context", json!("changed"));
    set(&mut receipts[33], "/usage/purpose", json!("changed"));
    let unsigned = json!({"version": "1.0.0", "batchId": "b", "receipts": receipts, "zz": 1, "a": [1.50, "\u{1}"]});
    let signed = sign_batch(&bytes(&unsigned), key(ED25519), &Limits::default()).unwrap();
    let mut wanted = vec![None; 40];
    wanted[17] = Some(RejectReason::BadSignature);
    wanted[33] = Some(RejectReason::Malformed);
    assert_eq!(reasons(&arrival(BodyKind::Batch, &signed)), wanted);
}

#[test]
fn rejected_receipts_say_what_their_bytes_are_of_the_record() {
    let origins = |kind, body: &[u8]| -> Vec<Origin> {
        let judged = judge().judge(&arrival(kind, body), &|_, judged| match judged {
            Judged::Verified(_) => None,
            Judged::Rejected(rejected) => Some(rejected.origin),
        });
        judged.into_iter().flatten().collect()
    };
    let mut single = signed(1, ED25519);
    set(&mut single, "/usage/context", json!("changed"));
    assert_eq!(origins(BodyKind::Receipt, &bytes(&single)), [Origin::Record]);
    assert_eq!(origins(BodyKind::Batch, b"{\"receipts\":[]}"), [Origin::Record]);

    let mut with_one_bad = batch(3, ED25519);
    set(&mut with_one_bad, "/receipts/1/usage/context", json!("changed"));
    let signed_over = sign_batch(&bytes(&with_one_bad), key(ED25519), &Limits::default()).unwrap();
    assert_eq!(origins(BodyKind::Batch, &signed_over), [Origin::SignedBatch]);
    // The same bad receipt, in a batch whose signature isn't over it.
    assert_eq!(origins(BodyKind::Batch, &bytes(&with_one_bad)), [Origin::Record]);
    let mut without_a_key = batch(2, ED25519);
    set(&mut without_a_key, "/receipts/0/client/publicKey", json!("none"));
    set(&mut without_a_key, "/receipts/1/client/publicKey", json!("none"));
    assert_eq!(origins(BodyKind::Batch, &bytes(&without_a_key)), [Origin::Record]);
    assert_eq!(batch_reasons(&without_a_key), [Some(RejectReason::BadPublicKey)]);
}

#[test]
fn request_signatures_are_over_the_body() {
    for algorithm in Algorithm::ALL {
        let body = serde_json::to_vec_pretty(&signed(1, algorithm)).unwrap();
        let header = STANDARD.encode(key(algorithm).sign(&body).unwrap());
        let with = |body: &[u8], header: &str| {
            let arrival = Arrival {
                request_signature: Some(header),
                ..arrival(BodyKind::Receipt, body)
            };
            let checked = judge().check_signed_receipt(body, arrival.received_at_ms, header);
            let bad = checked.err().map(|error| match error {
                NotSigned::Signature(bad) => bad.reason,
                NotSigned::Length(_) => RejectReason::BadRequestSignature,
                NotSigned::Format(error) => panic!("{error}"),
            });
            (reasons(&arrival)[0], bad)
        };
        assert_eq!(with(&body, &header), (None, None));
        let bad = Some(RejectReason::BadRequestSignature);
        assert_eq!(
            with(&bytes(&signed(1, algorithm)), &header),
            (bad, bad),
            "the same receipt, not the same body"
        );
        assert_eq!(with(&body, ""), (bad, bad));
        assert_eq!(with(&body, "AAAA"), (bad, bad));
        let mut tampered = signed(1, algorithm);
        set(&mut tampered, "/usage/context", json!("other"));
        assert_eq!(with(&bytes(&tampered), &header), (bad, bad), "not its own fault");
        // The request's signature is good, and the receipt's isn't: only the verifier finds that.
        let body = bytes(&tampered);
        let header = STANDARD.encode(key(algorithm).sign(&body).unwrap());
        assert_eq!(with(&body, &header), (Some(RejectReason::BadSignature), None));
        // A receipt that breaks a rule is attributed to its sender only if the request is signed.
        set(&mut tampered, "/timestamp", json!("2020-06-30T12:44:56.789Z"));
        let body = bytes(&tampered);
        let late = |header: &str| {
            let arrival = Arrival {
                request_signature: Some(header),
                ..arrival(BodyKind::Receipt, &body)
            };
            reasons(&arrival)[0]
        };
        assert_eq!(late(&header), bad);
        let header = STANDARD.encode(key(algorithm).sign(&body).unwrap());
        assert_eq!(late(&header), Some(RejectReason::TimestampOutOfRange));
    }
}

#[test]
fn a_key_that_can_not_be_used_is_a_fault_of_the_format() {
    let mut batch = batch(2, Algorithm::EcdsaP256);
    for receipt in batch["receipts"].as_array_mut().unwrap() {
        set(receipt, "/client/publicKey", json!(OFF_CURVE));
    }
    let receipt = batch["receipts"][0].clone();
    let header = STANDARD.encode([1; 64]);
    let now_ms = arrival(BodyKind::Receipt, b"").received_at_ms;
    for (checked, pointer) in [
        (
            judge()
                .check_signed_receipt(&bytes(&receipt), now_ms, &header)
                .map(drop),
            "/client/publicKey",
        ),
        (
            judge().check_signed_batch(&bytes(&batch), now_ms).map(drop),
            "/receipts/0/client/publicKey",
        ),
    ] {
        let Err(NotSigned::Format(error)) = checked else {
            panic!("{checked:?}");
        };
        assert_eq!(error.faults[0].pointer, pointer);
        assert_eq!(error.faults[0].code.as_str(), "invalid_public_key");
    }
}

#[test]
fn explanations_agree_with_verdicts() {
    let explain = |arrival: &Arrival<'_>| serde_json::to_value(judge().explain(arrival)).unwrap();
    let body = bytes(&signed(1, ED25519));
    let header = STANDARD.encode(key(ED25519).sign(&body).unwrap());
    let good = explain(&Arrival {
        request_signature: Some(&header),
        ..arrival(BodyKind::Receipt, &body)
    });
    assert_eq!(good["outcome"], "verified");
    assert_eq!(good["receiptId"], "550e8400-e29b-41d4-a716-000000000001");
    let canonical = good["canonical"].as_str().unwrap();
    assert_eq!(hex::encode(Sha256::digest(canonical)), good["payloadHash"]);
    assert!(canonical.starts_with("{\"client\":{\"id\":") && !canonical.contains("signature\""));
    let checks = |value: &Value| {
        let checks = value["checks"].as_array().unwrap().iter();
        checks
            .map(|check| format!("{}={}", check["check"], check["result"]).replace('"', ""))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        checks(&good),
        "format=passed public_key=passed request_signature=passed signature=passed"
    );

    let mut tampered = signed(1, ED25519);
    set(&mut tampered, "/usage/context", json!("other"));
    let refused = explain(&arrival(BodyKind::Receipt, &bytes(&tampered)));
    assert_eq!(
        (&refused["outcome"], &refused["reason"]),
        (&json!("rejected"), &json!("bad_signature"))
    );
    assert_eq!(
        checks(&refused),
        "format=passed public_key=passed request_signature=skipped signature=failed"
    );
    set(&mut tampered, "/client/publicKey", json!("?"));
    let refused = explain(&arrival(BodyKind::Receipt, &bytes(&tampered)));
    assert_eq!(refused["reason"], "bad_public_key");
    assert_eq!(refused["faults"][0]["pointer"], "/client/publicKey");
    assert_eq!(
        checks(&refused),
        "format=passed public_key=failed request_signature=skipped signature=skipped"
    );
    assert_eq!(explain(&arrival(BodyKind::Receipt, b"{"))["reason"], "malformed");

    let mut batch = batch(3, ED25519);
    let good = explain(&arrival(BodyKind::Batch, &bytes(&batch)));
    assert_eq!(
        (&good["outcome"], &good["batchId"]),
        (&json!("verified"), &json!("batch-1"))
    );
    let canonical = good["canonical"].as_str().unwrap();
    let mut naive = batch.clone();
    remove(&mut naive, "/signature");
    remove(&mut naive, "/signatureAlgorithm");
    assert_eq!(canonical, serde_jcs::to_string(&naive).unwrap());
    batch["receipts"][1]["usage"]["context"] = json!("other");
    let refused = explain(&arrival(BodyKind::Batch, &bytes(&batch)));
    let reasons: Vec<&Value> = refused["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|receipt| &receipt["reason"])
        .collect();
    // All of the batch is rejected; what each receipt would be by itself is reported, too.
    assert_eq!(
        (&refused["outcome"], &refused["reason"]),
        (&json!("rejected"), &json!("bad_batch_signature"))
    );
    assert_eq!(reasons, [&Value::Null, &json!("bad_signature"), &Value::Null]);
}

#[test]
fn a_batch_is_abandoned_behind_a_step_with_a_hundred_bad_signatures() {
    use RejectReason::{BadSignature, BatchAbandoned};
    let good = signed(1, ED25519);
    let mut bad = good.clone();
    set(&mut bad, "/signature", json!(STANDARD.encode([7; 64])));
    // The bad ones, how many there are in all, and how many are judged.
    for (bad_ones, receipts, judged) in [
        (20..119, 600, 600),
        (20..120, 512, 512),
        (20..120, 600, 512),
        (460..560, 1_100, 1_024),
    ] {
        let all = (0..receipts).map(|index| {
            let is_bad = bad_ones.contains(&index);
            if is_bad { bad.clone() } else { good.clone() }
        });
        let unsigned = json!({"version": "1.0.0", "batchId": "b", "receipts": all.collect::<Vec<_>>()});
        let body = sign_batch(&bytes(&unsigned), key(ED25519), &Limits::default()).unwrap();
        let expected: Vec<_> = (0..receipts)
            .map(|index| match index {
                _ if index >= judged => Some(BatchAbandoned),
                _ if bad_ones.contains(&index) => Some(BadSignature),
                _ => None,
            })
            .collect();
        let arrival = arrival(BodyKind::Batch, &body);
        assert!(reasons(&arrival) == expected, "{bad_ones:?} of {receipts}");
        let explained = judge().explain(&arrival);
        let explained: Vec<_> = explained.receipts.iter().map(|one| one.reason).collect();
        assert!(explained == expected, "{bad_ones:?} of {receipts}");
    }
    // An abandoned receipt has all that finds it and replays it.
    let all = [vec![bad; 512], vec![good.clone()]].concat();
    let unsigned = json!({"version": "1.0.0", "batchId": "b", "receipts": all});
    let body = sign_batch(&bytes(&unsigned), key(ED25519), &Limits::default()).unwrap();
    let last = judge().judge(&arrival(BodyKind::Batch, &body), &|_, judged| match judged {
        Judged::Rejected(rejected) => {
            assert_eq!(rejected.origin, Origin::SignedBatch);
            assert!(rejected.publisher.is_some() && rejected.key_fingerprint.is_some());
            (
                rejected.reason,
                rejected.receipt_id.map(|id| id.to_string()),
                rejected.raw.to_vec(),
            )
        }
        Judged::Verified(verified) => panic!("{verified:?}"),
    });
    let (reason_of_last, receipt_id, raw) = last.into_iter().next_back().unwrap();
    assert_eq!(
        (reason_of_last, receipt_id.as_deref()),
        (BatchAbandoned, good["receiptId"].as_str())
    );
    assert_eq!(reason(&raw), None);
}

#[test]
fn reasons_are_stable() {
    let reasons: Vec<&str> = RejectReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(
        reasons.join(" "),
        "malformed bad_signature bad_batch_signature batch_abandoned bad_request_signature bad_public_key \
         key_algorithm_mismatch bad_content_hash timestamp_out_of_range unsupported_version unsupported_algorithm \
         refused_by_warehouse \
         client_key_unknown client_key_revoked entry_unknown"
    );
    for reason in RejectReason::ALL {
        assert_eq!(reason.as_str().parse(), Ok(*reason));
    }
}

#[test]
fn signing_refuses_what_can_not_verify() {
    let limits = Limits::default();
    let sign = |json: &str| {
        sign_receipt(json.as_bytes(), key(ED25519), &limits)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(sign("[]").starts_with("wrong_type at \"\""));
    assert!(sign("{}").starts_with("missing_member at \"/client\""));
    assert!(sign("{\"client\":1}").starts_with("wrong_type at \"/client\""));
    assert!(sign("{\"client\":{\"publicKey\":1}}").starts_with("wrong_type at \"/client/publicKey\""));
    let other = SigningKey::generate(ED25519).unwrap();
    let named = json!({"client": {"publicKey": other.public_key_pem()}});
    assert!(sign(&named.to_string()).contains("another key"));
    let batch = json!({"receipts": [named]});
    let error = sign_batch(&bytes(&batch), key(ED25519), &limits).unwrap_err();
    assert!(error.to_string().contains("/receipts/0/client/publicKey"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Alone, in a batch, in a shuffled batch: the same verdict.
    #[test]
    fn a_verdict_does_not_depend_on_neighbours(
        edits in prop::collection::vec(0_u8..6, 1..70), order in any::<u64>(),
    ) {
        let edited = |(n, edit): (usize, &u8)| {
            let mut receipt = signed(n as u64, ED25519);
            match edit {
                0 => set(&mut receipt, "/usage/context", json!("changed")),
                1 => set(&mut receipt, "/usage/purpose", json!("changed")),
                2 => set(&mut receipt, "/timestamp", json!("2020-01-01T00:00:00.000Z")),
                _ => {}
            }
            receipt
        };
        let mut receipts: Vec<Value> = edits.iter().enumerate().map(edited).collect();
        let mut seed = order;
        for i in (1..receipts.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            receipts.swap(i, (seed >> 33) as usize % (i + 1));
        }
        let alone: Vec<_> = receipts.iter().map(|receipt| reason(&bytes(receipt))).collect();
        let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": receipts});
        let batch = sign_batch(&bytes(&batch), key(ED25519), &Limits::default()).unwrap();
        prop_assert_eq!(reasons(&arrival(BodyKind::Batch, &batch)), alone);
    }
}

/// Writes compact JSON as other libraries do by default: with spaces, or in ASCII.
fn rewritten(compact: &str, is_spaced: bool, is_ascii: bool) -> String {
    let (mut out, mut is_text, mut is_escaped) = (String::new(), false, false);
    for c in compact.chars() {
        match c {
            c if is_ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
        if is_spaced && !is_text && matches!(c, ',' | ':') {
            out.push(' ');
        }
        is_text ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
    }
    out
}

#[test]
fn usual_signing_mistakes_are_recognised() {
    use rsa::pkcs8::DecodePrivateKey as _;
    use rsa::signature::{RandomizedSigner as _, SignatureEncoding as _};

    let rest = |n: u64| {
        let mut rest = crate::fixtures::unsigned(n);
        set(&mut rest, "/client/publicKey", json!(key(ED25519).public_key_pem()));
        remove(&mut rest, "/version");
        remove(&mut rest, "/extra");
        rest
    };
    // As sent, `version` comes first; `<` is one of the characters that Go escapes.
    let mut members = rest(1);
    set(&mut members, "/usage/context", json!("ü < \u{1f600}"));
    let as_sent = format!(r#"{{"version":"1.0.0",{}"#, &members.to_string()[1..]);
    let value: Value = serde_json::from_str(&as_sent).unwrap();
    let canonical = serde_jcs::to_string(&value).unwrap();
    let signed_with = |algorithm: &str, signature: &[u8], text: &str| {
        let head = text.strip_suffix('}').unwrap();
        let signature = STANDARD.encode(signature);
        format!(r#"{head},"signature":"{signature}","signatureAlgorithm":"{algorithm}"}}"#)
    };
    let detail = |body: &str| -> String {
        let explained = serde_json::to_value(judge().explain(&arrival(BodyKind::Receipt, body.as_bytes()))).unwrap();
        assert_eq!(explained["reason"], "bad_signature", "{explained}");
        let checks = explained["checks"].as_array().unwrap();
        checks.last().unwrap()["detail"].as_str().unwrap().to_owned()
    };
    let digest: [u8; 32] = Sha256::digest(&canonical).into();
    let mut named = value.clone();
    named["signatureAlgorithm"] = json!("Ed25519");
    let with_algorithm = serde_jcs::to_string(&named).unwrap();
    named["signature"] = json!("");
    let with_empty = serde_jcs::to_string(&named).unwrap();
    for (message, wanted) in [
        (digest.to_vec(), "the SHA-256 of the canonical bytes"),
        (hex::encode(digest).into(), "the SHA-256 of the canonical bytes"),
        (format!("{canonical}\n").into(), "a line feed"),
        (with_algorithm.into(), "the whole document"),
        (with_empty.into(), "the whole document"),
        (as_sent.clone().into(), "in the order as sent: sort them"),
        (rewritten(&canonical, false, true).into(), "ensure_ascii=False"),
        (
            canonical.replace('<', "\\u003c").replace('&', "\\u0026").into(),
            "SetEscapeHTML(false)",
        ),
        (rewritten(&canonical, true, false).into(), "spaces behind commas"),
        (
            rewritten(&canonical, true, true).into(),
            "ASCII-escaped form with spaces",
        ),
        (rewritten(&as_sent, true, true).into(), "json.dumps"),
        (serde_json::to_vec_pretty(&value).unwrap(), "indented"),
        (b"something else".to_vec(), "none of the usual"),
    ] {
        let signature = key(ED25519).sign(&message).unwrap();
        let found = detail(&signed_with("Ed25519", &signature, &as_sent));
        assert!(found.contains(wanted), "{found}: {}", String::from_utf8_lossy(&message));
        // A verdict says so, too.
        let body = signed_with("Ed25519", &signature, &as_sent);
        let later = Arrival {
            received_at_ms: NOW_MS + 2_000,
            ..arrival(BodyKind::Receipt, body.as_bytes())
        };
        let judge = Judge::new(Limits::default(), 10);
        let verdicts = judge.judge(&later, &|_, judged| match judged {
            Judged::Rejected(rejected) => rejected.detail,
            Judged::Verified(_) => String::new(),
        });
        assert_eq!(verdicts, [found]);
    }

    let rsa = key(Algorithm::Rsa2048);
    let mut members = rest(2);
    set(&mut members, "/version", json!("1.0.0"));
    set(&mut members, "/client/publicKey", json!(rsa.public_key_pem()));
    let private = rsa::RsaPrivateKey::from_pkcs8_pem(&rsa.to_pkcs8_pem().unwrap()).unwrap();
    let pss = rsa::pss::SigningKey::<Sha256>::new(private);
    let signature = pss.sign_with_rng(&mut rand::rng(), serde_jcs::to_string(&members).unwrap().as_bytes());
    let found = detail(&signed_with("RSA-2048", &signature.to_bytes(), &members.to_string()));
    assert!(found.contains("RSA-PSS"), "{found}");
}

/// Whether a key is the wrong one can't be computed, so both causes are named. Behind a good
/// signature of the request, client.publicKey is its sender's.
#[test]
fn a_receipt_signed_with_another_key_is_distinguished_from_the_other_mistakes() {
    let other = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let mut receipt = signed(1, ED25519);
    let mut members = receipt.clone();
    remove(&mut members, "/signature");
    remove(&mut members, "/signatureAlgorithm");
    let canonical = serde_jcs::to_vec(&members).unwrap();
    set(
        &mut receipt,
        "/signature",
        json!(STANDARD.encode(other.sign(&canonical).unwrap())),
    );
    let body = bytes(&receipt);
    let detail = |request_signature: Option<&str>| {
        let arrival = Arrival {
            request_signature,
            ..arrival(BodyKind::Receipt, &body)
        };
        let explained = serde_json::to_value(judge().explain(&arrival)).unwrap();
        assert_eq!(explained["reason"], "bad_signature", "{explained}");
        let checks = explained["checks"].as_array().unwrap();
        checks.last().unwrap()["detail"].as_str().unwrap().to_owned()
    };
    let unsigned = detail(None);
    assert!(
        unsigned.contains("another key than client.publicKey signed it, or something was changed"),
        "{unsigned}"
    );
    let request_signature = STANDARD.encode(key(ED25519).sign(&body).unwrap());
    let sent = detail(Some(&request_signature));
    assert!(
        sent.contains("another key than the request's signed the receipt, or it was changed"),
        "{sent}"
    );
}

/// A flood of bad signatures costs one verification each.
#[test]
fn few_bad_signatures_of_a_second_are_diagnosed() {
    let judge = Judge::new(Limits::default(), 10);
    let mut bad = signed(1, ED25519);
    set(&mut bad, "/usage/context", json!("other"));
    let body = bytes(&bad);
    let diagnosed = |received_at_ms: i64| {
        let arrival = Arrival {
            received_at_ms,
            ..arrival(BodyKind::Receipt, &body)
        };
        let details = judge.judge(&arrival, &|_, judged| match judged {
            Judged::Rejected(rejected) => rejected.detail,
            Judged::Verified(_) => String::new(),
        });
        usize::from(details[0].contains("none of the usual"))
    };
    let in_second = |second: i64| (0..50).map(|n| diagnosed(NOW_MS + second * 1_000 + n)).sum::<usize>();
    assert_eq!((in_second(0), in_second(0), in_second(1)), (10, 0, 10));
}

#[test]
fn a_signature_of_impossible_length_is_refused_by_the_format() {
    let limits = Limits::default();
    let good = signed(1, ED25519);
    let signature = STANDARD.decode(good["signature"].as_str().unwrap()).unwrap();
    for (text, wanted) in [
        (hex::encode(&signature), "hexadecimal"),
        (STANDARD.encode(&signature[..63]), "63 bytes"),
        (STANDARD.encode(hex::encode(&signature)), "128 bytes"),
    ] {
        let mut receipt = good.clone();
        set(&mut receipt, "/signature", json!(text));
        let body = bytes(&receipt);
        let error = receipt::check_receipt(&body, NOW_MS, &limits).unwrap_err();
        let fault = &error.faults[0];
        assert_eq!(
            (fault.pointer.as_str(), fault.code.as_str()),
            ("/signature", "invalid_signature_length")
        );
        assert!(fault.detail.contains(wanted), "{fault}");
        assert_eq!(reason(&body), Some(RejectReason::BadSignature));
        let mut batch = batch(2, ED25519);
        batch["receipts"][1] = receipt;
        batch.as_object_mut().unwrap().remove("signature");
        let batch = sign_batch(&bytes(&batch), key(ED25519), &limits).unwrap();
        let error = receipt::check_batch(&batch, NOW_MS, &limits).unwrap_err();
        assert_eq!(error.faults[0].pointer, "/receipts/1/signature");
    }
}
