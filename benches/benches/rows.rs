//! Rows as records of the log `verdicts`: encoded by verifiers and decoded by writers, beside
//! serde_json's text for scale.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use blocks::{AcceptedRow, Block, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use uuid::Uuid;

const ROWS: u64 = 1_000;

fn accepted_row<'a>(hash: &'a [u8; 32], position: u128, raw: &'a [u8]) -> AcceptedRow<'a> {
    AcceptedRow {
        publisher: "news.publisher.example",
        timestamp_ms: 1_782_907_200_007,
        entry_id: Uuid::from_u128(7),
        receipt_id: Uuid::from_u128(position),
        payload_hash: hash,
        position,
        received_at_ms: 1_782_907_200_107,
        url: "https://news.publisher.example/2026/articles/0198c0de-0000-7000-8000-000000000000?section=science",
        content_hash: hash,
        client_id: Uuid::from_u128(9),
        client_name: "Example Reader",
        client_version: "4.2.0",
        organization: "Example Operator",
        key_fingerprint: hash,
        algorithm: "Ed25519",
        purpose: "inference",
        context: "answering a reader's question",
        query_id: "q-81723",
        session_id: "s-1128",
        request_id: "0198c0de-0000-7000-8000-000000000000",
        client_address: "192.0.2.1",
        kind: "batch",
        raw,
        origin: "signed_batch",
        ..AcceptedRow::default()
    }
}

fn rejected_row<'a>(hash: &'a [u8; 32], position: u128, raw: &'a [u8]) -> RejectedRow<'a> {
    RejectedRow {
        key_fingerprint: &[0; 32],
        position,
        reason: "bad_signature",
        detail: "the signature doesn't verify",
        publisher: "news.publisher.example",
        receipt_id: Uuid::from_u128(position),
        client_id: Uuid::from_u128(9),
        entry_id: Uuid::nil(),
        payload_hash: hash,
        timestamp_ms: 0,
        received_at_ms: 1_782_907_200_107,
        request_id: "0198c0de-0000-7000-8000-000000000000",
        client_address: "192.0.2.1",
        kind: "batch",
        raw,
        request_signature: "",
        origin: "signed_batch",
        receipts: 1,
    }
}

/// A record of `verdicts` with these rows.
fn record(rows: Rows) -> Bytes {
    let (accepted, rejected) = (rows.accepted() as u64, rows.rejected());
    let end = SourceIndex { offset: ROWS, index: 0 };
    let header = Header {
        version: blocks::VERSION,
        source: SourceRange {
            end,
            ..SourceRange::default()
        },
        block: ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        },
        ..Header::default()
    };
    rows.encode(header).unwrap()
}

fn accepted_record(hash: &[u8; 32], raw: &[u8]) -> Bytes {
    let mut rows = Rows::default();
    (0..u128::from(ROWS)).for_each(|position| rows.push_accepted(&accepted_row(hash, position, raw)));
    record(rows)
}

fn rejected_record(hash: &[u8; 32], raw: &[u8]) -> Bytes {
    let mut rows = Rows::default();
    (0..u128::from(ROWS)).for_each(|position| rows.push_rejected(&rejected_row(hash, position, raw)));
    record(rows)
}

fn rows(criterion: &mut Criterion) {
    let (hash, raw) = ([7; 32], vec![b'x'; 1_200]);
    let mut group = criterion.benchmark_group("1,000 rows");
    group
        .throughput(Throughput::Elements(ROWS))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30);
    group.bench_function("accepted, encoded", |bench| {
        bench.iter(|| black_box(accepted_record(&hash, &raw).len()));
    });
    group.bench_function("rejected, encoded", |bench| {
        bench.iter(|| black_box(rejected_record(&hash, &raw).len()));
    });
    let encoded = accepted_record(&hash, &raw);
    group.bench_function("accepted, decoded", |bench| {
        bench.iter(|| black_box(Block::decode(&encoded).unwrap().accepted().num_rows()));
    });
    let mut out = Vec::new();
    group.bench_function("receipts, JSON text of the main columns", |bench| {
        bench.iter(|| {
            out.clear();
            for position in 0..u128::from(ROWS) {
                let row = accepted_row(&hash, position, &raw);
                let members = (
                    (
                        row.publisher,
                        row.timestamp_ms,
                        row.entry_id,
                        row.receipt_id,
                        row.received_at_ms,
                        row.url,
                    ),
                    (
                        row.client_id,
                        row.client_name,
                        row.client_version,
                        row.organization,
                        row.algorithm,
                        row.purpose,
                    ),
                    (row.context, row.query_id, row.session_id),
                );
                serde_json::to_writer(&mut out, &members).unwrap();
            }
            black_box(out.len())
        });
    });
    group.finish();
}

criterion_group!(encoding, rows);
criterion_main!(encoding);
