//! Everything that can be wrong with a body and its head: each with its status, its code and its
//! pointer, and nothing stored.

use receipt::{Algorithm, Limits, SigningKey};
use serde_json::{Value, json};

use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, KEY, OTHER_KEY, RECEIPTS, SIGNATURE, batch, batch_value, receipt, value};

/// Text for an end of the bytes that differs from run to run.
const ANYWHERE: &str = "*";

/// Sends each body as a single receipt and expects 400 with this code at this pointer.
async fn refuses_each(cases: Vec<(Vec<u8>, &str, &str)>) {
    let gateway = Running::start().await;
    // One connection for all: a refusal must leave it usable.
    let mut client = gateway.connect().await;
    for (body, code, pointer) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        let answer = client.post(RECEIPTS, FIELDS, &body).await;
        assert_eq!(answer.status, 400, "{shown}: {:?}", answer.json());
        let found = answer.refused(400, code).unwrap();
        assert!(pointer == found || pointer == ANYWHERE, "{found}: {shown}");
        assert_eq!(answer.json()["errors"][0]["code"], code, "{shown}");
        assert!(answer.field("x-ratelimit-remaining").parse::<u32>().is_ok());
    }
    let (good, _) = receipt();
    assert_eq!(client.post(RECEIPTS, FIELDS, &good).await.status, 202);
    assert_eq!(gateway.records().len(), 1, "only the good one is stored");
    gateway.stop().await;
}

fn with(pointer: &str, replacement: Value) -> Vec<u8> {
    let mut receipt = value();
    *receipt.pointer_mut(pointer).unwrap() = replacement;
    serde_json::to_vec(&receipt).unwrap()
}

fn without(parent: &str, member: &str) -> Vec<u8> {
    let mut receipt = value();
    receipt
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(member)
        .unwrap();
    serde_json::to_vec(&receipt).unwrap()
}

#[tokio::test]
async fn what_is_not_json() {
    let (good, _) = receipt();
    let text = String::from_utf8(good.clone()).unwrap();
    let deep = text.replacen('{', &format!("{{\"x\":{}1{},", "[".repeat(32), "]".repeat(32)), 1);
    let too_deep = format!("/x{}", "/0".repeat(31));
    refuses_each(vec![
        (b"".to_vec(), "invalid_json", ""),
        (b"not json".to_vec(), "invalid_json", ""),
        (good[..good.len() - 1].to_vec(), "invalid_json", ANYWHERE),
        (good[..good.len() / 2].to_vec(), "invalid_json", ANYWHERE),
        ([good.clone(), good.clone()].concat(), "trailing_data", ""),
        ([&good[..], b"x"].concat(), "trailing_data", ""),
        ([b"\xef\xbb\xbf", &good[..]].concat(), "byte_order_mark", ""),
        (
            text.replacen("reader", "re\u{0}ader", 1).into_bytes(),
            "invalid_json",
            "/client/name",
        ),
        (
            text.replacen("reader", r"re\ud800ader", 1).into_bytes(),
            "lone_surrogate",
            "/client/name",
        ),
        ([b"{\"a\":\"\xff\"}".as_slice()].concat(), "invalid_utf8", ""),
        (
            text.replacen('{', "{\"version\":\"1.0.0\",", 1).into_bytes(),
            "duplicate_member",
            "/version",
        ),
        (
            text.replacen('{', "{\"n\":1e400,", 1).into_bytes(),
            "number_out_of_range",
            "/n",
        ),
        (deep.into_bytes(), "too_deep", &too_deep),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_receipt() {
    refuses_each(vec![
        (b"[]".to_vec(), "wrong_type", ""),
        (b"null".to_vec(), "wrong_type", ""),
        (b"{}".to_vec(), "missing_member", "/version"),
        (without("", "receiptId"), "missing_member", "/receiptId"),
        (without("/content", "url"), "missing_member", "/content/url"),
        (without("/client", "publicKey"), "missing_member", "/client/publicKey"),
        (without("/usage", "purpose"), "missing_member", "/usage/purpose"),
        (without("", "signature"), "missing_member", "/signature"),
        (with("/client/name", json!(7)), "wrong_type", "/client/name"),
        (with("/content", json!("x")), "wrong_type", "/content"),
        (with("/usage/queryId", json!(null)), "wrong_type", "/usage/queryId"),
        (
            with("/receiptId", json!("7d0f4b1e3c114b6e9a6b0d6f3c7b9a10")),
            "invalid_uuid",
            "/receiptId",
        ),
        (
            with("/content/entryId", json!("7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a1g")),
            "invalid_uuid",
            "/content/entryId",
        ),
        (
            with("/timestamp", json!("yesterday")),
            "invalid_timestamp",
            "/timestamp",
        ),
        (
            with("/timestamp", json!("2026-02-30T00:00:00.000Z")),
            "invalid_timestamp",
            "/timestamp",
        ),
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
        (with("/version", json!("2.0.0")), "unsupported_version", "/version"),
        (
            with("/signatureAlgorithm", json!("RSA-1024")),
            "unsupported_algorithm",
            "/signatureAlgorithm",
        ),
        (
            with("/signatureAlgorithm", json!("ECDSA-P256")),
            "key_algorithm_mismatch",
            "/client/publicKey",
        ),
        (with("/signature", json!("not base64!")), "invalid_base64", "/signature"),
        (with("/signature", json!("YQ")), "invalid_base64", "/signature"),
        (
            with("/content/contentHash", json!("sha256:abc")),
            "invalid_content_hash",
            "/content/contentHash",
        ),
        (with("/content/url", json!("not a url")), "invalid_url", "/content/url"),
        (
            with("/usage/purpose", json!("resale")),
            "invalid_purpose",
            "/usage/purpose",
        ),
        (
            with("/client/name", json!("x".repeat(4_097))),
            "too_long",
            "/client/name",
        ),
        (
            with(
                "/content/url",
                json!(format!("https://a.example/{}", "x".repeat(2_048))),
            ),
            "too_long",
            "/content/url",
        ),
    ])
    .await;
}

#[tokio::test]
async fn keys_of_the_wrong_kind() {
    let private = KEY.to_pkcs8_pem().unwrap();
    let certificate = KEY.public_key_pem().replace("PUBLIC KEY", "CERTIFICATE");
    let rsa_as_ed25519 = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
    refuses_each(vec![
        (
            with("/client/publicKey", json!("no pem")),
            "invalid_public_key",
            "/client/publicKey",
        ),
        (
            with("/client/publicKey", json!(private)),
            "invalid_public_key",
            "/client/publicKey",
        ),
        (
            with("/client/publicKey", json!(certificate)),
            "invalid_public_key",
            "/client/publicKey",
        ),
        (
            with("/client/publicKey", json!(rsa_as_ed25519.public_key_pem())),
            "key_algorithm_mismatch",
            "/client/publicKey",
        ),
    ])
    .await;
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
async fn what_is_no_batch() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
    let mut mixed = batch_value(2);
    let other = receipt::sign_receipt(&bytes(&crate::sample::plain()), &OTHER_KEY, &receipt::Limits::default());
    mixed["receipts"][1] = serde_json::from_slice(&other.unwrap()).unwrap();
    let mut empty = batch_value(1);
    empty["receipts"] = json!([]);
    let mut unsigned = batch_value(1);
    unsigned.as_object_mut().unwrap().remove("signature");
    let mut one_bad = batch_value(3);
    one_bad["receipts"][2]["content"]["entryId"] = json!("no uuid");
    let mut not_receipts = batch_value(1);
    not_receipts["receipts"] = json!({"a": 1});
    let cases = [
        (bytes(&mixed), "mixed_keys", "/receipts/1/client/publicKey"),
        (bytes(&empty), "empty_batch", "/receipts"),
        (bytes(&unsigned), "missing_member", "/signature"),
        (bytes(&one_bad), "invalid_uuid", "/receipts/2/content/entryId"),
        (bytes(&not_receipts), "wrong_type", "/receipts"),
        (b"{\"batchId\":".to_vec(), "invalid_json", "/batchId"),
    ];
    for (body, code, pointer) in cases {
        let answer = client.post(BATCH, JSON, &body).await;
        assert_eq!(answer.refused(400, code).as_deref(), Some(pointer), "{}", answer.json());
    }
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn ten_thousand_receipts_and_one_more() {
    // 10,001 receipts are more than 8 MiB: that limit has to make way to see this one.
    let limits = Limits {
        batch_bytes_max: 16 << 20,
        ..Limits::default()
    };
    let gateway = Running::limited(limits, |config| config.inflight_bytes_max = 64 << 20).await;
    let mut client = gateway.connect().await;
    let answer = client.post(BATCH, JSON, &batch(10_000)).await;
    assert_eq!(
        (answer.status, answer.json()["receiptCount"].as_u64()),
        (202, Some(10_000))
    );
    let refused = client.post(BATCH, JSON, &batch(10_001)).await;
    assert_eq!(refused.refused(400, "too_many_receipts").as_deref(), Some("/receipts"));
    assert_eq!(gateway.records().len(), 1);
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
        for (index, error) in errors.iter().enumerate() {
            assert_eq!(error["pointer"], format!("/receipts/{index}"));
        }
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
async fn a_body_at_the_other_address_is_told_the_right_one() {
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
    let unsigned = without("", "signature");
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
