//! Rate limits by address and by key, and their headers on every answer.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, Limits, SigningKey, sign_batch, sign_receipt};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::running::Running;
use crate::sample::{BATCH, EXPLAIN, FIELDS, JSON, RECEIPTS, WEBHOOK, batch, plain, receipt, signed};

fn number(answer: &Answer, name: &str) -> i64 {
    answer.field(name).parse().unwrap()
}

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].to_string()
}

#[tokio::test]
async fn an_address_over_its_rate_is_429_before_its_body() {
    let gateway = Running::with(|config| {
        config.rate_address_verifications_per_s = 1;
        config.rate_burst_s = 100;
    })
    .await;
    let mut client = gateway.connect().await;
    let first = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!((first.status, number(&first, "x-ratelimit-limit")), (202, 33));
    assert!((31..=32).contains(&number(&first, "x-ratelimit-remaining")));
    let now_s = service::instant::now_ms() / 1_000;
    assert!((now_s..now_s + 60).contains(&number(&first, "x-ratelimit-reset")));
    // A refused request counts too, or guessing would be free; a batch counts its receipts.
    client
        .post(RECEIPTS, JSON, b"{}")
        .await
        .refused(401, "missing_request_signature");
    assert_eq!(client.post(BATCH, JSON, &batch(50)).await.status, 202);
    let refused = client.post(BATCH, JSON, &batch(90)).await;
    refused.refused(429, "rate_limited");
    assert!(number(&refused, "x-ratelimit-remaining") < 42);
    assert!(number(&refused, "retry-after") >= 1);
    let mut last = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!(last.status, 202, "one receipt still fits");
    while last.status == 202 {
        last = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    }
    last.refused(429, "rate_limited");
    assert_eq!(number(&last, "x-ratelimit-remaining"), 0);
    assert_eq!(client.get("/healthz").await.status, 200, "health isn't limited");
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_costs_the_signatures_that_will_be_verified() {
    for (path, body, receipts, cost) in [
        (RECEIPTS, receipt().0, 1, 3),
        (BATCH, batch(10), 10, 12),
        (WEBHOOK, receipt().0, 1, 2),
        (WEBHOOK, batch(10), 10, 22),
        // As of the dearest algorithm; explanations are counted as requests.
        (EXPLAIN, receipt().0, 1, 126),
        (EXPLAIN, batch(10), 1, 156),
    ] {
        assert_cost(path, FIELDS, &body, receipts, cost).await;
    }
}

/// Sends so many receipts to a gateway that allows 3,600 verifications at once.
async fn assert_cost(path: &str, fields: &[(&str, &str)], body: &[u8], receipts: i64, cost: i64) {
    let gateway = Running::with(|config| {
        config.rate_address_verifications_per_s = 1;
        config.rate_burst_s = 3_600;
    })
    .await;
    let answer = gateway.post(path, fields, body).await;
    assert!(answer.status < 300, "{path}: {}", answer.status);
    let limit = 3_600 * receipts / cost;
    assert_eq!(number(&answer, "x-ratelimit-limit"), limit, "{path}");
    let remaining = number(&answer, "x-ratelimit-remaining");
    assert!(
        (limit - receipts - 1..limit).contains(&remaining),
        "{path}: {remaining}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_verification_costs_what_its_algorithm_costs() {
    let (limits, bytes) = (Limits::default(), |value: &Value| serde_json::to_vec(value).unwrap());
    let costs = Algorithm::ALL.map(Algorithm::verification_cost);
    assert!(costs[0] == 1 && costs[1..].iter().all(|cost| *cost > 1), "{costs:?}");
    for algorithm in Algorithm::ALL {
        let key = SigningKey::generate(algorithm).unwrap();
        let one = sign_receipt(&bytes(&plain()), &key, &limits).unwrap();
        let receipts: Vec<Value> = (0..10).map(|_| plain()).collect();
        let unsigned = json!({"version": "1.0.0", "batchId": "b", "receipts": receipts});
        let many = sign_batch(&bytes(&unsigned), &key, &limits).unwrap();
        let signature = STANDARD.encode(key.sign(&one).unwrap());
        let fields = [JSON, &[("x-service-signature", signature.as_str())]].concat();
        for (path, body, receipts, verifications) in [
            (RECEIPTS, &one, 1, 3),
            (BATCH, &many, 10, 12),
            (WEBHOOK, &one, 1, 2),
            (WEBHOOK, &many, 10, 22),
        ] {
            let cost = verifications * i64::from(algorithm.verification_cost());
            assert_cost(path, &fields, body, receipts, cost).await;
        }
    }
}

#[tokio::test]
async fn a_batch_is_charged_before_its_signature_is_verified() {
    let gateway = Running::with(|config| {
        config.rate_address_verifications_per_s = 1;
        config.rate_burst_s = 20;
    })
    .await;
    let mut client = gateway.connect().await;
    let bad = String::from_utf8(batch(15))
        .unwrap()
        .replacen("\"batchId\":\"", "\"batchId\":\"x", 1);
    let answer = client.post(BATCH, JSON, bad.as_bytes()).await;
    answer.refused(401, "bad_batch_signature");
    client
        .post(BATCH, JSON, bad.as_bytes())
        .await
        .refused(429, "rate_limited");
    gateway.stop().await;
}

#[tokio::test]
async fn an_address_has_a_rate_of_decoded_bytes() {
    let (body, _) = receipt();
    let one = u32::try_from(body.len()).unwrap();
    let gateway = Running::with(|config| {
        config.rate_address_bytes_per_s = one;
        config.rate_burst_s = 60;
    })
    .await;
    // JSON may end in white space, which compresses well.
    let long = [&batch(1)[..], &b" ".repeat(body.len() * 50)].concat();
    let short = zstd::encode_all(&long[..], 3).unwrap();
    assert!(short.len() < body.len());
    let mut client = gateway.connect().await;
    let zstd = [JSON, &[("content-encoding", "zstd")]].concat();
    assert_eq!(client.post(BATCH, &zstd, &short).await.status, 202);
    let refused = client.post(BATCH, &zstd, &short).await;
    refused.refused(429, "rate_limited");
    assert!(
        detail(&refused).contains("decoded bytes from this address"),
        "{refused:?}"
    );
    assert!(number(&refused, "retry-after") >= 1);
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 7), gateway.address).await;
    assert_eq!(other.post(BATCH, &zstd, &short).await.status, 202, "another address");
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_has_a_rate_of_its_own_whatever_client_it_names() {
    let gateway = Running::with(|config| {
        config.rate_key_receipts_per_s = 1;
        config.rate_burst_s = 30;
    })
    .await;
    let mut client = gateway.connect().await;
    let mut answer = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!(
        number(&answer, "x-ratelimit-limit"),
        30,
        "the nearer limit is the one reported"
    );
    while answer.status == 202 {
        answer = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    }
    answer.refused(429, "rate_limited");
    assert!(detail(&answer).contains("receipts signed with this key"), "{answer:?}");
    // The webhook charges the same count.
    client
        .post(WEBHOOK, JSON, &receipt().0)
        .await
        .refused(429, "rate_limited");
    let mut other = plain();
    other["client"]["id"] = json!("11111111-2222-4333-8444-555555555555");
    let renamed = client.post(WEBHOOK, JSON, &signed(&other)).await;
    renamed.refused(429, "rate_limited");
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_charged_for_verified_signatures_only() {
    let gateway = Running::with(|config| {
        config.rate_key_receipts_per_s = 1;
        config.rate_burst_s = 10;
    })
    .await;
    let mut client = gateway.connect().await;
    let forged = String::from_utf8(batch(10))
        .unwrap()
        .replacen("\"batchId\":\"", "\"batchId\":\"x", 1);
    for path in [BATCH, WEBHOOK] {
        let answer = client.post(path, JSON, forged.as_bytes()).await;
        answer.refused(401, "bad_batch_signature");
    }
    assert_eq!(client.post(BATCH, JSON, &batch(10)).await.status, 202);
    client.post(BATCH, JSON, &batch(10)).await.refused(429, "rate_limited");
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_over_the_burst_passes_a_full_bucket() {
    let gateway = Running::with(|config| {
        config.rate_key_receipts_per_s = 1;
        config.rate_address_verifications_per_s = 1;
        config.rate_burst_s = 20;
    })
    .await;
    let mut client = gateway.connect().await;
    assert_eq!(client.post(BATCH, JSON, &batch(100)).await.status, 202);
    client.post(BATCH, JSON, &batch(100)).await.refused(429, "rate_limited");
    gateway.stop().await;
}

#[tokio::test]
async fn no_limit_sends_no_headers() {
    let gateway = Running::with(|config| {
        config.rate_key_receipts_per_s = 0;
        config.rate_address_verifications_per_s = 0;
        config.rate_address_bytes_per_s = 0;
    })
    .await;
    let answer = gateway.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!((answer.status, answer.fields.get("x-ratelimit-limit")), (202, None));
    gateway.stop().await;
}
