//! HTTP/1.1 as clients really speak it: keep-alive, pipelined, chunked, half closed, and wrong.

use std::sync::Arc;

use receipt::Limits;
use receipt_log::RecordKind;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::client::{Answer, Client, head_of, post_head};
use crate::log::{MemoryLog, Mood};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt, signature_of};

#[tokio::test]
async fn a_receipt_is_queued_and_the_record_carries_all_that_is_known() {
    let gateway = Running::start().await;
    let (body, id) = receipt();
    let mut fields = FIELDS.to_vec();
    fields.push(("x-request-id", "my-id-1"));
    let before = service::instant::now_ms();
    let answer = gateway.post(RECEIPTS, &fields, &body).await;
    let json = answer.json();
    assert_eq!(
        (answer.status, &json["receiptId"], &json["status"]),
        (202, &json!(id), &json!("queued"))
    );
    assert_eq!(answer.field("content-type"), "application/json");
    assert_eq!(answer.field("x-request-id"), "my-id-1");
    assert_eq!(answer.field("x-ratelimit-limit"), "8000");
    let record = gateway.records().remove(0);
    assert_eq!((record.kind, &record.body[..]), (RecordKind::Receipt, &body[..]));
    assert_eq!(record.request_signature, Some(signature_of(&body)));
    assert_eq!(record.request_id, "my-id-1");
    assert_eq!(record.client_address, Some("127.0.0.1".parse().unwrap()));
    assert!((before..=service::instant::now_ms()).contains(&record.received_at_ms));
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_is_queued_whole() {
    let gateway = Running::start().await;
    let body = batch(1_000);
    assert!(body.len() > 800_000);
    let answer = gateway.post(BATCH, JSON, &body).await;
    let mut json = answer.json();
    json.as_object_mut().unwrap().remove("acknowledgement").unwrap();
    let wanted = json!({"batchId": "batch \u{201c}7\u{201d}", "receiptCount": 1_000, "status": "queued"});
    assert_eq!((answer.status, json), (202, wanted));
    let record = gateway.records().remove(0);
    assert_eq!((record.kind, record.request_signature), (RecordKind::Batch, None));
    assert!(record.body == body);
    gateway.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let mut ids = Vec::new();
    let mut all = Vec::new();
    for _ in 0..50 {
        let (body, id) = receipt();
        all.extend_from_slice(head_of(RECEIPTS, FIELDS, &body).as_bytes());
        all.extend_from_slice(&body);
        ids.push(id);
    }
    client.send(&all).await;
    for id in ids {
        assert_eq!(client.answer().await.json()["receiptId"], id);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn chunks_and_dribbled_bytes_make_a_body() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let body = batch(200);
    let head = format!(
        "POST {BATCH} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    client.send(head.as_bytes()).await;
    for part in body.chunks(7_919) {
        client.send(format!("{:X};ext=1\r\n", part.len()).as_bytes()).await;
        client.send(part).await;
        client.send(b"\r\n").await;
    }
    client.send(b"0\r\nx-trailer: 1\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 202);
    let (small, _) = receipt();
    let mut bytes = head_of(RECEIPTS, FIELDS, &small).into_bytes();
    bytes.extend_from_slice(&small);
    for byte in bytes {
        client.send(&[byte]).await;
    }
    assert_eq!(client.answer().await.status, 202);
    let stored = gateway.records();
    assert!(stored[0].body == body && stored[1].body == small);
    gateway.stop().await;
}

#[tokio::test]
async fn a_half_closed_client_gets_its_answer() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, id) = receipt();
    client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
    client.send(&body).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.answer().await.json()["receiptId"], id);
    assert!(client.ended().await);
    gateway.stop().await;
}

#[tokio::test]
async fn a_body_cut_short_is_not_stored() {
    let gateway = Running::start().await;
    let (body, _) = receipt();
    for sent in [0, 1, body.len() - 1] {
        let mut client = gateway.connect().await;
        client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
        client.send(&body[..sent]).await;
        client.stream.shutdown().await.unwrap();
        if let Some(answer) = client.answer_or_end().await {
            answer.refused(400, "bad_request");
        }
        assert!(client.ended().await);
    }
    let mut client = gateway.connect().await;
    client.send(&post_head(RECEIPTS, FIELDS, 10).as_bytes()[..40]).await;
    client.stream.shutdown().await.unwrap();
    while client.answer_or_end().await.is_some() {}
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_first_is_asked_to_go_on_or_why_not() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let mut fields = FIELDS.to_vec();
    fields.push(("expect", "100-continue"));
    client.send(head_of(RECEIPTS, &fields, &body).as_bytes()).await;
    assert_eq!(client.answer().await.status, 100);
    client.send(&body).await;
    assert_eq!(client.answer().await.status, 202);
    client.send(post_head(RECEIPTS, &fields, 70_000).as_bytes()).await;
    client.answer().await.refused(413, "body_too_large");
    gateway.stop().await;
}

#[tokio::test]
async fn long_heads_are_431_and_nonsense_is_400() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let fits = "x".repeat(15_500);
    let mut fields = FIELDS.to_vec();
    fields.push(("x-filler", &fits));
    assert_eq!(client.post(RECEIPTS, &fields, &body).await.status, 202);
    let long = "x".repeat(17_000);
    fields.pop();
    fields.push(("x-filler", &long));
    client
        .post(RECEIPTS, &fields, &body)
        .await
        .refused(431, "head_too_large");
    let endless = "x".repeat(200_000);
    fields.pop();
    fields.push(("x-filler", &endless));
    // Hyper's own answer: it has no hook for another (ARCHITECTURE.md).
    let answer = client.post(RECEIPTS, &fields, &body).await;
    assert_eq!((answer.status, answer.body.len()), (431, 0));
    assert_eq!(
        (answer.field("connection"), answer.field("content-length")),
        ("close", "0")
    );
    assert!(client.ended().await);
    let many: Vec<_> = (0..200).map(|_| ("x-many", "1")).collect();
    assert_eq!(gateway.post(RECEIPTS, &many, &body).await.status, 431);
    for nonsense in [
        "\r\n\r\nnonsense\r\n\r\n",
        "GET / HTTP/3.7\r\n\r\n",
        "\u{1}\u{2}\r\n\r\n",
    ] {
        let mut client = gateway.connect().await;
        client.send(nonsense.as_bytes()).await;
        assert_eq!(
            client.answer_or_end().await.map_or(400, |answer| answer.status),
            400,
            "{nonsense:?}"
        );
        assert!(client.ended().await);
    }
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "content-length: 5\r\ncontent-length: 6",
    ] {
        let mut client = gateway.connect().await;
        client
            .send(format!("POST {RECEIPTS} HTTP/1.1\r\nhost: t\r\n{framing}\r\n\r\n0\r\n\r\n").as_bytes())
            .await;
        assert!(
            client.answer_or_end().await.is_none_or(|answer| answer.status >= 400),
            "{framing}"
        );
    }
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

/// RFC 9112, 3.2.
#[tokio::test]
async fn a_host_is_given_once() {
    let gateway = Running::start().await;
    let (body, _) = receipt();
    let head = head_of(RECEIPTS, FIELDS, &body);
    for (hosts, version, status) in [
        ("", "1.1", 400),
        ("host: a\r\nhost: b\r\n", "1.1", 400),
        ("host: a\r\nhost: a\r\n", "1.1", 400),
        ("host: a\r\nhost: a\r\n", "1.0", 400),
        ("", "1.0", 202),
        ("host:\r\n", "1.1", 202),
        ("host: [2001:db8::1]:8080\r\n", "1.1", 202),
        ("host: a b\r\n", "1.1", 400),
        ("host: a/b\r\n", "1.1", 400),
        ("host: user@a\r\n", "1.1", 400),
    ] {
        let head = head
            .replace("host: test\r\n", hosts)
            .replace("HTTP/1.1", &format!("HTTP/{version}"));
        let mut client = gateway.connect().await;
        client.send(&[head.as_bytes(), &body].concat()).await;
        let answer = client.answer().await;
        if status == 400 {
            answer.refused(400, "bad_request");
        }
        assert_eq!(answer.status, status, "{hosts:?} {version}");
    }
    gateway.stop().await;
}

/// RFC 9112, 6.1: what hyper doesn't take off the body is no body of ours.
#[tokio::test]
async fn transfer_codings_other_than_chunked_are_501() {
    let gateway = Running::start().await;
    let (body, _) = receipt();
    let chunks = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let mut client = gateway.connect().await;
    for (codings, status) in [
        ("transfer-encoding: gzip, chunked", 501),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked", 501),
        ("transfer-encoding: chunked, chunked", 501),
        ("transfer-encoding: Chunked", 202),
    ] {
        let length = format!("content-length: {}", body.len());
        let head = head_of(RECEIPTS, FIELDS, &body).replace(&length, codings);
        client.send(&[head.as_bytes(), &chunks].concat()).await;
        let answer = client.answer().await;
        if status == 501 {
            answer.refused(501, "unsupported_transfer_coding");
        }
        assert_eq!(answer.status, status, "{codings}");
    }
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn health_and_readiness_are_reported() {
    let log = Arc::new(MemoryLog::new(Mood::Unavailable));
    let gateway = Running::over(Arc::clone(&log) as _, log, Limits::default(), |_| {}).await;
    let mut client = gateway.connect().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    // The log is checked once a second. A gateway that starts waits for it.
    let starts = standing(&mut client, |log| log["reason"] != "starting").await;
    assert_eq!(
        (starts.status, starts.json()["status"].as_str()),
        (503, Some("not_ready"))
    );
    gateway.log.set(Mood::Takes);
    let ready = standing(&mut client, |log| log["status"] == "ready").await;
    assert_eq!(ready.status, 200);
    // One that has run continues telling clients 503 itself, rather than leaving its load balancer
    // with nobody.
    gateway.log.set(Mood::Unavailable);
    let degraded = standing(&mut client, |log| log["status"] != "ready").await;
    assert_eq!(degraded.status, 200);
    let log = &degraded.json()["components"]["log"];
    assert_eq!(*log, json!({"status": "degraded", "reason": "no space left on device"}));
    gateway.log.set(Mood::Takes);
    standing(&mut client, |log| log["status"] == "ready").await;
    gateway.stop().await;
}

/// The first answer of `/readyz` in which the log stands so.
async fn standing(client: &mut Client, so: impl Fn(&Value) -> bool) -> Answer {
    loop {
        let answer = client.get("/readyz").await;
        if so(&answer.json()["components"]["log"]) {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
