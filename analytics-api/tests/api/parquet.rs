//! Parquet: pyarrow reads the values of the JSON answers, in columns with types.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::formats::addresses;
use crate::stack::Stack;

/// Prints the types of the columns, then each row, as lines of JSON.
const READ: &str = r#"
import io, json, os, sys
import pyarrow.parquet

table = pyarrow.parquet.read_table(io.BytesIO(sys.stdin.buffer.read()))
table.validate(full=True)
print(json.dumps({field.name: str(field.type) for field in table.schema}))

def cell(value):
    if hasattr(value, "isoformat"):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value

for row in table.to_pylist():
    print(json.dumps({name: cell(value) for name, value in row.items()}))
# Without Python's own end, at which pyarrow's threads can abort the process.
sys.stdout.flush()
os._exit(0)
"#;

/// The file as pyarrow reads it: the types of its columns, and its rows.
fn read(file: &[u8]) -> (Value, Vec<Value>) {
    let mut child = Command::new(test_engines::python().unwrap())
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The script reads everything before it prints.
    child.stdin.take().unwrap().write_all(file).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut lines = printed.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.next().unwrap(), lines.collect())
}

pub(crate) async fn files_have_the_values_of_json(stack: &Stack) {
    let text = "string";
    let mut types: Vec<(&str, &str)> = vec![
        ("start", "timestamp[ms, tz=UTC]"),
        ("local", text),
        ("title", text),
        ("clientIdClaimedBy", text),
        ("unknownEntry", "bool"),
        ("beforeVerification", "bool"),
    ];
    types.extend(["lastSeen", "timestamp", "receivedAt"].map(|name| (name, "timestamp[ms, tz=UTC]")));
    let counts = ["receiptCount", "provenReceiptCount", "uniqueClients", "occurrences"];
    types.extend(counts.map(|name| (name, "int64")));
    types.extend(["value", "previous", "proven", "unproven", "refusals"].map(|name| (name, "int64")));
    let mut unseen: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    let more = [
        "dashboard?from=2025-01-01&to=2026-01-01&compare=year",
        "timeseries?groupBy=client,purpose",
        "refusals?groupBy=reason",
        "content?purpose=research&entryId=00000000-0000-4000-8000-0000000000ff",
    ];
    let more = more.map(|address| format!("/api/v1/analytics/{address}"));
    for address in addresses().into_iter().chain(more) {
        let get = async |kind: &str| {
            let answer = stack.get(&address, &[("accept", kind)]).await;
            assert_eq!(answer.status, 200, "{address}");
            answer
        };
        let (columns, rows) = read(&get("application/vnd.apache.parquet").await.body);
        for (name, kind) in &types {
            if let Some(found) = columns.get(name) {
                assert_eq!(found, kind, "{address} {name}");
                unseen.retain(|one| one != name);
            }
        }
        let lines = get("application/x-ndjson").await.text();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows, lines, "{address}");
        // The members of the JSON answer, where that has a list of the same rows.
        let whole = get("application/json").await.json();
        let members = [
            "receipts",
            "content",
            "clients",
            "models",
            "operators",
            "purposes",
            "newest",
            "points",
        ];
        let list = members.iter().find_map(|name| whole[name].as_array());
        let Some(list) = list.filter(|list| list.len() == rows.len()) else {
            assert!(
                ["dashboard", "/content/", "/clients/", "groupBy", "/receipts"]
                    .iter()
                    .any(|one| address.contains(one)),
                "{address} has other rows than JSON"
            );
            continue;
        };
        for (row, member) in rows.iter().zip(list) {
            let mut compared = 0;
            for (name, value) in row.as_object().unwrap() {
                let value_in_json = match name.as_str() {
                    "provenReceiptCount" | "proven" => &member["byTrust"]["proven"],
                    "unproven" => &member["byTrust"]["unproven"],
                    "cursor" | "clientIdClaimedBy" => continue,
                    name => &member[name],
                };
                assert_eq!(value, value_in_json, "{address} {name}");
                compared += 1;
            }
            assert!(compared > 2, "{address}");
        }
    }
    assert!(unseen.is_empty(), "{unseen:?}");
}
