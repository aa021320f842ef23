//! Many listeners, of one publisher and of several.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::stream::{client, listen, open};
use crate::world::{Delivered, World, is_proven};

const LISTENERS: usize = 2_000;
/// Streams of one h2c connection.
const OF_CONNECTION: usize = 100;

fn ids(receipts: &[Delivered]) -> BTreeSet<Uuid> {
    receipts.iter().map(|receipt| receipt.id).collect()
}

pub(crate) async fn two_thousand_listeners_share_one_question(world: &World) {
    let publisher = world.publisher("many.example").await;
    let server = Arc::new(world.server(|_| {}).await);
    let blocks: Vec<Vec<Delivered>> = (0..8).map(|_| world.receipts("many.example", 5)).collect();
    let all = ids(&blocks.concat());
    let (ready, key) = (Arc::new(Barrier::new(LISTENERS + 1)), Arc::new(publisher.key.clone()));
    let before = ["arrivals_ids", "arrivals", "live_ledger"].map(|query| world.asked(query));
    let totals_before = world.asked("dashboard");
    let mut listeners = Vec::new();
    for number in 0..LISTENERS {
        // Most over h2c, many on one connection; some with one of their own.
        let h2c = number >= OF_CONNECTION;
        let shared = client(h2c);
        if number % OF_CONNECTION == 0 || !h2c {
            listeners.push((shared, vec![number]));
        } else if let Some((_, numbers)) = listeners.last_mut() {
            numbers.push(number);
        }
    }
    let refused = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for (http, numbers) in listeners {
        for _ in numbers {
            let (http, server, ready) = (http.clone(), Arc::clone(&server), Arc::clone(&ready));
            let (all, key, refused) = (all.clone(), Arc::clone(&key), Arc::clone(&refused));
            tasks.spawn(async move {
                let mut stream = open(&http, &server, &key, "", None).await;
                // The first totals took too long, on a busy machine.
                while stream.status == 503 {
                    refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    stream = open(&http, &server, &key, "", None).await;
                }
                assert_eq!(stream.status, 200);
                assert_eq!(stream.headers["content-type"], "text/event-stream");
                assert_eq!(stream.headers["x-ratelimit-cost"], "5");
                let first = stream.next().await.unwrap();
                assert_eq!(
                    (first.name.as_str(), &first.data["totalReceipts"]),
                    ("totals", &0.into())
                );
                ready.wait().await;
                let mut received = BTreeSet::new();
                stream.until(&mut received, &all).await;
                let last = stream.next_of("totals").await;
                assert_eq!(last.data["totalReceipts"], all.len());
                assert_eq!(last.data["uniqueClients"], 3);
                let proven = all.iter().filter(|id| is_proven(**id)).count();
                let parts = &last.data["byTrust"];
                assert_eq!(parts["proven"]["totalReceipts"], proven);
                assert_eq!(parts["unproven"]["totalReceipts"], all.len() - proven);
            });
        }
    }
    tokio::select! {
        _ = ready.wait() => {}
        Some(ended) = tasks.join_next() => panic!("a listener ended before it was ready: {ended:?}"),
    }
    for (number, block) in (0..).zip(&blocks) {
        world.deliver(number % 2, block).await;
        // Again, in the other partition: a duplicate.
        world.deliver((number + 1) % 2, &block[..1]).await;
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    // Each of 16 commits is at most one change set, with one query of each kind.
    let after = ["arrivals_ids", "arrivals", "live_ledger"].map(|query| world.asked(query));
    for (before, after) in before.into_iter().zip(after) {
        assert!((1..=16).contains(&(after - before)), "{before} {after}");
    }
    assert!(world.asked("dashboard") - totals_before <= 18 + refused.load(Ordering::Relaxed));
    Arc::into_inner(server).unwrap().stop().await;
}

pub(crate) async fn publishers_never_see_each_others(world: &World) {
    let (one, other) = (
        world.publisher("one.example").await,
        world.publisher("other.example").await,
    );
    let server = world.server(|_| {}).await;
    let (mut ones, mut others) = (listen(&server, &one, None).await, listen(&server, &other, None).await);
    let id = ones.next_of("totals").await.id;
    others.next_of("totals").await;
    let (of_one, of_other) = (world.receipts(&one.domain, 3), world.receipts(&other.domain, 4));
    world.deliver(0, &[of_one.clone(), of_other.clone()].concat()).await;
    let (mut received_one, mut received_other) = (BTreeSet::new(), BTreeSet::new());
    ones.until(&mut received_one, &ids(&of_one)).await;
    others.until(&mut received_other, &ids(&of_other)).await;
    assert_eq!(ones.next_of("totals").await.data["totalReceipts"], 3);
    // An id from one's stream brings the other its own.
    let mut received = BTreeSet::new();
    let mut again = listen(&server, &other, Some(&id)).await;
    again.until(&mut received, &ids(&of_other)).await;
    let foreign = open(&client(false), &server, &one.key, "?domain=other.example", None).await;
    assert_eq!(foreign.status, 403);
    server.stop().await;
}

pub(crate) async fn a_slow_reader_learns_what_it_missed(world: &World) {
    let publisher = world.publisher("slow.example").await;
    let server = world.server(|_| {}).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut slow = socket.connect(server.address).await.unwrap();
    let head = format!(
        "GET /api/v1/analytics/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        publisher.key
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut fast = listen(&server, &publisher, None).await;
    fast.next_of("totals").await;
    // The kernel buffers some megabytes, the topic a quarter of one.
    let (mut all, mut received) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..14 {
        let block = world.long_receipts(&publisher.domain, 150, 3_000);
        all.extend(ids(&block));
        world.deliver(0, &block).await;
        fast.until(&mut received, &all).await;
    }
    // It reads at last: what it is received one by one and what it is received the number of are
    // all there were.
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    let sums = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let lefts = text.match_indices("{\"leftOut\":").map(|(at, found)| {
            let digits: String = text[at + found.len()..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            digits.parse::<usize>().unwrap()
        });
        (text.matches("\"receiptId\"").count(), lefts.sum::<usize>())
    };
    let reading = async {
        loop {
            let read = slow.read(&mut piece).await.unwrap();
            bytes.extend_from_slice(&piece[..read]);
            let (received, left_out) = sums(&bytes);
            assert!(read > 0 && received + left_out <= all.len(), "{received} {left_out}");
            if received + left_out == all.len() {
                return left_out;
            }
        }
    };
    let left_out = tokio::time::timeout(Duration::from_secs(300), reading).await.unwrap();
    assert!(left_out > 0, "the kernel held everything: make the blocks larger");
    server.stop().await;
}

pub(crate) async fn streams_are_bounded(world: &World) {
    let (one, other) = (
        world.publisher("few.example").await,
        world.publisher("fewer.example").await,
    );
    let server = world
        .server(|config| (config.live_key_streams_max, config.live_streams_max) = (2, 3))
        .await;
    let held = [listen(&server, &one, None).await, listen(&server, &one, None).await];
    let refused = open(&client(false), &server, &one.key, "", None).await;
    assert_eq!(
        (refused.status, refused.headers["retry-after"].to_str().unwrap()),
        (429, "10")
    );
    assert_eq!(refused.problem().await["code"], "rate_limited");
    let third = listen(&server, &other, None).await;
    let refused = open(&client(false), &server, &other.key, "", None).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.problem().await["code"], "overloaded");
    drop((held, third));
    // The server sees the ends of connections when they come.
    let room = async {
        while open(&client(false), &server, &one.key, "", None).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), room).await.unwrap();
    for (query, accept) in [("?tz=Nowhere", "*/*"), ("?limit=1", "*/*"), ("", "application/json")] {
        let address = format!("http://{}/api/v1/analytics/live{query}", server.address);
        let request = http::Request::get(address)
            .header("authorization", format!("Bearer {}", one.key))
            .header("accept", accept);
        let answer = client(false)
            .request(request.body(http_body_util::Empty::new()).unwrap())
            .await
            .unwrap();
        let wanted = if query.is_empty() { 406 } else { 400 };
        assert_eq!(answer.status(), wanted, "{query} {accept}");
    }
    server.stop().await;
}
