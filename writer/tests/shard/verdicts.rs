//! Records of the log `verdicts`, as a verifier would make them, and what they should come to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use blocks::{AcceptedRow, Header, ReceiptCounts, RejectedRow, Rows, SourceIndex, SourceRange};
use bytes::Bytes;
use receipt_log::Position;
use uuid::Uuid;

/// When the tests began: old receipts would be deleted.
static NOW_MS: LazyLock<i64> = LazyLock::new(service::instant::now_ms);

/// The verdict on one receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A valid receipt of this number.
    Accepted(u128),
    /// A malformed one.
    Rejected,
}

/// Whether a table with [`POISON`] refuses the receipt.
pub(crate) fn is_poison(number: u128) -> bool {
    matches!(number % 20, 1 | 7 | 11)
}

/// A constraint of `receipts`.
pub(crate) const POISON: &str = "NOT endsWith(url, 'poison')";

/// A partition of `receipts`, and its records so far.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) epoch: u32,
    pub(crate) partition: u32,
    pub(crate) partitions: u32,
    pub(crate) next_offset: u64,
    /// Of the last record.
    pub(crate) complete_through_ms: i64,
    /// Receipts and their occurrences.
    pub(crate) accepted: BTreeMap<u128, u64>,
    pub(crate) rejected: u64,
}

impl Source {
    pub(crate) fn new(epoch: u32, partition: u32, partitions: u32) -> Self {
        Self {
            epoch,
            partition,
            partitions,
            next_offset: 0,
            // An instant that hasn't come is limited, and each record moves this on by a second.
            complete_through_ms: *NOW_MS - 3_600_000,
            accepted: BTreeMap::new(),
            rejected: 0,
        }
    }

    /// The header of a block with these many records.
    pub(crate) fn header(&self, records: u64) -> Header {
        let index = |offset| SourceIndex { offset, index: 0 };
        Header {
            version: blocks::VERSION,
            source: SourceRange {
                epoch: self.epoch,
                partition: self.partition,
                first: index(self.next_offset),
                end: index(self.next_offset + records),
            },
            source_partitions: self.partitions,
            shard: 0,
            shards: 1,
            shard_map_version: 0,
            shard_map: 0,
            first_appended_at_ms: self.complete_through_ms,
            complete_through_ms: self.complete_through_ms,
            block: ReceiptCounts::default(),
            shard_counts: ReceiptCounts::default(),
            verifier: "test".to_owned(),
        }
    }

    /// A block; each element is one record of `receipts` with its receipts.
    pub(crate) fn block(&mut self, records: &[Vec<Verdict>]) -> Bytes {
        self.complete_through_ms += 1_000;
        let mut rows = Rows::default();
        for (offset, verdicts) in (self.next_offset..).zip(records) {
            let record = Position {
                epoch: self.epoch,
                partition: self.partition,
                offset,
            };
            for (index, verdict) in (0..).zip(verdicts) {
                match *verdict {
                    Verdict::Accepted(number) => {
                        push_accepted(&mut rows, record.receipt(index), number);
                        *self.accepted.entry(number).or_default() += 1;
                    }
                    Verdict::Rejected => {
                        rows.push_rejected(&rejected(record.receipt(index)));
                        self.rejected += 1;
                    }
                }
            }
        }
        let mut header = self.header(records.len() as u64);
        let (accepted, rejected) = (rows.accepted() as u64, rows.rejected());
        header.block = ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        };
        self.next_offset += records.len() as u64;
        rows.encode(header).unwrap()
    }

    /// A block of valid receipts, one a record.
    pub(crate) fn singles(&mut self, numbers: impl IntoIterator<Item = u128>) -> Bytes {
        let records: Vec<_> = numbers
            .into_iter()
            .map(|number| vec![Verdict::Accepted(number)])
            .collect();
        self.block(&records)
    }

    /// A record without rows.
    pub(crate) fn idle(&mut self) -> Bytes {
        self.complete_through_ms += 1_000;
        Rows::default().encode(self.header(0)).unwrap()
    }

    pub(crate) fn occurrences(&self) -> u64 {
        self.accepted.values().sum()
    }

    pub(crate) fn receipts(&self) -> BTreeSet<u128> {
        self.accepted.keys().copied().collect()
    }
}

fn push_accepted(rows: &mut Rows, position: u128, number: u128) {
    let mut payload_hash = [7; 32];
    payload_hash[..16].copy_from_slice(&number.to_le_bytes());
    let url = if is_poison(number) {
        "https://news.example/poison"
    } else {
        "https://news.example/a"
    };
    rows.push_accepted(&AcceptedRow {
        position,
        publisher: "news.example",
        timestamp_ms: *NOW_MS - 1_000,
        entry_id: Uuid::from_u128(7),
        receipt_id: Uuid::from_u128(number + 1),
        payload_hash: &payload_hash,
        received_at_ms: *NOW_MS,
        url,
        content_hash: &[3; 32],
        client_id: Uuid::from_u128(9),
        client_name: "reader",
        client_version: "1.0",
        organization: "Readers",
        key_fingerprint: &[4; 32],
        algorithm: "Ed25519",
        purpose: "training",
        context: "test",
        request_id: "request",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{\"receiptId\":1}",
        request_signature: "c2ln",
        origin: "record",
        ..AcceptedRow::default()
    });
}

fn rejected(position: u128) -> RejectedRow<'static> {
    RejectedRow {
        key_fingerprint: &[0; 32],
        position,
        publisher: "",
        timestamp_ms: 0,
        entry_id: Uuid::nil(),
        receipt_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms: *NOW_MS,
        client_id: Uuid::nil(),
        request_id: "request",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{\xff",
        request_signature: "",
        origin: "record",
        reason: "malformed",
        detail: "not JSON",
        receipts: 1,
    }
}
