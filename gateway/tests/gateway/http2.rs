//! HTTP/2 by prior knowledge.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::running::Running;
use crate::sample::{BATCH, RECEIPTS, batch, receipt, signature_of};

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://gateway.test{path}"));
    let request = request
        .header("content-type", "application/json")
        .header("x-service-signature", signature_of(&body));
    request.body(Full::new(Bytes::from(body))).unwrap()
}

async fn json(answer: Response<hyper::body::Incoming>) -> serde_json::Value {
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let gateway = Running::start().await;
    let sender = connect(gateway.address).await;
    let mut tasks = Vec::new();
    for _ in 0..200 {
        let mut sender = sender.clone();
        let (body, id) = receipt();
        tasks.push(tokio::spawn(async move {
            sender.ready().await.unwrap();
            let answer = sender.send_request(post(RECEIPTS, body)).await.unwrap();
            assert_eq!(answer.status(), 202);
            assert!(answer.headers().contains_key("x-request-id"));
            assert_eq!(json(answer).await["receiptId"], id);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let body = batch(1_000);
    let answer = sender.clone().send_request(post(BATCH, body.clone())).await.unwrap();
    assert_eq!(answer.status(), 202);
    assert!(gateway.records().last().unwrap().body == body);
    drop(sender);
    gateway.stop().await;
}

#[tokio::test]
async fn refusals_leave_the_connection_usable() {
    let gateway = Running::start().await;
    let mut sender = connect(gateway.address).await;
    let answer = sender.send_request(post(RECEIPTS, vec![b' '; 70_000])).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), json(answer).await["code"].clone()),
        (413, "body_too_large".into())
    );
    let answer = sender
        .send_request(post(BATCH, vec![b' '; (8 << 20) + 1]))
        .await
        .unwrap();
    assert_eq!(answer.status(), 413);
    let mut request = post(RECEIPTS, b"{}".to_vec());
    request
        .headers_mut()
        .insert("x-filler", "x".repeat(17_000).parse().unwrap());
    assert_eq!(sender.send_request(request).await.unwrap().status(), 431);
    let answer = sender.send_request(post(RECEIPTS, receipt().0)).await.unwrap();
    assert_eq!(answer.status(), 202);
    drop(sender);
    gateway.stop().await;
}

/// CVE-2023-44487: streams opened and reset at once, without end.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let gateway = Running::start().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    // Literal fields without indexing: :method GET, :scheme http, :path / from the static table
    // (RFC 7541, A).
    let fields = [0x82, 0x86, 0x84];
    let mut flood = Vec::new();
    for stream_id in (1u32..20_001).step_by(2) {
        let id = stream_id.to_be_bytes();
        flood.extend_from_slice(&[0, 0, 3, 1, 0x5]);
        flood.extend_from_slice(&id);
        flood.extend_from_slice(&fields);
        flood.extend_from_slice(&[0, 0, 4, 3, 0]);
        flood.extend_from_slice(&id);
        flood.extend_from_slice(&8u32.to_be_bytes());
    }
    let (mut read, mut write) = stream.into_split();
    let writing = tokio::spawn(async move {
        let _ = write.write_all(&flood).await;
        write
    });
    let mut got = Vec::new();
    // The end, or a reset, comes while this client would continue.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(300), read.read_to_end(&mut got))
        .await
        .unwrap();
    drop(writing.await.unwrap());
    assert!(has_goaway(&got), "the gateway ends the connection with GOAWAY");
    let mut sender = connect(gateway.address).await;
    assert_eq!(
        sender.send_request(post(RECEIPTS, receipt().0)).await.unwrap().status(),
        202
    );
    drop(sender);
    gateway.stop().await;
}

fn has_goaway(mut frames: &[u8]) -> bool {
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        if *kind == 7 {
            return true;
        }
        frames = rest.get(length..).unwrap_or_default();
    }
    false
}
