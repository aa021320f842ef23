//! SampleRow receipts and refusals, and what they add up to, counted here in the plainest way.

use std::collections::BTreeSet;

use blocks::{AcceptedRow, RejectedRow, Rows};
use jiff::Timestamp;
use usage::Usage;
use uuid::Uuid;
use warehouse::Warehouse;

pub(crate) const NEWS: &str = "news.example";
pub(crate) const BLOG: &str = "blog.example";
pub(crate) const RIVAL: &str = "rival.example";
/// Of it there are more receipts than a page has.
pub(crate) const BULK: &str = "bulk.example";
pub(crate) const BULK_RECEIPTS: u32 = 2_500;
/// Publisher whose receipts have signers of every kind.
pub(crate) const SIGNED: &str = "signed.example";

/// Publisher with many payloads under one ID.
pub(crate) const CROWDED: &str = "crowded.example";

pub(crate) const OPERATOR: &str = "ai.example";
pub(crate) const FOREIGN_OPERATOR: &str = "xn--knstlich-65a.example";
/// Operator of the key at the time of duplicates, which changes nothing.
pub(crate) const LATER_OPERATOR: &str = "later.example";

/// A payload, seen `occurrences` times.
#[derive(Debug, Clone)]
pub(crate) struct SampleRow {
    pub(crate) publisher: &'static str,
    pub(crate) receipt_id: Uuid,
    pub(crate) entry_id: Uuid,
    pub(crate) client_id: Uuid,
    pub(crate) name: String,
    /// Every byte of the key's fingerprint.
    pub(crate) key: u8,
    /// On the first arrival; empty if it was nobody's.
    pub(crate) operator: &'static str,
    pub(crate) timestamp_ms: i64,
    pub(crate) purpose: &'static str,
    pub(crate) payload: u8,
    pub(crate) occurrences: u16,
}

pub(crate) fn id(kind: u8, number: u8) -> Uuid {
    Uuid::from_bytes([kind, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, number])
}

pub(crate) fn entry(number: u8) -> Uuid {
    id(0xe0, number)
}

pub(crate) fn client(number: u8) -> Uuid {
    id(0xc0, number)
}

pub(crate) fn receipt(number: u8) -> Uuid {
    id(0xa0, number)
}

pub(crate) fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

pub(crate) const RECEIVED_MS: i64 = 1_774_900_000_000;

impl SampleRow {
    pub(crate) fn is_proven(&self) -> bool {
        !self.operator.is_empty()
    }
}

/// Around the day of 23 hours in Berlin (2026-03-29), at the edges of buckets; every client has a
/// key of its own.
pub(crate) fn sample_rows() -> Vec<SampleRow> {
    let rows = [
        // publisher, receipt, entry, client, timestamp, purpose, payload, occurrences
        (NEWS, 1, 1, 1, "2026-03-28T22:59:59.999Z", "training", 1, 1),
        (NEWS, 2, 1, 1, "2026-03-28T23:00:00.000Z", "training", 1, 3),
        (NEWS, 3, 1, 2, "2026-03-29T00:59:59.999Z", "inference", 1, 1),
        (NEWS, 4, 2, 2, "2026-03-29T01:00:00.000Z", "inference", 1, 1),
        (NEWS, 5, 1, 1, "2026-03-29T21:59:59.999Z", "research", 1, 1),
        (NEWS, 6, 1, 3, "2026-03-29T22:00:00.000Z", "training", 1, 2),
        (NEWS, 7, 2, 3, "2026-02-10T12:00:00.000Z", "training", 1, 1),
        // Two payloads under one id.
        (NEWS, 8, 2, 1, "2026-03-29T10:00:00.000Z", "inference", 1, 1),
        (NEWS, 8, 2, 1, "2026-03-29T10:00:01.000Z", "inference", 2, 2),
        (BLOG, 9, 3, 4, "2026-03-29T12:00:00.000Z", "research", 1, 1),
        (RIVAL, 10, 4, 5, "2026-03-29T12:00:00.000Z", "training", 1, 1),
        (RIVAL, 11, 4, 1, "2026-03-29T12:30:00.000Z", "training", 1, 4),
    ];
    let operator = |receipt_no, client_no| match (receipt_no, client_no) {
        // Its key isn't listed any more.
        (5, 1) => "",
        (_, 1) => OPERATOR,
        (_, 3) => FOREIGN_OPERATOR,
        _ => "",
    };
    rows.map(
        |(publisher, receipt_no, entry_no, client_no, timestamp, purpose, payload, occurrences)| SampleRow {
            publisher,
            receipt_id: receipt(receipt_no),
            entry_id: entry(entry_no),
            client_id: client(client_no),
            name: format!("client {client_no}"),
            key: client_no,
            operator: operator(receipt_no, client_no),
            timestamp_ms: ms(timestamp),
            purpose,
            payload,
            occurrences,
        },
    )
    .into()
}

/// Receipts of [`SIGNED`]: a client with strangers under its ID, one whose key was listed in
/// between, and one that nobody answers for.
pub(crate) fn signed() -> Vec<SampleRow> {
    let rows = [
        // receipt, client, key, operator, name, timestamp, purpose, entry
        (30, 1, 1, OPERATOR, "Known AI", "2026-03-20T10:00:00Z", "training", 1),
        (31, 1, 1, OPERATOR, "Known AI", "2026-03-21T10:00:00Z", "inference", 2),
        (32, 1, 7, "", "A stranger", "2026-03-22T10:00:00Z", "training", 1),
        (33, 1, 8, "", "Another stranger", "2026-03-23T10:00:00Z", "research", 1),
        (34, 1, 8, "", "Another stranger", "2026-03-24T10:00:00Z", "research", 2),
        (35, 1, 8, "", "Another stranger", "2026-03-24T11:15:00Z", "research", 2),
        (36, 6, 6, "", "Künstlich", "2026-03-19T10:00:00Z", "training", 3),
        (
            37,
            6,
            6,
            FOREIGN_OPERATOR,
            "Künstlich 2",
            "2026-03-21T10:00:00Z",
            "training",
            3,
        ),
        (38, 9, 9, "", "Nobody", "2026-03-25T10:00:00Z", "inference", 3),
    ];
    let row =
        |(receipt_no, client_no, key, operator, name, timestamp, purpose, entry_no): (_, _, _, _, &str, _, _, _)| {
            SampleRow {
                publisher: SIGNED,
                receipt_id: receipt(receipt_no),
                entry_id: entry(entry_no),
                client_id: client(client_no),
                name: name.to_owned(),
                key,
                operator,
                timestamp_ms: ms(timestamp),
                purpose,
                payload: 1,
                occurrences: 1 + u16::from(receipt_no % 3),
            }
        };
    rows.map(row).into()
}

/// The fingerprint as answered.
pub(crate) fn key_text(key: u8) -> String {
    hex::encode([key; 32])
}

/// The payload's hash; as a real one it differs between receipts, in its first 16 bytes too.
pub(crate) fn payload_hash(receipt_id: Uuid, payload: u8) -> [u8; 32] {
    let mut hash = [payload; 32];
    hash[..15].copy_from_slice(&receipt_id.as_bytes()[1..]);
    hash
}

pub(crate) fn payload_hash_text(receipt_id: Uuid, payload: u8) -> String {
    format!("sha256:{}", hex::encode(payload_hash(receipt_id, payload)))
}

pub(crate) fn url(entry: Uuid) -> String {
    format!("https://example.org/{}", entry.as_bytes()[15])
}

/// The model that a client's receipts name.
pub(crate) fn model(client: Uuid) -> &'static str {
    match client.as_bytes()[15] {
        1 => "model-one",
        3 => "=model(3)",
        _ => "",
    }
}

/// Receipts and clients of a selection of them.
pub(crate) fn sums<'a>(rows: impl Iterator<Item = &'a SampleRow>) -> [u64; 2] {
    let rows: Vec<&SampleRow> = rows.collect();
    let clients: BTreeSet<_> = rows.iter().map(|row| (row.client_id, row.key)).collect();
    [rows.len() as u64, clients.len() as u64]
}

/// Refusals: publisher, receipt, reason, detail.
pub(crate) fn refused() -> Vec<(&'static str, Option<Uuid>, &'static str, &'static str)> {
    vec![
        (NEWS, Some(receipt(20)), "bad_signature", "the signature doesn't verify"),
        (NEWS, Some(receipt(21)), "bad_signature", "=cmd(), with a comma"),
        (
            NEWS,
            Some(receipt(2)),
            "bad_content_hash",
            "a tampered copy of a valid receipt",
        ),
        (NEWS, None, "malformed", "no id to be read"),
        (RIVAL, Some(receipt(22)), "bad_signature", "another publisher's"),
    ]
}

/// The receipts of [`BULK`]: each of an entry and a client of its own, every five at one instant,
/// every seventh seen twice.
fn push_bulk(rows: &mut Rows) {
    let numbers = (0..BULK_RECEIPTS).chain((0..BULK_RECEIPTS).step_by(7));
    for (offset, number) in (0_u128..).zip(numbers) {
        let receipt_id = Uuid::from_u128(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        rows.push_accepted(&AcceptedRow {
            publisher: BULK,
            timestamp_ms: ms("2026-03-20T00:00:00Z") + i64::from(number / 5) * 60_000,
            receipt_id,
            payload_hash: &payload_hash(receipt_id, 1),
            position: (2_u128 << 96) | offset << 16,
            entry_id: Uuid::from_u128(u128::from(number) + 1),
            client_id: Uuid::from_u128(u128::from(number) + 1),
            ..row(client(1), entry(1))
        });
    }
}

/// Row with the members that all receipts here have in common.
pub(crate) fn row(client_id: Uuid, entry_id: Uuid) -> AcceptedRow<'static> {
    AcceptedRow {
        publisher: NEWS,
        timestamp_ms: 0,
        entry_id,
        receipt_id: Uuid::nil(),
        payload_hash: &[1; 32],
        position: 0,
        received_at_ms: RECEIVED_MS,
        url: "https://example.org/",
        content_hash: &[7; 32],
        client_id,
        client_name: "client",
        client_version: "1.0",
        organization: "Organization",
        key_fingerprint: &[9; 32],
        algorithm: "Ed25519",
        purpose: "training",
        context: "tests",
        model_id: model(client_id),
        request_id: "request",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{}",
        origin: "record",
        ..AcceptedRow::default()
    }
}

pub(crate) async fn insert(warehouse: &Warehouse) {
    let mut rows = Rows::default();
    push_bulk(&mut rows);
    let mut position = 1_u128 << 96;
    for sample in sample_rows().into_iter().chain(signed()) {
        for occurrence in 0..sample.occurrences {
            position += 1 << 16;
            rows.push_accepted(&AcceptedRow {
                publisher: sample.publisher,
                timestamp_ms: sample.timestamp_ms,
                receipt_id: sample.receipt_id,
                payload_hash: &payload_hash(sample.receipt_id, sample.payload),
                position,
                received_at_ms: RECEIVED_MS + i64::from(occurrence),
                url: &url(sample.entry_id),
                client_name: &sample.name,
                key_fingerprint: &[sample.key; 32],
                operator: if occurrence == 0 {
                    sample.operator
                } else {
                    LATER_OPERATOR
                },
                purpose: sample.purpose,
                ..row(sample.client_id, sample.entry_id)
            });
        }
    }
    for (number, (publisher, receipt_id, reason, detail)) in (0_u8..).zip(refused()) {
        position += 1 << 16;
        rows.push_rejected(&RejectedRow {
            key_fingerprint: &[0; 32],
            position,
            reason,
            detail,
            publisher,
            timestamp_ms: 0,
            receipt_id: receipt_id.unwrap_or_default(),
            client_id: client(1),
            entry_id: Uuid::nil(),
            payload_hash: &[0; 32],
            received_at_ms: RECEIVED_MS + i64::from(number) * 1_000,
            request_id: &format!("request-{number}"),
            client_address: "192.0.2.1",
            kind: "receipt",
            raw: b"{}",
            request_signature: "",
            origin: "record",
            receipts: 1,
        });
    }
    let (accepted, rejected) = rows.batches().unwrap();
    let usage = Usage::new(warehouse.clone());
    usage.insert_counted(&[accepted]).await.unwrap();
    warehouse.insert_rejections(&[rejected], None).await.unwrap();
}
