//! Writers that die between any two statements, and at any other instant.

use std::time::Duration;

use test_engines::fault_proxy::{Fault, Mode};

use crate::harness::{World, run};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

/// A writer dies at an insert into `table`. Its successor, with more records, stores everything
/// once.
fn dies_at(table: &'static str, fault: Fault) {
    run(async {
        let (mut world, proxy) = World::behind_proxy().await;
        let mut sources = [Source::new(3, 0, 2), Source::new(3, 1, 2)];
        world
            .append(sources[0].block(&[vec![Accepted(0), Rejected], vec![Accepted(2)]]))
            .await;
        world.append(sources[1].idle()).await;
        world.run_until_caught_up().await;
        let first_end = world.progress().await.verdicts;

        proxy.arm(table, fault);
        world
            .append(sources[0].block(&[vec![Accepted(2)], vec![Rejected]]))
            .await;
        world.append(sources[1].block(&[vec![Accepted(3), Accepted(4)]])).await;
        let writer = world.spawn();
        proxy.reached().await.unwrap();
        writer.crash().await;
        assert_eq!(
            world.progress().await.verdicts == first_end,
            (table, fault) != ("progress", Fault::HangAfter),
            "progress comes last"
        );
        world.append(sources[0].singles(5..9)).await;
        world.append(sources[1].block(&[vec![Rejected, Accepted(0)]])).await;
        // Batches of other sizes than the first writer's.
        world.config.batch_receipts_max = 1;
        world.run_until_caught_up().await;
        world.assert_exact(&[&sources[0], &sources[1]]).await;
    });
}

macro_rules! deaths {
    ($($name:ident: $table:literal, $fault:ident;)+) => {
        $(#[test]
        fn $name() {
            dies_at($table, Fault::$fault);
        })+
    };
}

deaths! {
    a_writer_that_dies_before_receipts_are_inserted_changes_nothing: "receipts", HangBefore;
    a_writer_that_dies_after_receipts_were_inserted_changes_nothing: "receipts", HangAfter;
    a_writer_that_dies_before_rejections_are_inserted_changes_nothing: "rejected", HangBefore;
    a_writer_that_dies_after_rejections_were_inserted_changes_nothing: "rejected", HangAfter;
    a_writer_that_dies_before_receipts_are_counted_changes_nothing: "usage", HangBefore;
    a_writer_that_dies_after_receipts_were_counted_changes_nothing: "usage", HangAfter;
    a_writer_that_dies_before_the_ledger_is_inserted_changes_nothing: "ledger", HangBefore;
    a_writer_that_dies_after_the_ledger_was_inserted_changes_nothing: "ledger", HangAfter;
    a_writer_that_dies_before_progress_is_published_changes_nothing: "progress", HangBefore;
    a_writer_that_dies_after_progress_was_published_changes_nothing: "progress", HangAfter;
    a_writer_that_dies_while_it_becomes_the_writer_changes_nothing: "writers", HangAfter;
}

#[test]
fn progress_that_was_not_published_follows_at_the_next_record() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        proxy.arm("progress", Fault::HangBefore);
        world.append(source.singles(0..4)).await;
        let writer = world.spawn();
        proxy.reached().await.unwrap();
        writer.crash().await;
        assert!(world.warehouse.progress().await.unwrap().is_empty());
        assert_eq!(world.number("SELECT count() FROM ledger FINAL").await, 1);
        world.append(source.idle()).await;
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn writers_that_die_at_random_instants_stay_exact() {
    run(async {
        let mut world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let mut number = 0;
        for round in 0..12 {
            for _ in 0..rand::random_range(1..5) {
                let verdicts = vec![Accepted(number), Rejected, Accepted(number / 2)];
                world
                    .append(source.block(&[verdicts, vec![Accepted(number + 1)]]))
                    .await;
                number += 2;
            }
            world.config.batch_receipts_max = rand::random_range(1..20);
            let writer = world.spawn();
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..60))).await;
            if round % 4 == 3 {
                writer.stop().await;
            } else {
                writer.crash().await;
            }
        }
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_stopping_writer_inserts_the_batch_in_flight() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.singles(0..4)).await;
        proxy.arm("receipts", Fault::Held);
        let writer = world.spawn();
        proxy.reached().await.unwrap();
        writer.stop.cancel();
        proxy.release();
        writer.ended().await.unwrap();
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_writer_without_a_warehouse_stops_in_time() {
    run(async {
        let (mut world, proxy) = World::behind_proxy().await;
        world.config.drain_ms_max = 200;
        let mut source = Source::new(3, 0, 1);
        let writer = world.spawn();
        world.append(source.singles(0..4)).await;
        world.caught_up(writer::GROUP).await;
        proxy.set(Mode::Down);
        world.append(source.singles(4..8)).await;
        crate::harness::wait_until("it isn't ready", || !writer.health.is_ready()).await;
        writer.stop().await;
        proxy.set(Mode::Open);
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}
