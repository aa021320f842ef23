//! Crashes and failures of the disk, searched. `RECEIPT_LOG_SEEDS` is the number of seeds;
//! `RECEIPT_LOG_SEED` repeats one and prints its operations.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::runtime::Runtime;

use super::{disk::Disk, machine::Machine};

const SEEDS: u64 = 2_000;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Runs `play`; on a failure, and if one seed is repeated, prints the operations of the disk.
fn shown(seed: u64, name: &str, machine: &mut Machine<'_>, play: impl FnOnce(&mut Machine<'_>)) {
    let played = catch_unwind(AssertUnwindSafe(|| play(machine)));
    if played.is_err() || variable("RECEIPT_LOG_SEED").is_some() {
        let trace = machine.disk.trace().join("\n");
        eprintln!("{trace}\n{name}: RECEIPT_LOG_SEED={seed} repeats this");
    }
    played.unwrap_or_else(|failure| resume_unwind(failure));
}

/// Plays every seed on a thread for each core.
fn search(seeds: u64, play: impl Fn(u64, &Runtime) + Sync) {
    if let Some(seed) = variable("RECEIPT_LOG_SEED") {
        return play(seed, &runtime());
    }
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let runtime = runtime();
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < seeds
                {
                    let played = catch_unwind(AssertUnwindSafe(|| play(seed, &runtime)));
                    if let Err(failure) = played {
                        next.store(seeds, Ordering::Relaxed);
                        resume_unwind(failure);
                    }
                }
            });
        }
    });
}

/// Some lives of a machine, which end in all ways: closed, killed, without power; and whose disk
/// fails now and then.
fn live(seed: u64, machine: &mut Machine<'_>) {
    let mut random = StdRng::seed_from_u64(!seed);
    for _ in 0..random.random_range(2..6) {
        let mut loss = machine.disk.operations();
        if random.random_bool(0.4) {
            let failures = loss + random.random_range(0..80);
            let count = random.random_range(1..5);
            machine.disk.fail(failures..failures + count);
            loss = failures + count;
        }
        if random.random_bool(0.8) {
            let within = if random.random() { 15 } else { 150 };
            loss += random.random_range(0..within);
            machine.lose_power_at(loss, random.random_bool(0.2));
        }
        let actions = if random.random() { 4 } else { 25 };
        machine.run(random.random_range(0..actions));
        if random.random_bool(0.6) {
            machine.disk.lose_power();
        } else {
            machine.disk.end_process();
        }
    }
    machine.run(8);
}

#[test]
fn what_was_acknowledged_is_there_whatever_happens() {
    search(variable("RECEIPT_LOG_SEEDS").unwrap_or(SEEDS), |seed, runtime| {
        shown(seed, "lives", &mut Machine::new(seed, runtime), |machine| {
            live(seed, machine)
        });
    });
}

/// Runs a process again and again; `plan` stops it one operation later each time, and `end` ends
/// it. Two further ones, with a power loss in between, must find what was acknowledged.
fn search_each_operation(name: &str, plan: impl Fn(&mut Machine<'_>, usize) + Sync, end: impl Fn(&Disk) + Sync) {
    search(variable("RECEIPT_LOG_SEEDS").unwrap_or(SEEDS) / 200, |seed, runtime| {
        let mut after = 0;
        let mut has_ended = true;
        while has_ended {
            shown(seed, name, &mut Machine::new(seed, runtime), |machine| {
                machine.run(8);
                plan(machine, machine.disk.operations() + after);
                machine.run(12);
                has_ended = machine.disk.is_off();
                end(&machine.disk);
                machine.run(6);
                machine.disk.lose_power();
                machine.run(2);
            });
            after += 1;
        }
    });
}

#[test]
fn power_is_lost_at_each_operation() {
    let plan = |machine: &mut Machine<'_>, at| machine.lose_power_at(at, at % 2 == 0);
    search_each_operation("power loss", plan, Disk::lose_power);
}

#[test]
fn the_disk_fails_at_each_operation_and_the_process_is_killed() {
    let plan = |machine: &mut Machine<'_>, at| {
        machine.disk.fail(at..at + 2);
        machine.lose_power_at(at + 2, false);
    };
    search_each_operation("failure", plan, Disk::end_process);
}

#[test]
fn the_same_seed_makes_the_same_operations() {
    let runtime = runtime();
    for seed in 0..20 {
        let traces = [0, 1].map(|_| {
            let mut machine = Machine::new(seed, &runtime);
            live(seed, &mut machine);
            machine.disk.trace()
        });
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}
