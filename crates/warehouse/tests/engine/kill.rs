//! kill -9 of a process that inserts blocks: nothing acknowledged is lost, nothing is torn, and
//! writing the last block again after each restart changes nothing.

use std::io::{BufRead, BufReader};
use std::path::Path;

use warehouse::{CommittedOffset, EmbeddedEngine, WarehouseConfig};

use crate::harness::{Receipt, insert, insert_rejected, line, position, rejected, spawn_child};

const ROUNDS: u32 = 12;
const ROWS: u64 = 40;

/// The child: continues after the blocks whose acknowledgement its input names, and says each one's
/// number when it is.
pub(crate) async fn insert_until_killed(dir: &Path, first: u64) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    for block in first.. {
        // Every block is written twice: as by a verifier that crashed before its commit.
        for _ in 0..2 {
            insert(&warehouse, &rows(block)).await;
        }
        insert_rejected(
            &warehouse,
            &[rejected(position(0, block, ROWS as u16), "bad_signature")],
        )
        .await;
        warehouse
            .insert_ledger(&[line(0, block, block, ROWS, 1)], None)
            .await
            .unwrap();
        println!("acknowledged {block}");
    }
}

fn rows(block: u64) -> Vec<(Receipt, u128)> {
    (0..ROWS)
        .map(|n| (Receipt::new(u128::from(block * ROWS + n)), position(0, block, n as u16)))
        .collect()
}

/// The child that looks: opens what was left, and audits it.
pub(crate) async fn audit(dir: &Path, blocks: u64) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    let committed = CommittedOffset {
        epoch: 1,
        partition: 0,
        next_offset: blocks,
    };
    let sums = warehouse.audit(&[committed]).await.unwrap();
    assert_eq!(sums.findings, []);
    assert_eq!(
        (sums.blocks, sums.accepted, sums.rejected),
        (blocks, blocks * ROWS, blocks)
    );
    assert_eq!((sums.stored_occurrences, sums.stored_rejected), (blocks * ROWS, blocks));
    // Of the block in progress when it was killed, each insert is there whole or not at all. Its
    // rows were written twice, and the copies count twice until the engine has merged them.
    let under_way = sums.uncommitted_positions;
    assert!(
        [0, ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 1].contains(&under_way),
        "{under_way} positions under way"
    );
    assert_eq!(warehouse.report_broken_parts().await.unwrap(), 0);
    engine.stop().await;
    println!("audited {blocks}");
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut state = seed;
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let first = acknowledged.to_string();
        let mut child = spawn_child(
            "insert_until_killed",
            &[("DIR", dir.path().to_str().unwrap()), ("FIRST", &first)],
        );
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // A random number of blocks, then a random instant within the next.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let blocks = (state >> 33) % 30 + 1;
        let mut seen = 0;
        while seen < blocks {
            let line = lines.next().expect("the child lives until it is killed").unwrap();
            if let Some(block) = line.strip_prefix("acknowledged ") {
                acknowledged = block.parse::<u64>().unwrap() + 1;
                seen += 1;
            }
        }
        #[allow(clippy::disallowed_methods)] // The instant of the kill is what the test varies.
        std::thread::sleep(std::time::Duration::from_micros((state >> 40) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts as acknowledged too.
        for line in lines.map_while(Result::ok) {
            if let Some(block) = line.strip_prefix("acknowledged ") {
                acknowledged = block.parse::<u64>().unwrap() + 1;
            }
        }
        if round % 3 == 2 {
            let blocks = acknowledged.to_string();
            let out = crate::harness::child("audit", &[("DIR", dir.path().to_str().unwrap()), ("BLOCKS", &blocks)]);
            assert!(out.contains(&format!("audited {blocks}")), "{out}");
        }
    }
}
