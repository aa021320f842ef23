//! `receipts up` with everything that works on its data directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::command::{command, key, ndjson, receipt, receipts, sign};
use crate::running::{Up, execute, get, new_api_key, on, text, until};
use config::{SECTIONS, Source};
use receipts_cli::settings::{Settings, keys};
use serde_json::{Value, json};

#[test]
fn receipts_go_in_and_numbers_come_out_that_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // A key can be made before anything runs.
    let made = on(&data, &["keys", "create", "--domain", "News.Example", "--json"])
        .expect(0)
        .json();
    on(&data, &["accounts", "set-tier", "news.example", "enterprise"]).expect(0);
    assert_eq!(made["domains"], json!(["news.example"]));
    on(&data, &["audit"]).expect(2);

    let up = Up::start(&data);
    let second = on(&data, &["up", "--gateway-listen", "127.0.0.1:0"]).expect(3);
    assert!(second.stderr.contains("is in use"), "{}", second.stderr);

    let (key_path, public) = key(dir.path(), "ECDSA-P256");
    let signed = sign(&key_path, &[(); 25].map(|()| receipt(&public)));
    let mut tampered = signed[24].clone();
    tampered["usage"]["context"] = json!("changed");
    let mut sent = signed[..24].to_vec();
    sent.extend([tampered, signed[0].clone()]);
    let key_text = key_path.to_str().unwrap();
    let gateway = up.url("gateway");
    let send = ["send", "--url", &gateway, "--key", key_text, "--json"];
    let summary = receipts(&send, ndjson(&sent).as_bytes()).expect(0).json();
    assert_eq!(summary["accepted"]["receipts"], 26);
    let batched: Vec<&str> = send.iter().copied().chain(["--batch", "10", "--zstd"]).collect();
    let more = sign(&key_path, &[(); 30].map(|()| receipt(&public)));
    assert_eq!(
        receipts(&batched, ndjson(&more).as_bytes()).expect(0).json()["accepted"]["requests"],
        3
    );
    let refused = receipts(&send, b"{\"version\":\"1.0.0\"}\n").expect(1).json();
    assert_eq!(
        (&refused["refused"][0]["status"], &refused["refused"][0]["receipts"]),
        (&json!(400), &json!(1))
    );

    let last_ack = jiff::Timestamp::now();
    let api_key = made["apiKey"].as_str().unwrap();
    let mut dashboard = Value::Null;
    until("the watermark", || {
        dashboard = get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).1;
        let through = dashboard["completeThrough"].as_str().unwrap_or("1970-01-01T00:00:00Z");
        through.parse::<jiff::Timestamp>().unwrap() > last_ack
    });
    assert_eq!(dashboard["totalReceipts"], 54);
    assert_eq!(
        get(&up.url("analytics"), "/api/v1/analytics/dashboard", "rcpt_nonsense").0,
        401
    );

    // While it runs, through its socket; afterwards on an engine of the audit's own.
    let totals = |audit: &Value| {
        [
            "blocks",
            "receiptsIn",
            "accepted",
            "rejected",
            "storedOccurrences",
            "receipts",
        ]
        .map(|name| audit["totals"][name].clone())
    };
    let live = on(&data, &["audit", "--json"]).expect(0).json();
    assert_eq!(
        totals(&live)[1..],
        [json!(56), json!(55), json!(1), json!(55), json!(54)]
    );
    let listed = on(&data, &["keys", "list", "--json"]).expect(0).json();
    assert_eq!(listed[0]["keyId"], made["keyId"]);
    let key_id = made["keyId"].as_str().unwrap();
    receipts(&["keys", "revoke", "--data", data.to_str().unwrap(), key_id], b"").expect(0);
    receipts(&["keys", "revoke", "--data", data.to_str().unwrap(), key_id], b"").expect(1);
    until("the revocation", || {
        get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).0 == 401
    });

    assert_eq!(up.stop(), 0);
    assert!(!data.join("addresses.json").exists());
    let closed = on(&data, &["audit", "--json", "--recheck"]).expect(0).json();
    assert_eq!((totals(&closed), &closed["live"]), (totals(&live), &json!(false)));
    let shown = on(&data, &["audit"]).expect(0).stdout;
    assert!(shown.contains("everything adds up"), "{shown}");
    let repaired = on(&data, &["repair", "--json"]).expect(0).json();
    assert_eq!((&repaired["accepted"], &repaired["rejected"]), (&json!(55), &json!(1)));
    assert_eq!(
        totals(&on(&data, &["audit", "--json"]).expect(0).json()),
        totals(&live),
        "a repair of nothing changes nothing"
    );
}

#[test]
fn an_audit_names_what_is_missing_and_a_repair_brings_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let gateway = up.url("gateway");
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
    let signed = sign(&key_path, &[(); 12].map(|()| receipt(&public)));
    let mut tampered = signed[0].clone();
    tampered["usage"]["context"] = json!("changed");
    // Each part in a block of its own.
    for (part, committed) in [(&signed[..4], 4), (&signed[4..], 12), (&[tampered][..], 13)] {
        receipts(&send, ndjson(part).as_bytes()).expect(0);
        until("the writer", || {
            on(&data, &["audit", "--json"]).expect(0).json()["partitions"][0]["committedOffset"] == json!(committed)
        });
    }
    let kinds = |audit: &Value| {
        let findings = audit["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| finding["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (loss, kind) in [
        ("TRUNCATE TABLE receipts", "accepted_sum"),
        ("TRUNCATE TABLE rejected", "rejected_sum"),
        (
            "ALTER TABLE ledger DELETE WHERE first_offset = 0 SETTINGS mutations_sync = 2",
            "ledger_gap",
        ),
        (
            "ALTER TABLE ledger DELETE WHERE last_offset = 12 SETTINGS mutations_sync = 2",
            "ledger_gap",
        ),
        (
            "INSERT INTO ledger SELECT * REPLACE (receipts_in + 1 AS receipts_in, accepted + 1 AS accepted) FROM ledger FINAL WHERE first_offset = 0",
            "log_count",
        ),
    ] {
        execute(&data, loss);
        let audit = on(&data, &["audit", "--json"]).expect(1).json();
        assert!(kinds(&audit).iter().any(|found| found == kind), "{loss}: {audit}");
        if kind == "log_count" {
            // A line that is wrong is for a person: only one that is gone can be made again.
            execute(
                &data,
                "ALTER TABLE ledger DELETE WHERE first_offset = 0 SETTINGS mutations_sync = 2",
            );
        }
        on(&data, &["repair"]).expect(0);
        on(&data, &["audit"]).expect(0);
    }
    assert_eq!(up.stop(), 0);
}

/// Files of this name below `dir`.
fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_named(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}

fn flip_a_bit(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 8;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_warehouse_is_reported_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let api_key = &new_api_key(&data, "news.example", &[]);
    let up = Up::start(&data);
    let (gateway, key_text) = (up.url("gateway"), key_path.to_str().unwrap());
    let signed = sign(&key_path, &[(); 40].map(|()| receipt(&public)));
    let send = ["send", "--url", &gateway, "--key", key_text, "--batch", "40"];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    assert_eq!(up.stop(), 0);
    let before = on(&data, &["audit", "--json"]).expect(0).json();

    // The largest of the tables' parts holds the receipts.
    let largest = |files: Vec<PathBuf>| {
        files
            .into_iter()
            .max_by_key(|file| std::fs::metadata(file).unwrap().len())
    };
    flip_a_bit(&largest(files_named(&data.join("warehouse/store"), "data.bin")).unwrap());
    let reported = on(&data, &["audit"]).expect(3).stderr;
    assert!(
        reported.contains("damaged") && reported.contains("receipts repair"),
        "{reported}"
    );
    let up = Up::start_unready(&data);
    // Lists read the receipts; totals read the aggregates.
    let list = get(&up.url("analytics"), "/api/v1/analytics/receipts?limit=5", api_key);
    assert_eq!(list.0, 503, "{list:?}");
    let mut ready = Value::Null;
    until("readiness to tell", || {
        ready = get(&up.url("analytics"), "/readyz", "").1;
        ready["status"] == "not_ready"
    });
    let reason = ready["components"]["analytics.warehouse"]["reason"].as_str().unwrap();
    assert!(reason.contains("receipts repair"), "{ready}");

    let done = on(&data, &["repair", "--json"]).expect(0).json();
    assert_eq!(
        (&done["ok"], &done["damagedParts"][0]["detached"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(done["damagedParts"][0]["table"], "receipts");
    until("readiness", || get(&up.url("analytics"), "/readyz", "").0 == 200);
    assert_eq!(
        get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).1["totalReceipts"],
        40
    );
    assert_eq!(
        on(&data, &["audit", "--json"]).expect(0).json()["totals"],
        before["totals"]
    );
    assert_eq!(up.stop(), 0);
}

#[test]
fn an_emptied_marks_file_is_reported_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let gateway = up.url("gateway");
    let signed = sign(&key_path, &[(); 40].map(|()| receipt(&public)));
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    assert_eq!(up.stop(), 0);
    let before = on(&data, &["audit", "--json"]).expect(0).json();

    // Under the running engine: at a start it would set such a part aside itself.
    let up = Up::start(&data);
    let parts = files_named(&data.join("warehouse/store"), "data.bin").into_iter();
    let largest = parts.max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap();
    let marks = std::fs::read_dir(largest.parent().unwrap()).unwrap();
    let marks = marks
        .map(|entry| entry.unwrap().path())
        .find(|path| path.ends_with("data.cmrk4"));
    std::fs::File::create(marks.unwrap()).unwrap();
    let done = on(&data, &["repair", "--json"]).expect(0).json();
    let damaged = done["damagedParts"].as_array().unwrap();
    assert!(damaged.iter().any(|part| part["table"] == "receipts"), "{done}");
    assert!(damaged.iter().all(|part| part["detached"] == json!(true)), "{done}");
    let after = on(&data, &["audit", "--json"]).expect(0).json();
    assert_eq!(after["totals"], before["totals"]);
    assert_eq!(up.stop(), 0);
}

#[test]
fn lost_rows_are_reported_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let config = dir.path().join("receipts.toml");
    std::fs::write(&config, "[analytics]\naudit_interval_ms = 10\n").unwrap();
    let (key_path, public) = key(dir.path(), "Ed25519");
    let api_key = &new_api_key(&data, "news.example", &[]);
    let up = Up::start_with(&data, &["--config", config.to_str().unwrap()], Stdio::null());
    let gateway = up.url("gateway");
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
    // The last block may be on its way, so it isn't checked: two are wanted.
    for committed in [3, 6] {
        let signed = sign(&key_path, &[(); 3].map(|()| receipt(&public)));
        receipts(&send, ndjson(&signed).as_bytes()).expect(0);
        until("the writer", || {
            on(&data, &["audit", "--json"]).expect(0).json()["partitions"][0]["committedOffset"] == json!(committed)
        });
    }
    let dashboard = || get(&up.url("analytics"), "/api/v1/analytics/dashboard", api_key).1;
    let metric = |name: &str| {
        let text = text(&up.url("metrics"), "/metrics");
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
    };
    until("a check", || {
        metric("receipts_audit_last_good_timestamp_seconds") > Some(0.0)
    });
    assert_eq!(
        (metric("receipts_audit_findings"), dashboard()["incomplete"].clone()),
        (Some(0.0), Value::Null)
    );
    execute(&data, "TRUNCATE TABLE receipts");
    until("the loss to be reported", || dashboard()["incomplete"] == true);
    assert!(metric("receipts_audit_findings") >= Some(1.0));
    assert!(metric("receipts_audit_off_by_receipts") >= Some(3.0));
    until("the check's position to be saved", || {
        let report = on(&data, &["audit", "--json"]).expect(1).json();
        report["runningCheck"]["wrongSections"].as_u64() >= Some(1)
    });
    // What is there is still served. An engine that was busy for a moment isn't meant here.
    until("readiness, although rows are lost", || {
        get(&up.url("analytics"), "/readyz", "").0 == 200
    });
    assert_eq!(dashboard()["incomplete"], true);
    on(&data, &["repair"]).expect(0);
    // A check that began while the repair was at work may still end after it.
    until("the repair to be reported", || {
        dashboard()["incomplete"].is_null() && metric("receipts_audit_off_by_receipts") == Some(0.0)
    });
    assert_eq!(up.stop(), 0);
}

#[test]
fn lost_aggregates_are_found_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let signed = sign(&key_path, &[(); 20].map(|()| receipt(&public)));
    let gateway = up.url("gateway");
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
    receipts(&send, ndjson(&signed).as_bytes()).expect(0);
    until("the writer", || {
        on(&data, &["audit", "--json"]).expect(0).json()["totals"]["receipts"] == json!(20)
    });
    let check = || on(&data, &["usage", "check", "--json"]);
    assert_eq!(check().expect(0).json()["mismatches"], json!([]));
    execute(&data, "TRUNCATE TABLE usage");
    let found = check().expect(1).json();
    assert_eq!(found["mismatches"][0]["kind"], "receipts");
    assert_eq!(found["mismatches"][0]["publisher"], "news.example");
    // By the writer that runs.
    on(&data, &["usage", "rebuild", "--publisher", "news.example"]).expect(0);
    check().expect(0);
    execute(&data, "TRUNCATE TABLE usage");
    assert_eq!(up.stop(), 0);
    // By the command itself.
    let repaired = on(&data, &["repair", "--json"]).expect(0).json();
    assert_eq!(repaired["usage"]["rebuilt"], json!(true));
    assert!(!repaired["usage"]["mismatches"].as_array().unwrap().is_empty());
    check().expect(0);
    on(&data, &["usage", "rebuild", "--publisher", "news.example", "--json"]).expect(0);
    on(&data, &["usage", "rebuild"]).expect(2);
    on(&data, &["usage", "check", "--from", "2026-02-01", "--to", "2026-01-01"]).expect(2);
}

#[test]
fn a_table_that_is_gone_keeps_everything_closed_until_a_repair() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let (gateway, key_text) = (up.url("gateway"), key_path.to_str().unwrap());
    let signed = sign(&key_path, &[(); 5].map(|()| receipt(&public)));
    receipts(
        &["send", "--url", &gateway, "--key", key_text],
        ndjson(&signed).as_bytes(),
    )
    .expect(0);
    assert_eq!(up.stop(), 0);
    for file in files_named(&data.join("warehouse"), "receipts.sql") {
        // The database's own definition has the same name.
        if file.parent().unwrap().file_name().unwrap() != "metadata" {
            std::fs::remove_file(file).unwrap();
        }
    }
    let refused = on(
        &data,
        &[
            "up",
            "--gateway-listen",
            "127.0.0.1:0",
            "--analytics-listen",
            "127.0.0.1:0",
            "--publisher-listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ],
    )
    .expect(3);
    assert!(
        refused.stderr.contains("tables are gone: receipts"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("receipts repair"), "{}", refused.stderr);
    let done = on(&data, &["repair", "--json"]).expect(0).json();
    assert_eq!(
        (&done["tablesRestored"], &done["accepted"]),
        (&json!(["receipts"]), &json!(5))
    );
    on(&data, &["audit"]).expect(0);
}

/// A directory with everything below it.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_lost_log_of_verdicts_is_reported_and_a_rewind_has_the_missing_ones_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let mut sent = 0;
    let mut send_some = |up: &Up, count: usize| {
        let gateway = up.url("gateway");
        let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
        let unsigned: Vec<Value> = (0..count).map(|_| receipt(&public)).collect();
        let mut signed = sign(&key_path, &unsigned);
        signed[0]["usage"]["context"] = json!("changed");
        receipts(&send, ndjson(&signed).as_bytes()).expect(0);
        sent += count;
    };
    let up = Up::start(&data);
    send_some(&up, 5);
    let beside = on(&data, &["rewind"]).expect(3).stderr;
    assert!(beside.contains("stop `receipts up`"), "{beside}");
    assert_eq!(up.stop(), 0);
    let unneeded = on(&data, &["rewind", "--json"]).expect(0).json();
    assert_eq!(unneeded["rewound"], json!(false), "{unneeded}");
    copy(&data.join("warehouse"), &dir.path().join("older"));
    let up = Up::start(&data);
    send_some(&up, 3);
    assert_eq!(up.stop(), 0);

    // The tables are an older copy, and the verdicts behind them are gone.
    std::fs::remove_dir_all(data.join("warehouse")).unwrap();
    copy(&dir.path().join("older"), &data.join("warehouse"));
    std::fs::remove_dir_all(data.join("verdicts")).unwrap();
    let mut up = command();
    up.args(["up", "--data"]).arg(&data);
    for port in ["gateway", "analytics", "publisher", "metrics"] {
        up.args([&format!("--{port}-listen"), "127.0.0.1:0"]);
    }
    let ended = up.output().unwrap();
    let reported = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{reported}");
    assert!(
        reported.contains("the writer ended") && reported.contains("receipts rewind"),
        "{reported}"
    );

    let rewound = on(&data, &["rewind", "--json"]).expect(0).json();
    assert_eq!(
        (&rewound["rewound"], &rewound["partitions"]),
        (
            &json!(true),
            &json!([{"partition": 0, "from": 8, "to": 5, "recordsLost": 0}])
        ),
        "{rewound}"
    );
    let aside = Path::new(rewound["movedTo"].as_str().unwrap());
    assert!(aside.is_dir(), "{rewound}");
    let again = on(&data, &["rewind"]).expect(0).stdout;
    assert!(again.contains("nothing to rewind"), "{again}");

    let up = Up::start(&data);
    send_some(&up, 2);
    assert_eq!(up.stop(), 0);
    let audit = on(&data, &["audit", "--json", "--recheck"]).expect(0).json();
    let totals = &audit["totals"];
    assert_eq!(
        (&totals["receiptsIn"], &totals["receipts"], &totals["storedRejected"]),
        (&json!(sent), &json!(sent - 3), &json!(3)),
        "{audit}"
    );
    // Without the old log, rows of what it held can't be rebuilt, and the others can.
    let repaired = on(&data, &["repair", "--json"]).expect(0).json();
    assert_eq!(
        (&repaired["gone"], &repaired["records"], &repaired["accepted"]),
        (&json!(5), &json!(5), &json!(3)),
        "{repaired}"
    );
}

#[test]
fn a_rewind_over_records_that_are_gone_needs_the_operators_consent() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let config = dir.path().join("receipts.toml");
    // So small that retention deletes all but the newest receipts.
    let small = "[log]\nsegment_bytes = 65536\nrecord_bytes_max = 40960\nretention_bytes_max = 1\n\
        [limits]\nbatch_bytes_max = 32768\nreceipt_bytes_max = 32768\n";
    std::fs::write(&config, small).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let with_config = |args: &[&str]| on(&data, &[args, &config[..]].concat());
    let (key_path, public) = key(dir.path(), "Ed25519");
    let send_some = |count: usize| {
        let up = Up::start_with(&data, &config, Stdio::null());
        let gateway = up.url("gateway");
        let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
        let unsigned: Vec<Value> = (0..count).map(|_| receipt(&public)).collect();
        receipts(&send, ndjson(&sign(&key_path, &unsigned)).as_bytes()).expect(0);
        up
    };
    assert_eq!(send_some(5).stop(), 0);
    copy(&data.join("warehouse"), &dir.path().join("older"));
    let up = send_some(300);
    let begin = || with_config(&["audit", "--json"]).json()["partitions"][0]["beginOffset"].as_u64();
    until("retention", || begin() > Some(5));
    assert_eq!(up.stop(), 0);
    std::fs::remove_dir_all(data.join("warehouse")).unwrap();
    copy(&dir.path().join("older"), &data.join("warehouse"));
    std::fs::remove_dir_all(data.join("verdicts")).unwrap();

    let begin = begin().unwrap();
    let refused = with_config(&["rewind", "--json"]).expect(1).json();
    let expected = json!([{"partition": 0, "from": 305, "to": begin, "recordsLost": begin - 5}]);
    assert_eq!(
        (&refused["rewound"], &refused["partitions"]),
        (&json!(false), &expected)
    );
    let refused = with_config(&["rewind"]).expect(1).stdout;
    assert!(
        refused.contains("--accept-loss") && !data.join("verdicts").exists(),
        "{refused}"
    );
    let rewound = with_config(&["rewind", "--accept-loss", "--json"]).expect(0).json();
    assert_eq!((&rewound["rewound"], &rewound["partitions"]), (&json!(true), &expected));

    assert_eq!(send_some(2).stop(), 0);
    let audit = with_config(&["audit", "--json"]).expect(1).json();
    assert_eq!(audit["totals"]["receipts"], json!(307 - (begin - 5)), "{audit}");
    let kinds: Vec<&str> = audit["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ledger_gap"], "{audit}");
}

#[test]
fn ledger_lines_that_overlap_are_replaced_by_a_repair() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key_path, public) = key(dir.path(), "Ed25519");
    let up = Up::start(&data);
    let gateway = up.url("gateway");
    let send = ["send", "--url", &gateway, "--key", key_path.to_str().unwrap()];
    let signed = sign(&key_path, &[(); 12].map(|()| receipt(&public)));
    for (part, committed) in [(&signed[..4], 4), (&signed[4..], 12)] {
        receipts(&send, ndjson(part).as_bytes()).expect(0);
        until("the writer", || {
            on(&data, &["audit", "--json"]).expect(0).json()["partitions"][0]["committedOffset"] == json!(committed)
        });
    }
    // Lines of another writer beside the right ones; and one instead of another, so that no
    // lines meet.
    for (first, last) in [(2, 6), (0, 5)] {
        execute(
            &data,
            &format!(
                "INSERT INTO ledger SELECT epoch, partition, {first}, {last}, {last} - {first} + 1, {last} - {first} + 1,
                 {last} - {first} + 1, 0, 'other', now64(3), shard, verdicts_epoch, verdicts_offset, touched
                 FROM ledger FINAL ORDER BY first_offset LIMIT 1"
            ),
        );
        let audit = on(&data, &["audit"]).expect(1).stdout;
        assert!(audit.contains("ledger_overlap"), "{audit}");
        let done = on(&data, &["repair", "--json"]).expect(0).json();
        assert!(done["ledgerLinesDeleted"].as_u64().unwrap() > 0, "{done}");
        on(&data, &["audit"]).expect(0);
    }
    assert_eq!(up.stop(), 0);
}

#[test]
fn the_configuration_in_effect_is_printed_as_one_that_can_be_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("receipts.toml");
    std::fs::write(&file, "[limits]\ndepth_max = 16\n[warehouse]\npassword = \"s3cret\"\n").unwrap();
    let print = |file: &Path| {
        let mut command = command();
        command
            .args(["config", "print", "--config", file.to_str().unwrap(), "--data"])
            .arg(dir.path());
        command
            .env(
                "RECEIPTS_ACCOUNTS_URL",
                "postgres://u:s3cret@db/accounts?sslmode=require",
            )
            .env("RECEIPTS_GATEWAY_STREAMS_MAX", "7");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = print(&file);
    for line in [
        "depth_max = 16",
        "streams_max = 7",
        "url = \"postgres://u:***@db/accounts?sslmode=require\"",
        "password = \"***\"",
    ] {
        assert!(printed.lines().any(|other| other == line), "{line}: {printed}");
    }
    assert!(!printed.contains("s3cret"), "{printed}");
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(print(&file), printed);
    for (section, keys) in keys() {
        let (_, rest) = printed.split_once(&format!("[{section}]\n")).unwrap();
        let section_text = rest.split("\n[").next().unwrap();
        for key in keys.iter().filter(|key| !WITHOUT_DEFAULT.contains(key)) {
            // The APIs are at the gateway's address unless they have one.
            let is_at_gateway = *key == "listen" && ["analytics", "publisher"].contains(&section);
            let is_printed = section_text.contains(&format!("{key} = "));
            assert!(is_printed != is_at_gateway, "{section}.{key}");
        }
    }
}

#[test]
fn the_data_directory_is_its_owners_alone_and_readers_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    fn files(folder: &Path, found: &mut Vec<(PathBuf, u32)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_symlink() {
                // ClickHouse links its tables by name. A link's mode is always 777: symlink(7).
                continue;
            }
            found.push((entry.path(), metadata.permissions().mode() & 0o077));
            if metadata.is_dir() {
                files(&entry.path(), found);
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let reported = || std::fs::read_to_string(&log).unwrap();
    let start = || Up::start_with_stderr(&data, &[], std::fs::File::create(&log).unwrap().into());
    let up = start();
    let mut found = Vec::new();
    files(&data, &mut found);
    assert!(found.len() > 20);
    found.retain(|(_, others)| *others != 0);
    assert_eq!(found, []);
    assert_eq!(up.stop(), 0);
    assert!(!reported().contains("chmod 700"), "{}", reported());
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(start().stop(), 0);
    assert!(
        reported().contains("can be read by everybody on this machine: chmod 700"),
        "{}",
        reported()
    );
}

#[test]
fn a_missing_engine_is_reported_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let run = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = command();
        command.args(["up", "--data"]).arg(&data).current_dir(dir.path());
        change(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(!data.exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let reported = run(&|command| {
        command.env("RECEIPTS_WAREHOUSE_LIBRARY", "/nowhere/libchdb.so");
    });
    assert!(
        reported.contains("/nowhere/libchdb.so") && reported.contains("make chdb"),
        "{reported}"
    );
    let reported = run(&|command| {
        command.env_remove("RECEIPTS_WAREHOUSE_LIBRARY");
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    });
    assert!(
        reported.contains("RECEIPTS_WAREHOUSE_LIBRARY") && reported.contains("HOME"),
        "{reported}"
    );
}

/// A disk without room behind standard output.
fn full() -> std::fs::File {
    std::fs::File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_key_that_cant_be_shown_is_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for (number, unwritable) in [Stdio::from(full()), Stdio::from(closed)].into_iter().enumerate() {
        let mut create = command();
        create
            .args(["keys", "create", "--domain", &format!("news{number}.example"), "--data"])
            .arg(dir.path());
        let output = create.stdout(unwritable).output().unwrap();
        let reported = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{reported}");
        assert!(reported.contains("revoked"), "{reported}");
        let keys = on(dir.path(), &["keys", "list", "--json"]).expect(0).json();
        assert_eq!(keys.as_array().unwrap().len(), number + 1);
        assert!(
            keys.as_array().unwrap().iter().all(|key| key["revokedAt"].is_string()),
            "{keys}"
        );
    }
}

#[test]
fn a_damaged_account_store_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("accounts.sqlite"), "not a database at all ".repeat(100)).unwrap();
    let reported = on(dir.path(), &["keys", "list"]).expect(3).stderr;
    for part in ["accounts.sqlite", "damaged", "restore the file"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
}

#[test]
fn services_run_where_standard_output_is_full_and_tools_say_when_the_socket_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start_with(dir.path(), &[], full().into());
    std::fs::remove_file(dir.path().join("warehouse.sock")).unwrap();
    let reported = on(dir.path(), &["audit"]).expect(3).stderr;
    for part in ["warehouse.sock", "isn't there", "start it again"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    assert_eq!(up.stop(), 0);
}

#[test]
fn a_configuration_that_can_not_work_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("receipts.toml");
    std::fs::write(
        &file,
        "[gateway]\nlisten = \"nowhere\"\nconections_max = 5\n[verifer]\n",
    )
    .unwrap();
    let config = file.to_str().unwrap();
    for args in [
        vec!["up", "--config", config],
        vec!["config", "check", "--config", config],
    ] {
        let ran = on(&data, &args).expect(2);
        for fault in ["gateway.listen", "connections_max", "verifer"] {
            assert!(ran.stderr.contains(fault), "{fault}: {}", ran.stderr);
        }
    }
    let shards =
        "[warehouse]\nurl = \"http://ch:8123\"\ncluster = \"main\"\nshards = [\"http://ch:8123/receipts_0\"]\n";
    std::fs::write(&file, shards).unwrap();
    let ran = on(&data, &["config", "check", "--config", config]).expect(2);
    assert!(
        ran.stderr.contains("warehouse.shards in ") && ran.stderr.contains(": needs kafka.brokers"),
        "{}",
        ran.stderr
    );
    std::fs::write(&file, "[limits]\nbatch_receipts_max = 65535\n").unwrap();
    let ran = on(&data, &["config", "check", "--config", config]).expect(2);
    let needed = "warehouse.memory_bytes_max: is 734003200, must be at least 838848512";
    assert!(ran.stderr.contains(needed), "{}", ran.stderr);
    std::fs::write(&file, "[kafka]\nbrokers = \"127.0.0.1:9092\"\n").unwrap();
    for command in [
        &["config", "check", "--config", config][..],
        &["up", "--config", config],
    ] {
        let ran = on(&data, command).expect(2);
        let is_named = ran.stderr.contains("gateway.acknowledgement_keys") && ran.stderr.contains("receipts keygen");
        assert!(is_named, "{}", ran.stderr);
    }
    assert!(!data.exists());
    let long = dir.path().join("x".repeat(120));
    assert!(on(&long, &["up"]).expect(2).stderr.contains("shorter path"));
    on(&data, &["keys", "create", "--domain", "not a domain"]).expect(2);
    on(&data, &["keys", "create", "--domain", "a.example", "--expires", "soon"]).expect(2);
}

/// Keys that have no default: the example shows them with something that could be given.
const WITHOUT_DEFAULT: [&str; 21] = [
    "storage_policy",
    "analytics.listen",
    "publisher.listen",
    "public_url",
    "acknowledgement_keys",
    "webhook_entries_file",
    "host",
    "from",
    "renew_url",
    "url",
    "user",
    "password",
    "library",
    "cluster",
    "shards",
    "tls_ca_file",
    "tls_certificate_file",
    "tls_key_file",
    "test_root_ca",
    "test_resolver",
    "test_https_port",
];

#[test]
fn the_example_configuration_lists_every_key_with_its_default() {
    let example = include_str!("../../../receipts.example.toml");
    let is_key = |key: &str| {
        key.bytes()
            .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
    };
    let (mut listed, mut section, mut given) = (Vec::new(), String::new(), String::new());
    for line in example.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
            given.push_str(line);
        } else if let Some((key, _)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = "))
            && is_key(key)
        {
            listed.push((section.clone(), key.to_owned()));
            let full = format!("{section}.{key}");
            if !WITHOUT_DEFAULT
                .iter()
                .any(|without| *without == key || *without == full)
            {
                given.push_str(&line[2..]);
            }
        }
        given.push('\n');
    }
    let sections: BTreeSet<&str> = keys().into_iter().map(|(section, _)| section).collect();
    assert_eq!(sections, SECTIONS.iter().copied().collect());
    let mut existing: Vec<(String, String)> = keys()
        .into_iter()
        .flat_map(|(section, keys)| keys.iter().map(move |key| (section.to_owned(), (*key).to_owned())))
        .collect();
    listed.sort();
    existing.sort();
    assert_eq!(listed, existing);

    let read = |text: &str| {
        let source = Source::from_parts::<String, String>(text, []).unwrap();
        format!("{:#?}", Settings::read(source, Settings::check).unwrap())
    };
    for (example, default) in read(&given).lines().zip(read(example).lines()) {
        assert_eq!(example, default);
    }
    assert_eq!(read(example), read(""));
}
