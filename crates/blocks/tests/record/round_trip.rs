//! Rows that are encoded and decoded come out as they went in.

use arrow_array::Array;
use blocks::{AcceptedRow, Block, COLUMN_NAMES, Columns, RejectedRow, Rows, encode_stream, schema};
use proptest::prelude::*;
use uuid::Uuid;

use crate::samples;

fn assert_accepted(columns: &Columns, row: usize, expected: &AcceptedRow<'_>) {
    assert_eq!(columns.position.value(row), expected.position.to_le_bytes());
    assert_eq!(columns.accepted_row(row), *expected);
    // Columns of rejected rows are empty.
    assert_eq!(columns.rejected_row(row), expected.as_rejected("", ""));
}

fn assert_rejected(columns: &Columns, row: usize, expected: &RejectedRow<'_>) {
    assert_eq!(columns.position.value(row), expected.position.to_le_bytes());
    assert_eq!(columns.rejected_row(row), *expected);
    let as_accepted = AcceptedRow {
        position: expected.position,
        publisher: expected.publisher,
        timestamp_ms: expected.timestamp_ms,
        entry_id: expected.entry_id,
        receipt_id: expected.receipt_id,
        payload_hash: expected.payload_hash,
        received_at_ms: expected.received_at_ms,
        client_id: expected.client_id,
        key_fingerprint: expected.key_fingerprint,
        request_id: expected.request_id,
        client_address: expected.client_address,
        kind: expected.kind,
        raw: expected.raw,
        request_signature: expected.request_signature,
        origin: expected.origin,
        publisher_verified: false,
        // Columns of accepted rows are empty.
        ..AcceptedRow::default()
    };
    assert_eq!(columns.accepted_row(row), as_accepted);
}

#[test]
fn accepted_rows_come_first() {
    let block = Block::decode(&samples::record(3, 2)).unwrap();
    assert_eq!(block.header, samples::header(3, 2));
    for row in 0..3 {
        assert_accepted(block.columns(), row, &samples::accepted(row as u128));
    }
    for row in 0..2 {
        assert_rejected(block.columns(), 3 + row, &samples::rejected(row as u128));
    }
    let (accepted, rejected) = (block.accepted(), block.rejected());
    assert_eq!((accepted.num_rows(), rejected.num_rows()), (3, 2));
    assert_eq!((accepted.schema(), rejected.schema()), (schema(), schema()));
    assert_accepted(&Columns::new(&accepted).unwrap(), 2, &samples::accepted(2));
    assert_rejected(&Columns::new(&rejected).unwrap(), 1, &samples::rejected(1));
}

#[test]
fn an_idle_record_has_no_rows() {
    let block = Block::decode(&Rows::default().encode(samples::idle()).unwrap()).unwrap();
    assert!(block.header.source.is_empty());
    assert_eq!(block.accepted().num_rows() + block.rejected().num_rows(), 0);
}

#[test]
fn a_shard_without_rows_of_a_block_has_a_record() {
    let block = Block::decode(&Rows::default().encode(samples::header(5, 1)).unwrap()).unwrap();
    assert_eq!(
        (block.header.block.received, block.header.shard_counts.received),
        (6, 0)
    );
}

#[test]
fn only_rejected_rows() {
    let block = Block::decode(&samples::record(0, 4)).unwrap();
    assert_eq!((block.accepted().num_rows(), block.rejected().num_rows()), (0, 4));
}

#[test]
fn appended_rows_follow_within_their_kind() {
    let mut rows = samples::rows(2, 1);
    rows.append(Rows::default());
    let mut empty = Rows::default();
    empty.append(rows);
    empty.append(samples::rows(1, 2));
    assert_eq!((empty.accepted(), empty.rejected()), (3, 3));
    let block = Block::decode(&empty.encode(samples::header(3, 3)).unwrap()).unwrap();
    for (row, number) in [0, 1, 0].into_iter().enumerate() {
        assert_accepted(block.columns(), row, &samples::accepted(number));
    }
    for (row, number) in [0, 0, 1].into_iter().enumerate() {
        assert_rejected(block.columns(), 3 + row, &samples::rejected(number));
    }
}

#[test]
fn bytes_foretell_the_size_of_the_record() {
    for (accepted, rejected) in [(0, 0), (1, 0), (0, 1), (997, 13)] {
        let rows = samples::rows(accepted.into(), rejected.into());
        let bytes = rows.bytes();
        let record = rows.encode(samples::header(accepted, rejected)).unwrap();
        assert!(
            bytes < record.len() && record.len() < bytes + 10 * 1024,
            "{bytes}, {}",
            record.len()
        );
    }
}

#[test]
fn values_are_not_copied() {
    let record = samples::record(100, 100);
    let block = Block::decode(&record).unwrap();
    let memory = record.as_ptr_range();
    for array in block.accepted().columns().iter().chain(block.rejected().columns()) {
        let values = array.to_data().buffers().last().unwrap().as_ptr();
        assert!(memory.contains(&values) || array.is_empty());
    }
}

#[test]
fn the_same_rows_are_the_same_bytes() {
    assert_eq!(samples::record(5, 5), samples::record(5, 5));
}

#[test]
fn batches_of_a_stream_have_one_schema() {
    let block = Block::decode(&samples::record(3, 2)).unwrap();
    encode_stream(&[block.accepted(), block.rejected()]).unwrap();
    let narrow = block.accepted().project(&[0, 1]).unwrap();
    assert!(encode_stream(&[block.accepted(), narrow]).is_err());
    assert!(encode_stream(&[]).is_err());
}

#[test]
fn names_are_those_of_the_schema() {
    let schema = schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, COLUMN_NAMES);
    assert!(schema.metadata().is_empty());
}

/// Values of one row, of both kinds.
#[derive(Debug, Clone)]
struct Values {
    accepted: bool,
    position: u128,
    texts: Vec<String>,
    raw: Vec<u8>,
    times: [i64; 2],
    ids: [u128; 3],
    hashes: [[u8; 32]; 3],
    receipts: u32,
}

impl Values {
    fn any() -> impl Strategy<Value = Self> {
        let text = prop_oneof![Just(String::new()), ".{0,12}", "[\\x00\\u{fffd}\\u{10ffff}\\PC]{1,300}"];
        let fields = (
            any::<bool>(),
            any::<u128>(),
            prop::collection::vec(text, 14),
            any::<Vec<u8>>(),
            any::<[i64; 2]>(),
            any::<[u128; 3]>(),
            any::<[[u8; 32]; 3]>(),
            1..=u32::MAX,
        );
        fields.prop_map(|(accepted, position, texts, raw, times, ids, hashes, receipts)| Self {
            accepted,
            position,
            texts,
            raw,
            times,
            ids,
            hashes,
            receipts,
        })
    }

    fn accepted(&self) -> AcceptedRow<'_> {
        let text = |index: usize| self.texts[index].as_str();
        AcceptedRow {
            position: self.position,
            publisher: text(0),
            timestamp_ms: self.times[0],
            entry_id: Uuid::from_u128(self.ids[0]),
            receipt_id: Uuid::from_u128(self.ids[1]),
            payload_hash: &self.hashes[0],
            received_at_ms: self.times[1],
            url: text(1),
            content_hash: &self.hashes[1],
            client_id: Uuid::from_u128(self.ids[2]),
            client_name: text(2),
            client_version: text(3),
            organization: text(4),
            key_fingerprint: &self.hashes[2],
            algorithm: text(5),
            purpose: text(6),
            context: text(7),
            dataset_id: text(8),
            model_id: text(9),
            query_id: text(10),
            session_id: text(11),
            study_id: text(12),
            researcher_id: text(13),
            request_id: text(3),
            client_address: text(4),
            kind: text(5),
            raw: &self.raw,
            request_signature: text(6),
            origin: text(7),
            operator: text(8),
            batch_signature: &self.raw,
            batch_hash: &self.hashes[1],
            publisher_verified: self.ids[0].is_multiple_of(2),
        }
    }

    fn rejected(&self) -> RejectedRow<'_> {
        let text = |index: usize| self.texts[index].as_str();
        RejectedRow {
            position: self.position,
            reason: if text(0).is_empty() { "malformed" } else { text(0) },
            detail: text(1),
            publisher: text(2),
            receipt_id: Uuid::from_u128(self.ids[0]),
            client_id: Uuid::from_u128(self.ids[1]),
            entry_id: Uuid::from_u128(self.ids[2]),
            payload_hash: &self.hashes[0],
            key_fingerprint: &self.hashes[1],
            timestamp_ms: self.times[0],
            received_at_ms: self.times[1],
            request_id: text(3),
            client_address: text(4),
            kind: text(5),
            raw: &self.raw,
            request_signature: text(6),
            origin: text(7),
            receipts: self.receipts,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows(values in prop::collection::vec(Values::any(), 0..20), verifier in ".{0,32}", map in any::<u64>()) {
        let mut rows = Rows::default();
        let (accepted, rejected): (Vec<_>, Vec<_>) = values.iter().partition(|values| values.accepted);
        for values in &values {
            if values.accepted {
                rows.push_accepted(&values.accepted());
            } else {
                rows.push_rejected(&values.rejected());
            }
        }
        let rejected_receipts = rejected.iter().map(|values| u64::from(values.receipts)).sum();
        let mut header = samples::header(accepted.len() as u64, rejected_receipts);
        header.verifier = verifier;
        header.shard_map = map;
        let block = Block::decode(&rows.encode(header.clone()).unwrap()).unwrap();
        prop_assert_eq!(&block.header, &header);
        for (row, values) in accepted.iter().enumerate() {
            assert_accepted(block.columns(), row, &values.accepted());
        }
        for (row, values) in rejected.iter().enumerate() {
            assert_rejected(block.columns(), accepted.len() + row, &values.rejected());
        }
    }
}
