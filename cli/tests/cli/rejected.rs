//! `receipts rejected`: what was refused by rules that were wrong counts after a replay, once, and
//! the ledger stays exact.
//!
//! The rules are wrong where the verifier's limit on `content.url` is set too low: what the gateway
//! took before, it rejects.

use std::path::Path;
use std::process::Stdio;

use crate::command::{EMBEDDED_ENGINE, command, key, receipt, sign};
use crate::running::{Up, execute, get, on, until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use receipt::{Limits, SigningKey, sign_batch};
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogWriter, Record, RecordKind};
use serde_json::{Value, json};

/// Rules that make every receipt of these tests malformed.
const WRONG_RULES: [(&str, &str); 1] = [("RECEIPTS_LIMITS_URL_BYTES_MAX", "10")];
/// Rules that also refuse batches over five receipts.
const WRONGER_RULES: [(&str, &str); 2] = [WRONG_RULES[0], ("RECEIPTS_LIMITS_BATCH_RECEIPTS_MAX", "5")];

/// Before the test: replayed receipts keep their time.
const AGE_MS: i64 = 3_600_000;

struct Records {
    key: SigningKey,
    unsigned: Box<dyn Fn() -> Value>,
    key_path: std::path::PathBuf,
    received_at_ms: i64,
}

/// The records are older than the key, and so than the verification of the domain.
const DASHBOARD: &str = "/api/v1/analytics/dashboard?beforeVerification=include";

impl Records {
    fn new(dir: &Path) -> Self {
        let (key_path, public) = key(dir, "Ed25519");
        let received_at_ms = jiff::Timestamp::now().as_millisecond() - AGE_MS;
        let timestamp = jiff::Timestamp::from_millisecond(received_at_ms - 1_000).unwrap();
        let unsigned = move || {
            let mut receipt = receipt(&public);
            receipt["timestamp"] = json!(format!("{timestamp:.3}"));
            receipt
        };
        Self {
            key: SigningKey::from_pkcs8_pem(&std::fs::read_to_string(&key_path).unwrap()).unwrap(),
            unsigned: Box::new(unsigned),
            key_path,
            received_at_ms,
        }
    }

    fn signed(&self, count: usize) -> Vec<Value> {
        let unsigned: Vec<Value> = (0..count).map(|_| (self.unsigned)()).collect();
        sign(&self.key_path, &unsigned)
    }

    fn record(&self, kind: RecordKind, body: impl Into<Bytes>) -> Record {
        let body = body.into();
        let signature = (kind == RecordKind::Receipt).then(|| STANDARD.encode(self.key.sign(&body).unwrap()));
        Record {
            kind,
            body,
            request_signature: signature,
            request_id: "the-first-request".to_owned(),
            received_at_ms: self.received_at_ms,
            client_address: Some([192, 0, 2, 7].into()),
            trace: None,
        }
    }

    fn single(&self, receipt: &Value) -> Record {
        self.record(RecordKind::Receipt, receipt.to_string())
    }

    fn batch(&self, receipts: &[Value]) -> Record {
        let batch = json!({"version": "1.0.0", "batchId": "b", "receipts": receipts}).to_string();
        let signed = sign_batch(batch.as_bytes(), &self.key, &Limits::default()).unwrap();
        self.record(RecordKind::Batch, signed)
    }

    /// Batch whose signature isn't over its `batchId`.
    fn badly_signed_batch(&self, receipts: &[Value]) -> Record {
        let mut batch: Value = serde_json::from_slice(&self.batch(receipts).body).unwrap();
        batch["batchId"] = json!("another");
        self.record(RecordKind::Batch, batch.to_string())
    }
}

/// As the gateway would have written them.
fn append(data: &Path, records: Vec<Record>) {
    std::fs::create_dir_all(data.join("log")).unwrap();
    let log = EmbeddedLog::open(&data.join("log"), EmbeddedConfig::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for record in records {
        runtime.block_on(log.append(record)).unwrap();
    }
    log.close();
}

fn caught_up(data: &Path) {
    until("the verifier", || {
        let audit = on(data, &["audit", "--json"]).json();
        audit["partitions"][0]["committedOffset"] == audit["partitions"][0]["endOffset"]
    });
}

fn reason_counts(rows: &[Value]) -> Value {
    rows.iter().fold(json!({}), |mut counts, row| {
        let reason = row["reason"].as_str().unwrap();
        counts[reason] = json!(counts[reason].as_u64().unwrap_or(0) + 1);
        counts
    })
}

/// Standard output as it is.
fn raw(data: &Path, position: &str) -> Vec<u8> {
    let shown = command()
        .args(["rejected", "show", position, "--raw", "--data"])
        .arg(data)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(shown.status.success());
    shown.stdout
}

#[test]
fn what_passes_by_better_rules_counts_once_and_the_books_stay_exact() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let made = on(&data, &["keys", "create", "--domain", "news.example", "--json"]);
    on(&data, &["accounts", "set-tier", "news.example", "enterprise"]).expect(0);
    let api_key = made.expect(0).json()["apiKey"].as_str().unwrap().to_owned();
    let records = Records::new(dir.path());
    let receipts = records.signed(14);
    let single = records.single(&receipts[0]);
    let mut tampered = receipts[1].clone();
    tampered["usage"]["context"] = json!("changed");
    let mut unlike = records.single(&receipts[2]);
    unlike.request_signature = single.request_signature.clone();
    // As large as a record's body may be, and no text.
    let poison: Vec<u8> = (0..8_u32 << 20)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    append(
        &data,
        vec![
            single.clone(),
            records.batch(&receipts[3..6]),
            records.batch(&receipts[6..12]),
            records.single(&tampered),
            records.record(RecordKind::Batch, poison.clone()),
            single.clone(),
            records.badly_signed_batch(&receipts[12..14]),
            unlike,
        ],
    );

    let up = Up::start_set(&data, &WRONGER_RULES);
    caught_up(&data);
    let refusals = || get(&up.url("analytics"), "/api/v1/analytics/refusals", &api_key).1["byReason"].clone();
    let by_reason = json!({"bad_request_signature": 1, "malformed": 6});
    assert_eq!(refusals(), by_reason, "three of ten name no publisher");

    // Looked at beside the running services.
    let listed = on(&data, &["rejected", "list", "--json", "--limit", "0"])
        .expect(0)
        .lines();
    let counts = json!({"bad_batch_signature": 1, "bad_request_signature": 1, "malformed": 8});
    assert_eq!(reason_counts(&listed), counts);
    let mut paged: Vec<Value> = Vec::new();
    loop {
        let cursor = paged.last().map(|row| row["cursor"].as_str().unwrap().to_owned());
        let mut args = vec!["rejected", "list", "--json", "--limit", "4"];
        args.extend(cursor.iter().flat_map(|cursor| ["--after", cursor]));
        let page = on(&data, &args).expect(0).lines();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, listed);
    let id = receipts[0]["receiptId"].as_str().unwrap();
    assert_eq!(
        on(&data, &["rejected", "list", "--json", "--receipt-id", id])
            .expect(0)
            .lines()
            .len(),
        2
    );
    let table = on(
        &data,
        &["rejected", "list", "--reason", "malformed", "--domain", "news.example"],
    )
    .expect(0);
    assert!(
        table.stdout.lines().count() == 7 && table.stdout.contains(id),
        "{}",
        table.stdout
    );
    assert!(
        on(&data, &["rejected", "list", "--to", "2020-01-01"])
            .expect(0)
            .stdout
            .is_empty()
    );
    on(&data, &["rejected", "list", "--reason", "bad"]).expect(2);

    let of_poison = listed
        .iter()
        .find(|row| row["rawBytes"] == json!(poison.len()))
        .unwrap();
    let position = of_poison["position"].as_str().unwrap();
    assert!(raw(&data, position) == poison, "a poison record's bytes differ");
    let shown = on(&data, &["rejected", "show", position]).expect(0).stdout;
    assert!(
        shown.contains("the whole body of a batch") && shown.contains("cut here"),
        "{}",
        shown.len()
    );
    let shown = on(&data, &["rejected", "show", id, "--json"]).expect(0).lines();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0]["raw"].as_str().unwrap().as_bytes(), &single.body[..]);
    assert_eq!(shown[0]["requestSignature"], json!(single.request_signature));
    assert_eq!(
        (&shown[0]["clientAddress"], &shown[0]["origin"]),
        (&json!("192.0.2.7"), &json!("record"))
    );
    on(&data, &["rejected", "show", id, "--raw"]).expect(2);
    on(&data, &["rejected", "show", "1:2:3:4"]).expect(1);

    // The log has one writer; a dry run only looks.
    let refused = on(&data, &["rejected", "replay"]).expect(3);
    assert!(refused.stderr.contains("stop `receipts up`"), "{}", refused.stderr);
    let still = json!({"bad_batch_signature": 1, "bad_request_signature": 1, "bad_signature": 1, "malformed": 1});
    let expected = |dry_run: bool| {
        json!({
            "dryRun": dry_run, "selected": 10, "appended": 5, "alreadyCounted": 1, "stillRejected": still,
            "notJudged": 0, "notJudgedPositions": [],
        })
    };
    assert_eq!(
        on(&data, &["rejected", "replay", "--dry-run", "--json"])
            .expect(1)
            .json(),
        expected(true)
    );
    assert_eq!(up.stop(), 0);

    assert_eq!(
        on(&data, &["rejected", "replay", "--json"]).expect(1).json(),
        expected(false)
    );
    // Marked, so it is done: before the verifier has read it, and after.
    let again = on(&data, &["rejected", "replay", "--json"]).expect(1).json();
    assert_eq!((&again["selected"], &again["appended"]), (&json!(4), &json!(0)));
    assert_eq!(
        on(&data, &["rejected", "list", "--waiting", "--json"])
            .expect(0)
            .lines()
            .len(),
        4
    );
    let replayed = on(&data, &["rejected", "replay", "--receipt-id", id]).expect(0);
    assert!(replayed.stdout.contains("nothing to replay"), "{}", replayed.stdout);

    let up = Up::start(&data);
    caught_up(&data);
    let analytics = up.url("analytics");
    let dashboard = get(&analytics, DASHBOARD, &api_key).1;
    assert_eq!(dashboard["totalReceipts"], 10);
    let refusals = get(&analytics, "/api/v1/analytics/refusals", &api_key).1;
    assert_eq!(
        refusals["byReason"],
        json!({"bad_request_signature": 1, "malformed": 1}),
        "what was replayed is no refusal"
    );
    let facts = get(&analytics, &format!("/api/v1/receipts/{id}"), &api_key).1;
    assert_eq!(
        (&facts["status"], &facts["occurrences"]),
        (&json!("verified"), &json!(1))
    );
    let received_at = jiff::Timestamp::from_millisecond(records.received_at_ms).unwrap();
    assert_eq!(
        facts["receivedAt"],
        json!(format!("{received_at:.3}")),
        "it counts as of its first arrival"
    );
    assert!(facts["rejections"][0]["replayedAt"].is_string(), "{facts}");
    assert_eq!(up.stop(), 0);
    // By the present rules the log holds more receipts than the ledger says, and a repair would
    // accept them.
    on(&data, &["audit"]).expect(0);
    on(&data, &["audit", "--recheck"]).expect(0);
    on(&data, &["repair"]).expect(0);
    let again = on(&data, &["rejected", "replay", "--json"]).expect(1).json();
    assert_eq!((&again["selected"], &again["appended"]), (&json!(4), &json!(0)));
}

#[test]
fn what_a_policy_refused_counts_once_its_key_is_registered() {
    const CLIENT: &str = "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03";
    const REGISTERED: [(&str, &str); 1] = [("RECEIPTS_POLICY_CLIENTS", "registered")];
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let create = ["keys", "create", "--domain", "news.example", "--json"];
    let api_key = on(&data, &create).expect(0).json()["apiKey"]
        .as_str()
        .unwrap()
        .to_owned();
    let file = dir.path().join("receipts.toml");
    std::fs::write(&file, "[policy]\nclients = \"registered\"\n").unwrap();
    let config = file.to_str().unwrap();
    let records = Records::new(dir.path());
    let receipts = records.signed(4);
    append(
        &data,
        vec![records.single(&receipts[0]), records.batch(&receipts[1..4])],
    );
    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    let refusals = || get(&up.url("analytics"), "/api/v1/analytics/refusals", &api_key).1["byReason"].clone();
    assert_eq!(refusals(), json!({"client_key_unknown": 4}));
    // The policy holds for a replay, too.
    let replay = |more: &[&str], code| {
        let args = [&["rejected", "replay", "--json", "--config", config], more].concat();
        on(&data, &args).expect(code).json()
    };
    let still = replay(&["--dry-run"], 1);
    assert_eq!(
        (&still["appended"], &still["stillRejected"]),
        (&json!(0), &json!({"client_key_unknown": 4}))
    );

    let public = dir.path().join("Ed25519.key.pub");
    let public = public.to_str().unwrap();
    on(&data, &["clients", "register", CLIENT, "--key", config]).expect(2);
    on(&data, &["clients", "revoke", CLIENT, "--key", public]).expect(1);
    let register = ["clients", "register", CLIENT, "--key", public, "--name", "Model, 2026"];
    on(&data, &register).expect(0);
    on(&data, &register).expect(1);
    let listed = on(&data, &["clients", "list", "--json"]).expect(0).json();
    assert_eq!(
        (&listed[0]["clientId"], &listed[0]["state"], &listed[0]["name"]),
        (&json!(CLIENT), &json!("registered"), &json!("Model, 2026"))
    );
    assert_eq!(replay(&["--dry-run"], 0)["appended"], 4);
    assert_eq!(up.stop(), 0);
    assert_eq!(replay(&[], 0)["appended"], 4);

    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    let dashboard = get(&up.url("analytics"), DASHBOARD, &api_key).1;
    assert_eq!(dashboard["totalReceipts"], 4);
    let refusals = get(&up.url("analytics"), "/api/v1/analytics/refusals", &api_key).1;
    assert_eq!(refusals["byReason"], json!({}), "what was replayed is no refusal");
    // Beside the running services, for what comes from now on.
    let fingerprint = listed[0]["fingerprint"].as_str().unwrap();
    let revoke = ["clients", "revoke", CLIENT, "--fingerprint", fingerprint];
    on(&data, &revoke).expect(0);
    on(&data, &revoke).expect(1);
    let shown = on(&data, &["clients", "list", "--client", CLIENT]).expect(0).stdout;
    assert!(shown.contains("revoked from"), "{shown}");
    assert_eq!(up.stop(), 0);
    on(&data, &["audit"]).expect(0);
    on(&data, &["audit", "--recheck"]).expect(0);
    on(&data, &["repair", "--config", config]).expect(0);
    on(&data, &["repair"]).expect(0);
}

#[test]
fn a_crash_before_the_mark_makes_a_duplicate_and_never_a_second_receipt() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let records = Records::new(dir.path());
    let receipts = records.signed(4);
    append(
        &data,
        vec![records.single(&receipts[0]), records.batch(&receipts[1..4])],
    );
    let up = Up::start_set(&data, &WRONG_RULES);
    caught_up(&data);
    assert_eq!(up.stop(), 0);
    let replayed = on(&data, &["rejected", "replay", "--json"]).expect(0).json();
    assert_eq!(
        (&replayed["appended"], &replayed["alreadyCounted"]),
        (&json!(4), &json!(0))
    );
    // What a crash leaves: records in the log, and no mark. The verifier hasn't seen them either.
    without_marks(&data);
    let replayed = on(&data, &["rejected", "replay", "--json"]).expect(0).json();
    assert_eq!(
        (&replayed["appended"], &replayed["alreadyCounted"]),
        (&json!(4), &json!(0))
    );

    let up = Up::start(&data);
    caught_up(&data);
    let audit = on(&data, &["audit", "--json"]).expect(0).json();
    let totals = &audit["totals"];
    assert_eq!(
        (&totals["receipts"], &totals["storedOccurrences"]),
        (&json!(4), &json!(8)),
        "{audit}"
    );
    assert_eq!(
        (&totals["storedRejected"], &totals["receiptsIn"]),
        (&json!(4), &json!(12)),
        "{audit}"
    );
    // And once the verifier has counted them, the payloads themselves tell.
    execute(&data, "TRUNCATE TABLE replays");
    let waiting = on(&data, &["rejected", "replay", "--dry-run", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&waiting["appended"], &waiting["alreadyCounted"]),
        (&json!(0), &json!(4))
    );
    assert_eq!(up.stop(), 0);
    let marked = on(&data, &["rejected", "replay", "--json"]).expect(0).json();
    assert_eq!((&marked["appended"], &marked["alreadyCounted"]), (&json!(0), &json!(4)));
    let listed = on(&data, &["rejected", "list", "--json"]).expect(0).lines();
    assert!(
        listed.iter().all(|row| row["replay"]["appended"] == json!(false)),
        "{listed:?}"
    );
    on(&data, &["audit"]).expect(0);
}

/// Rows of an earlier version don't say what their bytes are: they need their record.
#[test]
fn a_record_that_the_log_still_has_is_read_again_and_one_that_is_gone_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let records = Records::new(dir.path());
    let receipts = records.signed(6);
    let mut unlike = records.single(&receipts[5]);
    unlike.request_signature = Some("AAAA".to_owned());
    append(
        &data,
        vec![
            records.single(&receipts[0]),
            records.batch(&receipts[1..3]),
            records.badly_signed_batch(&receipts[3..5]),
            unlike,
            records.record(RecordKind::Batch, &b"\xff"[..]),
        ],
    );
    let up = Up::start_set(&data, &WRONG_RULES);
    caught_up(&data);
    execute(
        &data,
        "ALTER TABLE rejected UPDATE origin = '', request_signature = NULL WHERE 1 SETTINGS mutations_sync = 2",
    );
    let judged = on(&data, &["rejected", "replay", "--dry-run", "--json"])
        .expect(1)
        .json();
    let still = json!({"bad_batch_signature": 1, "bad_request_signature": 1, "malformed": 1});
    assert_eq!(
        (&judged["appended"], &judged["stillRejected"]),
        (&json!(3), &still),
        "{judged}"
    );
    assert_eq!(judged["notJudged"], 0);
    assert_eq!(up.stop(), 0);

    // The same rows with another log: the records are gone.
    std::fs::rename(data.join("log"), dir.path().join("old-log")).unwrap();
    append(&data, Vec::new());
    let judged = on(&data, &["rejected", "replay", "--json"]).expect(1).json();
    assert_eq!(
        (&judged["notJudged"], &judged["appended"]),
        (&json!(6), &json!(0)),
        "{judged}"
    );
    assert_eq!(judged["notJudgedPositions"].as_array().unwrap().len(), 6);
    let said = on(&data, &["rejected", "replay", "--dry-run"]).expect(1).stdout;
    assert!(said.contains("no longer has it") && said.contains("send"), "{said}");
}

/// Takes the marks away, with an engine of this process.
fn without_marks(data: &Path) {
    let config = warehouse::WarehouseConfig::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (directory, socket) = (data.join("warehouse"), data.join("warehouse.sock"));
    let _lock = EMBEDDED_ENGINE.lock();
    let engine = runtime
        .block_on(warehouse::EmbeddedEngine::start(&config, &directory, &socket))
        .unwrap();
    execute(data, "TRUNCATE TABLE replays");
    runtime.block_on(engine.stop());
}
