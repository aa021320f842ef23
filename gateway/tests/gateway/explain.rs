//! Explanations: a dry run of a receipt or batch.

use std::time::Duration;

use crate::client::post_head;
use crate::running::Running;
use crate::sample::{EXPLAIN, JSON, batch, receipt};

#[tokio::test]
async fn receipts_batches_and_neither_are_explained_and_not_stored() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, id) = receipt();
    let answer = client.post(EXPLAIN, JSON, &body).await;
    assert_eq!((answer.status, answer.field("content-type")), (200, "application/json"));
    let explained = answer.json();
    assert_eq!(
        (&explained["outcome"], &explained["receiptId"]),
        (&"verified".into(), &id.as_str().into())
    );
    assert_eq!(explained["payloadHash"].as_str().unwrap().len(), 64);
    let explained = client.post(EXPLAIN, JSON, &batch(3)).await.json();
    assert_eq!(
        (&explained["outcome"], explained["receipts"].as_array().map(Vec::len)),
        (&"verified".into(), Some(3))
    );
    let tampered = String::from_utf8(body).unwrap().replace("reader", "writer");
    let explained = client.post(EXPLAIN, JSON, tampered.as_bytes()).await.json();
    assert_eq!(
        (&explained["outcome"], &explained["reason"]),
        (&"rejected".into(), &"bad_signature".into())
    );
    let explained = client.post(EXPLAIN, JSON, b"not json").await.json();
    assert_eq!(
        (&explained["outcome"], &explained["reason"]),
        (&"rejected".into(), &"malformed".into())
    );
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_signature_is_explained_too() {
    let gateway = Running::start().await;
    let fields = [JSON[0], ("x-service-signature", "c2ln")];
    let explained = gateway.post(EXPLAIN, &fields, &receipt().0).await.json();
    assert_eq!(
        (&explained["outcome"], &explained["reason"]),
        (&"rejected".into(), &"bad_request_signature".into())
    );
    gateway.stop().await;
}

#[tokio::test]
async fn explanations_are_not_crowded_out_by_bodies_that_do_not_come() {
    let gateway = Running::start().await;
    let mut hoard = Vec::new();
    for _ in 0..4 {
        let mut client = gateway.connect().await;
        client.send(post_head(EXPLAIN, JSON, 1_000).as_bytes()).await;
        client.send(b"{").await;
        hoard.push(client);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(gateway.post(EXPLAIN, JSON, &receipt().0).await.status, 200);
    drop(hoard);
    gateway.stop().await;
}
