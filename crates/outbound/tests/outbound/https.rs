//! Answers, redirects, certificates.

use outbound::Error;
use rcgen::CertificateParams;

use crate::server::{Server, answer};
use crate::world::{World, client, nobody};

#[tokio::test]
async fn an_answer_comes_whole_with_what_was_sent_and_nothing_else() {
    let server = Server::answering(|head| answer("200 OK", "x-theirs: yes\r\nset-cookie: a=b\r\n", head)).await;
    let client = client(server.address);
    let fetched = client
        .get("https://good.test/.well-known/x?y=z#part", 10_000)
        .await
        .unwrap();
    assert_eq!(fetched.status, 200);
    assert_eq!(fetched.headers["x-theirs"], "yes");
    let head = String::from_utf8(fetched.body.to_vec()).unwrap();
    let mut lines: Vec<&str> = head.trim_end().lines().collect();
    assert_eq!(lines.remove(0), "GET /.well-known/x?y=z HTTP/1.1");
    lines.sort_unstable();
    let agent = concat!("user-agent: receipts/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: */*",
            "connection: close",
            "host: good.test",
            agent
        ]
    );
    let second = client.get("https://ALIAS.test./", 10_000).await.unwrap();
    let head = String::from_utf8(second.body.to_vec()).unwrap();
    assert!(
        head.contains("host: alias.test\r\n") && !head.contains("cookie"),
        "{head}"
    );
    // Any status is an answer; whether it is a success is another check.
    assert!(second.success().is_ok());
}

#[tokio::test]
async fn a_status_is_an_answer_and_tells_itself() {
    let server = Server::answering(|_| answer("503 Service Unavailable", "", "secret")).await;
    let fetched = client(server.address).get("https://good.test/", 100).await.unwrap();
    assert_eq!(fetched.status, 503);
    let error = fetched.success().unwrap_err();
    assert!(error.may_pass());
    assert_eq!(error.to_string(), "good.test answered 503 Service Unavailable");
}

#[tokio::test]
async fn redirects_are_followed_up_to_three() {
    let server = Server::answering(|head| {
        let path = head.split(' ').nth(1).unwrap();
        let (status, location) = match path {
            "/1" => ("301 Moved Permanently", "/2"),
            "/2" => ("303 See Other", "2/../3"),
            "/3" => ("307 Temporary Redirect", "https://alias.test/end"),
            "/0" => ("308 Permanent Redirect", "https://good.test/1"),
            "/loop" => ("302 Found", "/loop"),
            "/none" => return answer("302 Found", "", ""),
            "/two" => return answer("302 Found", "location: /1\r\nlocation: /2\r\n", ""),
            "/304" => return answer("304 Not Modified", "location: /1\r\n", ""),
            _ => return answer("200 OK", "", "end"),
        };
        answer(status, &format!("location: {location}\r\n"), "")
    })
    .await;
    let client = client(server.address);
    let fetched = client.get("https://good.test/1", 100).await.unwrap();
    assert_eq!(fetched.final_url, "https://alias.test/end");
    for path in ["0", "loop"] {
        let error = client.get(&format!("https://good.test/{path}"), 100).await.unwrap_err();
        assert!(
            matches!(error, Error::TooManyRedirects { redirects_max: 3, .. }),
            "{error:?}"
        );
    }
    for path in ["none", "two"] {
        let error = client.get(&format!("https://good.test/{path}"), 100).await.unwrap_err();
        assert!(matches!(error, Error::BadAnswer { .. }), "{error:?}");
    }
    assert_eq!(client.get("https://good.test/304", 100).await.unwrap().status, 304);
}

#[tokio::test]
async fn a_post_follows_nothing() {
    let server = Server::answering(|_| answer("307 Temporary Redirect", "location: /2\r\n", "")).await;
    let client = client(server.address);
    let posted = client
        .post("https://good.test/1", http::HeaderMap::new(), "x".into(), 100)
        .await
        .unwrap();
    assert_eq!((posted.status.as_u16(), server.connections()), (307, 1));
}

#[tokio::test]
async fn the_certificate_must_be_the_hosts() {
    let server = Server::answering(|_| answer("200 OK", "", "secret")).await;
    let error = client(server.address)
        .get("https://other.test/", 100)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Tls { host, .. } if host == "other.test"),
        "{error:?}"
    );

    let mut expired = CertificateParams::new(vec!["good.test".to_owned()]).unwrap();
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let tls = World::get().tls_of(expired);
    let server = Server::with("127.0.0.1:0", tls, |_| async {}).await;
    let error = client(server.address).get("https://good.test/", 100).await.unwrap_err();
    assert!(
        matches!(&error, Error::Tls { what, .. } if what.contains("xpired")),
        "{error:?}"
    );

    // The system's authorities know nothing of ours.
    let server = Server::answering(|_| answer("200 OK", "", "secret")).await;
    let mut config = World::get().config(server.address);
    config.test_root_ca = None;
    let error = outbound::OutboundClient::new(&config)
        .unwrap()
        .get("https://good.test/", 100)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");

    // Plain HTTP at the port.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        // Closing now could reset what was written.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    let error = client(address).get("https://good.test/", 100).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    plain.abort();
}

#[tokio::test]
async fn a_dead_address_is_passed_over_and_a_dead_host_is_unreachable() {
    let server = Server::answering(|_| answer("200 OK", "", "alive")).await;
    // half.test also has 127.0.0.2, where nobody listens.
    assert_eq!(
        &client(server.address)
            .get("https://half.test/", 100)
            .await
            .unwrap()
            .body[..],
        b"alive"
    );
    let error = client(nobody()).get("https://good.test/", 100).await.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { .. }) && error.may_pass(),
        "{error:?}"
    );
}
