//! Clients that take their time: each wait has an end, and the end is orderly.

use std::time::Duration;

use crate::client::{head_of, post_head};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, receipt};

#[tokio::test]
async fn a_head_that_never_ends_is_closed() {
    let gateway = Running::with(|config| config.head_wait_ms_max = 200).await;
    for beginning in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "POST /api/v1/receipts HTTP/1.1\r\nhost: test\r\n",
    ] {
        let mut client = gateway.connect().await;
        client.send(beginning.as_bytes()).await;
        assert!(client.ended().await, "{beginning:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_dribbled_head_gains_no_time() {
    let gateway = Running::with(|config| config.head_wait_ms_max = 300).await;
    let mut client = gateway.connect().await;
    let head = post_head(RECEIPTS, FIELDS, 10) + &"x".repeat(100_000);
    let mut sent = 0;
    for byte in head.as_bytes() {
        if tokio::io::AsyncWriteExt::write_all(&mut client.stream, &[*byte])
            .await
            .is_err()
        {
            break;
        }
        sent += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if sent > 40 {
            break;
        }
    }
    assert!(client.ended().await);
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_may_rest_for_longer_than_a_head_may_take() {
    let gateway = Running::with(|config| {
        config.head_wait_ms_max = 100;
        config.idle_wait_ms_max = 1_500;
    })
    .await;
    let mut client = gateway.connect().await;
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    client.send(b"POST /api").await;
    assert!(client.ended().await, "a second head has no more time than the first");
    let mut client = gateway.connect().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert!(client.ended().await, "nor may it rest for ever");
    gateway.stop().await;
}

#[tokio::test]
async fn a_slow_body_is_408() {
    let gateway = Running::with(|config| config.body_wait_ms_max = 400).await;
    let (body, _) = receipt();
    let mut client = gateway.connect().await;
    client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
    client.send(&body[..10]).await;
    client.answer().await.refused(408, "request_timeout");
    assert!(client.ended().await);
    let mut client = gateway.connect().await;
    client.send(post_head(RECEIPTS, FIELDS, 60_000).as_bytes()).await;
    let dribble = async {
        while tokio::io::AsyncWriteExt::write_all(&mut client.stream, b" ")
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(1_000), dribble).await;
    if let Some(answer) = client.answer_or_end().await {
        answer.refused(408, "request_timeout");
    }
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_large_body_must_keep_pace() {
    let gateway = Running::with(|config| config.body_wait_ms_max = 3_600).await;
    let mut client = gateway.connect().await;
    client.send(post_head(BATCH, JSON, 8 << 20).as_bytes()).await;
    client.send(&[b' '; 1_000]).await;
    client.answer().await.refused(408, "request_timeout");
    assert!(client.ended().await);
    gateway.stop().await;
}
