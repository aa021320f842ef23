//! `receipts rejected`: every rejected receipt is listed with its bytes. What a policy rejected
//! counts once after a replay, as of its first arrival, and the ledger stays exact.
//!
//! Receipts are rejected by rules where the verifier's limit on `content.url` is set too low: it
//! rejects what the gateway accepted before.

use std::path::Path;
use std::process::Stdio;

use crate::command::{command, key, receipt, sign};
use crate::running::{Up, get, new_api_key, on, until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use receipt::{Limits, SigningKey, sign_batch};
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogWriter, Record, RecordKind};
use serde_json::{Value, json};

/// Rules that make every receipt of these tests malformed, and batches over five receipts.
const WRONG_RULES: [(&str, &str); 2] = [
    ("RECEIPTS_LIMITS_URL_BYTES_MAX", "10"),
    ("RECEIPTS_LIMITS_BATCH_RECEIPTS_MAX", "5"),
];

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
fn rejected_receipts_are_listed_and_shown_with_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &["--tier", "enterprise"]);
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

    let up = Up::start_set(&data, &WRONG_RULES);
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
    assert!(shown.contains("batch") && shown.contains("cut here"), "{}", shown.len());
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

    // All of them fail again by their own bytes.
    let refused = on(&data, &["rejected", "replay", "--reason", "malformed"]).expect(2);
    assert!(refused.stderr.contains("client_key_unknown"), "{}", refused.stderr);
    let replayed = on(&data, &["rejected", "replay", "--dry-run", "--json"]).expect(0);
    assert_eq!(
        replayed.json(),
        json!({"dryRun": true, "appended": 0, "withoutBytes": 0})
    );
    assert_eq!(up.stop(), 0);
}

#[test]
fn what_a_policy_rejected_counts_once_after_its_key_is_registered() {
    const CLIENT: &str = "7d1f6f63-5d0c-4a63-9a5e-0c5c7f1a2b03";
    const REGISTERED: [(&str, &str); 1] = [("RECEIPTS_POLICY_CLIENTS", "registered")];
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &[]);
    let file = dir.path().join("receipts.toml");
    std::fs::write(&file, "[policy]\nclients = \"registered\"\n").unwrap();
    let config = file.to_str().unwrap();
    let records = Records::new(dir.path());
    let receipts = records.signed(4);
    append(
        &data,
        vec![records.single(&receipts[0]), records.batch(&receipts[1..4])],
    );
    let replay = |more: &[&str]| on(&data, &[&["rejected", "replay", "--json"], more].concat());
    let appended = |dry_run: bool| json!({"dryRun": dry_run, "appended": 4, "withoutBytes": 0});
    let by_reason = |up: &Up| get(&up.url("analytics"), "/api/v1/analytics/refusals", &api_key).1["byReason"].clone();

    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    assert_eq!(by_reason(&up), json!({"client_key_unknown": 4}));
    // The log has one writer. A dry run appends nothing.
    let refused = replay(&[]).expect(3);
    assert!(refused.stderr.contains("stop `receipts up`"), "{}", refused.stderr);
    assert_eq!(replay(&["--dry-run"]).expect(0).json(), appended(true));
    assert_eq!(up.stop(), 0);

    // The policy is as before, so the verifier rejects all of them again.
    assert_eq!(replay(&[]).expect(0).json(), appended(false));
    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    assert_eq!(by_reason(&up), json!({"client_key_unknown": 8}));

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
    assert_eq!(up.stop(), 0);

    // Each of the eight rows has an equal, which is appended once.
    assert_eq!(replay(&[]).expect(0).json(), appended(false));
    let id = receipts[0]["receiptId"].as_str().unwrap();
    let status = |up: &Up| get(&up.url("analytics"), &format!("/api/v1/receipts/{id}"), &api_key).1;
    let total = |up: &Up| get(&up.url("analytics"), DASHBOARD, &api_key).1["totalReceipts"].clone();
    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    assert_eq!(
        (total(&up), by_reason(&up)),
        (json!(4), json!({"client_key_unknown": 8}))
    );
    let facts = status(&up);
    assert_eq!(
        (&facts["status"], &facts["occurrences"]),
        (&json!("verified"), &json!(1))
    );
    let received_at = jiff::Timestamp::from_millisecond(records.received_at_ms).unwrap();
    let received_at = json!(format!("{received_at:.3}"));
    assert_eq!(facts["receivedAt"], received_at, "it counts as of its first arrival");
    let rejections = facts["rejections"].as_array().unwrap();
    let received: Vec<&Value> = rejections.iter().map(|one| &one["receivedAt"]).collect();
    assert_eq!(received, [&received_at, &received_at]);
    assert_eq!(up.stop(), 0);

    // As after a crash: whoever replays again makes duplicates.
    assert_eq!(replay(&[]).expect(0).json(), appended(false));
    let up = Up::start_set(&data, &REGISTERED);
    caught_up(&data);
    assert_eq!(
        (total(&up), by_reason(&up)),
        (json!(4), json!({"client_key_unknown": 8}))
    );
    let facts = status(&up);
    assert_eq!((&facts["occurrences"], &facts["duplicates"]), (&json!(2), &json!(1)));
    assert_eq!(facts["receivedAt"], received_at);
    let totals = on(&data, &["audit", "--json"]).expect(0).json()["totals"].clone();
    let count = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!(
        (
            count("receipts"),
            count("storedOccurrences"),
            count("storedRejected"),
            count("receiptsIn")
        ),
        (4, 8, 8, 16)
    );
    // Beside the running services, for what comes from now on.
    let fingerprint = listed[0]["fingerprint"].as_str().unwrap();
    let revoke = ["clients", "revoke", CLIENT, "--fingerprint", fingerprint];
    on(&data, &revoke).expect(0);
    on(&data, &revoke).expect(1);
    let shown = on(&data, &["clients", "list", "--client", CLIENT]).expect(0).stdout;
    assert!(shown.contains("revoked"), "{shown}");
    assert_eq!(up.stop(), 0);
    // The key is registered now, and the stored rejections still take precedence.
    on(&data, &["audit"]).expect(0);
    on(&data, &["audit", "--recheck"]).expect(0);
    on(&data, &["repair", "--config", config]).expect(0);
    on(&data, &["repair"]).expect(0);
}
