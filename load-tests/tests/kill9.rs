//! kill -9 of `receipts up` at random instants under load: nothing acknowledged is lost, nothing
//! counts twice.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::Duration;

use load_tests::stack::Stack;
use rand::RngExt;

const KILLS: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_receipt_has_one_outcome_through_twenty_kills() {
    let directory = tempfile::tempdir().unwrap();
    let receipts = Path::new(env!("CARGO_BIN_EXE_receipts-load")).with_file_name("receipts");
    let mut stack = Stack::new(&receipts, &directory.path().join("data"), &[]).unwrap();
    stack.start().unwrap();
    stack.ready().await.unwrap();
    let key = stack.create_key("kill.example").await.unwrap();
    // Three seconds of load for each kill, in batches small enough that every kill finds some in
    // flight.
    let count = (KILLS * 4_500).to_string();
    let more = [
        "--count",
        &count,
        "--batch",
        "7",
        "--rate",
        "1500",
        "--concurrency",
        "16",
        "--tries-max",
        "1000",
    ];
    let arguments = stack.load(&key, "kill.example", &more);
    let load = tokio::spawn(load_tests::run(arguments));
    // The generator first takes an audit to compare with; it is not what is to be killed.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for kill in 0..KILLS {
        let wait_ms = rand::rng().random_range(50..2_000);
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        stack.kill().unwrap();
        stack.start().unwrap();
        stack.ready().await.unwrap();
        eprintln!("kill {} of {KILLS} after {wait_ms} ms", kill + 1);
    }
    let exact = load.await.unwrap();
    assert!(
        matches!(exact, Ok(true)),
        "{exact:?}; the end of the log:
{}",
        stack.log_tail()
    );
    stack.stop().await.unwrap();
}
