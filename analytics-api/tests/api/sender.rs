//! Outcomes that senders see of their receipts, by a signature of their key.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use analytics_api::AnalyticsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocks::{AcceptedRow, RejectedRow, Rows};
use receipt::{Algorithm, PublicKey, SigningKey};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use usage::Usage;
use uuid::Uuid;
use warehouse::Warehouse;

use crate::progress::FakeProgress;
use crate::rows::{RECEIVED_MS, id, payload_hash, receipt};
use crate::stack::{Answer, Server, Stack};

const OUTCOMES: &str = "/api/v1/client/outcomes";
/// Nobody's in the other scenarios.
const PUBLISHER: &str = "sender.example";

static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::Ed25519).unwrap());
static OTHER_KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::EcdsaP256).unwrap());

fn fingerprint(key: &SigningKey) -> [u8; 32] {
    *PublicKey::from_pem(key.public_key_pem()).unwrap().fingerprint()
}

fn public_key(key: &SigningKey) -> String {
    key.public_key_pem()
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect()
}

fn position(partition: u128, offset: u128) -> u128 {
    1 << 96 | partition << 64 | offset << 16
}

/// A receipt that the key sent.
async fn insert_accepted(warehouse: &Warehouse, receipt_id: Uuid, payload: u8, position: u128) {
    insert_delivered(warehouse, &KEY, receipt_id, payload, position, "c2ln").await;
}

/// A receipt of a key's; whoever delivers it to the webhook sends no signature of the request.
async fn insert_delivered(
    warehouse: &Warehouse,
    key: &SigningKey,
    receipt_id: Uuid,
    payload: u8,
    position: u128,
    request_signature: &str,
) {
    let row = AcceptedRow {
        publisher: PUBLISHER,
        payload_hash: &payload_hash(receipt_id, payload),
        key_fingerprint: &fingerprint(key),
        request_signature,
        ..accepted(receipt_id, RECEIVED_MS, position)
    };
    insert_row(warehouse, &row).await;
}

/// A receipt for a host that nobody has verified.
async fn insert_unattributed(
    warehouse: &Warehouse,
    key: &SigningKey,
    host: &str,
    receipt_id: Uuid,
    at_ms: i64,
    position: u128,
) {
    let row = AcceptedRow {
        publisher: host,
        publisher_verified: false,
        payload_hash: &payload_hash(receipt_id, 1),
        key_fingerprint: &fingerprint(key),
        ..accepted(receipt_id, at_ms, position)
    };
    insert_row(warehouse, &row).await;
}

fn accepted(receipt_id: Uuid, at_ms: i64, position: u128) -> AcceptedRow<'static> {
    AcceptedRow {
        timestamp_ms: at_ms,
        receipt_id,
        position,
        received_at_ms: at_ms,
        purpose: "training",
        kind: "receipt",
        raw: b"{}",
        origin: "record",
        request_signature: "c2ln",
        ..AcceptedRow::default()
    }
}

async fn insert_row(warehouse: &Warehouse, row: &AcceptedRow<'_>) {
    let mut rows = Rows::default();
    rows.push_accepted(row);
    let (accepted, _) = rows.batches().unwrap();
    Usage::new(warehouse.clone()).insert_counted(&[accepted]).await.unwrap();
}

async fn insert_rejected(warehouse: &Warehouse, key: [u8; 32], receipt_id: Uuid, reason: &str, position: u128) {
    insert_rejected_at(warehouse, RECEIVED_MS, key, receipt_id, reason, position).await;
}

async fn insert_rejected_at(
    warehouse: &Warehouse,
    received_at_ms: i64,
    key: [u8; 32],
    receipt_id: Uuid,
    reason: &str,
    position: u128,
) {
    let mut rows = Rows::default();
    rows.push_rejected(&RejectedRow {
        receipt_id,
        ..rejected_row(&key, received_at_ms, reason, position)
    });
    let (_, rejected) = rows.batches().unwrap();
    warehouse.insert_rejections(&[rejected], None).await.unwrap();
}

fn rejected_row<'a>(key: &'a [u8; 32], received_at_ms: i64, reason: &'a str, position: u128) -> RejectedRow<'a> {
    RejectedRow {
        key_fingerprint: key,
        position,
        reason,
        detail: "what was found",
        publisher: PUBLISHER,
        timestamp_ms: 0,
        receipt_id: Uuid::nil(),
        client_id: Uuid::nil(),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms,
        request_id: "request-7",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{}",
        request_signature: "",
        origin: "record",
        receipts: 1,
    }
}

/// Signature of a request.
struct Signed<'a> {
    key: &'a SigningKey,
    uri: String,
    created_s: i64,
    expires_s: i64,
    more: &'a str,
}

impl<'a> Signed<'a> {
    fn new(key: &'a SigningKey, server: &Server, path: &str) -> Self {
        let now_s = jiff::Timestamp::now().as_second();
        Self {
            key,
            uri: format!("http://{}{path}", server.address),
            created_s: now_s,
            expires_s: now_s + 60,
            more: "",
        }
    }

    /// The fields, by RFC 9421 section 2.5.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let Self {
            key,
            uri,
            created_s,
            expires_s,
            more,
        } = self;
        let params = format!(r#"("@method" "@target-uri");created={created_s};expires={expires_s}{more}"#);
        let base = format!("\"@method\": GET\n\"@target-uri\": {uri}\n\"@signature-params\": {params}");
        // RFC 9421 has ECDSA signatures as 64 raw bytes; DER is accepted, too.
        let signature = STANDARD.encode(key.sign(base.as_bytes()).unwrap());
        vec![
            ("x-client-public-key", public_key(key)),
            ("signature-input", format!("sig1={params}")),
            ("signature", format!("sig1=:{signature}:")),
        ]
    }
}

async fn send(server: &Server, path: &str, fields: &[(&'static str, String)]) -> Answer {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    server.send("GET", path, &fields).await
}

async fn get(server: &Server, key: &SigningKey, path: &str) -> Answer {
    send(server, path, &Signed::new(key, server, path).fields()).await
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Outcome, reason and position of each line.
fn reported(lines: &[Value]) -> Vec<(String, String, u64, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |line: &Value| {
        let at = &line["logPosition"];
        let [partition, offset] = ["partition", "offset"].map(|part| at[part].as_u64().unwrap());
        (text(&line["outcome"]), text(&line["reason"]), partition, offset)
    };
    lines.iter().map(one).collect()
}

/// Publishes progress, and waits until readings from before aren't used any more.
async fn publish(stack: &Stack, next_offset: u64) {
    stack.progress.next_offset.store(next_offset, Ordering::SeqCst);
    let age_max = AnalyticsConfig::default().watermark_age_ms_max;
    tokio::time::sleep(Duration::from_millis(age_max + 50)).await;
}

/// Inserts what `outcomes` and `receipts` expect, once: either may run without the other.
async fn insert_own(stack: &Stack) {
    static INSERTED: OnceCell<()> = OnceCell::const_new();
    let insert = async || {
        let warehouse = &stack.deps.warehouse;
        let key = fingerprint(&KEY);
        insert_accepted(warehouse, receipt(40), 1, position(1, 0)).await;
        insert_accepted(warehouse, receipt(40), 1, position(1, 1)).await;
        insert_accepted(warehouse, receipt(40), 2, position(1, 2)).await;
        insert_rejected(warehouse, key, receipt(41), "bad_signature", position(1, 3)).await;
        insert_rejected(
            warehouse,
            fingerprint(&OTHER_KEY),
            receipt(42),
            "bad_signature",
            position(1, 4),
        )
        .await;
        insert_rejected(warehouse, [0; 32], receipt(43), "malformed", position(1, 5)).await;
        insert_unattributed(
            warehouse,
            &KEY,
            "nobodys.example",
            receipt(46),
            RECEIVED_MS,
            position(1, 6),
        )
        .await;
        insert_rejected(warehouse, key, receipt(44), "entry_unknown", position(0, 60)).await;
        // Stored, but not published.
        insert_rejected(warehouse, key, receipt(45), "entry_unknown", position(1, 70)).await;
        publish(stack, 70).await;
    };
    INSERTED.get_or_init(insert).await;
}

pub(crate) async fn outcomes(stack: &Stack) {
    insert_own(stack).await;
    let expected = [
        ("rejected", "entry_unknown", 0, 60),
        ("duplicate", "", 1, 1),
        ("conflict", "", 1, 2),
        ("rejected", "bad_signature", 1, 3),
        ("unattributed", "", 1, 6),
    ];
    let expected =
        expected.map(|(outcome, reason, partition, offset)| (outcome.to_owned(), reason.to_owned(), partition, offset));
    let answer = get(&stack.server, &KEY, OUTCOMES).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let mut all = lines(&answer);
    let end = all.pop().unwrap();
    assert_eq!(reported(&all), expected);
    assert_eq!(
        (&end["more"], &end["truncated"], &end["completeThrough"]),
        (&json!(false), &json!(false), &json!(stack.complete_through()))
    );
    let rejected = &all[3];
    assert_eq!(rejected["receiptId"], receipt(41).to_string());
    assert_eq!(
        (&rejected["detail"], &rejected["requestId"]),
        (&json!("what was found"), &json!("request-7"))
    );
    assert!(rejected["hint"].as_str().unwrap().contains("canonical"), "{rejected}");
    assert!(all[2]["hint"].as_str().unwrap().contains("receiptId"), "{}", all[2]);

    // Page by page, by the cursor of each line.
    let (mut found, mut path) = (Vec::new(), format!("{OUTCOMES}?limit=1"));
    loop {
        let mut page = lines(&get(&stack.server, &KEY, &path).await);
        let end = page.pop().unwrap();
        assert!(page.len() <= 1);
        found.extend(reported(&page));
        let cursor = page.first().unwrap_or(&end)["cursor"].as_str().unwrap();
        path = format!("{OUTCOMES}?limit=1&after={cursor}");
        if page.is_empty() && end["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(found, expected);
    // Behind the end, only what is published later.
    let path = format!("{OUTCOMES}?after={}", end["cursor"].as_str().unwrap());
    assert_eq!(lines(&get(&stack.server, &KEY, &path).await).len(), 1);
    publish(stack, 71).await;
    let later = lines(&get(&stack.server, &KEY, &path).await);
    assert_eq!(
        reported(&later[..1]),
        [("rejected".to_owned(), "entry_unknown".to_owned(), 1, 70)]
    );
    // Another key has its own.
    let other = lines(&get(&stack.server, &OTHER_KEY, OUTCOMES).await);
    assert_eq!(
        reported(&other[..other.len() - 1]),
        [("rejected".to_owned(), "bad_signature".to_owned(), 1, 4)]
    );
    for path in [format!("{OUTCOMES}?after=nonsense"), format!("{OUTCOMES}?limit=1001")] {
        assert_eq!(get(&stack.server, &KEY, &path).await.status, 400, "{path}");
    }
}

/// Whoever has a receipt can deliver it to the webhook: that is no outcome of its sender's.
pub(crate) async fn deliveries_by_others(stack: &Stack) {
    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    // The sender sends 46 once and 47 twice; others deliver both, before and after, and 48.
    let offsets = [
        (46, 0..2, 2..3, 3..10),
        (47, 10..11, 11..13, 13..15),
        (48, 15..17, 0..0, 0..0),
    ];
    for (number, before, own, after) in offsets {
        let deliveries = before.chain(after).map(|offset| (offset, ""));
        for (offset, signature) in deliveries.chain(own.map(|offset| (offset, "c2ln"))) {
            let (warehouse, position) = (&stack.deps.warehouse, position(1, offset));
            insert_delivered(warehouse, &key, receipt(number), 1, position, signature).await;
        }
    }
    let progress = Arc::new(FakeProgress::default());
    progress.next_offset.store(20, Ordering::SeqCst);
    progress
        .complete_ms
        .store(stack.progress.complete_ms.load(Ordering::SeqCst), Ordering::SeqCst);
    let server = stack
        .server_with(AnalyticsConfig::default(), |deps| deps.progress = progress)
        .await;
    let mut all = lines(&get(&server, &key, OUTCOMES).await);
    assert_eq!(all.pop().unwrap()["more"], json!(false));
    assert_eq!(reported(&all), [("duplicate".to_owned(), String::new(), 1, 12)]);
    for (number, occurrences, duplicates) in [(46, 1, 0), (47, 2, 1), (48, 0, 0)] {
        let path = format!("/api/v1/receipts/{}", receipt(number));
        let status = get(&server, &key, &path).await.json();
        assert_eq!(
            (&status["status"], &status["occurrences"], &status["duplicates"]),
            (&json!("verified"), &json!(occurrences), &json!(duplicates)),
            "{number}"
        );
    }
    server.stop().await;
}

/// Behind `outcomes`, which inserts the rows.
pub(crate) async fn receipts(stack: &Stack) {
    insert_own(stack).await;
    let status = async |key: &SigningKey, number| {
        let answer = get(&stack.server, key, &format!("/api/v1/receipts/{}", receipt(number))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let first = status(&KEY, 40).await;
    assert_eq!(
        (
            &first["status"],
            &first["occurrences"],
            &first["duplicates"],
            &first["conflict"]
        ),
        (&json!("verified"), &json!(3), &json!(1), &json!(true))
    );
    let rejected = status(&KEY, 41).await;
    assert_eq!(
        (&rejected["status"], &rejected["reason"]),
        (&json!("rejected"), &json!("bad_signature"))
    );
    for (key, number) in [(&KEY, 42), (&OTHER_KEY, 40), (&OTHER_KEY, 41), (&KEY, 43), (&KEY, 1)] {
        assert_eq!(status(key, number).await["status"], "unknown", "{number}");
    }
    // An API key is still its publisher's.
    let path = format!("/api/v1/receipts/{}", receipt(40));
    assert_eq!(stack.get(&path, &[]).await.json()["status"], "unknown");
    let narrowed = get(&stack.server, &KEY, &format!("{path}?domain={PUBLISHER}")).await;
    assert_eq!(narrowed.status, 400);
}

pub(crate) async fn unlisted_rejections(stack: &Stack) {
    let key = SigningKey::generate(Algorithm::EcdsaP256).unwrap();
    let warehouse = &stack.deps.warehouse;
    let counted = async |day: i64, receipts: u32, position: u128| {
        let mut rows = Rows::default();
        rows.push_rejected(&RejectedRow {
            receipt_id: Uuid::nil(),
            raw: b"",
            origin: blocks::NOT_STORED,
            receipts,
            ..rejected_row(
                &fingerprint(&key),
                RECEIVED_MS + day * 86_400_000,
                "bad_signature",
                position,
            )
        });
        let (_, rejected) = rows.batches().unwrap();
        warehouse.insert_rejections(&[rejected], None).await.unwrap();
    };
    // Positions that no snapshot of `outcomes` covers.
    counted(0, 3, position(1, 900)).await;
    counted(0, 4, position(1, 901)).await;
    counted(1, 5, position(1, 902)).await;
    insert_rejected(
        warehouse,
        fingerprint(&key),
        receipt(71),
        "bad_signature",
        position(1, 903),
    )
    .await;
    let day = |days: i64| {
        let at = jiff::Timestamp::from_millisecond(RECEIVED_MS + days * 86_400_000).unwrap();
        at.strftime("%F").to_string()
    };
    let expected = json!([{"day": day(1), "receipts": 5}, {"day": day(0), "receipts": 7}]);
    let status = async |key: &SigningKey, number| {
        let path = format!("/api/v1/receipts/{}", receipt(number));
        get(&stack.server, key, &path).await.json()
    };
    let unknown = status(&key, 72).await;
    assert_eq!(
        (&unknown["status"], &unknown["unlistedRejections"]),
        (&json!("unknown"), &expected)
    );
    let answer = status(&key, 71).await;
    assert_eq!(
        (&answer["status"], &answer["unlistedRejections"]),
        (&json!("rejected"), &json!(null))
    );
    let of_another = status(&OTHER_KEY, 72).await;
    assert_eq!(of_another["unlistedRejections"], json!(null));
    let all = lines(&get(&stack.server, &key, OUTCOMES).await);
    assert_eq!(all.last().unwrap()["unlistedRejections"], expected);
}

pub(crate) async fn summary(stack: &Stack) {
    const SUMMARY: &str = "/api/v1/client/summary";
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let rejections = [
        (0, 60, "bad_signature"),
        (5, 61, "malformed"),
        (9, 62, "bad_signature"),
        (31, 63, "malformed"),
    ];
    for (days, number, reason) in rejections {
        let (at_ms, position) = (now_ms - days * 86_400_000, position(1, 200 - u128::from(number)));
        let key = fingerprint(&key);
        insert_rejected_at(&stack.deps.warehouse, at_ms, key, receipt(number), reason, position).await;
    }
    for (days, host, number) in [
        (0, "www.typo.example", 64),
        (1, "nobodys.example", 65),
        (2, "www.typo.example", 66),
        (31, "old.example", 67),
    ] {
        let at_ms = now_ms - days * 86_400_000;
        let position = position(1, 200 - u128::from(number));
        insert_unattributed(&stack.deps.warehouse, &key, host, receipt(number), at_ms, position).await;
    }
    let summary = get(&stack.server, &key, SUMMARY).await.json();
    let by_host = json!([
        {"host": "www.typo.example", "receipts": 2},
        {"host": "nobodys.example", "receipts": 1}
    ]);
    assert_eq!(summary["unattributed"], json!({"receipts": 3, "byHost": by_host}));
    assert_eq!(
        (&summary["rejected"], &summary["completeThrough"]),
        (&json!(3), &json!(stack.complete_through()))
    );
    let reasons = summary["byReason"].as_array().unwrap();
    let reported: Vec<_> = reasons
        .iter()
        .map(|one| {
            (
                one["reason"].as_str().unwrap(),
                one["receipts"].as_u64().unwrap(),
                &one["newest"]["receiptId"],
            )
        })
        .collect();
    let ids = [60, 61].map(|number| json!(receipt(number).to_string()));
    assert_eq!(reported, [("bad_signature", 2, &ids[0]), ("malformed", 1, &ids[1])]);
    assert_eq!(reasons[0]["newest"]["detail"], "what was found");
    // Of a key without rejections, and without a signature.
    let nothing = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let empty = get(&stack.server, &nothing, SUMMARY).await.json();
    assert_eq!(
        (&empty["byReason"], &empty["unattributed"]),
        (&json!([]), &json!({"receipts": 0, "byHost": []}))
    );
    assert_eq!(stack.get(SUMMARY, &[]).await.status, 401);
}

pub(crate) async fn signatures(stack: &Stack) {
    let server = &stack.server;
    let good = || Signed::new(&KEY, server, OUTCOMES);
    let refused = async |fields: &[(&'static str, String)], code: &str, detail: &str| {
        let answer = send(server, OUTCOMES, fields).await;
        let body = answer.json();
        assert_eq!((answer.status, body["code"].as_str()), (401, Some(code)), "{body}");
        assert!(body["detail"].as_str().unwrap().contains(detail), "{body}");
    };
    for absent in 0..3 {
        let mut fields = good().fields();
        fields.remove(absent);
        refused(&fields, "missing_message_signature", "X-Client-Public-Key").await;
    }
    let invalid = async |signed: Signed<'_>, detail: &str| {
        refused(&signed.fields(), "invalid_message_signature", detail).await;
    };
    let now_s = jiff::Timestamp::now().as_second();
    let expired = Signed {
        created_s: now_s - 100,
        expires_s: now_s - 1,
        ..good()
    };
    invalid(expired, "expired").await;
    invalid(
        Signed {
            expires_s: now_s + 400,
            ..good()
        },
        "at most 300 seconds",
    )
    .await;
    let elsewhere = format!("http://{}/api/v1/client/summary", server.address);
    invalid(
        Signed {
            uri: elsewhere,
            ..good()
        },
        OUTCOMES,
    )
    .await;
    let tls = format!("https://{}{OUTCOMES}", server.address);
    invalid(Signed { uri: tls, ..good() }, "@target-uri is http://").await;
    invalid(
        Signed {
            more: r#";keyid="another""#,
            ..good()
        },
        "keyid must be",
    )
    .await;
    let mut of_another = good().fields();
    of_another[0].1 = public_key(&OTHER_KEY);
    refused(&of_another, "invalid_message_signature", "isn't the key's").await;
    let mut no_key = good().fields();
    no_key[0].1 = "AAAA".to_owned();
    refused(&no_key, "invalid_message_signature", "X-Client-Public-Key").await;
    let mut two = good().fields();
    two[1].1 = format!("{0}, {1}", two[1].1, two[1].1.replace("sig1", "sig2"));
    two[2].1 = format!("{0}, {1}", two[2].1, two[2].1.replace("sig1", "sig2"));
    refused(&two, "invalid_message_signature", "one signature").await;
    let mut two_lines = good().fields();
    for index in [1, 2] {
        let (name, line) = two_lines[index].clone();
        two_lines.push((name, line.replace("sig1", "sig2")));
    }
    refused(&two_lines, "invalid_message_signature", "one signature").await;
    // An API key is no sender.
    let keyed = stack.get(OUTCOMES, &[]).await;
    assert_eq!(
        (keyed.status, keyed.json()["code"].as_str()),
        (401, Some("missing_message_signature"))
    );

    // Behind a proxy, the public URL is signed.
    let config = AnalyticsConfig {
        public_url: Some("https://receipts.example.com".to_owned()),
        ..AnalyticsConfig::default()
    };
    let proxied = stack.server_with(config, |_| {}).await;
    let uri = format!("https://receipts.example.com{OUTCOMES}");
    let fields = Signed { uri, ..good() }.fields();
    assert_eq!(send(&proxied, OUTCOMES, &fields).await.status, 200);
    assert_eq!(get(&proxied, &KEY, OUTCOMES).await.status, 401);
    proxied.stop().await;
}

pub(crate) async fn quotas_by_key(stack: &Stack) {
    insert_own(stack).await;
    let config = AnalyticsConfig {
        sender_requests_per_minute: 2,
        ..AnalyticsConfig::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    let mut statuses = Vec::new();
    // A minute may end in between, once.
    for _ in 0..8 {
        statuses.push(get(&server, &KEY, OUTCOMES).await.status);
    }
    assert_eq!((statuses[0], statuses.contains(&429)), (200, true), "{statuses:?}");
    assert_eq!(get(&server, &OTHER_KEY, OUTCOMES).await.status, 200);
    server.stop().await;
}

/// Keys cost nothing: those that have sent nothing share their address's quota, which is charged
/// before a signature is verified.
pub(crate) async fn quotas_by_address(stack: &Stack) {
    insert_own(stack).await;
    let config = AnalyticsConfig {
        sender_requests_per_minute: 3,
        sender_address_requests_per_minute: 5,
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..AnalyticsConfig::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    let get_from = async |address: &str, key: &SigningKey, is_right: bool| {
        let mut fields = Signed::new(key, &server, OUTCOMES).fields();
        if !is_right {
            fields[2].1 = "sig1=:AAAA:".to_owned();
        }
        fields.push(("x-forwarded-for", address.to_owned()));
        send(&server, OUTCOMES, &fields).await
    };
    let refused = async |address: &str, key: &SigningKey, is_right: bool, count: &str| {
        // A minute may end in between, once.
        for _ in 0..12 {
            let answer = get_from(address, key, is_right).await;
            if answer.status == 429 {
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                assert!(detail.contains(count), "{detail}");
                assert!(!answer.header("retry-after").is_empty());
                return true;
            }
            assert_eq!(answer.status, if is_right { 200 } else { 401 });
        }
        false
    };
    let fresh = || SigningKey::generate(Algorithm::Ed25519).unwrap();
    // The answer shows receipts of the key, so it is known from then on.
    assert_eq!(get_from("192.0.2.9", &KEY, true).await.status, 200);
    let mut is_refused = false;
    for _ in 0..8 {
        is_refused |= get_from("192.0.2.1", &fresh(), true).await.status == 429;
    }
    assert!(is_refused, "fresh keys have no quotas of their own");
    assert!(refused("192.0.2.1", &fresh(), false, "all unknown keys").await);
    // Neither another address nor a cached key has the quota of strangers.
    assert_eq!(get_from("192.0.2.2", &fresh(), true).await.status, 200);
    assert_eq!(get_from("192.0.2.1", &KEY, true).await.status, 200);
    // The key of a cached sender doesn't open the address's quota to wrong signatures.
    assert!(refused("192.0.2.3", &KEY, false, "all cached keys").await);
    server.stop().await;
}

/// A signature for another service is worth nothing here, whatever the request's Host.
pub(crate) async fn authorities(stack: &Stack) {
    let at = async |server: &Server, authority: &str| {
        let mut fields = Signed {
            uri: format!("http://{authority}{OUTCOMES}"),
            ..Signed::new(&KEY, server, OUTCOMES)
        }
        .fields();
        fields.push(("host", authority.to_owned()));
        send(server, OUTCOMES, &fields).await
    };
    let port = stack.server.address.port();
    for (authority, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        ("localhost:9999".to_owned(), 200),
        ("evil.example".to_owned(), 401),
        ("127.0.0.1.evil.example".to_owned(), 401),
        (format!("10.0.0.1:{port}"), 401),
    ] {
        let answer = at(&stack.server, &authority).await;
        assert_eq!(answer.status, status, "{authority}: {}", answer.text());
        if status == 401 {
            let body = answer.json();
            assert_eq!(body["code"], "invalid_message_signature");
            assert!(
                body["detail"].as_str().unwrap().contains("analytics.public_url"),
                "{body}"
            );
        }
    }
}

pub(crate) async fn waiting(stack: &Stack) {
    let receipt_id = id(0xa0, 50);
    let path = format!("/api/v1/receipts/{receipt_id}");
    let wait = async |server: &Server, wait: &str| {
        let mut fields = Signed::new(&KEY, server, &path).fields();
        fields.push(("prefer", format!("wait={wait}")));
        let began = Instant::now();
        (send(server, &path, &fields).await, began.elapsed())
    };
    let (answer, took) = wait(&stack.server, "1").await;
    assert_eq!(answer.json()["status"], "unknown");
    assert_eq!(answer.header("preference-applied"), "wait=1");
    assert!(took >= Duration::from_millis(990), "{took:?}");

    let ((answer, took), ()) = tokio::join!(wait(&stack.server, "600"), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        insert_accepted(&stack.deps.warehouse, receipt_id, 1, position(1, 80)).await;
        // Without published progress nobody queries again.
        tokio::time::sleep(Duration::from_millis(500)).await;
        stack.progress.verdicts_offset.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("verified")));
    assert_eq!(answer.header("preference-applied"), "wait=30");
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(25),
        "{took:?}"
    );

    // Answered at once, and without a permit.
    assert!(wait(&stack.server, "30").await.1 < Duration::from_secs(10));
    let config = AnalyticsConfig {
        waiting_receipts_max: 0,
        ..AnalyticsConfig::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    let (answer, _) = wait(&server, "30").await;
    assert_eq!((answer.status, answer.header("preference-applied")), (200, ""));
    server.stop().await;
}

/// A process that ends doesn't wait for those who wait.
pub(crate) async fn waiting_ends_with_the_process(stack: &Stack) {
    let server = stack.server_with(AnalyticsConfig::default(), |_| {}).await;
    let path = format!("/api/v1/receipts/{}", id(0xa0, 51));
    let mut fields = Signed::new(&KEY, &server, &path).fields();
    fields.push(("prefer", "wait=30".to_owned()));
    let began = Instant::now();
    let (answer, ()) = tokio::join!(send(&server, &path, &fields), async {
        // The request is there by then, on a busy machine too.
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.shutdown.cancel();
    });
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("unknown")));
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    server.stop().await;
}
