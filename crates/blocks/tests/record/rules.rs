//! Records that keep to Arrow and not to the rules of the log are refused, each with its reason.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use blocks::{Block, BlockError, Header, Rows, SourceIndex, encode_stream, schema};
use bytes::Bytes;

use crate::samples;

/// Metadata, fields and columns of a sound record of two accepted rows and a rejected one.
struct Parts {
    metadata: Vec<(String, String)>,
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl Parts {
    fn new() -> Self {
        let mut bytes = arrow_buffer::Buffer::from(samples::record(2, 1));
        let mut decoder = arrow_ipc::reader::StreamDecoder::new();
        let batch = decoder.decode(&mut bytes).unwrap().unwrap();
        let fields = batch
            .schema()
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        let metadata = batch
            .schema()
            .metadata()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Self {
            metadata,
            fields,
            columns: batch.columns().to_vec(),
        }
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        let entry = self
            .metadata
            .iter_mut()
            .find(|entry| entry.0 == format!("receipts.{name}"));
        value.clone_into(&mut entry.unwrap().1);
        self
    }

    fn replace(mut self, name: &str, field: Field, column: ArrayRef) -> Self {
        let index = self.fields.iter().position(|field| field.name() == name).unwrap();
        self.fields[index] = field;
        self.columns[index] = column;
        self
    }

    fn record(self) -> Bytes {
        let schema = Schema::new(self.fields).with_metadata(arrow_schema::Metadata::from_iter(self.metadata));
        encode_stream(&[RecordBatch::try_new(Arc::new(schema), self.columns).unwrap()]).unwrap()
    }
}

#[track_caller]
fn assert_damaged(record: Bytes, expected: &str) {
    match Block::decode(&record) {
        Err(BlockError::Damaged(why)) => assert!(why.contains(expected), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_invalid(rows: Rows, header: Header, expected: &str) {
    match rows.encode(header) {
        Err(BlockError::Invalid(why)) => assert!(why.contains(expected), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_parts_are_sound() {
    assert_eq!(Parts::new().record(), samples::record(2, 1));
}

#[test]
fn another_version() {
    let record = Parts::new().set("version", "2").record();
    assert_eq!(Block::decode(&record).unwrap_err(), BlockError::Version { found: 2 });
    // Whatever else it has.
    let mut parts = Parts::new().set("version", "4294967295");
    parts.metadata.retain(|entry| entry.0 == "receipts.version");
    parts.fields.truncate(1);
    parts.columns.truncate(1);
    assert_eq!(
        Block::decode(&parts.record()).unwrap_err(),
        BlockError::Version { found: u32::MAX }
    );
    assert_damaged(
        Parts::new().set("version", "one").record(),
        "receipts.version of its header isn't a number: one",
    );
}

#[test]
fn every_key_of_the_header_is_needed() {
    for index in 0..Parts::new().metadata.len() {
        let mut parts = Parts::new();
        let (key, _) = parts.metadata.remove(index);
        assert_damaged(parts.record(), &format!("its header has no {key}"));
    }
}

#[test]
fn every_number_of_the_header_is_one() {
    for index in 0..Parts::new().metadata.len() {
        for value in [
            "",
            "-",
            "+1",
            "01",
            " 1",
            "1e3",
            "18446744073709551616",
            "-9223372036854775809",
        ] {
            let mut parts = Parts::new();
            if parts.metadata[index].0 == "receipts.verifier" {
                continue;
            }
            value.clone_into(&mut parts.metadata[index].1);
            let expected = format!("{} of its header isn't a number: {value}", parts.metadata[index].0);
            assert_damaged(parts.record(), &expected);
        }
    }
}

#[test]
fn other_metadata_is_ignored() {
    let mut parts = Parts::new();
    parts.metadata.push(("receipts.later".to_owned(), "x".to_owned()));
    parts.metadata.push(("pandas".to_owned(), "{}".to_owned()));
    assert_eq!(Block::decode(&parts.record()).unwrap().header, samples::header(2, 1));
}

#[test]
fn counts_that_contradict() {
    for key in ["block_received", "shard_received", "block_accepted", "shard_rejected"] {
        assert_damaged(Parts::new().set(key, "18446744073709551615").record(), "received ones");
    }
    let more = Parts::new().set("block_received", "1").set("block_accepted", "0");
    assert_damaged(more.record(), "more than the whole block's 0 and 1");
    let fewer = Parts::new().set("shard_received", "2").set("shard_rejected", "0");
    assert_damaged(
        fewer.record(),
        "its header counts 0 rejected receipts, and its rows count 1",
    );
}

#[test]
fn receipts_that_rows_count() {
    let counting = |values: [u32; 3], rejected: &str, received: &str| {
        let field = Field::new("receipts", DataType::UInt32, false);
        Parts::new()
            .replace("receipts", field, Arc::new(UInt32Array::from(values.to_vec())))
            .set("shard_rejected", rejected)
            .set("shard_received", received)
            .set("block_rejected", rejected)
            .set("block_received", received)
            .record()
    };
    let block = Block::decode(&counting([1, 1, 5], "5", "7")).unwrap();
    assert_eq!(
        (block.header.shard_counts.rejected, block.rejected().num_rows()),
        (5, 1)
    );
    assert_damaged(counting([1, 1, 5], "4", "6"), "its rows count 5");
    assert_damaged(counting([1, 1, 0], "1", "3"), "a row doesn't");
    assert_damaged(counting([1, 2, 1], "1", "3"), "a row doesn't");
}

#[test]
fn a_range_that_is_none() {
    let first = samples::header(2, 1).source.first;
    let backwards = Parts::new().set("source_end_offset", "40");
    assert_damaged(backwards.record(), "its source range");
    assert_damaged(
        Parts::new().set("source_end_offset", "281474976710657").record(),
        "its source range",
    );
    let idle = Parts::new()
        .set("source_end_offset", &first.offset.to_string())
        .set("source_end_index", &first.index.to_string());
    assert_damaged(idle.record(), "its source range is empty, and it has 3 receipts");
}

#[test]
fn a_name_that_is_too_long() {
    assert_damaged(Parts::new().set("verifier", &"v".repeat(129)).record(), "has 129 bytes");
    let name = "v".repeat(128);
    assert_eq!(
        Block::decode(&Parts::new().set("verifier", &name).record())
            .unwrap()
            .header
            .verifier,
        name
    );
}

#[test]
fn rows_out_of_order() {
    let reasons = |values: [&str; 3]| {
        let field = Field::new("reason", DataType::Utf8, false);
        Parts::new()
            .replace("reason", field, Arc::new(StringArray::from(values.to_vec())))
            .record()
    };
    Block::decode(&reasons(["", "", "x"])).unwrap();
    assert_damaged(reasons(["", "x", ""]), "row 1 doesn't fit");
    assert_damaged(reasons(["", "", ""]), "row 2 doesn't fit");
    assert_damaged(reasons(["x", "", "x"]), "row 0 doesn't fit");
}

#[test]
fn columns_that_differ() {
    let mut missing = Parts::new();
    missing.fields.pop();
    missing.columns.pop();
    assert_damaged(missing.record(), "it has no column publisher_verified");

    let mut swapped = Parts::new();
    swapped.fields.swap(3, 4);
    swapped.columns.swap(3, 4);
    assert_damaged(swapped.record(), "column 3 should be entry_id and is receipt_id");

    let mut nullable = Parts::new();
    nullable.fields[7].set_nullable(true);
    assert_damaged(nullable.record(), "column url is nullable");

    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    for name in ["position", "timestamp", "url", "raw", "publisher_verified"] {
        let field = Field::new(name, DataType::Int64, false);
        let expected = format!("column {name} isn't of type");
        assert_damaged(
            Parts::new().replace(name, field, Arc::clone(&numbers)).record(),
            &expected,
        );
    }
    let column = Parts::new().columns[5].clone();
    let field = Field::new("position", DataType::FixedSizeBinary(32), false);
    assert_damaged(
        Parts::new().replace("position", field, column).record(),
        "column position isn't of type",
    );
    let kind = DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None);
    let column: ArrayRef = Arc::new(arrow_array::TimestampMillisecondArray::from(vec![1, 2, 3]));
    let zoneless = Parts::new().replace("timestamp", Field::new("timestamp", kind, false), column);
    assert_damaged(zoneless.record(), "column timestamp isn't of type");
}

#[test]
fn a_dictionary() {
    let column: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let record = Parts::new().replace("publisher", Field::new("publisher", kind, false), Arc::new(column));
    assert_damaged(record.record(), "column publisher has a dictionary");
}

#[test]
fn appended_columns_are_ignored() {
    let mut parts = Parts::new();
    for (name, column) in [
        (
            "later",
            Arc::new(StringArray::from(vec![None, Some("b"), None])) as ArrayRef,
        ),
        ("latest", Arc::new(Int64Array::from(vec![1, 2, 3]))),
    ] {
        parts.fields.push(Field::new(name, column.data_type().clone(), true));
        parts.columns.push(column);
    }
    let (later, plain) = (
        Block::decode(&parts.record()).unwrap(),
        Block::decode(&samples::record(2, 1)).unwrap(),
    );
    assert_eq!(later.accepted(), plain.accepted());
    assert_eq!(later.rejected(), plain.rejected());
    assert_eq!(later.rejected().schema(), schema());
}

#[test]
fn exactly_one_batch() {
    let block = Block::decode(&samples::record(2, 1)).unwrap();
    let schema = Arc::new(
        Schema::new(Parts::new().fields).with_metadata(arrow_schema::Metadata::from_iter(Parts::new().metadata)),
    );
    let batch = RecordBatch::try_new(schema, block.accepted().columns().to_vec()).unwrap();
    assert_damaged(encode_stream(&[batch.clone(), batch]).unwrap(), "third message");
    let two = [samples::record(2, 1), samples::record(2, 1)].concat();
    assert_damaged(two.into(), "bytes follow its end");
}

#[test]
fn headers_that_no_record_has() {
    let mut header = samples::header(2, 1);
    header.block.accepted = 1;
    assert_invalid(samples::rows(2, 1), header, "received ones");
    assert_invalid(
        samples::rows(2, 1),
        samples::header(1, 1),
        "more than the whole block's",
    );
    assert_invalid(samples::rows(2, 1), samples::idle(), "more than the whole block's");
    let mut header = samples::header(2, 1);
    header.version = 2;
    assert_invalid(samples::rows(2, 1), header, "version 2");
    let mut header = samples::header(2, 1);
    header.verifier = "\u{fc}".repeat(65);
    assert_invalid(samples::rows(2, 1), header, "130 bytes");
}

#[test]
fn a_rejected_row_has_a_reason() {
    let mut rows = Rows::default();
    rows.push_rejected(&blocks::RejectedRow {
        reason: "",
        ..samples::rejected(0)
    });
    assert_invalid(rows, samples::header(0, 1), "no reason");

    let mut rows = Rows::default();
    rows.push_rejected(&blocks::RejectedRow {
        receipts: 0,
        ..samples::rejected(0)
    });
    assert_invalid(rows, samples::header(0, 1), "counts no receipt");
}

#[test]
fn a_range_continues_another() {
    let range = samples::header(2, 1).source;
    let mut next = range;
    next.first = range.end;
    next.end = SourceIndex {
        offset: range.end.offset + 1,
        index: 0,
    };
    assert!(next.continues(&range) && !range.continues(&next) && !range.continues(&range));
    assert!(range < next);
    for other in [
        blocks::SourceRange { epoch: 4, ..next },
        blocks::SourceRange { partition: 0, ..next },
    ] {
        assert!(!other.continues(&range));
    }
    let idle = blocks::SourceRange {
        first: next.end,
        ..next
    };
    assert!(idle.is_empty() && idle.continues(&next) && idle.continues(&idle) && !next.is_empty());
}
