//! The admin port over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;

use http_server::admin::AdminPort;
use http_server::listen::bind;
use service::health::Health;
use service::telemetry::install_metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Admin {
    address: SocketAddr,
    health: Health,
    port: AdminPort,
}

fn start() -> Admin {
    let listener = bind("telemetry.metrics_listen", "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let health = Health::new();
    let port = AdminPort::serve(listener, install_metrics().unwrap(), health.clone());
    Admin { address, health, port }
}

async fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nx-request-id: r-1\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn readiness_follows_the_components_and_liveness_does_not() {
    let admin = start();
    let log = admin.health.register("log");
    let text = ask(admin.address, "GET", "/readyz").await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(
        text.contains(r#""log":{"status":"not_ready","reason":"starting"}"#),
        "{text}"
    );
    log.ready();
    assert!(ask(admin.address, "GET", "/readyz").await.starts_with("HTTP/1.1 200 "));
    admin.health.drain();
    assert!(
        ask(admin.address, "GET", "/readyz")
            .await
            .contains(r#"{"status":"draining""#)
    );
    assert!(ask(admin.address, "GET", "/healthz").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let admin = start();
    metrics::counter!("receipts_cpu_refused_total", "pool" => "admin-test").increment(3);
    let text = ask(admin.address, "GET", "/metrics").await;
    assert!(
        text.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{text}"
    );
    assert!(
        text.contains("receipts_cpu_refused_total{pool=\"admin-test\"} 3"),
        "{text}"
    );
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    let head = ask(admin.address, "HEAD", "/metrics").await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn anything_else_is_a_problem() {
    let admin = start();
    let text = ask(admin.address, "GET", "/secrets").await;
    assert!(
        text.starts_with("HTTP/1.1 404 ") && text.contains("application/problem+json"),
        "{text}"
    );
    assert!(text.contains(r#""requestId":"r-1""#), "{text}");
    let text = ask(admin.address, "POST", "/metrics").await;
    assert!(
        text.starts_with("HTTP/1.1 405 ") && text.contains("allow: GET, HEAD"),
        "{text}"
    );
}

#[tokio::test]
async fn shutdown_ends_it_and_its_open_connections() {
    let admin = start();
    let mut idle = TcpStream::connect(admin.address).await.unwrap();
    assert!(ask(admin.address, "GET", "/healthz").await.contains("alive"));
    admin.port.stop().await;
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(admin.address).await.is_err());
}

/// Whoever connects and says nothing must not keep a probe waiting: it would have the process
/// killed.
#[tokio::test]
async fn silent_connections_make_room_for_a_probe() {
    let admin = start();
    let mut silent = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(admin.address).await.unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost:").await.unwrap();
        silent.push(stream);
    }
    assert!(ask(admin.address, "GET", "/healthz").await.starts_with("HTTP/1.1 200 "));
    // Only the one that was silent the longest had to go.
    assert_eq!(silent[0].read(&mut [0; 16]).await.unwrap_or(0), 0);
    let newest = &mut silent[63];
    newest.write_all(b" x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    newest.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// A connection that asks again and again keeps its permit.
#[tokio::test]
async fn a_scraper_is_not_the_one_to_go() {
    let admin = start();
    let mut scraper = TcpStream::connect(admin.address).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..3 {
        for _ in 0..40 {
            silent.push(TcpStream::connect(admin.address).await.unwrap());
        }
        scraper
            .write_all(b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 512];
        let length = scraper.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "));
    }
}
