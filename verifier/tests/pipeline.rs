//! The whole verifier over a real embedded log and the real ClickHouse engine: outcomes, the ledger through crashes at
//! each step, fencing, policies that change, a warehouse that is away, and lost rows rebuilt.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod engine_faults;
mod policies;
mod world;

use std::path::Path;
use std::time::Duration;

use receipt::{Algorithm, SigningKey};
use receipt_log::{LogConsumer, LogWriter};
use tokio_util::sync::CancellationToken;
use world::{Fault, Faulty, Published, World, batch, record, single};

/// One engine and one data path per process, so the cases share them, each with a database and a log of its own.
#[test]
fn pipeline() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let engine = world::engine(directory.path()).await;
        let world = |name: &'static str| World::new(directory.path(), name);
        every_record_ends_in_its_outcome(world("outcomes").await).await;
        a_crash_before_the_commit_changes_nothing(world("before_commit").await).await;
        a_crash_before_the_ledger_row_is_repaired(world("before_ledger").await).await;
        a_fenced_verifier_drops_its_block(world("fenced").await).await;
        a_failing_commit_is_tried_again(world("failing_commit").await).await;
        rejected_receipts_are_published_before_the_commit(world("letters").await).await;
        lost_rows_are_rebuilt_from_the_log(world("rebuilt").await, directory.path()).await;
        lost_positions_go_on_behind_the_ledger(world("lost_positions").await).await;
        a_gap_in_the_ledger_is_judged_again(world("gap").await).await;
        a_log_that_was_set_back_is_refused(world("set_back").await).await;
        a_random_schedule_of_crashes_stays_exact(world("schedule").await).await;
        policies::all(directory.path()).await;
        engine_faults::all(&engine, directory.path()).await;
        engine.stop().await;
    });
}

async fn every_record_ends_in_its_outcome(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let one = single(&key, 1);
    world.append(record(&one, Some(&key))).await;
    world.append(record(&one, Some(&key))).await; // the same again: a duplicate
    world.append(record(&one, None)).await; // and once without a request signature
    let tampered = String::from_utf8(single(&key, 2))
        .unwrap()
        .replace("a context", "b context")
        .into_bytes();
    world.append(record(&tampered, Some(&key))).await;
    let other = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
    world.append(record(&single(&key, 3), Some(&other))).await; // signed by the wrong key on the outside
    world.append(batch(&key, 10..20)).await;
    let mut broken_batch = batch(&key, 20..25);
    broken_batch.body = String::from_utf8(broken_batch.body.to_vec())
        .unwrap()
        .replace("batch_", "BATCH_")
        .into_bytes()
        .into();
    world.append(broken_batch).await;
    for poison in [&b"\xff\xfe not json"[..], b"", b"{}", b"[1,2", b"{\"receipts\":[]}"] {
        world.append(record(poison, None)).await;
    }
    world.run_until_caught_up().await;

    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!(totals.receipts, 11);
    assert_eq!(totals.occurrences, 13);
    let rejected: Vec<(&str, u64)> = totals
        .rejected_by_reason
        .iter()
        .map(|(r, n)| (r.as_str(), *n))
        .collect();
    let expected = [
        ("bad_batch_signature", 5),
        ("bad_request_signature", 1),
        ("bad_signature", 1),
        ("malformed", 5),
    ];
    assert_eq!(rejected, expected);
    world.assert_audit(25).await;
}

async fn a_crash_before_the_commit_changes_nothing(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..50)).await;
    // Rows are written, then the process "dies" in the commit; more records come, so that blocks fall otherwise.
    world.run_faulty(Fault::HangBeforeCommit).await;
    assert_eq!(
        world.warehouse.totals().await.unwrap().receipts,
        50,
        "the rows were written"
    );
    world.append(batch(&key, 50..60)).await;
    world.run_until_caught_up().await;
    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!((totals.receipts, totals.occurrences), (60, 60));
    world.assert_audit(60).await;
}

async fn a_crash_before_the_ledger_row_is_repaired(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..30)).await;
    world.run_faulty(Fault::HangAfterCommit).await;
    let sums = world.audit().await;
    assert!(
        !sums.findings.is_empty(),
        "the commit stands and its ledger row doesn't: the audit must say so"
    );
    world.append(batch(&key, 30..40)).await;
    world.run_until_caught_up().await;
    world.assert_audit(40).await;
}

async fn a_fenced_verifier_drops_its_block(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..20)).await;
    // The first verifier hangs before its commit; a second takes over meanwhile; then the first, a zombie, goes on.
    let (consumer, resume) = Faulty::pausing(world.consumer());
    let stop = CancellationToken::new();
    let zombie = world.spawn(Box::new(consumer), stop.clone());
    resume.reached().await;
    world.run_until_caught_up().await;
    resume.go_on();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.cancel();
    zombie.await.unwrap().unwrap();
    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!((totals.receipts, totals.occurrences), (20, 20));
    world.assert_audit(20).await;
}

async fn a_failing_commit_is_tried_again(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..5)).await;
    let stop = CancellationToken::new();
    let verifier = world.spawn(Box::new(Faulty::failing(world.consumer(), 3)), stop.clone());
    world.caught_up().await;
    stop.cancel();
    verifier.await.unwrap().unwrap();
    world.assert_audit(5).await;
}

async fn rejected_receipts_are_published_before_the_commit(mut world: World) {
    let published = Published::failing(&world.warehouse, 2);
    world.dead_letters = Some(published.clone());
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(record(&single(&key, 1), Some(&key))).await;
    let poison = b"\xff\xfe not json \x00";
    world.append(record(poison, None)).await;
    let mut broken = batch(&key, 2..4);
    let broken_text = String::from_utf8(broken.body.to_vec())
        .unwrap()
        .replace("batch_", "BATCH_");
    broken.body = broken_text.clone().into();
    world.append(broken).await;
    // They are published, and the process "dies" before the commit: all of them come again.
    world.run_faulty(Fault::HangBeforeCommit).await;
    let first: Vec<_> = published.letters.lock().unwrap().drain(..).collect();
    world.run_until_caught_up().await;
    let second: Vec<_> = published.letters.lock().unwrap().drain(..).collect();

    for letters in [&first, &second] {
        let seen: Vec<_> = letters
            .iter()
            .map(|(letter, stored)| {
                assert_eq!(*stored, 3, "what is published stands in the table");
                let position = letter.position;
                (position.record.offset, position.index, letter.reason, letter.origin)
            })
            .collect();
        let expected = [
            (1, 0, "malformed", "record"),
            (2, 0, "bad_batch_signature", "batch"),
            (2, 1, "bad_batch_signature", "batch"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(&letters[0].0.body[..], poison);
        let one = std::str::from_utf8(&letters[2].0.body).unwrap();
        assert!(one.starts_with('{') && one.len() < broken_text.len() / 2 && broken_text.contains(one));
        let headers = letters[1].0.headers();
        let header = |name| headers.iter().find(|(n, _)| *n == name).map(|(_, text)| text.as_str());
        assert_eq!(header("position"), Some(letters[1].0.position.to_string().as_str()));
        assert_eq!(
            (header("kind"), header("publisher")),
            (Some("batch"), Some("example.com"))
        );
    }
    world.assert_audit(4).await;
}

async fn lost_rows_are_rebuilt_from_the_log(mut world: World, directory: &Path) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    world.append(batch(&key, 0..40)).await;
    world.append(record(b"poison", None)).await;
    world.run_until_caught_up().await;
    world.lose_all_rows(directory).await;
    assert!(
        !world.audit().await.findings.is_empty(),
        "lost rows must show in the audit"
    );
    let mut steps = 0;
    let repaired = verifier::repair::repair(&world.log, &world.warehouse, &world.cpu, &world.judge, None, |_, _| {
        steps += 1
    })
    .await;
    let repaired = repaired.unwrap();
    assert_eq!(
        (repaired.records, repaired.accepted, repaired.rejected, repaired.gone),
        (2, 40, 1, 0)
    );
    assert!(steps > 0);
    world.assert_audit(41).await;
}

/// Blocks of other sizes than a reading from the start would cut.
async fn judged_in_blocks(world: &World, key: &SigningKey, numbers: std::ops::Range<usize>) {
    for number in numbers {
        world.append(batch(key, 10 * number..10 * number + 2)).await;
        world.run_until_caught_up().await;
    }
}

fn copied(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-rT").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

fn remove_positions(log_dir: &Path) {
    std::fs::remove_dir_all(log_dir.join("positions")).unwrap();
}

async fn lost_positions_go_on_behind_the_ledger(mut world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    judged_in_blocks(&world, &key, 0..4).await;
    // With nothing new, the position is committed where the lines end.
    world.reopen(remove_positions).await;
    world.run_until_caught_up().await;
    world.assert_audit(8).await;
    // Set back to an earlier commit, with a block that was written and not committed, and with more to read.
    let earlier = tempfile::tempdir().unwrap();
    let kept = earlier.path().join("verifier");
    world.reopen(|dir| copied(&dir.join("positions/verifier"), &kept)).await;
    judged_in_blocks(&world, &key, 4..8).await;
    world.append(batch(&key, 100..110)).await;
    world.run_faulty(Fault::HangBeforeCommit).await;
    world.reopen(|dir| copied(&kept, &dir.join("positions/verifier"))).await;
    assert_eq!(world.committed().await, 4);
    world.append(batch(&key, 110..120)).await;
    world.run_until_caught_up().await;
    assert_eq!(world.committed().await, 10);
    world.assert_audit(36).await;
    let lines = world.warehouse.ledger(world.epoch().await, 0, 0, 100).await.unwrap();
    assert!(lines.len() >= 9, "the lines of the first reading stand: {lines:?}");
}

async fn a_gap_in_the_ledger_is_judged_again(mut world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    judged_in_blocks(&world, &key, 0..6).await;
    world
        .execute("ALTER TABLE ledger DELETE WHERE first_offset IN (2, 3)")
        .await;
    world.reopen(remove_positions).await;
    world.append(batch(&key, 100..103)).await;
    world.run_until_caught_up().await;
    world.assert_audit(15).await;
}

async fn a_log_that_was_set_back_is_refused(mut world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    judged_in_blocks(&world, &key, 0..2).await;
    let kept = tempfile::tempdir().unwrap();
    world.reopen(|dir| copied(dir, kept.path())).await;
    judged_in_blocks(&world, &key, 2..4).await;
    world
        .reopen(|dir| {
            std::fs::remove_dir_all(dir).unwrap();
            copied(kept.path(), dir);
        })
        .await;
    let ended = world.spawn(Box::new(world.consumer()), CancellationToken::new());
    let error = ended.await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("up to offset 4, but the log ends at 2") && error.contains("new epoch"),
        "{error}"
    );
}

async fn a_random_schedule_of_crashes_stays_exact(world: World) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let mut sent = 0_usize;
    for round in 0..12 {
        let size = rand::random_range(1..8);
        for _ in 0..size {
            world.append(batch(&key, sent..sent + 3)).await;
            sent += 3;
        }
        match round % 3 {
            0 => world.run_faulty(Fault::HangBeforeCommit).await,
            1 => world.run_faulty(Fault::HangAfterCommit).await,
            _ => world.run_until_caught_up().await,
        }
    }
    world.run_until_caught_up().await;
    let totals = world.warehouse.totals().await.unwrap();
    assert_eq!((totals.receipts, totals.occurrences), (sent as u64, sent as u64));
    world.assert_audit(sent as u64).await;
}

/// The traits the pipeline stands on stay usable as trait objects.
#[allow(dead_code)]
fn object_safe(_: &dyn LogWriter, _: &dyn LogConsumer) {}
