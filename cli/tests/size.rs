//! `receipts size`, and the tables of docs/sizing.md that it makes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use std::path::Path;

use command::receipts;
use serde_json::Value;

fn plan(arguments: &str) -> Value {
    let arguments: Vec<&str> = arguments.split(' ').chain(["--json"]).collect();
    receipts(&[&["size"][..], &arguments].concat(), b"").expect(0).json()["plan"].clone()
}

fn at(value: &Value, path: &str) -> f64 {
    value
        .pointer(path)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn the_documents_tables_are_what_the_command_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sizing.md");
    let text = std::fs::read_to_string(&path).unwrap();
    // Each table follows the command that makes it.
    let mut wanted = String::new();
    let mut lines = text.lines().peekable();
    let mut tables = 0;
    while let Some(line) = lines.next() {
        wanted += &format!("{line}\n");
        let Some(arguments) = line.strip_prefix("receipts size ") else {
            continue;
        };
        wanted += &format!("{}\n\n", lines.next().expect("the end of the command's block"));
        while lines
            .peek()
            .is_some_and(|line| line.is_empty() || line.starts_with('|'))
        {
            lines.next();
        }
        let arguments: Vec<&str> = ["size"].into_iter().chain(arguments.split(' ')).collect();
        wanted += &receipts(&arguments, b"").expect(0).stdout;
        wanted += "\n";
        tables += 1;
    }
    assert!(tables >= 4, "{tables} tables");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text == wanted,
        "docs/sizing.md: WRITE_DOCS=1 cargo test -p receipts-cli --test size"
    );
}

#[test]
fn more_of_anything_never_needs_less() {
    let base = "--rate 10k --algorithm ed25519 --batch 100 --days 30";
    let all = [
        "/cores/total",
        "/log/diskGb",
        "/clickhouse/diskGb",
        "/log/partitions",
        "/log/brokers",
        "/clickhouse/servers",
    ];
    let from = plan(base);
    for more in [
        "--rate 100k --algorithm ed25519 --batch 100 --days 30",
        "--rate 10k --algorithm ed25519 --batch 100 --days 300",
        "--rate 10k --algorithm ecdsa --batch 100 --days 30",
        "--rate 10k --algorithm ed25519 --batch 1 --days 30",
        "--rate 10k --algorithm ed25519 --batch 100 --days 30 --replication 5",
        "--rate 10k --algorithm ed25519 --batch 100 --days 30 --clickhouse-replicas 3",
        "--rate 10k --algorithm ed25519 --batch 100 --days 30 --publishers 100000",
    ] {
        let more_of_it = plan(more);
        for path in all {
            assert!(at(&more_of_it, path) >= at(&from, path), "{more} {path}");
        }
        assert_ne!(more_of_it, from, "{more} changes nothing");
    }
    let smaller = plan(&format!("{base} --compression zstd"));
    assert!(at(&smaller, "/log/diskGb") < at(&from, "/log/diskGb"));
}

#[test]
fn the_embedded_logs_own_limit_is_told() {
    // 100 receipts a second all day of some 1.2 kB are 10 GB a day.
    let small = plan("--rate 100 --average 1 --engines embedded --log-days 3");
    assert_eq!(small["log"]["retentionBytesMaxNeeded"], Value::Null);
    assert!((at(&small, "/log/days") - 3.0).abs() < 1e-9);
    let capped = plan("--rate 100 --average 1 --engines embedded --log-days 30");
    let limit = 64.0 * 1024.0 * 1024.0 * 1024.0;
    assert!((at(&capped, "/log/diskGb") - limit / 1e9 / 0.67).abs() < 1e-6);
    let day = at(&capped, "/perReceipt/logBytes") * 100.0 * 86_400.0;
    assert!((at(&capped, "/log/retentionBytesMaxNeeded") - 30.0 * day).abs() <= 1.0);
    assert!((at(&capped, "/log/days") - limit / day).abs() < 1e-9);
    let said = receipts(
        &[
            "size",
            "--rate",
            "100",
            "--average",
            "1",
            "--engines",
            "embedded",
            "--log-days",
            "30",
        ],
        b"",
    );
    let needed = capped["log"]["retentionBytesMaxNeeded"].to_string();
    assert!(said.expect(0).stdout.contains(&format!("30 days need {needed}")));
}

#[test]
fn parts_add_up() {
    let plan = plan("--rate 50k --batch 10 --days 7 --replication 3");
    let cores = ["gateway", "verifier", "clickhouse", "apis", "idle"].map(|part| at(&plan, &format!("/cores/{part}")));
    assert!((cores.iter().sum::<f64>() - at(&plan, "/cores/total")).abs() < 1e-9);
    // 50,000 receipts a second at peak and half of it on average, three copies, a third of the disk
    // free.
    let bytes = at(&plan, "/perReceipt/logBytes") * 50_000.0 * 0.5 * 86_400.0 * 7.0 * 3.0 / 0.67;
    assert!((at(&plan, "/log/diskGb") - bytes / 1e9).abs() < 1e-6 * bytes / 1e9);
    for pods in plan["pods"].as_array().unwrap() {
        assert!(pods["pods"].as_u64().unwrap() >= 2, "{pods}");
    }
    for wrong in [
        &["size"][..],
        &["size", "--rate", "0"],
        &["size", "--rate", "10x"],
        &["size", "--rate", "1", "--batch", "0"],
    ] {
        receipts(wrong, b"").expect(2);
    }
}
