//! Two writers of one shard: only the newer one changes its tables.

use test_engines::fault_proxy::{Fault, FaultProxy};
use writer::GROUP;

use crate::harness::{World, run};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

/// Fenced tables.
const TABLES: [&str; 4] = ["receipts", "rejected", "ledger", "progress"];

/// A world without merges, with one block in the log, whose insert into `table` meets the fault.
async fn armed(table: &'static str, fault: Fault) -> (World, FaultProxy, Source) {
    let (world, proxy) = World::behind_proxy().await;
    world.merges("STOP").await;
    let mut source = Source::new(3, 0, 1);
    world
        .append(source.block(&[vec![Accepted(0), Rejected], vec![Accepted(2)]]))
        .await;
    proxy.arm(table, fault);
    (world, proxy, source)
}

/// An older writer is held at an insert into `table` while a newer one takes the shard over.
fn superseded_at(table: &'static str) {
    run(async {
        let (world, proxy, mut source) = armed(table, Fault::Held).await;
        let older = world.spawn();
        proxy.reached().await.unwrap();

        world.append(source.singles([10])).await;
        let (warehouse, newer_proxy) = world.second_client().await;
        let newer = world.spawn_with(world.consumer("newer"), warehouse);
        world.caught_up("newer").await;
        let stored = world.rows(&TABLES).await;
        proxy.release();
        // It reads more, and finds that it is superseded.
        world.append(source.block(&[vec![Accepted(3), Rejected]])).await;
        world.caught_up("newer").await;
        older.stop().await;
        let expected: Vec<_> = stored.iter().map(|before| before + 1).collect();
        assert_eq!(world.rows(&TABLES).await, expected, "only the newer writer inserted");

        let forwarded = newer_proxy.inserts("receipts");
        world.append(source.singles(4..6)).await;
        world.caught_up("newer").await;
        assert_eq!(newer_proxy.inserts("receipts"), forwarded + 1);
        newer.stop().await;
        world.merges("START").await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_writer_superseded_at_receipts_inserts_nothing_more() {
    superseded_at("receipts");
}

#[test]
fn a_writer_superseded_at_rejections_inserts_nothing_more() {
    superseded_at("rejected");
}

#[test]
fn a_writer_superseded_at_usage_counts_nothing_more() {
    superseded_at("usage");
}

#[test]
fn a_writer_superseded_at_the_ledger_inserts_nothing_more() {
    superseded_at("ledger");
}

#[test]
fn a_writer_superseded_at_progress_publishes_nothing_more() {
    superseded_at("progress");
}

#[test]
fn a_superseded_writer_leaves_the_shard_and_may_be_started_again() {
    run(async {
        let (world, _proxy) = World::behind_proxy().await;
        let mut source = Source::new(3, 0, 1);
        let older = world.spawn();
        world.append(source.singles(0..3)).await;
        world.caught_up(GROUP).await;
        let (warehouse, _newer_proxy) = world.second_client().await;
        let newer = world.spawn_with(world.consumer("newer"), warehouse);
        world.append(source.singles(3..6)).await;
        world.caught_up("newer").await;
        older.stop().await;
        newer.stop().await;
        world.append(source.singles(6..9)).await;
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}

/// A writer sees the connection cut at an insert into `table`, takes a new epoch and inserts the
/// batch again. Then the first insert arrives.
fn arrives_late(table: &'static str) {
    run(async {
        let (world, proxy, mut source) = armed(table, Fault::Late).await;
        let writer = world.spawn();
        proxy.reached().await.unwrap();
        world.append(source.block(&[vec![Accepted(2), Rejected]])).await;
        world.caught_up(GROUP).await;
        assert_eq!(world.number("SELECT count() FROM writers FINAL").await, 2);
        let tables = ["receipts", "rejected", "usage", "ledger", "progress"];
        let stored = world.rows(&tables).await;
        proxy.release();
        let answer = proxy.late_answer().await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(world.rows(&tables).await, stored, "the late insert added nothing");
        writer.stop().await;
        world.merges("START").await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_late_insert_of_receipts_adds_nothing() {
    arrives_late("receipts");
}

#[test]
fn a_late_insert_of_rejections_adds_nothing() {
    arrives_late("rejected");
}

#[test]
fn a_late_insert_of_usage_counts_nothing() {
    arrives_late("usage");
}

#[test]
fn a_late_insert_of_the_ledger_adds_nothing() {
    arrives_late("ledger");
}
