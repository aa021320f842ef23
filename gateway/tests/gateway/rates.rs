//! Rate limits by address and by client, and their headers on every answer.

use serde_json::json;

use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, plain, receipt, signed};

fn number(answer: &crate::client::Answer, name: &str) -> i64 {
    answer.field(name).parse().unwrap()
}

#[tokio::test]
async fn an_address_over_its_rate_is_429_before_its_body() {
    let gateway = Running::with(|config| {
        config.rate_address_receipts_per_s = 1;
        config.rate_burst_s = 100;
    })
    .await;
    let mut client = gateway.connect().await;
    let first = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!((first.status, number(&first, "x-ratelimit-limit")), (202, 100));
    assert!((98..=99).contains(&number(&first, "x-ratelimit-remaining")));
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
    assert!(number(&refused, "x-ratelimit-remaining") < 89);
    assert!(number(&refused, "retry-after") >= 1);
    assert_eq!(
        client.post(RECEIPTS, FIELDS, &receipt().0).await.status,
        202,
        "one receipt still fits"
    );
    let mut last = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    while last.status == 202 {
        last = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    }
    last.refused(429, "rate_limited");
    assert_eq!(number(&last, "x-ratelimit-remaining"), 0);
    assert_eq!(client.get("/healthz").await.status, 200, "health isn't limited");
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_has_a_rate_of_its_own() {
    let gateway = Running::with(|config| {
        config.rate_client_receipts_per_s = 1;
        config.rate_burst_s = 30;
    })
    .await;
    let mut client = gateway.connect().await;
    let mut answer = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!(
        number(&answer, "x-ratelimit-limit"),
        30,
        "the nearer limit is the one told"
    );
    while answer.status == 202 {
        answer = client.post(RECEIPTS, FIELDS, &receipt().0).await;
    }
    answer.refused(429, "rate_limited");
    let mut other = plain();
    other["client"]["id"] = json!("11111111-2222-4333-8444-555555555555");
    assert_eq!(client.post(RECEIPTS, FIELDS, &signed(&other)).await.status, 202);
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_over_the_burst_passes_a_full_bucket() {
    let gateway = Running::with(|config| {
        config.rate_client_receipts_per_s = 1;
        config.rate_address_receipts_per_s = 1;
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
        config.rate_client_receipts_per_s = 0;
        config.rate_address_receipts_per_s = 0;
    })
    .await;
    let answer = gateway.post(RECEIPTS, FIELDS, &receipt().0).await;
    assert_eq!((answer.status, answer.fields.get("x-ratelimit-limit")), (202, None));
    gateway.stop().await;
}
