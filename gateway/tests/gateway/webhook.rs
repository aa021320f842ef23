//! `POST /api/service/receipt`: verified at once, taken whole or refused whole, stored as
//! everything else.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gateway::{EntryBook, GatewayConfig, GatewayError, NamedEntry, Routes, WebhookEntries};
use receipt::Limits;
use receipt_log::{LogWriter, RecordKind};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::log::{MemoryLog, Mood};
use crate::running::Running;
use crate::sample::{BATCH, EXPLAIN, JSON, RECEIPTS, WEBHOOK, batch, batch_value, plain, receipt, signed, value};

const ENTRY: &str = "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10";

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// The pointers of a refusal's faults.
fn pointers(answer: &Answer) -> Vec<String> {
    let faults = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    faults
        .iter()
        .map(|fault| fault["pointer"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_good_receipt_and_a_good_batch_are_verified_and_stored() {
    let gateway = Running::start().await;
    let (body, id) = receipt();
    let answer = gateway.post(WEBHOOK, JSON, &body).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"receiptId": id, "status": "verified"}))
    );
    assert!(!answer.field("x-request-id").is_empty());
    // The interface has no such header here, so what it holds means nothing.
    let fields = [("content-type", "application/json"), ("x-service-signature", "%%%")];
    assert_eq!(
        gateway.post(WEBHOOK, &fields, &body).await.status,
        200,
        "and again: a retry is harmless"
    );

    let whole = batch(3);
    let ids: Vec<Value> = serde_json::from_slice::<Value>(&whole).unwrap()["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|receipt| json!({"receiptId": receipt["receiptId"], "status": "verified"}))
        .collect();
    let zipped = zstd::encode_all(whole.as_slice(), 1).unwrap();
    let fields = [("content-type", "application/json"), ("content-encoding", "zstd")];
    let answer = gateway.post(WEBHOOK, &fields, &zipped).await;
    let expected =
        json!({"batchId": "batch \u{201c}7\u{201d}", "receiptCount": 3, "status": "verified", "receipts": ids});
    assert_eq!((answer.status, answer.json()), (200, expected));

    let records = gateway.records();
    let kinds: Vec<RecordKind> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [RecordKind::Receipt, RecordKind::Receipt, RecordKind::Batch]);
    assert_eq!((&records[0].body[..], &records[2].body[..]), (&body[..], &whole[..]));
    assert!(records.iter().all(|record| record.request_signature.is_none()));
    gateway.stop().await;
}

#[tokio::test]
async fn every_refusal_has_its_status_and_stores_nothing() {
    let gateway = Running::start().await;
    let damaged = |change: &dyn Fn(&mut Value)| {
        let mut value = value();
        change(&mut value);
        bytes(&value)
    };
    let other_signature = value()["signature"].clone();
    let mut old = plain();
    old["timestamp"] = json!("2001-01-01T00:00:00.000Z");
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("nothing", Vec::new(), 400, "invalid_json"),
        ("no JSON", b"{".to_vec(), 400, "invalid_json"),
        ("no receipt", b"{}".to_vec(), 400, "missing_member"),
        ("a list", b"[]".to_vec(), 400, "wrong_type"),
        ("an empty batch", br#"{"receipts":[]}"#.to_vec(), 400, "missing_member"),
        ("of long ago", signed(&old), 400, "timestamp_out_of_range"),
        (
            "a changed receipt",
            damaged(&|value| value["usage"]["context"] = json!("another")),
            401,
            "bad_signature",
        ),
        (
            "another's signature",
            damaged(&|value| value["signature"] = other_signature.clone()),
            401,
            "bad_signature",
        ),
        (
            "no key",
            damaged(&|value| value["client"]["publicKey"] = json!("none")),
            400,
            "invalid_public_key",
        ),
    ];
    for (what, body, status, code) in cases {
        let answer = gateway.post(WEBHOOK, JSON, &body).await;
        let found = answer.json();
        let codes = (found["code"].as_str(), found["errors"][0]["code"].as_str());
        assert!(codes.0 == Some(code) || codes.1 == Some(code), "{what}: {found}");
        assert_eq!(answer.status, status, "{what}: {found}");
    }
    let answer = gateway.connect().await.get(WEBHOOK).await;
    assert_eq!((answer.status, answer.field("allow")), (405, "POST"));
    let long = vec![b' '; Limits::default().batch_bytes_max + 1];
    gateway.post(WEBHOOK, JSON, &long).await.refused(413, "body_too_large");
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_batch_is_refused_whole_and_each_fault_is_named() {
    let gateway = Running::start().await;
    let mut two_bad = batch_value(4);
    for index in [1, 3] {
        two_bad["receipts"][index]["usage"]["context"] = json!("another");
    }
    let signed = receipt::sign_batch(&bytes(&two_bad), &crate::sample::KEY, &receipt::Limits::default()).unwrap();
    let answer = gateway.post(WEBHOOK, JSON, &signed).await;
    answer.refused(401, "bad_signature");
    assert_eq!(pointers(&answer), ["/receipts/1/signature", "/receipts/3/signature"]);

    let mut unsigned = batch_value(2);
    unsigned["batchId"] = json!("another");
    for unsigned in [unsigned, two_bad] {
        let answer = gateway.post(WEBHOOK, JSON, &bytes(&unsigned)).await;
        answer.refused(401, "bad_batch_signature");
        assert_eq!(pointers(&answer), ["/signature"]);
    }

    // Faults of the format come first.
    let mut malformed = batch_value(2);
    malformed["receipts"][1]["receiptId"] = json!("7");
    let answer = gateway.post(WEBHOOK, JSON, &bytes(&malformed)).await;
    assert_eq!(
        (answer.status, pointers(&answer)),
        (400, vec!["/receipts/1/receiptId".to_owned()])
    );
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_503_and_what_is_too_much_429() {
    let gateway = Running::with(|config| config.rate_address_verifications_per_s = 5).await;
    let (body, _) = receipt();
    gateway.log.set(Mood::Unavailable);
    let answer = gateway.post(WEBHOOK, JSON, &body).await;
    answer.refused(503, "log_unavailable");
    assert_eq!(answer.field("retry-after"), "5");
    gateway.log.set(Mood::Takes);
    // A batch is charged for what is in it, before its signatures cost anything.
    let answer = gateway.post(WEBHOOK, JSON, &batch(200)).await;
    answer.refused(429, "rate_limited");
    assert!(answer.field("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

/// Knows what it was given, or nothing, not even that.
struct Book(Result<HashSet<NamedEntry>, String>);

impl Book {
    fn of_one() -> Self {
        Self(Ok(HashSet::from([NamedEntry {
            id: ENTRY.parse().unwrap(),
            publisher: "news.example.com".to_owned(),
        }])))
    }
}

impl EntryBook for Book {
    fn existing<'a>(&'a self, asked: &'a [NamedEntry]) -> BoxFuture<'a, Result<HashSet<NamedEntry>, String>> {
        let cached = self.0.clone();
        let existing = cached.map(|cached| asked.iter().filter(|entry| cached.contains(entry)).cloned().collect());
        Box::pin(std::future::ready(existing))
    }
}

async fn requiring(book: Option<Book>, routes: Routes, change: impl FnOnce(&mut GatewayConfig)) -> Running {
    let mut config = GatewayConfig {
        webhook_entries: WebhookEntries::Required,
        ..GatewayConfig::default()
    };
    change(&mut config);
    let log = Arc::new(MemoryLog::new(Mood::Takes));
    let writer = Arc::clone(&log) as Arc<dyn LogWriter>;
    let book = book.map(|book| Arc::new(book) as Arc<dyn EntryBook>);
    Running::offering(routes, book, writer, log, Limits::default(), config).await
}

fn of_other_entry() -> Value {
    let mut other = plain();
    other["content"]["entryId"] = json!("7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11");
    other
}

#[tokio::test]
async fn an_entry_that_is_not_there_is_404_where_entries_are_required() {
    let gateway = requiring(Some(Book::of_one()), Routes::All, |_| {}).await;
    assert_eq!(gateway.post(WEBHOOK, JSON, &receipt().0).await.status, 200);
    let answer = gateway.post(WEBHOOK, JSON, &signed(&of_other_entry())).await;
    answer.refused(404, "entry_unknown");
    assert_eq!(pointers(&answer), ["/content/entryId"]);
    let mut of_another_publisher = plain();
    of_another_publisher["content"]["publisher"] = json!("other.example");
    of_another_publisher["content"]["url"] = json!("https://other.example/a");
    let answer = gateway.post(WEBHOOK, JSON, &signed(&of_another_publisher)).await;
    answer.refused(404, "entry_unknown");
    // A bad signature is reported before anything about entries is.
    let mut unsigned: Value = serde_json::from_slice(&signed(&of_other_entry())).unwrap();
    unsigned["usage"]["context"] = json!("another");
    gateway
        .post(WEBHOOK, JSON, &bytes(&unsigned))
        .await
        .refused(401, "bad_signature");
    // The other addresses don't ask.
    let fields = crate::sample::FIELDS;
    assert_eq!(
        gateway.post(RECEIPTS, fields, &signed(&of_other_entry())).await.status,
        202
    );
    assert_eq!(gateway.records().len(), 2);
    gateway.stop().await;

    let gateway = requiring(Some(Book(Err("it is away".to_owned()))), Routes::All, |_| {}).await;
    gateway
        .post(WEBHOOK, JSON, &receipt().0)
        .await
        .refused(503, "accounts_unavailable");
    assert_eq!(gateway.records().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn entries_may_stand_in_a_file_and_must_stand_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("entries.txt");
    std::fs::write(&path, format!("{ENTRY} # ours\n")).unwrap();
    let gateway = requiring(None, Routes::All, |config| {
        config.webhook_entries_file = Some(path.clone())
    })
    .await;
    assert_eq!(gateway.post(WEBHOOK, JSON, &receipt().0).await.status, 200);
    let other = signed(&of_other_entry());
    gateway.post(WEBHOOK, JSON, &other).await.refused(404, "entry_unknown");
    // Looked at every two seconds.
    std::fs::write(&path, "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11\n").unwrap();
    while gateway.post(WEBHOOK, JSON, &other).await.status != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    gateway
        .post(WEBHOOK, JSON, &receipt().0)
        .await
        .refused(404, "entry_unknown");
    gateway.stop().await;

    for path in [None, Some(folder.path().join("none.txt"))] {
        let gateway = requiring(None, Routes::All, |config| config.webhook_entries_file = path).await;
        let ended = gateway.ended().await;
        assert!(
            matches!(&ended, Err(GatewayError::Config(what)) if what.contains("webhook_entries_file")),
            "{ended:?}"
        );
    }
}

#[tokio::test]
async fn a_receiver_has_no_other_address_for_receipts() {
    let gateway = requiring(Some(Book::of_one()), Routes::Webhook, |_| {}).await;
    for path in [RECEIPTS, BATCH, EXPLAIN, "/"] {
        gateway.post(path, JSON, &receipt().0).await.refused(404, "not_found");
    }
    assert_eq!(gateway.post(WEBHOOK, JSON, &receipt().0).await.status, 200);
    assert_eq!(gateway.connect().await.get("/healthz").await.status, 200);
    gateway.stop().await;
}
