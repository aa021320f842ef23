//! docs/receipt-format.md and the examples: generated tables, and what can be computed.

use std::path::{Path, PathBuf};
use std::process::Command;

use receipt::{Arrival, BodyKind, FaultCode, Judge, Judged, Limits, RejectReason, canonicalize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// 2026-11-24T09:31:00Z, within a minute after the timestamps of the examples.
const RECEIVED_MS: i64 = 1_795_512_660_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Vec<u8> {
    std::fs::read(root().join("examples").join(name)).unwrap()
}

fn table<'a>(head: &str, rows: impl Iterator<Item = (&'a str, String)>) -> String {
    let rows = rows.map(|(name, meaning)| format!("| `{name}` | {meaning} |\n"));
    format!("\n{head}\n|---|---|\n{}", rows.collect::<String>())
}

fn limits() -> String {
    let Limits {
        receipt_bytes_max,
        batch_bytes_max,
        batch_receipts_max,
        depth_max,
        url_bytes_max,
        string_bytes_max,
        timestamp_ahead_ms_max,
        timestamp_behind_ms_max,
    } = Limits::default();
    let rows = [
        (
            "receipt_bytes_max",
            format!("{} KiB for a receipt", receipt_bytes_max >> 10),
        ),
        (
            "batch_bytes_max",
            format!(
                "{} MiB for a batch, without its Content-Encoding",
                batch_bytes_max >> 20
            ),
        ),
        (
            "batch_receipts_max",
            format!("{batch_receipts_max} receipts in a batch"),
        ),
        ("depth_max", format!("{depth_max} nested arrays and objects")),
        ("url_bytes_max", format!("{url_bytes_max} bytes for `content.url`")),
        (
            "string_bytes_max",
            format!("{string_bytes_max} bytes for any other text, names of members too"),
        ),
        (
            "timestamp_ahead_ms_max",
            format!(
                "`timestamp` at most {} minutes after the arrival",
                timestamp_ahead_ms_max / 60_000
            ),
        ),
        (
            "timestamp_behind_ms_max",
            format!(
                "`timestamp` at most {} days before the arrival",
                timestamp_behind_ms_max / 86_400_000
            ),
        ),
    ];
    table("| setting | default |", rows.into_iter())
}

#[test]
fn the_tables_are_those_of_the_code() {
    let faults = FaultCode::ALL
        .iter()
        .map(|code| (code.as_str(), code.meaning().to_owned()));
    let reasons = RejectReason::ALL
        .iter()
        .map(|reason| (reason.as_str(), reason.meaning().to_owned()));
    let path = root().join("docs/receipt-format.md");
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (source, end, table) in [
        ("Limits", "<!-- end of the limits -->", limits()),
        (
            "FaultCode",
            "<!-- end of the faults -->",
            table("| code | meaning |", faults),
        ),
        (
            "RejectReason",
            "<!-- end of the reasons -->",
            table("| reason | meaning |", reasons),
        ),
    ] {
        let begin = format!("<!-- from receipt::{source}: UPDATE_EXPECT=1 cargo test -p receipt --test receipt -->\n");
        let (before, rest) = text.split_once(&begin).expect(source);
        let (_, after) = rest.split_once(end).expect(end);
        text = format!("{before}{begin}{table}\n{end}{after}");
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == text,
        "docs/receipt-format.md isn't what the code says: run with UPDATE_EXPECT=1"
    );
}

#[test]
fn the_examples_are_verified() {
    let judge = Judge::new(Limits::default(), 100);
    for algorithm in ["ed25519", "rsa-2048", "ecdsa-p256"] {
        for (kind, name, count) in [(BodyKind::Receipt, "receipt", 1), (BodyKind::Batch, "batch", 2)] {
            let body = example(&format!("{name}-{algorithm}.json"));
            let arrival = Arrival {
                kind,
                body: &body,
                request_signature: None,
                received_at_ms: RECEIVED_MS,
            };
            let verified = judge.judge(&arrival, &|_, judged| match judged {
                Judged::Verified(verified) => {
                    assert_eq!(verified.receipt.algorithm.as_str().to_lowercase(), algorithm);
                }
                Judged::Rejected(rejected) => panic!("{name} {algorithm}: {}", rejected.detail),
            });
            assert_eq!(verified.len(), count);
        }
    }
}

#[test]
fn the_documented_bytes_are_those_of_the_example() {
    let document = std::fs::read_to_string(root().join("docs/receipt-format.md")).unwrap();
    let (_, section) = document.split_once("## The canonical form\n").unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    let block = |number: usize| blocks[number].strip_prefix("text\n").unwrap().trim_end();
    let mut receipt: Value = serde_json::from_slice(&example("receipt-ed25519.json")).unwrap();
    for member in ["signature", "signatureAlgorithm"] {
        receipt.as_object_mut().unwrap().remove(member).unwrap();
    }
    let canonical = canonicalize(receipt.to_string().as_bytes(), 32).unwrap();
    assert_eq!(block(0).as_bytes(), canonical);
    assert_eq!(block(1), hex::encode(Sha256::digest(&canonical)));
    assert!(document.contains(&format!("These are the {} bytes", canonical.len())));
}

#[test]
fn the_documented_python_makes_the_same_entry_ids() {
    let document = std::fs::read_to_string(root().join("docs/receipt-format.md")).unwrap();
    let (_, rest) = document.split_once("```python\n").unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    let check = r#"
import json, sys

def vectors(name):
    with open(f"{sys.argv[1]}/{name}.json", encoding="utf-8") as file:
        return json.load(file)

for vector in vectors("entries"):
    assert canonical_url(vector["url"]) == vector["canonicalUrl"], (vector, canonical_url(vector["url"]))
    assert entry_id(vector["url"]) == vector["entryId"], vector
for vector in vectors("refused-urls"):
    try:
        sys.exit(f"{vector}: {canonical_url(vector['url'])}")
    except ValueError:
        pass
"#;
    let python = Command::new("python3")
        .args(["-c", &format!("{code}{check}")])
        .arg(root().join("conformance/vectors"))
        .output()
        .expect("this test needs the python3 command (Debian: python3)");
    let reported = String::from_utf8_lossy(&python.stderr);
    assert!(python.status.success(), "{reported}");
}
