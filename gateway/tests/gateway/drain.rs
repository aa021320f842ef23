//! The end: what is in progress is finished, nothing new is begun, and it takes no longer than
//! allowed.

use std::time::Duration;

use gateway::GatewayError;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::client::head_of;
use crate::log::Mood;
use crate::running::Running;
use crate::sample::{FIELDS, RECEIPTS, receipt};

#[tokio::test]
async fn requests_under_way_are_answered_and_idle_connections_closed() {
    let gateway = Running::start().await;
    gateway.log.set(Mood::Silent);
    let mut idle = gateway.connect().await;
    assert_eq!(idle.get("/healthz").await.status, 200);
    let mut silent = gateway.connect().await;
    let mut busy = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.connect().await;
        let (body, id) = receipt();
        client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
        client.send(&body).await;
        busy.push((client, id));
    }
    // One more, so that all before it are surely with the log.
    assert_eq!(idle.get("/healthz").await.status, 200);
    gateway.begin_shutdown();
    assert!(idle.ended().await && silent.ended().await);
    while !gateway.health.is_draining() {
        tokio::task::yield_now().await;
    }
    assert!(TcpStream::connect(gateway.address).await.is_err(), "no new connections");
    gateway.log.set(Mood::Takes);
    let mut answered = 0;
    for (client, id) in &mut busy {
        // A request the gateway hadn't read when the drain began may be left unread; none is
        // answered falsely.
        if let Some(answer) = client.answer_or_end().await {
            assert_eq!(
                (answer.status, answer.json()["receiptId"].as_str()),
                (202, Some(id.as_str()))
            );
            assert_eq!(answer.field("connection"), "close");
            assert!(client.ended().await);
            answered += 1;
        }
    }
    assert_eq!(gateway.records().len(), answered);
    assert!(answered > 0);
    gateway.ended().await.unwrap();
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline() {
    let gateway = Running::with(|config| config.drain_ms_max = 100).await;
    gateway.log.set(Mood::Silent);
    let mut client = gateway.connect().await;
    let (body, _) = receipt();
    client.send(head_of(RECEIPTS, FIELDS, &body).as_bytes()).await;
    client.send(&body).await;
    let mut other = gateway.connect().await;
    assert_eq!(other.get("/healthz").await.status, 200);
    gateway.begin_shutdown();
    assert!(
        client.answer_or_end().await.is_none(),
        "what the log didn't confirm isn't acknowledged"
    );
    match gateway.ended().await {
        Err(GatewayError::DrainTimeout {
            connections: 1,
            limit_ms: 100,
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_drain_under_load_acknowledges_only_what_is_stored() {
    let gateway = Running::start().await;
    let address = gateway.address;
    let mut loads = Vec::new();
    for _ in 0..16 {
        loads.push(tokio::spawn(async move {
            let mut acknowledged = 0;
            let Ok(stream) = TcpStream::connect(address).await else {
                return 0;
            };
            drop(stream);
            let mut client = crate::client::Client::connect(address).await;
            loop {
                let (body, _) = receipt();
                let mut request = head_of(RECEIPTS, FIELDS, &body).into_bytes();
                request.extend_from_slice(&body);
                if tokio::io::AsyncWriteExt::write_all(&mut client.stream, &request)
                    .await
                    .is_err()
                {
                    return acknowledged;
                }
                match client.answer_or_end().await {
                    Some(answer) => assert_eq!(answer.status, 202),
                    None => return acknowledged,
                }
                acknowledged += 1;
            }
        }));
    }
    while gateway.records().len() < 500 {
        tokio::task::yield_now().await;
    }
    gateway.begin_shutdown();
    let mut acknowledged = 0;
    for load in loads {
        acknowledged += load.await.unwrap();
    }
    assert_eq!(gateway.records().len(), acknowledged);
    gateway.ended().await.unwrap();
}

/// Clients behind a load balancer that notices after half of the delay: each leaves when it is
/// asked to, and no request fails.
#[tokio::test]
async fn no_request_fails_while_load_balancers_learn_of_the_end() {
    let gateway = Running::with(|config| config.drain_delay_ms = 3_000).await;
    let address = gateway.address;
    let noticed = CancellationToken::new();
    let mut loads = Vec::new();
    for _ in 0..16 {
        let noticed = noticed.clone();
        loads.push(tokio::spawn(async move {
            let (mut acknowledged, mut connections) = (0, 0);
            while !noticed.is_cancelled() {
                let mut client = crate::client::Client::connect(address).await;
                connections += 1;
                loop {
                    let (body, _) = receipt();
                    let answer = client.post(RECEIPTS, FIELDS, &body).await;
                    assert_eq!(answer.status, 202);
                    acknowledged += 1;
                    if answer.fields.get("connection").is_some_and(|value| value == "close") {
                        assert!(client.ended().await);
                        break;
                    }
                }
            }
            (acknowledged, connections)
        }));
    }
    while gateway.records().len() < 200 {
        tokio::task::yield_now().await;
    }
    gateway.begin_shutdown();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(gateway.health.is_draining());
    noticed.cancel();
    let mut acknowledged = 0;
    for load in loads {
        let (receipts, connections) = load.await.unwrap();
        assert!(connections > 1, "the load balancer sent more in the delay");
        acknowledged += receipts;
    }
    assert_eq!(gateway.records().len(), acknowledged);
    gateway.ended().await.unwrap();
}
