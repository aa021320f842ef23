//! Rows that the table `receipts` refuses.

use test_engines::fault_proxy::{Fault, FaultProxy};

use crate::harness::{World, run, wait_until};
use crate::verdicts::{POISON, Source, Verdict, is_poison};

use Verdict::{Accepted, Rejected};

#[test]
fn refused_rows_are_rejected_alone() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.constrain(POISON).await;
        world
            .append(source.block(&[(0..40).map(Accepted).collect(), vec![Rejected]]))
            .await;
        world.append(source.singles([47, 48])).await;
        world.run_until_caught_up().await;
        world.assert_refused(&[&source], 7).await;
        let of_table = world.sql(
            "SELECT count(), countIf(startsWith(raw, '{')), countIf(position(detail, 'poison') > 0),
                countIf(isNotNull(receipt_id)), countIf(isNotNull(payload_hash)), countIf(isNotNull(request_signature))
             FROM rejected FINAL WHERE reason = 'refused_by_warehouse'",
        );
        assert_eq!(of_table.await, "7\t7\t7\t7\t7\t7");
        // What is decided stays, and what comes later is accepted.
        world.unconstrain().await;
        world.append(source.singles([51])).await;
        world.run_until_caught_up().await;
        world.assert_refused(&[&source], 7).await;
    });
}

/// Blocks of two partitions, of which the constraint refuses nine rows, written by a writer that
/// dies before the ledger.
async fn written_without_ledger(world: &World, proxy: &FaultProxy, sources: &mut [Source; 2]) {
    for first in [0, 20] {
        world
            .append(sources[0].block(&[(first..first + 20).map(Accepted).collect()]))
            .await;
    }
    world
        .append(sources[1].block(&[(40..60).map(Accepted).collect()]))
        .await;
    proxy.arm("ledger", Fault::HangBefore);
    let writer = world.spawn();
    proxy.reached().await.unwrap();
    writer.crash().await;
    assert_eq!(world.number("SELECT count() FROM ledger").await, 0);
}

#[test]
fn a_stored_refusal_stands_when_the_table_accepts_the_row_later() {
    run(async {
        let (mut world, proxy) = World::behind_proxy().await;
        world.config.insert_interval_ms = 100;
        let mut sources = [Source::new(3, 0, 2), Source::new(3, 1, 2)];
        world.constrain(POISON).await;
        written_without_ledger(&world, &proxy, &mut sources).await;
        assert_eq!(world.warehouse.totals().await.unwrap().rejected, 9);
        world.unconstrain().await;
        // The successor's batches are smaller than the one that wasn't finished.
        world.config.batch_receipts_max = 1;
        world.append(sources[0].singles([61, 67])).await;
        world.run_until_caught_up().await;
        world.assert_refused(&[&sources[0], &sources[1]], 9).await;
    });
}

#[test]
fn a_stored_row_counts_when_the_table_refuses_it_later() {
    run(async {
        let (world, proxy) = World::behind_proxy().await;
        let mut sources = [Source::new(3, 0, 2), Source::new(3, 1, 2)];
        written_without_ledger(&world, &proxy, &mut sources).await;
        assert_eq!(world.warehouse.totals().await.unwrap().occurrences, 60);
        world.constrain(POISON).await;
        world
            .append(sources[0].block(&[(60..80).map(Accepted).collect()]))
            .await;
        world.run_until_caught_up().await;
        world.assert_refused(&[&sources[0], &sources[1]], 3).await;
    });
}

#[test]
fn a_refusal_whose_insert_failed_is_stored_at_the_next_attempt() {
    for fault in [Fault::CutBefore, Fault::CutWithin, Fault::CutAfter] {
        run(async {
            let (world, proxy) = World::behind_proxy().await;
            let mut source = Source::new(3, 0, 1);
            world.constrain(POISON).await;
            world.append(source.block(&[(0..20).map(Accepted).collect()])).await;
            proxy.arm("rejected", fault);
            world.run_until_caught_up().await;
            world.assert_refused(&[&source], 3).await;
        });
    }
}

#[test]
fn a_table_that_refuses_everything_stops_nothing() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.constrain("receipt_id IS NULL").await;
        world.append(source.block(&[(0..30).map(Accepted).collect()])).await;
        let writer = world.spawn();
        world.caught_up(writer::GROUP).await;
        assert!(writer.health.is_ready(), "{}", writer.reason());
        writer.stop().await;
        world.assert_refused(&[&source], 30).await;
    });
}

#[test]
fn a_table_that_is_gone_is_waited_for() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.sql("RENAME TABLE receipts TO elsewhere").await;
        world.append(source.singles(0..20)).await;
        let writer = world.spawn();
        wait_until("it says what is missing", || writer.reason().contains("receipts")).await;
        world.sql("RENAME TABLE elsewhere TO receipts").await;
        world.caught_up(writer::GROUP).await;
        wait_until("it is ready again", || writer.health.is_ready()).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_batch_over_the_limits_of_inserts_is_inserted_in_parts() {
    run(async {
        let world = World::limited(7).await;
        let mut source = Source::new(3, 0, 1);
        let accepted: Vec<_> = (0..40).filter(|number| !is_poison(*number)).map(Accepted).collect();
        world.append(source.block(&[accepted, vec![Rejected; 9]])).await;
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}
