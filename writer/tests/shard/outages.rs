//! A warehouse that is away, slow, or cut off in the middle.

use std::time::Duration;

use test_engines::fault_proxy::{Fault, Mode};

use crate::harness::{World, run, wait_until};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

/// A connection is cut at an insert into `table`; afterwards everything is stored once, under a new
/// epoch.
fn cut_at(table: &'static str, fault: Fault) {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        world
            .append(source.block(&[vec![Accepted(0), Rejected], vec![Accepted(2)]]))
            .await;
        proxy.arm(table, fault);
        let writer = world.spawn();
        proxy.reached().await.unwrap();
        world.append(source.block(&[vec![Accepted(2), Rejected]])).await;
        world.caught_up(writer::GROUP).await;
        wait_until("it is ready again", || writer.health.is_ready()).await;
        writer.stop().await;
        let epochs = world.number("SELECT count() FROM writers FINAL").await;
        // Publishing progress is repeated under the same epoch: the version orders it.
        assert_eq!(epochs, if table == "progress" { 1 } else { 2 });
        world.assert_exact(&[&source]).await;
    });
}

macro_rules! cuts {
    ($($name:ident: $table:literal, $fault:ident;)+) => {
        $(#[test]
        fn $name() {
            cut_at($table, Fault::$fault);
        })+
    };
}

cuts! {
    a_connection_cut_before_an_insert_of_receipts_doubles_nothing: "receipts", CutBefore;
    a_connection_cut_within_an_insert_of_receipts_doubles_nothing: "receipts", CutWithin;
    a_connection_cut_after_an_insert_of_receipts_doubles_nothing: "receipts", CutAfter;
    a_connection_cut_within_an_insert_of_rejections_doubles_nothing: "rejected", CutWithin;
    a_connection_cut_after_an_insert_of_rejections_doubles_nothing: "rejected", CutAfter;
    a_connection_cut_before_an_insert_of_usage_doubles_nothing: "usage", CutBefore;
    a_connection_cut_within_an_insert_of_usage_doubles_nothing: "usage", CutWithin;
    a_connection_cut_after_an_insert_of_usage_doubles_nothing: "usage", CutAfter;
    a_connection_cut_before_an_insert_of_the_ledger_doubles_nothing: "ledger", CutBefore;
    a_connection_cut_after_an_insert_of_the_ledger_doubles_nothing: "ledger", CutAfter;
    a_connection_cut_before_progress_is_published_doubles_nothing: "progress", CutBefore;
    a_connection_cut_after_progress_was_published_doubles_nothing: "progress", CutAfter;
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        let writer = world.spawn();
        let mut number = 0;
        for _ in 0..3 {
            for mode in [Mode::Open, Mode::Down] {
                proxy.set(mode);
                for _ in 0..5 {
                    world.append(source.singles(number..number + 10)).await;
                    number += 10;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            wait_until("it isn't ready", || !writer.health.is_ready()).await;
            assert!(writer.reason().contains("warehouse"), "{}", writer.reason());
        }
        proxy.set(Mode::Open);
        world.caught_up(writer::GROUP).await;
        wait_until("it is ready again", || writer.health.is_ready()).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_server_that_is_away_at_the_start_is_waited_for() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.singles(0..10)).await;
        proxy.set(Mode::Down);
        let writer = world.spawn();
        wait_until("it says why", || writer.reason().contains("warehouse")).await;
        proxy.set(Mode::Open);
        world.caught_up(writer::GROUP).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_slow_server_is_waited_for() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        for round in 0..4 {
            world.append(source.singles(round * 50..round * 50 + 50)).await;
        }
        proxy.set(Mode::Slow(Duration::from_millis(20)));
        world.run_until_caught_up().await;
        proxy.set(Mode::Open);
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_batch_that_the_memory_does_not_hold_is_inserted_in_parts() {
    run(async {
        let (mut world, proxy) = World::behind_proxy().await;
        world.config.insert_interval_ms = 500;
        let mut source = Source::new(3, 0, 1);
        for block in 0..32 {
            let receipts = (block * 200..(block + 1) * 200).map(Accepted);
            world.append(source.block(&[receipts.collect(), vec![Rejected]])).await;
        }
        // All together need 30 MB, one block some 9.
        proxy.set(Mode::Memory(16 << 20));
        let writer = world.spawn();
        world.caught_up(writer::GROUP).await;
        let parts = proxy.inserts("ledger");
        assert!(parts > 1, "{parts}");
        proxy.set(Mode::Open);
        world.append(source.singles(6_400..6_500)).await;
        world.caught_up(writer::GROUP).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn answers_that_are_lost_double_nothing() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        world
            .append(source.block(&[(0..20).map(Accepted).collect(), vec![Rejected]]))
            .await;
        let writer = world.spawn();
        proxy.set(Mode::Unanswered);
        wait_until("several answers are cut", || proxy.answers_cut() >= 6).await;
        proxy.set(Mode::Open);
        world.caught_up(writer::GROUP).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_wrong_password_is_named_and_loses_nothing() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.singles(0..10)).await;
        let wrong = world.with_password(&proxy, "changed");
        let writer = world.spawn_with(world.consumer(writer::GROUP), wrong);
        wait_until("it says why", || writer.reason().contains("516")).await;
        assert!(!writer.reason().contains("changed"));
        writer.stop().await;
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}
