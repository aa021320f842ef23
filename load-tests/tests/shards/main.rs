//! Shards under load: the log `verdicts` grows from one to two to three shards, on real Kafka and
//! three ClickHouse servers, while clients send receipts again across each change. Meanwhile the
//! policy changes, and a key is revoked. Then the log `receipts` gets a partition, a shard is
//! restored from an older copy, and the operator's commands run as processes.
//!
//! Days are virtual: an entry of the shard map is registered with a clock of three weeks ago, and
//! the load's timestamps reach its first day once all verifiers know it, as they would a day later.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commands;
mod installation;
mod load;

use accounts::ClientPolicy;
use installation::{Installation, PARTITIONS};
use load::{LARGE, Load};

/// Days before today on which a map with two and one with three shards takes effect.
const TWO_SHARDS: i64 = -9;
const THREE_SHARDS: i64 = -4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn receipts_are_counted_once_while_shards_are_added() {
    let mut installation = Installation::start().await;
    let mut verifiers = vec![installation.verifier().await];
    let mut writers = vec![installation.writer().await];
    let load = Load::start(&installation, TWO_SHARDS - 3..TWO_SHARDS).await;
    load.receipts(2_000).await;
    // The policy changes: a verifier is killed, and its successor counts registered keys only.
    let model = load.pause().await;
    assert_eq!(model.of_unknown_key, 0);
    installation.until_stored(&model).await;
    verifiers.remove(0).kill().await;
    installation.policy.clients = ClientPolicy::Registered;
    verifiers.push(installation.verifier().await);
    load.resume(installation.policy.clients);

    for (shards, from, until) in [(2, TWO_SHARDS, THREE_SHARDS), (3, THREE_SHARDS, 1)] {
        installation.add_shard().await;
        // Writers and readers are configured before the map names the shard. The old writer doesn't
        // know it: it leaves such partitions alone.
        writers.push(installation.writer().await);
        writers.remove(0).stop().await;
        let splits: &[(&str, u32)] = if shards == 3 { &[(LARGE, 3)] } else { &[] };
        installation.register(from, shards, splits).await;
        // A new verifier knows the map, and the old one doesn't. What the new one has begun, the
        // old one has to continue in all shards.
        verifiers.push(installation.verifier().await);
        installation.until_shard_has_verdicts(shards - 1).await;
        load.receipts(500).await;
        verifiers.pop().unwrap().stop().await;
        load.receipts(500).await;
        if shards == 2 {
            load.revoke_key(&installation).await;
        }
        verifiers.remove(0).kill().await;
        verifiers.push(installation.verifier().await);
        load.may_reach(until).await;
        load.receipts(2_000).await;
    }
    installation.add_partitions(PARTITIONS + 1).await;
    // A shard is restored from an older copy, which was made while its writer worked.
    installation.copy_shard(1);
    load.receipts(500).await;
    writers.remove(0).kill().await;
    installation.restore_shard(1);
    writers.push(installation.writer().await);
    installation.until_partition_is_stored(PARTITIONS).await;
    load.receipts(500).await;
    let model = load.pause().await;
    assert!(model.of_unknown_key > 0 && model.of_revoked_key > 0);
    installation.until_stored(&model).await;
    installation.assert_equal(&model).await;
    installation.until_evidence(&model).await;
    installation.assert_misplaced_databases_are_refused().await;
    installation.assert_shards_commands();
    installation.assert_repaired(&model).await;

    // `verdicts` is lost, and with it what a shard's restored tables lack.
    installation.copy_shard(2);
    load.resume(installation.policy.clients);
    load.receipts(500).await;
    let model = load.stop().await;
    installation.until_stored(&model).await;
    for process in verifiers.drain(..).chain(writers.drain(..)) {
        process.stop().await;
    }
    installation.restore_shard(2);
    installation.rewind().await;
    verifiers.push(installation.verifier().await);
    writers.push(installation.writer().await);
    installation.until_stored(&model).await;
    installation.assert_equal(&model).await;
    installation.until_evidence(&model).await;

    for publisher in [LARGE, "p5.example"] {
        installation.erase(publisher).await;
    }
    let now_ms = service::instant::now_ms();
    installation.until_complete_through(now_ms).await;
    for process in verifiers.into_iter().chain(writers) {
        process.stop().await;
    }
    installation.assert_lost_lines_are_found().await;
}
