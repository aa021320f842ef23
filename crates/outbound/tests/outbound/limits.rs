//! Slow, long and broken answers; more requests than allowed.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbound::{Config, Error, OutboundClient, RequestStep};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::server::{Server, Socket, answer, request};
use crate::world::{World, client};

/// Takes one request, says `text`, and is silent from then on.
async fn saying(text: String) -> Server {
    Server::start(move |mut socket: Socket| {
        let text = text.clone();
        async move {
            let _ = request(&mut socket).await;
            let _ = socket.write_all(text.as_bytes()).await;
            let _ = socket.flush().await;
            pending::<()>().await;
        }
    })
    .await
}

fn hasty(server: &Server, change: impl FnOnce(&mut Config)) -> OutboundClient {
    let mut config = World::get().config(server.address);
    change(&mut config);
    OutboundClient::new(&config).unwrap()
}

fn step(error: Error) -> (RequestStep, u64) {
    match error {
        Error::TimedOut { step, wait_ms_max, .. } => (step, wait_ms_max),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_step_has_its_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = World::get().config(silent.local_addr().unwrap());
    config.connect_ms_max = 100;
    let error = OutboundClient::new(&config)
        .unwrap()
        .get("https://good.test/", 100)
        .await
        .unwrap_err();
    assert_eq!(step(error), (RequestStep::Connect, 100), "the handshake isn't answered");

    let server = saying(String::new()).await;
    let client = hasty(&server, |config| config.head_ms_max = 100);
    assert_eq!(
        step(client.get("https://good.test/", 100).await.unwrap_err()),
        (RequestStep::Head, 100)
    );
    let server = saying("HTTP/1.1 200 OK\r\nx-slow: ".to_owned()).await;
    let client = hasty(&server, |config| config.head_ms_max = 100);
    assert_eq!(
        step(client.get("https://good.test/", 100).await.unwrap_err()),
        (RequestStep::Head, 100)
    );

    let server = saying("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345".to_owned()).await;
    let client = hasty(&server, |config| config.total_ms_max = 500);
    let error = client.get("https://good.test/", 100).await.unwrap_err();
    assert!(error.may_pass() && !error.to_string().contains("12345"));
    assert_eq!(step(error), (RequestStep::Body, 500));

    let client = hasty(&server, |config| config.dns_ms_max = 100);
    let error = client.get("https://x.silent/", 100).await.unwrap_err();
    assert!(error.may_pass(), "{error:?}");
}

#[tokio::test]
async fn one_byte_more_than_allowed_is_too_large() {
    let length = Server::answering(|_| answer("200 OK", "", &"x".repeat(1_001))).await;
    let chunked = Server::answering(|_| {
        let piece = format!("1f4\r\n{}\r\n", "x".repeat(500));
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{piece}{piece}1\r\nx\r\n0\r\n\r\n")
    })
    .await;
    let to_the_end = Server::start(|mut socket: Socket| async move {
        let _ = request(&mut socket).await;
        let text = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1_001));
        let _ = socket.write_all(text.as_bytes()).await;
        let _ = socket.shutdown().await;
    })
    .await;
    for server in [&length, &chunked, &to_the_end] {
        let client = client(server.address);
        assert_eq!(client.get("https://good.test/", 1_001).await.unwrap().body.len(), 1_001);
        let error = client.get("https://good.test/", 1_000).await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    part: "body",
                    bytes_max: 1_000,
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_long_head_and_what_is_no_http_are_refused() {
    let long = Server::answering(|_| answer("200 OK", &format!("x-long: {}\r\n", "x".repeat(40_000)), "")).await;
    let endless = Server::start(|mut socket: Socket| async move {
        let _ = request(&mut socket).await;
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while socket.write_all(b"x-more: and more\r\n").await.is_ok() {}
    })
    .await;
    for server in [&long, &endless] {
        let error = client(server.address).get("https://good.test/", 100).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { part: "head", .. }), "{error:?}");
    }
    let zipped = Server::answering(|_| answer("200 OK", "content-encoding: gzip\r\n", "secret")).await;
    let other = Server::answering(|_| "220 mail.test ESMTP secret\r\n".to_owned()).await;
    for server in [&zipped, &other] {
        let error = client(server.address).get("https://good.test/", 100).await.unwrap_err();
        assert!(matches!(error, Error::BadAnswer { .. }), "{error:?}");
        assert!(
            !error.to_string().contains("secret"),
            "nothing of the answer is reported"
        );
    }
    let broken = Server::start(|mut socket: Socket| async move {
        let _ = request(&mut socket).await;
        let _ = socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n123")
            .await;
        let _ = socket.shutdown().await;
    })
    .await;
    let error = client(broken.address).get("https://good.test/", 100).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn no_more_requests_than_allowed_are_under_way() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now_there, most_there) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |mut socket: Socket| {
        let (now, most) = (Arc::clone(&now_there), Arc::clone(&most_there));
        async move {
            let _ = request(&mut socket).await;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            let _ = socket.write_all(answer("200 OK", "", "").as_bytes()).await;
        }
    })
    .await;
    let client = hasty(&server, |config| config.requests_max = 2);
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        requests.spawn(async move { client.get("https://good.test/", 100).await.unwrap() });
    }
    assert_eq!(requests.join_all().await.len(), 10);
    assert!(most.load(Ordering::SeqCst) <= 2);

    // And who waits for a permit waits no longer than for anything else.
    let silent = saying(String::new()).await;
    let client = hasty(&silent, |config| {
        config.requests_max = 1;
        config.total_ms_max = 300;
        config.head_ms_max = 600_000;
    });
    let (first, second) = tokio::join!(client.get("https://good.test/", 1), client.get("https://good.test/", 1));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(step(error).1, 300);
    }
}
