//! Everything that can be wrong with a body and its head: each with its status, its code and its
//! pointer, and nothing stored.

use receipt::{Algorithm, Limits, SigningKey};
use serde_json::{Value, json};

use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, KEY, OTHER_KEY, RECEIPTS, SIGNATURE, batch, batch_value, receipt, value};

fn with(pointer: &str, replacement: Value) -> Vec<u8> {
    let mut receipt = value();
    *receipt.pointer_mut(pointer).unwrap() = replacement;
    serde_json::to_vec(&receipt).unwrap()
}

fn without_signature() -> Vec<u8> {
    let mut receipt = value();
    receipt.as_object_mut().unwrap().remove("signature").unwrap();
    serde_json::to_vec(&receipt).unwrap()
}

/// Faults of each kind. `crates/receipt/tests/receipt` has all of them.
#[tokio::test]
async fn a_fault_of_the_format_has_its_code_and_pointer() {
    let gateway = Running::start().await;
    // One connection for all: a refusal must leave it usable.
    let mut client = gateway.connect().await;
    let (good, _) = receipt();
    let certificate = KEY.public_key_pem().replace("PUBLIC KEY", "CERTIFICATE");
    let key = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
    for (body, code, pointer) in [
        (b"".to_vec(), "invalid_json", ""),
        ([&good[..], b"x"].concat(), "trailing_data", ""),
        (b"[]".to_vec(), "wrong_type", ""),
        (without_signature(), "missing_member", "/signature"),
        (with("/receiptId", json!("7d0f")), "invalid_uuid", "/receiptId"),
        (
            with("/client/name", json!("x".repeat(4_097))),
            "too_long",
            "/client/name",
        ),
        // Compared with the gateway's clock.
        (
            with("/timestamp", json!("2020-01-01T00:00:00.000Z")),
            "timestamp_out_of_range",
            "/timestamp",
        ),
        (
            with("/timestamp", json!("2190-01-01T00:00:00.000Z")),
            "timestamp_out_of_range",
            "/timestamp",
        ),
        (
            with("/client/publicKey", json!(certificate)),
            "invalid_public_key",
            "/client/publicKey",
        ),
        (
            with("/client/publicKey", json!(key.public_key_pem())),
            "key_algorithm_mismatch",
            "/client/publicKey",
        ),
    ] {
        let answer = client.post(RECEIPTS, FIELDS, &body).await;
        assert_eq!(answer.refused(400, code).as_deref(), Some(pointer), "{}", answer.json());
        assert_eq!(answer.json()["errors"][0]["code"], code);
        let kind = match code {
            "invalid_json" | "trailing_data" => "/problems/invalid_json",
            _ => "/problems/invalid_receipt",
        };
        assert_eq!(answer.json()["type"], kind, "{code}");
        assert!(answer.field("x-ratelimit-remaining").parse::<u32>().is_ok());
    }
    assert_eq!(client.post(RECEIPTS, FIELDS, &good).await.status, 202);
    assert_eq!(gateway.records().len(), 1, "only the good one is stored");
    gateway.stop().await;
}

#[tokio::test]
async fn unknown_members_are_taken() {
    let gateway = Running::start().await;
    let mut receipt = crate::sample::plain();
    receipt["extra"] = json!({"anything": [1, 2.5, null]});
    receipt["usage"]["more"] = json!("text");
    let body = crate::sample::signed(&receipt);
    assert_eq!(gateway.post(RECEIPTS, FIELDS, &body).await.status, 202);
    assert_eq!(gateway.records()[0].body, body);
    gateway.stop().await;
}

#[tokio::test]
async fn every_fault_is_listed() {
    let gateway = Running::start().await;
    let mut receipt = value();
    receipt["receiptId"] = json!("x");
    receipt["usage"]["purpose"] = json!("y");
    receipt["content"].as_object_mut().unwrap().remove("publisher");
    let answer = gateway
        .post(RECEIPTS, FIELDS, &serde_json::to_vec(&receipt).unwrap())
        .await;
    assert_eq!(answer.status, 400);
    let json = answer.json();
    let pointers: Vec<_> = json["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["pointer"].clone())
        .collect();
    assert_eq!(pointers.len(), 3, "{json}");
    for pointer in ["/receiptId", "/usage/purpose", "/content/publisher"] {
        assert!(pointers.contains(&json!(pointer)), "{json}");
    }
    gateway.stop().await;
}

/// A receipt of exactly `length` bytes.
fn receipt_of(length: usize) -> Vec<u8> {
    let mut receipt = crate::sample::plain();
    receipt["padding"] = json!([]);
    let short = crate::sample::signed(&receipt).len();
    let mut left = length - short;
    let mut parts = Vec::new();
    while left > 0 {
        // Each string takes its quotes, and each but the first a comma.
        let overhead = if parts.is_empty() { 2 } else { 3 };
        let mut text = (left - overhead).min(4_000);
        if (1..=3).contains(&(left - overhead - text)) {
            text -= 10;
        }
        parts.push("p".repeat(text));
        left -= overhead + text;
    }
    receipt["padding"] = json!(parts);
    let body = crate::sample::signed(&receipt);
    assert_eq!(body.len(), length);
    body
}

#[tokio::test]
async fn a_receipt_at_the_edge_of_64_kib() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt_of(64 * 1024)).await.status, 202);
    let mut over = receipt_of(64 * 1024);
    over.push(b' ');
    client
        .post(RECEIPTS, FIELDS, &over)
        .await
        .refused(413, "body_too_large");
    // The same without a length, counted while it comes.
    let mut chunked = format!("POST {RECEIPTS} HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n");
    chunked.push_str(&format!(
        "content-type: application/json\r\nx-service-signature: {SIGNATURE}\r\n\r\n"
    ));
    let mut chunked = chunked.into_bytes();
    for part in over.chunks(10_000) {
        chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    client.send(&chunked).await;
    client.answer().await.refused(413, "body_too_large");
    assert_eq!(
        client.post(RECEIPTS, FIELDS, &receipt().0).await.status,
        202,
        "the connection goes on"
    );
    assert_eq!(gateway.records().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_at_the_edge_of_8_mib() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let mut body = batch(3);
    // JSON takes white space at its end: the simplest way to an exact length.
    body.resize(8 << 20, b' ');
    assert_eq!(client.post(BATCH, JSON, &body).await.status, 202);
    body.push(b' ');
    client.post(BATCH, JSON, &body).await.refused(413, "body_too_large");
    assert_eq!(
        client.post(BATCH, JSON, &batch(1)).await.status,
        202,
        "the connection goes on"
    );
    assert_eq!(gateway.records().len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_fault_of_a_batch_has_its_code_and_pointer() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
    let mut mixed = batch_value(2);
    let other = receipt::sign_receipt(&bytes(&crate::sample::plain()), &OTHER_KEY, &receipt::Limits::default());
    mixed["receipts"][1] = serde_json::from_slice(&other.unwrap()).unwrap();
    let mut one_bad = batch_value(3);
    one_bad["receipts"][2]["content"]["entryId"] = json!("no uuid");
    for (body, code, pointer) in [
        (bytes(&mixed), "mixed_keys", "/receipts/1/client/publicKey"),
        (bytes(&one_bad), "invalid_uuid", "/receipts/2/content/entryId"),
        (b"{\"batchId\":".to_vec(), "invalid_json", "/batchId"),
    ] {
        let answer = client.post(BATCH, JSON, &body).await;
        assert_eq!(answer.refused(400, code).as_deref(), Some(pointer), "{}", answer.json());
    }
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn wrong_heads() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let signature = ("x-service-signature", SIGNATURE);
    client
        .post(RECEIPTS, &[signature], &body)
        .await
        .refused(415, "unsupported_media_type");
    let text = [signature, ("content-type", "text/plain")];
    client
        .post(RECEIPTS, &text, &body)
        .await
        .refused(415, "unsupported_media_type");
    let latin = [signature, ("content-type", "application/json; charset=latin1")];
    client
        .post(RECEIPTS, &latin, &body)
        .await
        .refused(415, "unsupported_media_type");
    for encoding in ["br", "deflate", "gzip, zstd", "nonsense"] {
        let fields = [
            signature,
            ("content-type", "application/json"),
            ("content-encoding", encoding),
        ];
        let answer = client.post(RECEIPTS, &fields, &body).await;
        answer.refused(415, "unsupported_encoding");
        assert_eq!(answer.field("accept-encoding"), "gzip, zstd");
    }
    client
        .post("/api/v1/nothing", FIELDS, &body)
        .await
        .refused(404, "not_found");
    let answer = client.get(RECEIPTS).await;
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.field("allow"), "POST");
    let answer = client.post("/healthz", FIELDS, &body).await;
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.field("allow"), "GET, HEAD");
    assert_eq!(
        client.post(RECEIPTS, FIELDS, &body).await.status,
        202,
        "the connection goes on"
    );
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

/// A batch of `count` values that aren't receipts.
fn no_receipts(count: usize) -> Vec<u8> {
    let receipts = vec![json!(0); count];
    let batch = json!({
        "version": "1.0.0", "batchId": "b", "receipts": receipts, "signature": "AAAA", "signatureAlgorithm": "Ed25519"
    });
    serde_json::to_vec(&batch).unwrap()
}

#[tokio::test]
async fn a_batch_names_every_faulty_receipt_up_to_a_thousand() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    for (count, listed, more) in [(300, 300, Value::Null), (10_000, 1_000, json!(true))] {
        let answer = client.post(BATCH, JSON, &no_receipts(count)).await;
        answer.refused(400, "wrong_type");
        let problem = answer.json();
        let errors = problem["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &problem["moreErrors"]), (listed, &more));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_of_faults_without_room_for_it_is_cut() {
    let limits = Limits {
        receipt_bytes_max: 4 << 10,
        batch_bytes_max: 4 << 10,
        ..Limits::default()
    };
    let gateway = Running::limited(limits, |config| {
        // The address may hold 16 KiB, and the list of 300 faults takes more.
        config.inflight_bytes_max = 32 << 10;
    })
    .await;
    let mut client = gateway.connect().await;
    let answer = client.post(BATCH, JSON, &no_receipts(300)).await;
    answer.refused(400, "wrong_type");
    let problem = answer.json();
    assert_eq!(problem["errors"].as_array().unwrap().len(), 20);
    assert_eq!(problem["moreErrors"], true);
    gateway.stop().await;
}

#[tokio::test]
async fn a_body_at_the_other_address_is_answered_with_the_right_one() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (receipt, batch) = (receipt().0, batch(2));
    for (path, fields, body, code, right) in [
        (RECEIPTS, FIELDS, &batch, "wrong_address", "/api/v1/receipts/batch"),
        (BATCH, JSON, &receipt, "wrong_address", "/api/v1/receipts,"),
        (
            RECEIPTS,
            JSON,
            &batch,
            "missing_request_signature",
            "/api/v1/receipts/batch",
        ),
        (
            RECEIPTS,
            FIELDS,
            &super::sample::batch(200),
            "body_too_large",
            "/api/v1/receipts/batch",
        ),
    ] {
        let answer = client.post(path, fields, body).await;
        let problem = answer.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(right), "{problem}");
    }
    // A receipt that lacks members is one nevertheless, and so is a batch.
    let unsigned = without_signature();
    client.post(BATCH, JSON, &unsigned).await.refused(400, "wrong_address");
    client
        .post(RECEIPTS, FIELDS, br#"{"receipts":[]}"#)
        .await
        .refused(400, "wrong_address");
    for body in [&b"{}"[..], b"[]", b"7"] {
        client
            .post(BATCH, JSON, body)
            .await
            .refused(400, if body == b"{}" { "missing_member" } else { "wrong_type" });
    }
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}
