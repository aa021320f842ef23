//! Damaged parts: set aside when the engine opens, counted, and named by the audit; never silence.

use std::path::{Path, PathBuf};

use warehouse::{
    CommittedOffset, EmbeddedEngine, EngineError, Irreplaceable, LogBegin, WarehouseConfig, WarehouseError,
};

use crate::harness::{Receipt, child, insert, line, position};

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
    warehouse
        .insert_ledger(&[line(0, 0, BLOCKS - 1, BLOCKS, 0)], None)
        .await
        .unwrap();
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

/// The files of this name, in order of their path.
fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The data files of the receipts table's parts.
fn part_files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = files_named(dir, name);
    found.retain(|path| {
        let part = path.parent().and_then(Path::file_name).unwrap();
        part.to_string_lossy().starts_with("2026")
    });
    found
}

#[test]
fn more_than_a_hundred_damaged_parts_neither_keep_it_from_opening_nor_go_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let here = [("DIR", dir.path().to_str().unwrap())];
    assert!(child("fill", &here).contains("filled"));
    // Torn: the file that lists a part's checksums is cut short; corrupted: its column sizes are
    // garbage.
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
        out.contains(
            "finding accepted_sum: epoch 1 partition 0, offsets 0 to 129: the ledger counts 130, the table has 20"
        ),
        "{out}"
    );
    assert!(out.contains("then []"), "{out}");
}

/// A child: one part of the receipts table doesn't read as it was written.
pub(crate) async fn look_closer(dir: &Path) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    warehouse.sound().await.unwrap();
    let failed = warehouse.totals().await.unwrap_err();
    assert!(matches!(failed, WarehouseError::Damaged(_)), "{failed}");
    println!("reported: {failed}");
    // A part that is merged away while the test reads it would hold nothing. The ledger's only part
    // is merged too, because the time to live of its column `touched` is over: that merge comes
    // first, so that none can be about to end.
    for statement in [
        "SYSTEM STOP MERGES receipts",
        "OPTIMIZE TABLE ledger FINAL",
        "SYSTEM STOP MERGES ledger",
    ] {
        crate::harness::sql_at(&dir.join("w.sock"), warehouse.database(), statement).await;
    }
    let mut bad = Vec::new();
    let parts = warehouse.parts().await.unwrap();
    for part in &parts {
        if let Some(fault) = warehouse.check_part(part).await.unwrap() {
            println!("fault {fault}");
            bad.push(part.clone());
        }
    }
    assert_eq!((bad.len(), bad[0].table, bad[0].rows), (1, "receipts", 1), "{bad:?}");
    let begin = |offset| LogBegin {
        epoch: 1,
        partition: 0,
        offset,
    };
    let ledger = parts.iter().find(|part| part.table == "ledger").unwrap();
    let newest = parts.iter().rfind(|part| part.table == "receipts").unwrap();
    for (part, log, lost) in [
        (&bad[0], vec![begin(0)], Irreplaceable::Rows(0)),
        (&bad[0], vec![begin(1)], Irreplaceable::UpTo(1)),
        (ledger, vec![begin(0)], Irreplaceable::Rows(0)),
        (ledger, vec![begin(1)], Irreplaceable::Rows(1)),
        (newest, vec![begin(BLOCKS)], Irreplaceable::Rows(newest.rows)),
        (newest, vec![begin(BLOCKS - 1)], Irreplaceable::Rows(newest.rows - 1)),
        (newest, vec![], Irreplaceable::Rows(newest.rows)),
    ] {
        let found = warehouse.irreplaceable(part, &log).await.unwrap();
        assert_eq!(found, lost, "{part:?} {log:?}");
    }
    let unsound = warehouse.sound().await.unwrap_err();
    assert!(matches!(unsound, WarehouseError::Damaged(_)), "{unsound}");
    warehouse.detach_part(&bad[0]).await.unwrap();
    warehouse.sound().await.unwrap();
    assert_eq!(
        warehouse.check_part(&bad[0]).await.unwrap(),
        None,
        "it is no part any more"
    );
    assert_eq!(warehouse.totals().await.unwrap().receipts, BLOCKS - 1);
    engine.stop().await;
    println!("mended");
}

#[test]
fn a_changed_bit_is_reported_and_its_part_found_and_taken_out() {
    let dir = tempfile::tempdir().unwrap();
    let here = [("DIR", dir.path().to_str().unwrap())];
    assert!(child("fill", &here).contains("filled"));
    let files = part_files(&dir.path().join("warehouse/store"), "data.bin");
    let file = &files[BLOCKS as usize / 2];
    let mut bytes = std::fs::read(file).unwrap();
    for byte in &mut bytes {
        *byte ^= 1;
    }
    std::fs::write(file, bytes).unwrap();
    let out = child("look_closer", &here);
    assert!(out.contains("mended") && out.contains("`receipts repair`"), "{out}");
}

/// A child: a table's definition is gone.
pub(crate) async fn look_for_tables(dir: &Path) {
    let config = WarehouseConfig::default();
    let (data, socket) = (dir.join("warehouse"), dir.join("w.sock"));
    let refused = EmbeddedEngine::start(&config, &data, &socket).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Warehouse(WarehouseError::Damaged(what)) if what.contains("rejected")),
        "{refused}"
    );
    println!("reported: {refused}");
    let (engine, restored) = EmbeddedEngine::start_for_repair(&config, &data, &socket).await.unwrap();
    assert_eq!(restored, ["rejected"]);
    assert_eq!(engine.warehouse().totals().await.unwrap().receipts, BLOCKS);
    engine.stop().await;
    println!("mended");
}

#[test]
fn a_table_that_is_gone_keeps_it_from_opening_until_a_repair() {
    let dir = tempfile::tempdir().unwrap();
    let here = [("DIR", dir.path().to_str().unwrap())];
    assert!(child("fill", &here).contains("filled"));
    for path in files_named(&dir.path().join("warehouse"), "rejected.sql") {
        std::fs::remove_file(path).unwrap();
    }
    let out = child("look_for_tables", &here);
    assert!(out.contains("mended") && out.contains("`receipts repair`"), "{out}");
}
