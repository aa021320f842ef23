//! Many requests over one connection, and the exception for this machine.

use bytes::Bytes;
use http::HeaderMap;
use outbound::{Config, Error, OutboundClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Server, Socket, answer, request};
use crate::world::client;

#[tokio::test]
async fn a_session_keeps_its_connection_and_opens_another_when_it_ends() {
    let server = Server::answering(|head| answer("200 OK", "", head.lines().next().unwrap())).await;
    let client = client(server.address);
    let mut session = client.session("https://good.test/hook?a=b").unwrap();
    for _ in 0..5 {
        let posted = session
            .post(HeaderMap::new(), Bytes::from_static(b"{}"), 1_000)
            .await
            .unwrap();
        assert_eq!(&posted.body[..], b"POST /hook?a=b HTTP/1.1");
    }
    assert_eq!(server.connections(), 1);

    let once = Server::start(|mut socket: Socket| async move {
        let (_, body) = request(&mut socket).await.unwrap();
        let echo = answer("200 OK", "connection: close\r\n", std::str::from_utf8(&body).unwrap());
        let _ = socket.write_all(echo.as_bytes()).await;
        let _ = socket.shutdown().await;
    })
    .await;
    let mut session = crate::world::client(once.address)
        .session("https://good.test/")
        .unwrap();
    for text in ["one", "two", "three"] {
        let posted = session.post(HeaderMap::new(), text.into(), 1_000).await.unwrap();
        assert_eq!(&posted.body[..], text.as_bytes());
    }
    assert_eq!(once.connections(), 3);
}

#[tokio::test]
async fn this_machine_is_reached_only_where_a_person_said_so() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let plain = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = [0; 1_000];
            let _ = stream.read(&mut read).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
        }
    });
    let dns = crate::world::World::get().dns.address();
    let with = |loopback| {
        let config = Config {
            loopback,
            test_resolver: Some(dns),
            ..Config::default()
        };
        OutboundClient::new(&config).unwrap()
    };
    let (strict, local) = (with(false), with(true));
    for host in ["127.0.0.1", "localhost", "good.test"] {
        let url = format!("http://{host}:{port}/hook");
        let posted = local.post(&url, HeaderMap::new(), Bytes::new(), 10).await.unwrap();
        assert_eq!(&posted.body[..], b"ok", "{url}");
        assert!(matches!(strict.check(&url), Err(Error::Refused(_))), "{url}");
        assert!(
            matches!(strict.check(&format!("https://{host}:{port}/")), Err(Error::Refused(_))),
            "{url}"
        );
    }
    // It opens nothing else: not private networks, not plain HTTP or other ports elsewhere.
    for url in [
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "http://8.8.8.8/",
        "https://8.8.8.8:8443/",
        "http://private.test/",
    ] {
        let error = local.get(url, 10).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{url}: {error:?}");
    }
    plain.abort();
}
