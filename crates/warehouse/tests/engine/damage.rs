//! Damaged parts: set aside when the engine opens, counted, and named by the audit; never silence.

use std::path::{Path, PathBuf};

use warehouse::{CommittedOffset, EmbeddedEngine, LedgerRow, WarehouseConfig};

use crate::harness::{NOON_MS, Receipt, child, insert, position};

const BLOCKS: u64 = 130;

/// The first child: one part a block, and a ledger that counts them.
pub(crate) async fn fill(dir: &Path) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    crate::harness::sql_at(&dir.join("w.sock"), warehouse.database(), "SYSTEM STOP MERGES receipts").await;
    for block in 0..BLOCKS {
        insert(&warehouse, &[(Receipt::new(u128::from(block)), position(0, block, 0))]).await;
    }
    let line = LedgerRow {
        epoch: 1,
        partition: 0,
        first_offset: 0,
        last_offset: BLOCKS - 1,
        records: BLOCKS,
        receipts_in: BLOCKS,
        accepted: BLOCKS,
        rejected: 0,
        verifier: "v".to_owned(),
        committed_at_ms: NOON_MS,
    };
    warehouse.insert_ledger(&[line]).await.unwrap();
    engine.stop().await;
    println!("filled");
}

/// The second child: opens it with its damage, and says what it finds.
pub(crate) async fn look(dir: &Path) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    println!("broken {}", warehouse.report_broken_parts().await.unwrap());
    let committed = CommittedOffset {
        epoch: 1,
        partition: 0,
        next_offset: BLOCKS,
    };
    let sums = warehouse.audit(&[committed]).await.unwrap();
    println!("stored {} of {}", sums.stored_occurrences, sums.accepted);
    for finding in &sums.findings {
        println!("finding {}: {}", finding.kind, finding.detail);
    }
    // What is lost can be written again.
    for block in 0..BLOCKS {
        insert(&warehouse, &[(Receipt::new(u128::from(block)), position(0, block, 0))]).await;
    }
    println!("then {:?}", warehouse.audit(&[committed]).await.unwrap().findings);
    engine.stop().await;
}

/// The data files of the receipts table's parts.
fn part_files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.file_name().is_some_and(|file| file == name)
                && path
                    .parent()
                    .unwrap()
                    .file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("2026")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn more_than_a_hundred_damaged_parts_neither_keep_it_from_opening_nor_go_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let here = [("DIR", dir.path().to_str().unwrap())];
    assert!(child("fill", &here).contains("filled"));
    // Torn: the file that lists a part's checksums is cut short; corrupted: its column sizes are garbage.
    let torn = part_files(&dir.path().join("warehouse/store"), "checksums.txt");
    assert!(torn.len() > 110, "{} parts", torn.len());
    for path in &torn[..60] {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    for path in &part_files(&dir.path().join("warehouse/store"), "count.txt")[60..110] {
        std::fs::write(path, b"\0\xff").unwrap();
    }
    let out = child("look", &here);
    assert!(out.contains("broken 110"), "{out}");
    assert!(out.contains("stored 20 of 130"), "{out}");
    assert!(
        out.contains("finding accepted_sum: epoch 1 partition 0: the ledger counts 130, the table holds 20"),
        "{out}"
    );
    assert!(out.contains("then []"), "{out}");
}
