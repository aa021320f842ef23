//! An address that holds what it can without finishing anything: others don't notice.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{Empty, StreamBody};
use hyper::client::conn::http2::{Builder, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, head_of, post_head};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt};

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Sends a receipt and a batch from another address.
async fn others_are_served(gateway: &Running) {
    let mut client = Client::connect_from(OTHER, gateway.address).await;
    assert_eq!(client.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    assert_eq!(client.post(BATCH, JSON, &batch(1_000)).await.status, 202);
}

#[tokio::test]
async fn bodies_that_do_not_come_take_nothing_of_the_budget() {
    http_server::listen::lift_open_files();
    let gateway = Running::with(|config| {
        config.inflight_wait_ms_max = 20;
        // What holds here is no matter of who sends it.
        config.address_share_percent_max = 100;
    })
    .await;
    let mut hoard = Vec::new();
    for _ in 0..700 {
        let mut client = gateway.connect().await;
        client.send(post_head(RECEIPTS, FIELDS, 65_536).as_bytes()).await;
        client.send(b" ").await;
        hoard.push(client);
    }
    for _ in 0..5 {
        let mut client = gateway.connect().await;
        client.send(post_head(BATCH, JSON, 8 << 20).as_bytes()).await;
        client.send(b" ").await;
        hoard.push(client);
    }
    others_are_served(&gateway).await;
    drop(hoard);
    gateway.stop().await;
}

/// Streams of one connection each way: a byte of a body whose length isn't stated, and then
/// nothing.
async fn open_streams(to: SocketAddr, count: usize) {
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..count {
        let byte = Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b" ")));
        let body = StreamBody::new(stream::iter([byte]).chain(stream::pending()).boxed());
        let request = Request::post(format!("http://gateway.test{RECEIPTS}"))
            .header("content-type", "application/json")
            .header("x-service-signature", FIELDS[1].1);
        sender.ready().await.unwrap();
        let answer = sender.send_request(request.body(body).unwrap());
        tokio::spawn(async move {
            let _ = answer.await;
        });
    }
    // What is answered came after them.
    let last = Request::post("http://gateway.test/").body(StreamBody::new(stream::empty().boxed()));
    assert_eq!(sender.send_request(last.unwrap()).await.unwrap().status(), 404);
    tokio::spawn(async move {
        let _held = sender;
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn streams_of_one_byte_take_nothing_of_the_budget() {
    let gateway = Running::with(|config| {
        config.inflight_wait_ms_max = 20;
        config.address_share_percent_max = 100;
        config.drain_ms_max = 0;
    })
    .await;
    for _ in 0..7 {
        open_streams(gateway.address, 100).await;
    }
    others_are_served(&gateway).await;
    gateway.begin_shutdown();
    let _ = gateway.ended().await;
}

#[tokio::test]
async fn a_small_body_that_trickles_is_408() {
    // Whole within half of the time, at some 200 bytes/s.
    let gateway = Running::with(|config| config.body_wait_ms_max = 12_000).await;
    let (body, _) = receipt();
    let mut client = gateway.connect().await;
    client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
    for part in body.chunks(10) {
        if client.stream.write_all(part).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.answer().await.refused(408, "request_timeout");
    gateway.stop().await;
}

#[tokio::test]
async fn one_address_has_its_share_of_the_connections() {
    let gateway = Running::with(|config| config.connections_max = 6).await;
    let mut hoard = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.connect().await;
        assert_eq!(client.get("/healthz").await.status, 200);
        hoard.push(client);
    }
    let mut over = gateway.connect().await;
    assert_eq!(over.answer().await.status, 503);
    assert!(over.ended().await);
    others_are_served(&gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn one_address_has_its_share_of_the_unfinished_requests() {
    let gateway = Running::with(|config| config.requests_max = 4).await;
    let mut hoard = Vec::new();
    let mut refused = 0;
    for _ in 0..6 {
        let mut client = gateway.connect().await;
        client.send(post_head(RECEIPTS, FIELDS, 10).as_bytes()).await;
        match tokio::time::timeout(Duration::from_millis(300), client.answer()).await {
            Ok(answer) => {
                answer.refused(503, "overloaded");
                refused += 1;
            }
            Err(_) => hoard.push(client),
        }
    }
    assert_eq!((hoard.len(), refused), (2, 4));
    // What comes whole is taken, from here as well.
    assert_eq!(gateway.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    others_are_served(&gateway).await;
    drop(hoard);
    gateway.stop().await;
}

#[tokio::test]
async fn what_comes_whole_gets_in_however_many_addresses_leave_theirs_unfinished() {
    let gateway = Running::with(|config| config.requests_max = 8).await;
    let mut hoard = Vec::new();
    for source in 3..13 {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, source), gateway.address).await;
        client.send(post_head(RECEIPTS, FIELDS, 10).as_bytes()).await;
        hoard.push(client);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(gateway.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    drop(hoard);
    gateway.stop().await;
}

#[tokio::test]
async fn one_address_has_its_share_of_the_bytes() {
    let gateway = Running::with(|config| {
        config.inflight_wait_ms_max = 20;
        config.body_wait_ms_max = 120_000;
    })
    .await;
    let mut hoard = Vec::new();
    for _ in 0..6 {
        let mut client = gateway.connect().await;
        client.send(post_head(BATCH, JSON, 8 << 20).as_bytes()).await;
        let _ = client.stream.write_all(&[b' '; 200_000]).await;
        hoard.push(client);
    }
    let mut refused = 0;
    for client in &mut hoard {
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(400), client.answer()).await {
            answer.refused(503, "overloaded");
            refused += 1;
        }
    }
    // 20 of 40 MiB: two uploads of 8 MiB.
    assert_eq!(refused, 4);
    others_are_served(&gateway).await;
    drop(hoard);
    gateway.stop().await;
}

/// An HTTP/2 peer without a window gets no bytes of its answers, and does everything else.
#[tokio::test]
async fn answers_nobody_reads_end_the_connection() {
    let gateway = Running::with(|config| config.answer_wait_ms_max = 400).await;
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let mut client = Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(0);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let get = |method: &str| {
        let request = Request::builder().method(method);
        let request = request.uri("http://gateway.test/healthz");
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    let unread = sender.send_request(get("GET")).await.unwrap();
    let goes_on = async {
        loop {
            match sender.send_request(get("HEAD")).await {
                Ok(answer) => assert_eq!(answer.status(), 200),
                Err(_) => break,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), goes_on).await.unwrap();
    drop((unread, sender));
    let _ = connection.await;
    gateway.stop().await;
}
