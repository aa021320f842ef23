//! The request signature: its presence and form always, its truth where the gateway is told to look.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::RequestSignature;

use crate::client::post_head;
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, KEY, OTHER_KEY, RECEIPTS, SIGNATURE, batch, receipt};

fn with_signature(signature: &str) -> Vec<(&str, &str)> {
    vec![("content-type", "application/json"), ("x-service-signature", signature)]
}

#[tokio::test]
async fn without_one_the_body_is_not_waited_for() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    client.send(post_head(RECEIPTS, JSON, 1_000).as_bytes()).await;
    client.answer().await.refused(401, "missing_request_signature");
    client.send(&[b' '; 1_000]).await;
    let (body, _) = receipt();
    let answer = client.post(RECEIPTS, FIELDS, &body).await;
    assert_eq!(answer.status, 202, "the unread body is gone and the connection goes on");
    for malformed in ["", "%%%", "c2ln=", "c2l", "c2 ln"] {
        client
            .post(RECEIPTS, &with_signature(malformed), &body)
            .await
            .refused(401, "invalid_request_signature");
    }
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_length_that_no_signature_has_is_malformed() {
    let gateway = Running::start().await;
    let (body, _) = receipt();
    let mut client = gateway.connect().await;
    for bytes in [1, 7, 73, 128, 255, 257, 512] {
        let text = STANDARD.encode(vec![1; bytes]);
        // Known from the head: the body isn't waited for.
        client
            .send(post_head(RECEIPTS, &with_signature(&text), body.len()).as_bytes())
            .await;
        client.answer().await.refused(401, "invalid_request_signature");
        client.send(&body).await;
    }
    // A length that another algorithm has: the receipt's is Ed25519.
    for bytes in [8, 63, 70, 256] {
        let text = STANDARD.encode(vec![1; bytes]);
        let answer = client.post(RECEIPTS, &with_signature(&text), &body).await;
        answer.refused(401, "invalid_request_signature");
    }
    assert_eq!(client.post(RECEIPTS, FIELDS, &body).await.status, 202);
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn it_is_stored_as_it_came_and_ignored_on_a_batch() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    assert_eq!(client.post(BATCH, JSON, &batch(2)).await.status, 202);
    assert_eq!(client.post(BATCH, &with_signature("%%%"), &batch(2)).await.status, 202);
    let stored: Vec<_> = gateway
        .records()
        .into_iter()
        .map(|record| record.request_signature)
        .collect();
    assert_eq!(stored, [Some(SIGNATURE.to_owned()), None, None]);
    gateway.stop().await;
}

#[tokio::test]
async fn inline_it_must_verify_over_the_decoded_body() {
    let gateway = Running::with(|config| config.request_signature = RequestSignature::Inline).await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let good = STANDARD.encode(KEY.sign(&body).unwrap());
    let other = STANDARD.encode(OTHER_KEY.sign(&body).unwrap());
    client
        .post(RECEIPTS, &with_signature(&other), &body)
        .await
        .refused(401, "invalid_request_signature");
    let of_another_body = STANDARD.encode(KEY.sign(b"{}").unwrap());
    client
        .post(RECEIPTS, &with_signature(&of_another_body), &body)
        .await
        .refused(401, "bad_request_signature");
    client
        .post(RECEIPTS, FIELDS, &body)
        .await
        .refused(401, "bad_request_signature");
    assert_eq!(gateway.records().len(), 0);
    assert_eq!(client.post(RECEIPTS, &with_signature(&good), &body).await.status, 202);
    let zipped = zstd::encode_all(body.as_slice(), 1).unwrap();
    let mut fields = with_signature(&good);
    fields.push(("content-encoding", "zstd"));
    assert_eq!(client.post(RECEIPTS, &fields, &zipped).await.status, 202);
    gateway.stop().await;
}
