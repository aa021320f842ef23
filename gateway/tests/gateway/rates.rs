//! Rate limits by address and by key, and their headers on every answer.

use std::net::Ipv4Addr;

use serde_json::json;

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
        (EXPLAIN, receipt().0, 1, 2),
        // Explanations are counted as requests.
        (EXPLAIN, batch(10), 1, 12),
    ] {
        let gateway = Running::with(|config| {
            config.rate_address_verifications_per_s = 1;
            config.rate_burst_s = 3_600;
        })
        .await;
        let answer = gateway.post(path, FIELDS, &body).await;
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
