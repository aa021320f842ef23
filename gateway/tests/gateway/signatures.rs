//! Signatures of requests and batches: verified before anything is stored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Limits, PublicKey, canonicalize};
use sha2::{Digest, Sha256};

use crate::client::{head_of, post_head};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, KEY, OTHER_KEY, RECEIPTS, batch, batch_value, receipt, signature_of};

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
            .refused(400, "invalid_request_signature");
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
            .send(head_of(RECEIPTS, &with_signature(&text), &body).as_bytes())
            .await;
        client.answer().await.refused(400, "invalid_request_signature");
        client.send(&body).await;
    }
    // A length that another algorithm has: the receipt's is Ed25519.
    for bytes in [8, 63, 70, 256] {
        let text = STANDARD.encode(vec![1; bytes]);
        let answer = client.post(RECEIPTS, &with_signature(&text), &body).await;
        answer.refused(400, "invalid_request_signature");
    }
    assert_eq!(client.post(RECEIPTS, FIELDS, &body).await.status, 202);
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn it_is_stored_as_it_came_and_ignored_on_a_batch() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    assert_eq!(client.post(RECEIPTS, FIELDS, &body).await.status, 202);
    assert_eq!(client.post(BATCH, JSON, &batch(2)).await.status, 202);
    assert_eq!(client.post(BATCH, &with_signature("%%%"), &batch(2)).await.status, 202);
    let stored: Vec<_> = gateway
        .records()
        .into_iter()
        .map(|record| record.request_signature)
        .collect();
    assert_eq!(stored, [Some(signature_of(&body)), None, None]);
    gateway.stop().await;
}

#[tokio::test]
async fn it_must_verify_over_the_decoded_body() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let good = signature_of(&body);
    let other = STANDARD.encode(OTHER_KEY.sign(&body).unwrap());
    client
        .post(RECEIPTS, &with_signature(&other), &body)
        .await
        .refused(400, "invalid_request_signature");
    let of_another_body = signature_of(b"{}");
    let refused = client.post(RECEIPTS, &with_signature(&of_another_body), &body).await;
    refused.refused(401, "bad_request_signature");
    // The sender can compare what was verified with what it signed.
    assert_names(&refused.json(), &body);
    assert_eq!(gateway.records().len(), 0);
    assert_eq!(client.post(RECEIPTS, &with_signature(&good), &body).await.status, 202);
    let zipped = zstd::encode_all(body.as_slice(), 1).unwrap();
    let mut fields = with_signature(&good);
    fields.push(("content-encoding", "zstd"));
    assert_eq!(client.post(RECEIPTS, &fields, &zipped).await.status, 202);
    gateway.stop().await;
}

/// Whether a problem names the digest of these bytes and the fingerprint of [`KEY`].
fn assert_names(problem: &serde_json::Value, verified: &[u8]) {
    let detail = problem["detail"].as_str().unwrap();
    let key = PublicKey::from_pem(KEY.public_key_pem()).unwrap();
    for digest in [hex::encode(Sha256::digest(verified)), hex::encode(key.fingerprint())] {
        assert!(detail.contains(&digest), "{detail}");
    }
}

#[tokio::test]
async fn a_batch_must_be_signed_by_the_key_of_its_receipts() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let good = batch_value(3);
    let bytes = |batch: &serde_json::Value| serde_json::to_vec(batch).unwrap();
    for (member, value) in [
        ("batchId", "another"),
        ("signature", &STANDARD.encode([1; 64])),
        ("note", "added"),
    ] {
        let mut batch = good.clone();
        batch[member] = value.into();
        let answer = client.post(BATCH, JSON, &bytes(&batch)).await;
        assert_eq!(
            answer.refused(401, "bad_batch_signature").as_deref(),
            Some("/signature")
        );
        let members = batch.as_object_mut().unwrap();
        members.retain(|name, _| !name.starts_with("signature"));
        let canonical = canonicalize(&bytes(&batch), Limits::default().depth_max).unwrap();
        assert_names(&answer.json(), &canonical);
    }
    let mut batch = good.clone();
    batch["signature"] = STANDARD.encode([1; 63]).into();
    let answer = client.post(BATCH, JSON, &bytes(&batch)).await;
    let pointer = answer.refused(400, "invalid_signature_length");
    assert_eq!(pointer.as_deref(), Some("/signature"));
    // A receipt's own signature is the verifier's to check.
    let mut batch = good.clone();
    batch["receipts"][1]["usage"]["context"] = "changed".into();
    let signed = receipt::sign_batch(&bytes(&batch), &KEY, &Limits::default()).unwrap();
    assert_eq!(gateway.records().len(), 0);
    assert_eq!(client.post(BATCH, JSON, &signed).await.status, 202);
    assert_eq!(client.post(BATCH, JSON, &bytes(&good)).await.status, 202);
    gateway.stop().await;
}
