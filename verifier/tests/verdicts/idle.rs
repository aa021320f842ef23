//! Empty ranges of a log without new records.

use std::time::{Duration, Instant};

use crate::receipts::{generate, record, single};
use crate::world::{Verdicts, WAIT_MAX, World};

/// Waits until `verdicts` has so many idle records.
async fn idle_records(world: &World, count: usize) -> Verdicts {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let found = world.contiguous_to(world.committed().await).await;
        if found.idle() >= count {
            return found;
        }
        assert!(Instant::now() < deadline, "idle records come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn assert_instants_rise(found: &Verdicts) {
    let instants: Vec<_> = found.headers().map(|header| header.complete_through_ms).collect();
    assert!(instants.is_sorted(), "{instants:?}");
    let idle = found.headers().filter(|header| header.source.is_empty());
    let idle: Vec<_> = idle.map(|header| header.complete_through_ms).collect();
    assert!(
        idle.windows(2).all(|two| two[0] < two[1]),
        "each idle record advances: {idle:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_log_has_idle_records_that_advance() {
    let mut world = World::new();
    world.config.idle_interval_ms = 20;
    let key = generate();
    world.append(record(&single(&key, 0), Some(&key))).await;
    let verifier = world.spawn();
    world.caught_up().await;
    let found = idle_records(&world, 3).await;
    found.assert_outcomes(1, &[]);
    assert_instants_rise(&found);
    // Traffic begins again, and ends again.
    for number in 1..4 {
        world.append(record(&single(&key, number), Some(&key))).await;
    }
    world.caught_up().await;
    let found = idle_records(&world, found.idle() + 2).await;
    verifier.stop().await;
    found.assert_outcomes(4, &[]);
    assert_instants_rise(&found);
    assert!(found.headers().last().unwrap().source_partitions == 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_any_record_has_idle_records() {
    let mut world = World::new();
    world.config.idle_interval_ms = 20;
    let verifier = world.spawn();
    let found = idle_records(&world, 2).await;
    verifier.stop().await;
    assert_instants_rise(&found);
    assert_eq!(found.headers().next().unwrap().source.end.offset, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_records_continue_after_a_restart_and_a_lost_position() {
    let mut world = World::new();
    let key = generate();
    world.append(record(&single(&key, 0), Some(&key))).await;
    world.run_until_caught_up().await;
    world.config.idle_interval_ms = 20;
    for change in [false, true] {
        let before = world.contiguous().await.idle();
        world
            .reopen(|directory| {
                if change {
                    std::fs::remove_dir_all(directory.join("log/positions")).unwrap();
                }
            })
            .await;
        let verifier = world.spawn();
        world.caught_up().await;
        let found = idle_records(&world, before + 2).await;
        verifier.stop().await;
        found.assert_outcomes(1, &[]);
        assert_instants_rise(&found);
    }
}
