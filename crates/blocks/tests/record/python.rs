//! pyarrow and DuckDB read our records, and we read pyarrow's.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use blocks::{Block, BlockError};
use bytes::Bytes;

use crate::samples;

/// Writes a record's header and values as pyarrow does, from Python's own objects.
const REWRITE: &str = r#"
import sys
import pyarrow as pa

with pa.ipc.open_stream(sys.stdin.buffer) as stream:
    table = stream.read_all()

def values(column):
    # Python's datetime doesn't reach as far as 64 bits do.
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()

columns = [pa.array(values(table[field.name]), field.type) for field in table.schema]
codec = sys.argv[1] if sys.argv[1:] else None
options = pa.ipc.IpcWriteOptions(compression=codec)
with pa.ipc.new_stream(sys.stdout.buffer, table.schema, options=options) as stream:
    stream.write_batch(pa.record_batch(columns, schema=table.schema))
"#;

/// Prints the schema as pyarrow has it.
const SCHEMA: &str = r#"
import sys
import pyarrow as pa

with pa.ipc.open_stream(sys.stdin.buffer) as stream:
    stream.read_all().validate(full=True)
    for field in stream.schema:
        print(field.name, field.type, field.nullable)
"#;

/// Runs a script with `input` and returns its output.
fn run(script: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(test_engines::python().unwrap())
        .args(["-c", script])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Both scripts read everything before they print more than a pipe takes.
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// The first Python program of the topic's document.
fn documented() -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdicts-topic.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, rest) = document.split_once("```python\n").unwrap();
    rest.split_once("```\n").unwrap().0.to_owned()
}

#[test]
fn the_documented_program_reads_records() {
    let idle = samples::rows(0, 0).encode(samples::idle()).unwrap();
    let records = [
        samples::record(7, 2),
        idle,
        samples::record(0, 1),
        samples::record(1, 0),
    ]
    .concat();
    let printed = String::from_utf8(run(&documented(), &[], &records)).unwrap();
    let id = "0123456789ABCDEF0123456789ABCDEF";
    let nil = "0".repeat(32);
    let expected = [
        "verifier-0 \u{fc}: partition 11, 7 accepted, 2 rejected".to_owned(),
        "verifier-0 \u{fc}: partition 11, 0 accepted, 0 rejected".to_owned(),
        "verifier-0 \u{fc}: partition 11, 0 accepted, 1 rejected".to_owned(),
        "verifier-0 \u{fc}: partition 11, 1 accepted, 0 rejected".to_owned(),
        format!(" | bad_signature | 3 | 1970-01-01 00:00:00 | {nil}"),
        format!("blog.example |  | 2 | 2025-06-30 12:34:56.790000 | {id}"),
        format!("docs.example |  | 2 | 2025-06-30 12:34:56.791000 | {id}"),
        format!("news.example |  | 4 | 2025-06-30 12:34:56.789000 | {id}"),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

/// The document's table has the columns and types that pyarrow sees. Columns may share a row of it.
#[test]
fn the_documented_columns_are_pyarrows() {
    let printed = String::from_utf8(run(SCHEMA, &[], &samples::record(1, 1))).unwrap();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdicts-topic.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, table) = document.split_once("| column | type |").unwrap();
    let mut documented = Vec::new();
    for row in table.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let mut cells = row.split('|').skip(1).map(str::trim);
        let (names, kind) = (cells.next().unwrap(), cells.next().unwrap());
        let kind = match kind {
            "Utf8" => "string".to_owned(),
            "Binary" => "binary".to_owned(),
            "Timestamp(ms, UTC)" => "timestamp[ms, tz=UTC]".to_owned(),
            "UInt32" => "uint32".to_owned(),
            "Bool" => "bool".to_owned(),
            fixed => fixed
                .replace("FixedSizeBinary(", "fixed_size_binary[")
                .replace(')', "]"),
        };
        documented.extend(
            names
                .split(", ")
                .map(|name| format!("{} {kind} False", name.trim_matches('`'))),
        );
    }
    assert_eq!(printed.lines().collect::<Vec<_>>(), documented);
}

#[test]
fn a_record_that_pyarrow_wrote() {
    for (accepted, rejected) in [(7, 2), (0, 0), (0, 3)] {
        let ours = samples::record(accepted, rejected);
        let theirs = Bytes::from(run(REWRITE, &[], &ours));
        assert_ne!(ours, theirs);
        let (ours, theirs) = (Block::decode(&ours).unwrap(), Block::decode(&theirs).unwrap());
        assert_eq!(ours.header, theirs.header);
        assert_eq!(ours.accepted(), theirs.accepted());
        assert_eq!(ours.rejected(), theirs.rejected());
    }
}

#[test]
fn a_compressed_record_is_refused() {
    for codec in ["lz4", "zstd"] {
        let compressed = Bytes::from(run(REWRITE, &[codec], &samples::record(7, 2)));
        match Block::decode(&compressed) {
            Err(BlockError::Damaged(why)) => assert!(why.contains("is compressed"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
