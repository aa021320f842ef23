//! Requests to rebuild `usage`, executed by a running writer.

use std::time::{Duration, Instant};

use usage::Usage;
use uuid::Uuid;
use warehouse::QueryScope;
use writer::GROUP;

use crate::harness::{WAIT_MAX, World, run};
use crate::verdicts::Source;

const SUMS: &str = "SELECT uniqExact(sum) = 1 AND count() = 5 ? max(sum) : 0
    FROM (SELECT sum(receipts) AS sum FROM usage GROUP BY grain)";

async fn request(world: &World) -> Uuid {
    let scope = QueryScope::of(vec!["news.example".to_owned()]);
    let usage = Usage::new(world.warehouse.clone());
    usage.request_rebuild(&scope, service::instant::now_ms()).await.unwrap()
}

async fn rebuilt(world: &World, request: Uuid) {
    let usage = Usage::new(world.warehouse.clone());
    let deadline = Instant::now() + WAIT_MAX;
    while !usage.is_rebuilt(request).await.unwrap() {
        assert!(Instant::now() < deadline, "the writer doesn't rebuild");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn filled(world: &World, source: &mut Source) {
    for round in 0..3 {
        world.append(source.singles(round * 100..round * 100 + 50)).await;
    }
    world.run_until_caught_up().await;
    assert_eq!(world.number(SUMS).await, 150);
}

#[test]
fn an_idle_writer_rebuilds_on_request() {
    run(async {
        let mut world = World::new().await;
        world.config.rebuild_poll_interval_ms = 20;
        let mut source = Source::new(3, 0, 1);
        filled(&world, &mut source).await;
        world.sql("TRUNCATE TABLE usage").await;
        let writer = world.spawn();
        let first = request(&world).await;
        rebuilt(&world, first).await;
        assert_eq!(world.number(SUMS).await, 150);
        let again = request(&world).await;
        rebuilt(&world, again).await;
        assert_eq!(world.number(SUMS).await, 150);
        // What was counted by the rebuild is a duplicate from now on.
        world.append(source.singles(0..70)).await;
        world.caught_up(GROUP).await;
        assert_eq!(world.number(SUMS).await, 170);
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_busy_writer_rebuilds_between_batches() {
    run(async {
        let mut world = World::new().await;
        world.config.rebuild_poll_interval_ms = 1;
        let mut source = Source::new(3, 0, 1);
        filled(&world, &mut source).await;
        world.sql("TRUNCATE TABLE usage").await;
        let writer = world.spawn();
        let mut requests = Vec::new();
        for round in 0..20 {
            // Half of them are duplicates, of receipts that may be counted by now or not.
            world.append(source.singles(round * 10..round * 10 + 20)).await;
            if round % 4 == 0 {
                requests.push(request(&world).await);
            }
        }
        world.caught_up(GROUP).await;
        for request in requests {
            rebuilt(&world, request).await;
        }
        writer.stop().await;
        let receipts = source.receipts().len() as u64;
        assert_eq!(world.number(SUMS).await, receipts);
        let keys = "SELECT count() FROM (SELECT time, key FROM usage WHERE grain = 'counted' GROUP BY time, key
            HAVING sum(receipts) != 1)";
        assert_eq!(world.number(keys).await, 0);
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_request_outlives_restarts() {
    run(async {
        let mut world = World::new().await;
        world.config.rebuild_poll_interval_ms = 1;
        let mut source = Source::new(3, 0, 1);
        filled(&world, &mut source).await;
        world.sql("TRUNCATE TABLE usage").await;
        let request = request(&world).await;
        for _ in 0..10 {
            let writer = world.spawn();
            tokio::time::sleep(Duration::from_millis(20)).await;
            writer.stop().await;
        }
        let writer = world.spawn();
        rebuilt(&world, request).await;
        writer.stop().await;
        assert_eq!(world.number(SUMS).await, 150);
        world.assert_exact(&[&source]).await;
    });
}
