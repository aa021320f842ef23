//! Appends that fail, are refused or come too late.

use verifier::VerifierError;

use crate::receipts::{batch, generate, record, single};
use crate::world::{Fault, Faulty, World, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_waited_for() {
    let mut world = World::new();
    world.config.block_records_max = 2;
    let key = generate();
    for number in 0..10 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
    let (processor, signal) = Faulty::new(world.processor(), Fault::Unavailable(5));
    let verifier = world.spawn_with(processor);
    signal.reached().await;
    wait_until("it says why", || verifier.reason().contains("no space left")).await;
    world.caught_up().await;
    wait_until("it is ready again", || verifier.health.is_ready()).await;
    verifier.stop().await;
    world.contiguous().await.assert_outcomes(10, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_whose_partition_was_taken_drops_its_block() {
    let world = World::new();
    let key = generate();
    world.append(batch(&key, 0..20)).await;
    let (processor, signal) = Faulty::new(world.processor(), Fault::Pause);
    let older = world.spawn_with(processor);
    signal.reached().await;
    // Another one takes the partition over; then the first one continues.
    world.run_until_caught_up().await;
    world.append(batch(&key, 20..25)).await;
    signal.release();
    older.stop().await;
    world.contiguous_to(1).await.assert_outcomes(20, &[]);
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(25, &[]);
}

/// Appends records that are a block each.
async fn blocks_of_one(world: &mut World) {
    world.config.block_records_max = 1;
    let key = generate();
    for number in 0..8 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_appended_behind_a_block_that_is_refused() {
    let mut world = World::new();
    blocks_of_one(&mut world).await;
    let (processor, _signal) = Faulty::new(world.processor(), Fault::Invalid);
    let error = world.spawn_with(processor).ended().await.unwrap_err();
    assert!(
        matches!(&error, VerifierError::Append(reason) if reason == "too large"),
        "{error}"
    );
    assert_eq!(world.contiguous_to(0).await.blocks.len(), 0);
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(8, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_appended_behind_a_block_that_a_stopping_verifier_gave_up() {
    let mut world = World::new();
    // At once: an attempt that fails isn't repeated.
    world.config.drain_ms_max = 600_000;
    blocks_of_one(&mut world).await;
    let (processor, signal) = Faulty::new(world.processor(), Fault::UnavailableAtFirst);
    let verifier = world.spawn_with(processor);
    signal.reached().await;
    verifier.stop().await;
    assert_eq!(world.contiguous_to(0).await.blocks.len(), 0);
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(8, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_over_the_limit_of_verdicts_stops_the_verifier_and_loses_nothing() {
    let mut world = World::new();
    let key = generate();
    world.append(record(&single(&key, 0), Some(&key))).await;
    world.run_until_caught_up().await;
    // A rejected record has its bytes in the verdict: here 2 MiB less what a record of `receipts`
    // adds.
    world.append(record(&vec![b'x'; (2 << 20) - 200], None)).await;
    world.config.block_records_max = 1;
    let error = world.spawn().ended().await.unwrap_err();
    assert!(matches!(error, VerifierError::Append(_)), "{error}");
    world.contiguous_to(1).await.assert_outcomes(1, &[]);
}
