//! The format check: every fault code with its pointer, and every limit at its edge.

use std::collections::HashSet;

use crate::fixtures::{NOW_MS, batch, bytes, key, remove, set, signed};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use config::Section;
use receipt::{
    Algorithm, FaultCode, Limits, SigningKey, check_batch, check_receipt, check_request_signature, parse_receipt,
};
use serde_json::{Value, json};

const ED25519: Algorithm = Algorithm::Ed25519;

fn faults(body: &[u8]) -> Vec<(String, FaultCode)> {
    let error = check_receipt(body, NOW_MS, &Limits::default()).expect_err("must be refused");
    assert!(error.faults.iter().all(|fault| fault.detail.len() > 5), "{error}");
    error
        .faults
        .into_iter()
        .map(|fault| (fault.pointer, fault.code))
        .collect()
}

fn batch_faults(body: &[u8]) -> Vec<(String, FaultCode)> {
    let error = check_batch(body, NOW_MS, &Limits::default()).expect_err("must be refused");
    assert!(error.faults.iter().all(|fault| fault.detail.len() > 5), "{error}");
    error
        .faults
        .into_iter()
        .map(|fault| (fault.pointer, fault.code))
        .collect()
}

/// The faults of a good receipt with one member changed.
fn with(pointer: &str, to: Value) -> Vec<(String, FaultCode)> {
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, pointer, to);
    faults(&bytes(&receipt))
}

fn one(pointer: &str, code: FaultCode) -> Vec<(String, FaultCode)> {
    vec![(pointer.to_owned(), code)]
}

const REQUIRED: [(&str, &[&str]); 4] = [
    (
        "",
        &[
            "version",
            "receiptId",
            "timestamp",
            "content",
            "client",
            "usage",
            "signature",
            "signatureAlgorithm",
        ],
    ),
    ("/content", &["entryId", "url", "contentHash", "publisher"]),
    ("/client", &["id", "name", "version", "organization", "publicKey"]),
    ("/usage", &["purpose", "context"]),
];

#[test]
fn a_good_receipt_is_read_whole() {
    for algorithm in Algorithm::ALL {
        let body = bytes(&signed(1, algorithm));
        let head = check_receipt(&body, NOW_MS, &Limits::default()).unwrap();
        assert_eq!(head.receipt_id.to_string(), "550e8400-e29b-41d4-a716-000000000001");
        assert_eq!(head.client_id.to_string(), "9b2d5a2e-3d9a-4a52-8f4e-1f6f1f2a3b4c");
        let mut scratch = receipt::Scratch::default();
        let read = parse_receipt(&body, NOW_MS, &Limits::default(), &mut scratch).unwrap();
        assert_eq!(read.timestamp_ms, NOW_MS);
        assert_eq!(read.entry_id.to_string(), "7c9e6679-7425-40de-944b-e07fc1f90ae7");
        assert_eq!(
            read.url,
            "https://news.example.com/articles/2025/06/30/how-it-works?ref=a&b=ü"
        );
        assert_eq!(read.content_hash[..4], [0xe3, 0xb0, 0xc4, 0x42]);
        assert_eq!(read.publisher, "news.example.com");
        assert_eq!(read.client_name, "Example Model");
        assert_eq!(read.client_version, "4.1.0");
        assert_eq!(read.organization, "Example AI, Inc. \"Labs\" / R&D \u{1f600}");
        assert_eq!(read.public_key, key(algorithm).public_key_pem());
        assert_eq!(read.purpose.as_str(), "inference");
        assert_eq!(read.context, "answering a user's question\nwith sources");
        let optional = [
            &read.dataset_id,
            &read.model_id,
            &read.query_id,
            &read.session_id,
            &read.study_id,
        ];
        assert_eq!(
            optional.map(|id| id.as_deref().unwrap()),
            ["ds-1", "m-1", "q-1", "s-1", "st-1"]
        );
        assert_eq!(read.researcher_id.as_deref(), Some("r-1"));
        assert_eq!(read.algorithm, algorithm);
        assert_eq!(read.raw, body);
    }
}

#[test]
fn required_members_are_required_and_optional_ones_are_not() {
    for (object, names) in REQUIRED {
        for name in names {
            let pointer = format!("{object}/{name}");
            let mut receipt = signed(1, ED25519);
            remove(&mut receipt, &pointer);
            assert_eq!(faults(&bytes(&receipt)), one(&pointer, FaultCode::MissingMember));
        }
    }
    let mut receipt = signed(1, ED25519);
    for name in [
        "datasetId",
        "modelId",
        "queryId",
        "sessionId",
        "studyId",
        "researcherId",
    ] {
        remove(&mut receipt, &format!("/usage/{name}"));
    }
    let body = bytes(&receipt);
    let mut scratch = receipt::Scratch::default();
    let read = parse_receipt(&body, NOW_MS, &Limits::default(), &mut scratch).unwrap();
    assert_eq!((read.dataset_id, read.researcher_id), (None, None));
}

#[test]
fn every_member_has_its_type() {
    let optional = [
        "datasetId",
        "modelId",
        "queryId",
        "sessionId",
        "studyId",
        "researcherId",
    ];
    let all = REQUIRED
        .iter()
        .flat_map(|(object, names)| names.iter().map(move |name| format!("{object}/{name}")));
    for pointer in all.chain(optional.iter().map(|name| format!("/usage/{name}"))) {
        for wrong in [json!(1), json!(null), json!(true), json!([]), json!(["a"])] {
            assert_eq!(with(&pointer, wrong), one(&pointer, FaultCode::WrongType));
        }
        if pointer.matches('/').count() > 1 {
            assert_eq!(with(&pointer, json!({})), one(&pointer, FaultCode::WrongType));
        }
    }
    for object in ["/content", "/client", "/usage"] {
        assert_eq!(with(object, json!("text")), one(object, FaultCode::WrongType));
    }
    for body in ["[]", "1", "\"receipt\"", "null", "true"] {
        assert_eq!(faults(body.as_bytes()), one("", FaultCode::WrongType));
        assert_eq!(batch_faults(body.as_bytes()), one("", FaultCode::WrongType));
    }
}

#[test]
fn values_keep_their_rules() {
    use FaultCode::*;
    let key =
        |name: &str| std::fs::read_to_string(format!("{}/tests/keys/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let pem = |der: &[u8]| {
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(der)
        )
    };
    let good = crate::fixtures::key(ED25519).public_key_pem();
    for (pointer, value, code) in [
        ("/version", "1.0", UnsupportedVersion),
        ("/version", "1.0.1", UnsupportedVersion),
        ("/receiptId", "550e8400e29b41d4a716446655440000", InvalidUuid),
        (
            "/content/entryId",
            "{550e8400-e29b-41d4-a716-446655440000}",
            InvalidUuid,
        ),
        ("/client/id", "", InvalidUuid),
        ("/timestamp", "2025-06-30T12:34:56", InvalidTimestamp),
        ("/timestamp", "2025-06-30T12:34:56.1234567890Z", InvalidTimestamp),
        ("/timestamp", "2025-02-29T12:34:56.789Z", InvalidTimestamp),
        ("/timestamp", "2025-06-30T12:34:60.000Z", InvalidTimestamp),
        ("/content/url", "ftp://example.com/", InvalidUrl),
        ("/content/url", "https://example.com/a b", InvalidUrl),
        ("/content/url", "https://user@news.example.com/a", InvalidUrl),
        ("/content/url", "https://a..news.example.com/a", InvalidUrl),
        ("/content/url", "https://%6e.news.example.com/a", InvalidUrl),
        ("/content/url", "https://127.0.0.1/a", InvalidUrl),
        ("/content/url", "https://[::1]/a", InvalidUrl),
        ("/content/url", "https://example.com/a", UrlOutsidePublisher),
        ("/content/url", "https://fakenews.example.com/a", UrlOutsidePublisher),
        ("/content/contentHash", "sha256:00", InvalidContentHash),
        (
            "/content/contentHash",
            "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            InvalidContentHash,
        ),
        ("/content/publisher", "https://example.com", InvalidPublisher),
        ("/content/publisher", "exa_mple.com", InvalidPublisher),
        ("/content/publisher", "localhost", InvalidPublisher),
        ("/content/publisher", "127.0.0.1", InvalidPublisher),
        ("/client/name", "", EmptyText),
        ("/client/version", "", EmptyText),
        ("/client/organization", " \u{3000}", EmptyText),
        ("/usage/context", "", EmptyText),
        ("/usage/purpose", "Training", InvalidPurpose),
        ("/signatureAlgorithm", "ed25519", UnsupportedAlgorithm),
        ("/signatureAlgorithm", "RSA-4096", UnsupportedAlgorithm),
        ("/signature", "not base64!", InvalidBase64),
        ("/signature", "AAAA\n", InvalidBase64),
        ("/signature", "AAA", InvalidBase64),
        ("/signature", "", InvalidBase64),
        ("/signature", &STANDARD.encode([0; 513]), TooLong),
        ("/client/publicKey", "", InvalidPublicKey),
        (
            "/client/publicKey",
            &good.replace("PUBLIC KEY", "PRIVATE KEY"),
            InvalidPublicKey,
        ),
        (
            "/client/publicKey",
            &good.replace("PUBLIC KEY", "RSA PUBLIC KEY"),
            InvalidPublicKey,
        ),
        ("/client/publicKey", &good.replace("BEGIN", "BEGIN "), InvalidPublicKey),
        ("/client/publicKey", &format!("x{good}"), InvalidPublicKey),
        ("/client/publicKey", &format!("{good}x"), InvalidPublicKey),
        ("/client/publicKey", &format!("{good}{good}"), InvalidPublicKey),
        ("/client/publicKey", &good.replacen("MCow", "MC*w", 1), InvalidPublicKey),
        ("/client/publicKey", &pem(&[]), InvalidPublicKey),
        ("/client/publicKey", &pem(&[0x30, 0x80, 0, 0]), InvalidPublicKey),
        ("/client/publicKey", &pem(&[0x30; 44]), InvalidPublicKey),
        ("/client/publicKey", &key("rsa1024.pem"), InvalidPublicKey),
        ("/client/publicKey", &key("rsa3072.pem"), InvalidPublicKey),
        ("/client/publicKey", &key("p384.pem"), InvalidPublicKey),
        ("/client/publicKey", &key("x25519.pem"), InvalidPublicKey),
        (
            "/client/publicKey",
            crate::fixtures::key(Algorithm::Rsa2048).public_key_pem(),
            KeyAlgorithmMismatch,
        ),
        (
            "/client/publicKey",
            crate::fixtures::key(Algorithm::EcdsaP256).public_key_pem(),
            KeyAlgorithmMismatch,
        ),
        ("/client/publicKey", &key("p256-compressed.pem"), KeyAlgorithmMismatch),
    ] {
        assert_eq!(with(pointer, json!(value)), one(pointer, code), "{value}");
    }
    // Line ends and a missing last line feed are no reason to refuse a key.
    for pem in [
        good.replace('\n', "\r\n"),
        good.trim_end().to_owned(),
        good.replacen("MCow", "MC\now", 1),
    ] {
        let mut receipt = signed(1, ED25519);
        set(&mut receipt, "/client/publicKey", json!(pem));
        assert!(
            check_receipt(&bytes(&receipt), NOW_MS, &Limits::default()).is_ok(),
            "{pem}"
        );
    }
}

#[test]
fn timestamps_are_held_against_the_arrival() {
    let limits = Limits::default();
    let body = bytes(&signed(1, ED25519));
    let code = |received_at_ms| check_receipt(&body, received_at_ms, &limits).map_err(|error| error.faults[0].code);
    let (ahead, behind) = (5 * 60 * 1000, 30 * 24 * 60 * 60 * 1000);
    assert!(code(NOW_MS - ahead).is_ok());
    assert_eq!(code(NOW_MS - ahead - 1), Err(FaultCode::TimestampOutOfRange));
    assert!(code(NOW_MS + behind).is_ok());
    assert_eq!(code(NOW_MS + behind + 1), Err(FaultCode::TimestampOutOfRange));
    assert_eq!(code(i64::MIN), Err(FaultCode::TimestampOutOfRange));
    assert_eq!(code(i64::MAX), Err(FaultCode::TimestampOutOfRange));
}

#[test]
fn timestamps_have_up_to_nine_digits_and_are_stored_in_milliseconds() {
    let mut scratch = receipt::Scratch::default();
    for (text, milli) in [
        ("2025-06-30T12:34:56Z", 0),
        ("2025-06-30T14:34:56.7+02:00", 700),
        ("2025-06-30T12:34:56.789999+00:00", 789),
        ("2025-06-30T12:34:56.123456789Z", 123),
    ] {
        let mut receipt = signed(1, ED25519);
        set(&mut receipt, "/timestamp", json!(text));
        let body = bytes(&receipt);
        let read = parse_receipt(&body, NOW_MS, &Limits::default(), &mut scratch).unwrap();
        assert_eq!(read.timestamp_ms, NOW_MS / 1_000 * 1_000 + milli, "{text}");
    }
}

#[test]
fn all_faults_are_reported_up_to_twenty() {
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, "/version", json!("2"));
    set(&mut receipt, "/content/url", json!("nowhere"));
    remove(&mut receipt, "/usage");
    set(&mut receipt, "/signature", json!(5));
    assert_eq!(
        faults(&bytes(&receipt)),
        [
            ("/version".to_owned(), FaultCode::UnsupportedVersion),
            ("/content/url".to_owned(), FaultCode::InvalidUrl),
            ("/usage".to_owned(), FaultCode::MissingMember),
            ("/signature".to_owned(), FaultCode::WrongType),
        ]
    );
}

#[test]
fn a_batch_lists_up_to_a_thousand_faults() {
    let with_bad_ids = |count: usize| {
        let mut batch = batch(1, ED25519);
        let mut receipt = batch["receipts"][0].clone();
        receipt["receiptId"] = json!("no");
        batch["receipts"] = json!(vec![receipt; count]);
        check_batch(&bytes(&batch), NOW_MS, &Limits::default()).unwrap_err()
    };
    for (count, listed, more) in [(30, 30, false), (1_000, 1_000, false), (1_001, 1_000, true)] {
        let error = with_bad_ids(count);
        assert_eq!((error.faults.len(), error.more), (listed, more));
        for (index, fault) in error.faults.iter().enumerate() {
            assert_eq!(fault.pointer, format!("/receipts/{index}/receiptId"));
        }
    }
}

#[test]
fn a_receipt_with_many_faults_leaves_room_for_the_others() {
    let long = "x".repeat(4_097);
    let receipt = format!(
        "{{{}}}",
        (0..15)
            .map(|n| format!(r#""{n}":"{long}""#))
            .collect::<Vec<_>>()
            .join(",")
    );
    let receipts = vec![receipt; 100].join(",");
    let batch = format!(r#"{{"receipts":[{receipts}]}}"#);
    let error = check_batch(batch.as_bytes(), NOW_MS, &Limits::default()).unwrap_err();
    assert!(error.more);
    for index in 0..49 {
        let prefix = format!("/receipts/{index}/");
        let of_receipt = error.faults.iter().filter(|fault| fault.pointer.starts_with(&prefix));
        assert_eq!(of_receipt.count(), 20);
    }
}

#[test]
fn a_list_of_faults_is_bounded_in_bytes() {
    // Each pointer has 31 names of 128 bytes.
    let long = "x".repeat(4_097);
    let name = "n".repeat(128);
    let members = (0..10)
        .map(|n| format!(r#""{n}":"{long}""#))
        .collect::<Vec<_>>()
        .join(",");
    let nested = format!(
        "{}{{{members}}}{}",
        format!(r#"{{"{name}":"#).repeat(28),
        "}".repeat(28)
    );
    let batch = format!(r#"{{"receipts":[{}]}}"#, vec![nested; 150].join(","));
    assert!(batch.len() < 8 << 20);
    let error = check_batch(batch.as_bytes(), NOW_MS, &Limits::default()).unwrap_err();
    let bytes: usize = error
        .faults
        .iter()
        .map(|fault| fault.pointer.len() + fault.detail.len())
        .sum();
    assert!(error.more && error.faults.len() < 1_000);
    assert!((200 * 1024..=256 * 1024).contains(&bytes), "{bytes}");
}

#[test]
fn json_faults_come_alone_with_their_location() {
    let good = String::from_utf8(bytes(&signed(1, ED25519))).unwrap();
    let swap = |from: &str, to: &str| {
        assert!(good.contains(from));
        faults(good.replacen(from, to, 1).as_bytes())
    };
    assert_eq!(
        swap(
            "\"purpose\":\"inference\"",
            "\"purpose\":\"inference\",\"purpose\":\"research\""
        ),
        one("/usage/purpose", FaultCode::DuplicateMember)
    );
    assert_eq!(
        swap("\"purpose\"", "\"purpose\":\"inference\",\"p\\u0075rpose\""),
        one("/usage/purpose", FaultCode::DuplicateMember)
    );
    assert_eq!(
        swap("\"name\":\"Example", "\"name\":\"\\udfff"),
        one("/client/name", FaultCode::LoneSurrogate)
    );
    assert_eq!(swap("2.5", "2e999"), one("/extra/b/1", FaultCode::NumberOutOfRange));
    assert_eq!(
        swap("2.5", &("[".repeat(30) + &"]".repeat(30))),
        one(&format!("/extra/b/1{}", "/0".repeat(29)), FaultCode::TooDeep)
    );
    assert_eq!(
        faults(format!("{good}{good}").as_bytes()),
        one("", FaultCode::TrailingData)
    );
    assert_eq!(
        faults(format!("\u{feff}{good}").as_bytes()),
        one("", FaultCode::ByteOrderMark)
    );
    assert_eq!(
        faults(&good.as_bytes()[..good.len() - 1]),
        one("/version", FaultCode::InvalidJson)
    );
    let mut invalid = good.clone().into_bytes();
    invalid[100] = 0xff;
    assert_eq!(faults(&invalid), one("", FaultCode::InvalidUtf8));
    assert!(check_receipt(format!(" \n{good}\t ").as_bytes(), NOW_MS, &Limits::default()).is_ok());
    // Escaped names are the names they represent.
    assert!(
        check_receipt(
            good.replacen("\"receiptId\"", "\"receipt\\u0049d\"", 1).as_bytes(),
            NOW_MS,
            &Limits::default()
        )
        .is_ok()
    );
}

#[test]
fn strings_are_limited_exactly() {
    let limits = Limits::default();
    let check = |pointer: &str, value: &str| {
        let mut receipt = signed(1, ED25519);
        set(&mut receipt, pointer, json!(value));
        check_receipt(&bytes(&receipt), NOW_MS, &limits).map_err(|error| {
            error
                .faults
                .into_iter()
                .map(|fault| (fault.pointer, fault.code))
                .collect::<Vec<_>>()
        })
    };
    let too_long = |pointer| Err(one(pointer, FaultCode::TooLong));
    let url = |length: usize| format!("https://news.example.com/{}", "a".repeat(length - 25));
    assert!(check("/content/url", &url(2048)).is_ok());
    assert_eq!(check("/content/url", &url(2049)), too_long("/content/url"));
    assert_eq!(check("/content/url", &url(5000)), too_long("/content/url"));
    assert!(check("/usage/context", &"a".repeat(4096)).is_ok());
    assert_eq!(check("/usage/context", &"a".repeat(4097)), too_long("/usage/context"));
    assert_eq!(check("/usage/modelId", &"ü".repeat(2049)), too_long("/usage/modelId"));
    // Decoded bytes count: each of these is written with two.
    assert!(check("/usage/context", &format!("{}a", "\n".repeat(4095))).is_ok());
    assert_eq!(
        check("/usage/context", &format!("{}a", "\n".repeat(4096))),
        too_long("/usage/context")
    );
    assert_eq!(check("/extra/deep", &"x".repeat(4097)), too_long("/extra/deep"));
    let name = "n".repeat(4097);
    let mut receipt = signed(1, ED25519);
    set(&mut receipt, &format!("/extra/{name}"), json!(1));
    assert_eq!(faults(&bytes(&receipt))[0].1, FaultCode::TooLong);
}

#[test]
fn a_receipt_is_limited_exactly() {
    let mut receipt = signed(1, ED25519);
    let sized = |receipt: &mut Value, size: usize| {
        set(receipt, "/padding", json!([]));
        let missing = size - bytes(receipt).len();
        // Numbers, as strings have a limit of their own: an array of n ones takes 2n - 1 bytes more
        // than an empty one.
        let mut padding = vec![1; missing.div_ceil(2)];
        if missing.is_multiple_of(2) {
            padding[0] = 10;
        }
        set(receipt, "/padding", json!(padding));
        let body = bytes(receipt);
        assert_eq!(body.len(), size);
        body
    };
    let fits = sized(&mut receipt, 65_536);
    assert!(check_receipt(&fits, NOW_MS, &Limits::default()).is_ok());
    let too_large = sized(&mut receipt, 65_537);
    assert_eq!(faults(&too_large), one("", FaultCode::ReceiptTooLarge));
    assert_eq!(faults(&vec![b'['; 70_000]), one("", FaultCode::ReceiptTooLarge));

    let mut batch = batch(2, ED25519);
    let text = |batch: &Value| bytes(batch);
    batch["receipts"][1] = crate::fixtures::parse(&fits);
    assert!(check_batch(&text(&batch), NOW_MS, &Limits::default()).is_ok());
    batch["receipts"][1] = crate::fixtures::parse(&too_large);
    assert_eq!(
        batch_faults(&text(&batch)),
        one("/receipts/1", FaultCode::ReceiptTooLarge)
    );
}

#[test]
fn batches_keep_their_rules() {
    use FaultCode::*;
    let good = batch(3, ED25519);
    let head = check_batch(&bytes(&good), NOW_MS, &Limits::default()).unwrap();
    assert_eq!((head.batch_id.as_str(), head.receipt_count), ("batch-1", 3));
    assert_eq!(head.client_id.to_string(), "9b2d5a2e-3d9a-4a52-8f4e-1f6f1f2a3b4c");
    let with = |pointer: &str, to: Value| {
        let mut batch = good.clone();
        set(&mut batch, pointer, to);
        batch_faults(&bytes(&batch))
    };
    for name in ["version", "batchId", "receipts", "signature", "signatureAlgorithm"] {
        let pointer = format!("/{name}");
        let mut batch = good.clone();
        remove(&mut batch, &pointer);
        assert_eq!(batch_faults(&bytes(&batch)), one(&pointer, MissingMember));
        assert_eq!(with(&pointer, json!(1)), one(&pointer, WrongType));
        assert_eq!(with(&pointer, json!(null)), one(&pointer, WrongType));
    }
    assert_eq!(with("/version", json!("2.0.0")), one("/version", UnsupportedVersion));
    assert_eq!(with("/batchId", json!("")), one("/batchId", EmptyBatchId));
    assert_eq!(with("/batchId", json!("b".repeat(4097))), one("/batchId", TooLong));
    assert_eq!(with("/signature", json!("=")), one("/signature", InvalidBase64));
    assert_eq!(
        with("/signatureAlgorithm", json!("none")),
        one("/signatureAlgorithm", UnsupportedAlgorithm)
    );
    assert_eq!(
        with("/signatureAlgorithm", json!("RSA-2048")),
        one("/signatureAlgorithm", KeyAlgorithmMismatch)
    );
    assert_eq!(with("/receipts", json!([])), one("/receipts", EmptyBatch));
    assert_eq!(with("/receipts/1", json!(5)), one("/receipts/1", WrongType));
    assert_eq!(
        with("/receipts/2/usage/purpose", json!("fun")),
        one("/receipts/2/usage/purpose", InvalidPurpose)
    );
    let other = receipt::SigningKey::generate(ED25519).unwrap();
    assert_eq!(
        with("/receipts/2/client/publicKey", json!(other.public_key_pem())),
        one("/receipts/2/client/publicKey", MixedKeys)
    );
    // The same key in other words is the same key.
    let reworded = crate::fixtures::key(ED25519).public_key_pem().replace('\n', "\r\n");
    let mut batch = good.clone();
    set(&mut batch, "/receipts/1/client/publicKey", json!(reworded));
    assert!(check_batch(&bytes(&batch), NOW_MS, &Limits::default()).is_ok());

    let text = String::from_utf8(bytes(&good)).unwrap();
    for (from, to, pointer, code) in [
        (
            "\"batchId\":",
            "\"batchId\":\"a\",\"batchId\":",
            "/batchId",
            DuplicateMember,
        ),
        (
            "\"receipts\":",
            "\"receipts\":[],\"receipts\":",
            "/receipts",
            DuplicateMember,
        ),
        (
            "\"receipts\":",
            "\"receipts\":1,\"rec\\u0065ipts\":",
            "/receipts",
            DuplicateMember,
        ),
        (
            "\"receipts\":",
            "\"x\":[[1]],\"receipts\":{}, \"y\":",
            "/receipts",
            WrongType,
        ),
        ("\"receipts\":[", "\"receipts\":[,", "/receipts/0", InvalidJson),
        (
            "\"purpose\":",
            "\"purpose\":1,\"purpose\":",
            "/receipts/0/usage/purpose",
            DuplicateMember,
        ),
        ("2.5", "1e999", "/receipts/0/extra/b/1", NumberOutOfRange),
    ] {
        assert!(text.contains(from));
        let faults = batch_faults(text.replacen(from, to, 1).as_bytes());
        assert!(faults.contains(&(pointer.to_owned(), code)), "{to}: {faults:?}");
    }
    assert_eq!(batch_faults(format!("{text}{text}").as_bytes()), one("", TrailingData));
    for end in 0..text.len() {
        if text.is_char_boundary(end) {
            assert_eq!(batch_faults(&text.as_bytes()[..end])[0].1, InvalidJson, "{end}");
        }
    }
    // Two containers are around a receipt in a batch.
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = text.replacen("2.5", &nested(27), 1);
    assert!(check_batch(deep.as_bytes(), NOW_MS, &Limits::default()).is_ok());
    let deep = text.replacen("2.5", &nested(28), 1);
    assert_eq!(batch_faults(deep.as_bytes())[0].1, TooDeep);
}

#[test]
fn batches_are_limited_exactly() {
    let mut one_receipt = signed(1, ED25519);
    remove(&mut one_receipt, "/extra");
    let mut batch = batch(1, ED25519);
    let mut filled = |count: usize| {
        batch["receipts"] = Value::Array(vec![one_receipt.clone(); count]);
        bytes(&batch)
    };
    let roomy = Limits {
        batch_bytes_max: 1 << 26,
        ..Limits::default()
    };
    let check = |body: &[u8]| {
        check_batch(body, NOW_MS, &roomy)
            .map(|head| head.receipt_count)
            .map_err(|error| (error.faults[0].pointer.clone(), error.faults[0].code))
    };
    assert_eq!(check(&filled(10_000)), Ok(10_000));
    assert_eq!(
        check(&filled(10_001)),
        Err(("/receipts".to_owned(), FaultCode::TooManyReceipts))
    );

    let mut body = filled(1);
    body.resize(8 << 20, b' ');
    assert!(check_batch(&body, NOW_MS, &Limits::default()).is_ok());
    body.push(b' ');
    assert_eq!(batch_faults(&body), one("", FaultCode::BatchTooLarge));

    // The batch's own members together may be as long as one receipt.
    for (filler, fits) in [(60_000, true), (66_000, false)] {
        batch["filler"] = json!(vec![1; filler / 2]);
        batch["receipts"] = json!([one_receipt]);
        let result = check(&bytes(&batch));
        assert_eq!(result.is_ok(), fits, "{result:?}");
        if !fits {
            assert_eq!(result, Err(("/filler".to_owned(), FaultCode::BatchTooLarge)));
        }
    }
    batch["filler"] = json!("x".repeat(70_000));
    assert_eq!(
        check(&bytes(&batch)),
        Err(("/filler".to_owned(), FaultCode::BatchTooLarge))
    );
}

#[test]
fn request_signatures_must_be_plausible_base64() {
    assert_eq!(check_request_signature(&STANDARD.encode([1; 64])), Ok(64));
    assert_eq!(check_request_signature(&STANDARD.encode([1; 512])), Ok(512));
    for (header, code) in [
        ("", FaultCode::InvalidBase64),
        ("abc", FaultCode::InvalidBase64),
        (" AAAA", FaultCode::InvalidBase64),
        ("AAAA, AAAA", FaultCode::InvalidBase64),
        (&STANDARD.encode([1; 513]), FaultCode::TooLong),
        (&"A".repeat(100_000), FaultCode::TooLong),
    ] {
        assert_eq!(check_request_signature(header).unwrap_err().code, code);
    }
}

#[test]
fn algorithms_know_the_lengths_of_their_signatures() {
    for (algorithm, can, cannot) in [
        (Algorithm::Ed25519, &[64][..], &[0, 63, 65, 256][..]),
        (Algorithm::Rsa2048, &[256], &[0, 64, 255, 257]),
        (Algorithm::EcdsaP256, &[8, 64, 70, 71, 72], &[0, 7, 73, 256]),
    ] {
        let key = SigningKey::generate(algorithm).unwrap();
        assert!(algorithm.signs_in(key.sign(b"message").unwrap().len()));
        assert!(can.iter().all(|bytes| algorithm.signs_in(*bytes)), "{algorithm}");
        assert!(!cannot.iter().any(|bytes| algorithm.signs_in(*bytes)), "{algorithm}");
    }
}

/// The codes are interface: each is unique, and is reached by some test in this file or json.rs.
#[test]
fn codes_are_stable() {
    let codes: Vec<&str> = FaultCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), codes.iter().collect::<HashSet<_>>().len());
    assert_eq!(
        codes.join(" "),
        "invalid_json invalid_utf8 byte_order_mark trailing_data duplicate_member lone_surrogate too_deep \
         number_out_of_range missing_member wrong_type invalid_uuid invalid_timestamp timestamp_out_of_range \
         unsupported_version unsupported_algorithm invalid_base64 invalid_signature_length invalid_public_key \
         key_algorithm_mismatch invalid_content_hash invalid_url url_outside_publisher invalid_purpose invalid_publisher \
         empty_text too_long \
         receipt_too_large batch_too_large \
         empty_batch_id empty_batch too_many_receipts mixed_keys"
    );
}

#[test]
fn limits_are_checked() {
    assert_eq!(Limits::default().checked("limits"), Ok(()));
    let base = Limits::default;
    for bad in [
        Limits {
            batch_receipts_max: 0,
            ..base()
        },
        Limits {
            batch_receipts_max: 65_536,
            ..base()
        },
        Limits { depth_max: 0, ..base() },
        Limits {
            receipt_bytes_max: 0,
            ..base()
        },
        Limits {
            receipt_bytes_max: 9 << 20,
            ..base()
        },
        Limits {
            url_bytes_max: 0,
            ..base()
        },
    ] {
        assert!(bad.checked("limits").is_err(), "{bad:?}");
    }
    assert!(serde_json::from_str::<Limits>("{\"depth_max\":16}").is_ok_and(|limits| limits.depth_max == 16));
    assert!(serde_json::from_str::<Limits>("{\"depth\":16}").is_err());
}
