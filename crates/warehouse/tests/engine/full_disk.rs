//! A full disk: a clear error that may pass, nothing half written, and all is well once there is room again.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use warehouse::{EmbeddedEngine, Warehouse, WarehouseConfig, WarehouseError};

use crate::harness::{Receipt, position, spawn_child};

/// One block of receipts whose URLs don't compress.
async fn insert(warehouse: &Warehouse, block: u64) -> Result<(), WarehouseError> {
    let mut bytes = Vec::new();
    for n in 0..200 {
        let url: String = (0..4_000).map(|_| char::from(rand::random_range(b'!'..b'~'))).collect();
        let receipt = Receipt {
            url,
            ..Receipt::new(u128::from(block * 200 + n))
        };
        receipt.row(position(0, block, n as u16)).encode(&mut bytes);
    }
    warehouse.insert_receipts(vec![Bytes::from(bytes)], 200).await
}

/// The child, in a file system of a few megabytes.
pub(crate) async fn fill_the_disk(dir: &Path) {
    let config = WarehouseConfig::default();
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    let warehouse = engine.warehouse();
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![7; 8 << 20]).unwrap();
    let mut stored = 0;
    let error = loop {
        match insert(&warehouse, stored).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "the disk never filled");
    };
    println!("full after {stored} blocks: {error}");
    assert!(error.is_retryable(), "{error:?}");
    for _ in 0..5 {
        assert!(insert(&warehouse, stored).await.is_err());
    }
    let totals = warehouse.totals().await.unwrap();
    assert_eq!(
        totals.receipts,
        stored * 200,
        "all that was acknowledged, and no part of what was not"
    );
    std::fs::remove_file(&ballast).unwrap();
    insert(&warehouse, stored).await.unwrap();
    assert_eq!(warehouse.totals().await.unwrap().receipts, (stored + 1) * 200);
    engine.stop().await;
    let engine = EmbeddedEngine::start(&config, &dir.join("warehouse"), &dir.join("w.sock"))
        .await
        .unwrap();
    assert_eq!(engine.warehouse().totals().await.unwrap().receipts, (stored + 1) * 200);
    assert_eq!(engine.warehouse().report_broken_parts().await.unwrap(), 0);
    engine.stop().await;
    println!("recovered");
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=40m", "tmpfs"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("not run: this user can't mount a small file system");
        return;
    }
    let out = spawn_child("fill_the_disk", &[("DIR", dir.path().to_str().unwrap())])
        .wait_with_output()
        .unwrap();
    let unmounted = Command::new("umount").arg(dir.path()).status().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("recovered"), "{text}");
    assert!(unmounted.success());
    println!("{text}");
}
