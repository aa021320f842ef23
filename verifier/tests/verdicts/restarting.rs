//! Verifiers that die and start again, positions that are lost, and logs that were set back.

use std::path::Path;
use std::time::Duration;

use verifier::VerifierError;

use crate::receipts::{batch, generate, record, single};
use crate::world::{Fault, Faulty, World};

/// Runs a verifier until it reaches the fault, then drops it.
async fn run_faulty(world: &World, fault: Fault) {
    let (processor, signal) = Faulty::new(world.processor(), fault);
    let verifier = world.spawn_with(processor);
    signal.reached().await;
    verifier.crash().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_append_repeats_the_block() {
    let world = World::new();
    let key = generate();
    world.append(batch(&key, 0..20)).await;
    run_faulty(&world, Fault::HangBefore).await;
    assert_eq!(world.contiguous_to(0).await.accepted, 0);
    world.append(batch(&key, 20..30)).await;
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(30, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_after_the_append_repeats_nothing() {
    let world = World::new();
    let key = generate();
    world.append(batch(&key, 0..20)).await;
    run_faulty(&world, Fault::HangAfter).await;
    assert_eq!(world.contiguous().await.accepted, 20);
    world.append(batch(&key, 20..30)).await;
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(30, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_at_random_instants_neither_repeat_nor_skip() {
    let mut world = World::new();
    let key = generate();
    let mut sent = 0;
    for round in 0..20 {
        for _ in 0..rand::random_range(1..6) {
            world.append(batch(&key, sent..sent + 2)).await;
            sent += 2;
        }
        world.config.block_records_max = rand::random_range(1..5);
        match round % 5 {
            0 => run_faulty(&world, Fault::HangBefore).await,
            1 => run_faulty(&world, Fault::HangAfter).await,
            _ => {
                let verifier = world.spawn();
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..15))).await;
                if round % 2 == 0 {
                    verifier.crash().await;
                } else {
                    verifier.stop().await;
                }
            }
        }
        if round % 7 == 6 {
            world.reopen(|_| {}).await;
        }
        // One more record, so that a faulty verifier has a block to append.
        world.append(batch(&key, sent..sent + 2)).await;
        sent += 2;
    }
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(sent as u64, &[]);
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-rT").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

fn remove_positions(directory: &Path) {
    std::fs::remove_dir_all(directory.join("log/positions")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_position_is_found_in_the_verdicts_and_stored_without_new_records() {
    let mut world = World::new();
    let key = generate();
    for number in 0..4 {
        world.append(record(&single(&key, number), Some(&key))).await;
        world.run_until_caught_up().await;
    }
    world.reopen(remove_positions).await;
    assert_eq!(world.committed().await, 0);
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(4, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_position_continues_behind_the_verdicts_with_new_records() {
    let mut world = World::new();
    let key = generate();
    for number in 0..4 {
        world.append(record(&single(&key, number), Some(&key))).await;
        world.run_until_caught_up().await;
    }
    world.reopen(remove_positions).await;
    world.append(batch(&key, 10..15)).await;
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(9, &[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_position_continues_behind_the_verdicts() {
    let mut world = World::new();
    let key = generate();
    let older = tempfile::tempdir().unwrap();
    let copied = older.path().join("verifier");
    world.append(batch(&key, 0..3)).await;
    world.run_until_caught_up().await;
    world
        .reopen(|directory| copy(&directory.join("log/positions/verifier"), &copied))
        .await;
    for number in 1..4 {
        world.append(batch(&key, 10 * number..10 * number + 3)).await;
        world.run_until_caught_up().await;
    }
    world.append(batch(&key, 100..110)).await;
    run_faulty(&world, Fault::HangBefore).await;
    world
        .reopen(|directory| copy(&copied, &directory.join("log/positions/verifier")))
        .await;
    assert_eq!(world.committed().await, 1);
    world.append(batch(&key, 110..120)).await;
    world.run_until_caught_up().await;
    world.contiguous().await.assert_outcomes(32, &[]);
}

/// Has verdicts on four records, and the log `receipts` as it was after two.
async fn set_back(world: &mut World) {
    let key = generate();
    let older = tempfile::tempdir().unwrap();
    for number in 0..2 {
        world.append(record(&single(&key, number), Some(&key))).await;
        world.run_until_caught_up().await;
    }
    world
        .reopen(|directory| copy(&directory.join("log"), older.path()))
        .await;
    for number in 2..4 {
        world.append(record(&single(&key, number), Some(&key))).await;
        world.run_until_caught_up().await;
    }
    world
        .reopen(|directory| {
            std::fs::remove_dir_all(directory.join("log")).unwrap();
            copy(older.path(), &directory.join("log"));
        })
        .await;
}

async fn assert_refused(world: &World, why: &str) {
    for _ in 0..2 {
        let error = world.spawn().ended().await.unwrap_err();
        assert!(
            matches!(&error, VerifierError::SetBack { partition: 0, verdicts_end: 4, detail } if detail.contains(why)),
            "{error}"
        );
        assert_eq!(world.contiguous_to(4).await.accepted, 4, "nothing is appended");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_set_back_is_refused() {
    let mut world = World::new();
    set_back(&mut world).await;
    assert_refused(&world, "the log has offsets 0 to 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_set_back_and_grew_again_is_refused() {
    let mut world = World::new();
    set_back(&mut world).await;
    let key = generate();
    // Younger than the verdicts that replaced them, by the millisecond.
    tokio::time::sleep(Duration::from_millis(5)).await;
    for number in 10..15 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
    assert_refused(&world, "younger").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_log_begins_a_new_epoch() {
    let mut world = World::new();
    let key = generate();
    world.append(record(&single(&key, 0), Some(&key))).await;
    world.run_until_caught_up().await;
    let old = world.receipts.epoch();
    world
        .reopen(|directory| std::fs::remove_dir_all(directory.join("log")).unwrap())
        .await;
    assert_ne!(world.receipts.epoch(), old);
    world.append(record(&single(&key, 1), Some(&key))).await;
    world.run_until_caught_up().await;
    let records = receipt_log::LogInspector::read(&world.verdicts, 0, 1, 1 << 20)
        .await
        .unwrap();
    let sources: Vec<_> = records
        .iter()
        .map(|logged| blocks::Block::decode(&logged.record.body).unwrap().header.source)
        .collect();
    assert_eq!(sources.len(), 1);
    assert_eq!(
        (sources[0].epoch, sources[0].first.offset, sources[0].end.offset),
        (world.receipts.epoch(), 0, 1)
    );
}
