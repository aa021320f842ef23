//! More than the gateway can hold, and a log that doesn't take it.

use std::time::Duration;

use crate::client::{head_of, post_head};
use crate::log::Mood;
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt};

#[tokio::test]
async fn a_log_that_refuses_is_503() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    for mood in [Mood::Busy, Mood::Unavailable] {
        gateway.log.set(mood);
        for (path, fields, body) in [(RECEIPTS, FIELDS, receipt().0), (BATCH, JSON, batch(100))] {
            let answer = client.post(path, fields, &body).await;
            answer.refused(503, "log_unavailable");
            assert!(answer.field("retry-after").parse::<u32>().unwrap() >= 1);
        }
    }
    gateway.log.set(Mood::Takes);
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_log_that_says_nothing_in_time_is_503_and_its_bytes_stay_counted() {
    let gateway = Running::with(|config| {
        config.append_wait_ms_max = 100;
        config.inflight_bytes_max = 32 << 20;
        config.inflight_wait_ms_max = 50;
    })
    .await;
    gateway.log.set(Mood::Silent);
    let mut padded = batch(3);
    padded.resize(8 << 20, b' ');
    let mut codes = Vec::new();
    for _ in 0..5 {
        let answer = gateway.post(BATCH, JSON, &padded).await;
        assert_eq!(answer.status, 503);
        codes.push(answer.json()["code"].as_str().unwrap().to_owned());
    }
    // 28 MiB are for large bodies: three of them are with the log, though their clients were
    // answered 503.
    assert_eq!(codes[..3], ["log_unavailable"; 3]);
    assert_eq!(codes[3..], ["overloaded"; 2]);
    // Receipts have a part of their own.
    gateway
        .post(RECEIPTS, FIELDS, &receipt().0)
        .await
        .refused(503, "log_unavailable");
    gateway.log.set(Mood::Takes);
    while gateway.post(BATCH, JSON, &padded).await.status != 202 {}
    gateway.stop().await;
}

#[tokio::test]
async fn slow_uploads_cannot_hold_more_than_the_budget_nor_keep_receipts_out() {
    let gateway = Running::with(|config| {
        config.inflight_wait_ms_max = 20;
        config.body_wait_ms_max = 60_000;
        config.address_share_percent_max = 100;
    })
    .await;
    let mut uploads = Vec::new();
    for _ in 0..40 {
        let mut client = gateway.connect().await;
        client.send(post_head(BATCH, JSON, 8 << 20).as_bytes()).await;
        client.send(&[b' '; 100_000]).await;
        uploads.push(client);
    }
    // 35 MiB for large bodies: four uploads of 8 MiB are let in, the others are refused at once.
    let mut refused = 0;
    for client in &mut uploads {
        match tokio::time::timeout(Duration::from_millis(400), client.answer()).await {
            Ok(answer) => {
                answer.refused(503, "overloaded");
                assert_eq!(answer.field("retry-after"), "1");
                refused += 1;
            }
            Err(_) => continue,
        }
    }
    assert_eq!(refused, 36);
    assert_eq!(gateway.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    // Chunked uploads take as they grow.
    let chunked = format!(
        "POST {BATCH} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let mut client = gateway.connect().await;
    client.send(chunked.as_bytes()).await;
    let part = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..8 {
        if tokio::io::AsyncWriteExt::write_all(&mut client.stream, &part)
            .await
            .is_err()
        {
            break;
        }
    }
    client.answer().await.refused(503, "overloaded");
    drop(uploads);
    while gateway.post(BATCH, JSON, &batch(1_000)).await.status != 202 {}
    gateway.stop().await;
}

#[tokio::test]
async fn waiting_for_the_budget_is_not_held_against_the_sender() {
    let gateway = Running::with(|config| {
        // The pace is checked after a twelfth of it, which a busy machine must not miss.
        config.body_wait_ms_max = 10_000;
        config.inflight_wait_ms_max = 60_000;
        config.append_wait_ms_max = 60_000;
        config.inflight_bytes_max = 32 << 20;
    })
    .await;
    gateway.log.set(Mood::Silent);
    let mut padded = batch(3);
    padded.resize(8 << 20, b' ');
    // 28 MiB are for large bodies: three are with the log, the fourth waits.
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (mut client, body) = (gateway.connect().await, padded.clone());
        clients.push(tokio::spawn(
            async move { client.post(BATCH, JSON, &body).await.status },
        ));
    }
    tokio::time::sleep(Duration::from_millis(12_000)).await;
    gateway.log.set(Mood::Takes);
    for client in clients {
        assert_eq!(client.await.unwrap(), 202);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn connections_over_the_limit_are_turned_away() {
    let gateway = Running::with(|config| {
        config.connections_max = 3;
        config.address_share_percent_max = 100;
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.connect().await;
        assert_eq!(client.get("/healthz").await.status, 200);
        open.push(client);
    }
    let mut over = gateway.connect().await;
    let answer = over.answer().await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (503, Some("overloaded"))
    );
    assert!(over.ended().await);
    assert_eq!(open[0].post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    open.pop();
    // The permit is free again as soon as the gateway has seen the end.
    loop {
        let mut client = gateway.connect().await;
        let _ =
            tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
        if client.answer_or_end().await.is_some_and(|answer| answer.status == 200) {
            break;
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn requests_over_the_limit_are_503() {
    let gateway = Running::with(|config| config.requests_max = 1).await;
    gateway.log.set(Mood::Silent);
    let mut first = gateway.connect().await;
    let (body, _) = receipt();
    first.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
    first.send(&body).await;
    let mut second = gateway.connect().await;
    while second.get("/healthz").await.status == 200 {}
    second.get("/healthz").await.refused(503, "overloaded");
    gateway.log.set(Mood::Takes);
    assert_eq!(first.answer().await.status, 202);
    assert_eq!(second.get("/healthz").await.status, 200);
    gateway.stop().await;
}
