//! Headers and rows to make records of.

use blocks::{AcceptedRow, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange, VERSION};
use bytes::Bytes;
use uuid::Uuid;

pub(crate) fn header(accepted: u64, rejected: u64) -> Header {
    Header {
        version: VERSION,
        source: SourceRange {
            epoch: 3,
            partition: 11,
            first: SourceIndex {
                offset: 41,
                index: 65_535,
            },
            end: SourceIndex {
                offset: (1 << 48) - 1,
                index: 0,
            },
        },
        source_partitions: 12,
        shard: 2,
        shards: 3,
        shard_map_version: 7,
        shard_map: u64::MAX - 1,
        first_appended_at_ms: 1_751_286_896_789,
        complete_through_ms: -1,
        block: ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        },
        shard_counts: ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        },
        verifier: "verifier-0 \u{fc}".to_owned(),
    }
}

pub(crate) fn idle() -> Header {
    let mut header = header(0, 0);
    header.source.end = header.source.first;
    header
}

/// A row whose values all differ.
pub(crate) fn accepted(number: u128) -> AcceptedRow<'static> {
    AcceptedRow {
        position: (3 << 96) | (11 << 64) | (number << 16) | 65_535,
        publisher: ["news.example", "blog.example", "docs.example"][(number % 3) as usize],
        timestamp_ms: 1_751_286_896_789 + number as i64,
        entry_id: Uuid::from_u128(number + 1),
        receipt_id: Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        payload_hash: &[1; 32],
        received_at_ms: i64::MAX,
        url: "https://news.example/\u{1f600}",
        content_hash: &[2; 32],
        client_id: Uuid::from_u128(u128::MAX),
        client_name: "client",
        client_version: "1.2.3",
        organization: "organization",
        key_fingerprint: &[3; 32],
        algorithm: "Ed25519",
        purpose: "training",
        context: "context",
        dataset_id: "dataset",
        model_id: "model",
        query_id: "query",
        session_id: "session",
        study_id: "study",
        researcher_id: "",
        request_id: "request of an accepted receipt",
        client_address: "192.0.2.1",
        kind: "batch",
        raw: b"{\"receiptId\":1}",
        request_signature: "c2ln",
        origin: "signed_batch",
        operator: "ai.example",
        batch_signature: b"\x00signature\xff",
        batch_hash: &[4; 32],
        publisher_verified: number.is_multiple_of(2),
    }
}

pub(crate) fn rejected(number: u128) -> RejectedRow<'static> {
    RejectedRow {
        key_fingerprint: &[0; 32],
        position: (3 << 96) | (11 << 64) | (number << 16),
        reason: "bad_signature",
        detail: "the signature isn't one of the key",
        publisher: "",
        receipt_id: Uuid::nil(),
        client_id: Uuid::from_u128(7),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        timestamp_ms: 0,
        received_at_ms: -5,
        request_id: "request",
        client_address: "::1",
        kind: "receipt",
        raw: b"{\xff\0}",
        request_signature: "",
        origin: "record",
        receipts: 1,
    }
}

pub(crate) fn rows(accepted_rows: u128, rejected_rows: u128) -> Rows {
    let mut rows = Rows::default();
    (0..rejected_rows).for_each(|number| rows.push_rejected(&rejected(number)));
    (0..accepted_rows).for_each(|number| rows.push_accepted(&accepted(number)));
    rows
}

pub(crate) fn record(accepted: u64, rejected: u64) -> Bytes {
    rows(accepted.into(), rejected.into())
        .encode(header(accepted, rejected))
        .unwrap()
}
