//! Compressed bodies: stored decoded, bounded while they are inflated.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::running::Running;
use crate::sample::{BATCH, RECEIPTS, SIGNATURE, batch, receipt, signature_of};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str) -> [(&str, &str); 3] {
    signed(encoding, SIGNATURE)
}

/// With a signature, which is over the decoded body.
fn signed<'a>(encoding: &'a str, signature: &'a str) -> [(&'a str, &'a str); 3] {
    [
        ("content-type", "application/json"),
        ("x-service-signature", signature),
        ("content-encoding", encoding),
    ]
}

#[tokio::test]
async fn what_is_stored_is_the_decoded_body() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (one, many) = (receipt().0, batch(300));
    let signature = signature_of(&one);
    for (encoding, body) in [
        ("gzip", gzip(&one)),
        ("zstd", zstd::encode_all(&one[..], 3).unwrap()),
        ("identity", one.clone()),
    ] {
        let fields = signed(encoding, &signature);
        assert_eq!(client.post(RECEIPTS, &fields, &body).await.status, 202, "{encoding}");
    }
    assert_eq!(client.post(BATCH, &encoded("gzip"), &gzip(&many)).await.status, 202);
    assert_eq!(
        client
            .post(BATCH, &encoded("zstd"), &zstd::encode_all(&many[..], 3).unwrap())
            .await
            .status,
        202
    );
    let stored: Vec<_> = gateway.records().into_iter().map(|record| record.body).collect();
    assert!(stored.iter().take(3).all(|body| *body == one) && stored.iter().skip(3).all(|body| *body == many));
    gateway.stop().await;
}

#[tokio::test]
async fn damage_and_bombs_are_refused() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    let whole = gzip(&body);
    client
        .post(RECEIPTS, &encoded("gzip"), &whole[..whole.len() - 1])
        .await
        .refused(400, "invalid_encoding");
    client
        .post(RECEIPTS, &encoded("gzip"), &body)
        .await
        .refused(400, "invalid_encoding");
    client
        .post(RECEIPTS, &encoded("zstd"), &whole)
        .await
        .refused(400, "invalid_encoding");
    let garbage = [&whole[..], b"garbage"].concat();
    client
        .post(RECEIPTS, &encoded("gzip"), &garbage)
        .await
        .refused(400, "invalid_encoding");
    let zeros = vec![0; 200 << 20];
    let bombs = [
        ("gzip", gzip(&zeros)),
        ("zstd", zstd::encode_all(&zeros[..], 3).unwrap()),
    ];
    for (encoding, bomb) in bombs {
        client
            .post(BATCH, &encoded(encoding), &bomb)
            .await
            .refused(413, "decoded_body_too_large");
        let small = if encoding == "gzip" {
            gzip(&zeros[..4 << 20])
        } else {
            bomb
        };
        client
            .post(RECEIPTS, &encoded(encoding), &small)
            .await
            .refused(413, "decoded_body_too_large");
    }
    assert_eq!(
        client
            .post(RECEIPTS, &signed("gzip", &signature_of(&body)), &whole)
            .await
            .status,
        202,
        "the connection goes on"
    );
    assert_eq!(gateway.records().len(), 1);
    gateway.stop().await;
}
