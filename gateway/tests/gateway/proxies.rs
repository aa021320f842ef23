//! Behind proxies: whom limits and records concern.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::client::{Client, head_of, post_head};
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch, receipt};

const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);

fn trusting(config: &mut gateway::GatewayConfig) {
    config.trusted_proxies = ["127.0.0.9", "10.0.0.0/8"].map(|text| text.parse().unwrap()).into();
}

fn with<'a>(fields: &[(&'a str, &'a str)], list: &'a str) -> Vec<(&'a str, &'a str)> {
    [fields, &[("x-forwarded-for", list)]].concat()
}

#[tokio::test]
async fn the_address_is_the_one_the_nearest_proxies_vouch_for() {
    let gateway = Running::with(trusting).await;
    let mut proxy = Client::connect_from(PROXY, gateway.address).await;
    let mut stranger = Client::connect_from(STRANGER, gateway.address).await;
    let long = format!("{}203.0.113.5", "10.0.0.1, ".repeat(1_000));
    let mut wanted = Vec::new();
    for (is_proxy, list, sender) in [
        (false, "203.0.113.5", "127.0.0.1"),
        (true, "203.0.113.5", "203.0.113.5"),
        (true, "198.51.100.1, 203.0.113.5, 10.0.0.3", "203.0.113.5"),
        (true, "[2001:db8::1]:4711, 10.0.0.3:80", "2001:db8::1"),
        (true, "203.0.113.5, someone", "127.0.0.9"),
        (true, &long, "203.0.113.5"),
    ] {
        let client = if is_proxy { &mut proxy } else { &mut stranger };
        assert_eq!(
            client.post(RECEIPTS, &with(FIELDS, list), &receipt().0).await.status,
            202
        );
        wanted.push(sender.parse().ok());
    }
    let recorded: Vec<_> = gateway.records().iter().map(|record| record.client_address).collect();
    assert_eq!(recorded, wanted);
    let longer = "10.0.0.1, ".repeat(2_000);
    let answer = proxy.post(RECEIPTS, &with(FIELDS, &longer), &receipt().0).await;
    answer.refused(431, "head_too_large");
    gateway.stop().await;
}

#[tokio::test]
async fn the_rate_is_that_of_each_sender_on_one_connection() {
    let gateway = Running::with(|config| {
        trusting(config);
        config.rate_address_verifications_per_s = 1;
        config.rate_burst_s = 100;
    })
    .await;
    let mut proxy = Client::connect_from(PROXY, gateway.address).await;
    let mut post = async |list| proxy.post(BATCH, &with(JSON, list), &batch(90)).await;
    assert_eq!(post("203.0.113.5").await.status, 202);
    // Whatever it writes before what the proxy adds.
    post("192.0.2.1, 203.0.113.5").await.refused(429, "rate_limited");
    assert_eq!(post("203.0.113.6").await.status, 202);
    assert_eq!(post("2001:db8::1").await.status, 202);
    post("2001:db8::2").await.refused(429, "rate_limited");
    let mut stranger = Client::connect_from(STRANGER, gateway.address).await;
    for (list, status) in [("203.0.113.7", 202), ("203.0.113.8", 429)] {
        let answer = stranger.post(BATCH, &with(JSON, list), &batch(90)).await;
        assert_eq!(answer.status, status, "{list}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_proxy_may_have_all_connections_and_each_sender_its_share_of_the_unfinished() {
    let gateway = Running::with(|config| {
        trusting(config);
        config.connections_max = 8;
        config.requests_max = 8;
    })
    .await;
    let mut proxies = Vec::new();
    for _ in 0..8 {
        proxies.push(Client::connect_from(PROXY, gateway.address).await);
    }
    // One sender begins five bodies, and may have four.
    let fields = with(FIELDS, "203.0.113.5");
    let mut refused = 0;
    for client in &mut proxies[..5] {
        client.send(post_head(RECEIPTS, &fields, 10).as_bytes()).await;
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(300), client.answer()).await {
            answer.refused(503, "overloaded");
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    // Another's come in parts, too.
    let (body, _) = receipt();
    let other = &mut proxies[5];
    other
        .send(head_of(RECEIPTS, &with(FIELDS, "203.0.113.6"), &body).as_bytes())
        .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.send(&body).await;
    assert_eq!(other.answer().await.status, 202);
    let mut over = Client::connect_from(PROXY, gateway.address).await;
    assert_eq!(over.answer().await.status, 503);
    drop(proxies);
    gateway.stop().await;
}
