//! Streams that continue where they were cut.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::stream::{client, listen, open, take};
use crate::world::World;

/// Cut after every few events, and taken up by one of two processes, while receipts, duplicates and
/// late ones come.
pub(crate) async fn every_receipt_once_over_any_number_of_cuts(world: &World) {
    let publisher = world.publisher("cut.example").await;
    let servers = [world.server(|_| {}).await, world.server(|_| {}).await];
    let mut stream = listen(&servers[0], &publisher, None).await;
    let mut last_id = stream.next_of("totals").await.id;
    let (mut all, mut received, mut sent) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for turn in 0..12_usize {
        for partition in [0, 1] {
            let mut block = world.receipts(&publisher.domain, 1 + turn % 4);
            // One that is in the log already, maybe in the other partition.
            block.extend(sent.get(turn * 7 % sent.len().max(1)).cloned());
            world.deliver(partition, &block).await;
            all.extend(block.iter().map(|receipt| receipt.id));
            sent.extend(block);
        }
        // Somewhere in between: some events are read, and some are lost on the way.
        for _ in 0..turn % 3 {
            let event = stream.next().await.unwrap();
            if event.name == "receipts" {
                assert_eq!(event.data["leftOut"], 0);
                take(&mut received, &event);
            }
            last_id = event.id;
        }
        drop(stream);
        stream = listen(&servers[turn % 2], &publisher, Some(&last_id)).await;
    }
    stream.until(&mut received, &all).await;
    // Who has everything is received the totals at once.
    let id = stream.next_of("totals").await.id;
    let mut again = listen(&servers[0], &publisher, Some(&id)).await;
    let first = again.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["totalReceipts"]),
        ("totals", &all.len().into())
    );
    for server in servers {
        server.stop().await;
    }
}

pub(crate) async fn a_process_that_is_behind_repeats_nothing(world: &World) {
    let publisher = world.publisher("behind.example").await;
    let server = world.server(|_| {}).await;
    let behind = Arc::new(world.progress.frozen());
    let late = world.server_over(Arc::clone(&behind), |_| {}).await;
    // Both know the publisher.
    let mut stream = listen(&server, &publisher, None).await;
    stream.next_of("totals").await;
    let mut other = listen(&late, &publisher, None).await;
    other.next_of("totals").await;
    let first = world.receipts(&publisher.domain, 3);
    world.deliver(0, &first).await;
    let (mut received, mut all): (BTreeSet<_>, BTreeSet<_>) = Default::default();
    all.extend(first.iter().map(|receipt| receipt.id));
    stream.until(&mut received, &all).await;
    // The late one hasn't seen these commits when the stream comes to it.
    let mut stream = listen(&late, &publisher, Some(&stream.last_id)).await;
    let second = world.receipts(&publisher.domain, 2);
    world.deliver(1, &second).await;
    all.extend(second.iter().map(|receipt| receipt.id));
    behind.catch_up(&world.progress);
    stream.until(&mut received, &all).await;
    server.stop().await;
    late.stop().await;
}

pub(crate) async fn too_much_to_tell_is_said(world: &World) {
    let publisher = world.publisher("much.example").await;
    let server = world.server(|_| {}).await;
    let mut stream = listen(&server, &publisher, None).await;
    let id = stream.next_of("totals").await.id;
    drop(stream);
    world.deliver(0, &world.receipts(&publisher.domain, 1_100)).await;
    let mut stream = listen(&server, &publisher, Some(&id)).await;
    let reload = stream.next_of("reload").await;
    assert!(reload.data["reason"].as_str().unwrap().contains("load"));
    assert_eq!(stream.next_of("totals").await.data["totalReceipts"], 1_100);
    // A ledger row from which the touched hours have expired.
    let old = world.receipts(&publisher.domain, 2);
    let four_days_ms = 4 * 24 * 3_600_000;
    world.write(1, &old, world.accounts.now_ms() - four_days_ms).await;
    world.commit(1, old.len());
    stream.next_of("reload").await;
    assert_eq!(stream.next_of("totals").await.data["totalReceipts"], 1_102);
    // And it continues.
    let after = world.receipts(&publisher.domain, 2);
    world.deliver(1, &after).await;
    let mut received = BTreeSet::new();
    stream
        .until(&mut received, &after.iter().map(|receipt| receipt.id).collect())
        .await;
    server.stop().await;
}

/// However long strangers make their texts, an event stays one that a page can read.
pub(crate) async fn texts_that_are_too_long_are_left_out(world: &World) {
    const EVENT_BYTES_MAX: usize = (1 << 20) + 4_096;
    let publisher = world.publisher("long.example").await;
    let server = world.server(|_| {}).await;
    let mut stream = listen(&server, &publisher, None).await;
    let id = stream.next_of("totals").await.id;
    world
        .deliver(0, &world.long_receipts(&publisher.domain, 150, 20_000))
        .await;
    let event = stream.next_of("receipts").await;
    let received = event.data["receipts"].as_array().unwrap().len() as u64;
    assert!((20..150).contains(&received), "{received}");
    assert_eq!(event.data["leftOut"], 150 - received);
    assert!(event.data.to_string().len() <= EVENT_BYTES_MAX);
    assert_eq!(stream.next_of("totals").await.data["totalReceipts"], 150);
    // Who comes back has missed more than one event tells.
    let mut again = listen(&server, &publisher, Some(&id)).await;
    assert_eq!(again.next().await.unwrap().name, "reload");
    assert_eq!(again.next_of("totals").await.data["totalReceipts"], 150);
    server.stop().await;
}

pub(crate) async fn ids_that_are_none(world: &World) {
    let publisher = world.publisher("ids.example").await;
    let server = world.server(|_| {}).await;
    for id in ["nonsense!", "AA", "AQ", "AQAH"] {
        let refused = open(&client(false), &server, &publisher.key, "", Some(id)).await;
        assert_eq!(refused.status, 400, "{id}");
        let problem = refused.problem().await;
        assert_eq!(problem["code"], "bad_request", "{id}: {problem}");
    }
    // Another version's, another log's, and one of a moment that hasn't come.
    for id in ["AgAA", "AQABBQ", "AQAH______8P"] {
        let mut stream = listen(&server, &publisher, Some(id)).await;
        assert_eq!(stream.next().await.unwrap().name, "reload", "{id}");
        assert_eq!(stream.next().await.unwrap().name, "totals", "{id}");
    }
    let mut stream = listen(&server, &publisher, Some("")).await;
    assert_eq!(stream.next().await.unwrap().name, "totals");
    server.stop().await;
}
