//! Documents: each `type` of a problem is a page, and schemas agree with the parser.

use std::path::Path;
use std::process::{Command, Stdio};

use receipt::{FaultCode, FormatError, check_batch, check_receipt};
use serde_json::{Value, json};

use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, RECEIPTS, batch_value, value};

/// Validates samples by the served schemas, and fails with those that differ from the parser.
const COMPARE: &str = r#"
import json, sys
from jsonschema import Draft202012Validator

work = json.load(sys.stdin)
validators = {}
for name, schema in work["schemas"].items():
    Draft202012Validator.check_schema(schema)
    validators[name] = Draft202012Validator(schema)
for sample in work["samples"]:
    found = validators[sample["schema"]].is_valid(sample["body"])
    if found != sample["valid"]:
        sys.exit(f"the schema has {found}: {json.dumps(sample)[:2000]}")
for name, schema in work["schemas"].items():
    for example in schema.get("examples", []):
        validators[name].validate(example)
print(len(work["samples"]))
"#;

/// Faults that a schema can express.
const EXPRESSIBLE: [FaultCode; 16] = [
    FaultCode::MissingMember,
    FaultCode::WrongType,
    FaultCode::InvalidUuid,
    FaultCode::InvalidTimestamp,
    FaultCode::UnsupportedVersion,
    FaultCode::UnsupportedAlgorithm,
    FaultCode::InvalidBase64,
    FaultCode::InvalidContentHash,
    FaultCode::InvalidUrl,
    FaultCode::InvalidPurpose,
    FaultCode::InvalidPublisher,
    FaultCode::EmptyText,
    FaultCode::TooLong,
    FaultCode::EmptyBatchId,
    FaultCode::EmptyBatch,
    FaultCode::TooManyReceipts,
];

/// Output of a script whose input is JSON.
fn run(script: &str, input: &Value) -> String {
    let mut child = Command::new(test_engines::python().unwrap())
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A sample with the parser's verdict; none where a schema can't express the fault.
fn sample(schema: &str, body: Value) -> Option<Value> {
    let (bytes, now_ms) = (serde_json::to_vec(&body).unwrap(), service::instant::now_ms());
    let limits = receipt::Limits::default();
    let checked: Result<(), FormatError> = match schema {
        "receipt" => check_receipt(&bytes, now_ms, &limits).map(drop),
        _ => check_batch(&bytes, now_ms, &limits).map(drop),
    };
    let valid = checked.is_ok();
    let is_expressible = |error: FormatError| error.faults.iter().any(|fault| EXPRESSIBLE.contains(&fault.code));
    if checked.is_err_and(|error| !is_expressible(error)) {
        return None;
    }
    Some(json!({"schema": schema, "body": body, "valid": valid}))
}

/// Pointers to all members below a value, array elements included.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, value)| (at.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let pointer = format!("{at}/{name}");
        pointers(child, &pointer, found);
        found.push(pointer);
    }
}

/// A body with each member removed, and replaced by values that are wrong for some.
fn variants(good: &Value) -> Vec<Value> {
    let long = "x".repeat(4_097);
    let replacements = [
        json!(null),
        json!(7),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!(true),
        json!(long),
        json!("00000000-0000-0000-0000-000000000000"),
        json!("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
        json!("550e8400e29b41d4a716446655440000"),
        json!(" \t"),
        json!("2026-11-24T09:30:01Z"),
        json!("2026-11-24T09:30:01.123456789+00:00"),
        json!("2026-11-24T09:30:01.1234567890Z"),
        json!("2026-13-24T09:30:01.000Z"),
        json!("https://user@news.example.com/"),
        json!("ftp://news.example.com/"),
        json!("https://news.example.com/a b"),
        json!("HTTPS://news.example.com:443/?q#f"),
        json!("https://news%2eexample.com/"),
        json!("https://localhost/"),
        json!("news_example.com"),
        json!("localhost"),
        json!("127.0.0.1"),
        json!("news..example.com"),
        json!("b\u{fc}cher.-example.com"),
        json!("NEWS.example.com"),
        json!("sha256:00"),
        json!("2.0.0"),
        json!("ed25519"),
        json!("AAA"),
        json!("espionage"),
        json!("research"),
    ];
    let mut found = Vec::new();
    pointers(good, "", &mut found);
    let mut all = Vec::new();
    for pointer in &found {
        let mut removed = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match removed.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.remove(name)),
            Value::Array(items) => drop(items.remove(name.parse().unwrap())),
            _ => unreachable!("a parent has members"),
        }
        all.push(removed);
        for replacement in &replacements {
            let mut replaced = good.clone();
            *replaced.pointer_mut(pointer).unwrap() = replacement.clone();
            all.push(replaced);
        }
    }
    all
}

#[tokio::test]
async fn schemas_agree_with_the_parser() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let mut schemas = json!({});
    for name in ["receipt", "batch"] {
        let answer = client.get(&format!("/schemas/{name}.json")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("content-type"), "application/schema+json");
        schemas[name] = answer.json();
    }
    gateway.stop().await;

    let mut with_more = value();
    with_more["further"] = json!({"member": [1, null]});
    with_more["usage"]["datasetId"] = json!("d");
    let mut receipts = vec![value(), with_more, json!(null), json!([]), json!({})];
    receipts.extend(variants(&value()));
    let mut batches = vec![batch_value(3), json!([]), json!({}), value()];
    batches.extend(variants(&batch_value(2)));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| serde_json::from_slice::<Value>(&std::fs::read(root.join(path)).unwrap()).unwrap();
    let of_receipts = receipts.into_iter().filter_map(|body| sample("receipt", body));
    let of_batches = batches.into_iter().filter_map(|body| sample("batch", body));
    let mut samples: Vec<Value> = of_receipts.chain(of_batches).collect();
    // Older than the parser takes today.
    for algorithm in ["ed25519", "rsa-2048", "ecdsa-p256"] {
        for schema in ["receipt", "batch"] {
            let body = read(&format!("examples/{schema}-{algorithm}.json"));
            samples.push(json!({"schema": schema, "body": body, "valid": true}));
        }
    }
    for vector in read("conformance/vectors/receipts.json").as_array().unwrap() {
        if vector["valid"] == true {
            samples.push(json!({"schema": "receipt", "body": vector["receipt"], "valid": true}));
        }
    }
    let (count, valid) = (
        samples.len(),
        samples.iter().filter(|sample| sample["valid"] == true).count(),
    );
    assert!(count > 1_000 && valid > 20, "{valid} of {count}");
    let checked = run(COMPARE, &json!({"schemas": schemas, "samples": samples}));
    assert_eq!(checked.trim(), count.to_string());
}

#[tokio::test]
async fn documents_are_served_with_types_and_policies() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    for path in ["/openapi.json", "/openapi/gateway.json"] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.field("content-type")), (200, "application/json"));
        assert_eq!(answer.json()["openapi"], "3.1.0");
    }
    for path in ["/docs", "/docs/", "/docs/gateway"] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.field("location")), (303, "/docs/gateway/"));
    }
    for (path, kind) in [
        ("/docs/gateway/", "text/html"),
        ("/docs/gateway/index.html", "text/html"),
        ("/docs/gateway/swagger-ui.css", "text/css"),
        ("/docs/gateway/swagger-initializer.js", "text/javascript"),
    ] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.field("content-type")), (200, kind), "{path}");
        assert!(
            answer
                .field("content-security-policy")
                .starts_with("default-src 'self'")
        );
    }
    for path in [
        "/docs/gateway/none.js",
        "/docsx",
        "/schemas",
        "/schemas/none.json",
        "/problems/none",
    ] {
        let answer = client.get(path).await;
        answer.refused(404, "not_found");
    }
    let answer = client.post("/openapi.json", JSON, b"{}").await;
    answer.refused(405, "method_not_allowed");
    gateway.stop().await;
}

#[tokio::test]
async fn the_type_of_a_problem_is_the_address_of_its_page() {
    let gateway = Running::start().await;
    let mut client = gateway.connect().await;
    let (good, _) = crate::sample::receipt();
    let mut answers = vec![
        client.get("/nothing").await,
        client.get(RECEIPTS).await,
        client.post(RECEIPTS, JSON, &good).await,
        client.post(RECEIPTS, FIELDS, b"{}").await,
        client.post(RECEIPTS, FIELDS, b"x").await,
        client.post(BATCH, JSON, &good).await,
        client.post(BATCH, JSON, br#"{"receipts":[{}]}"#).await,
        client.post(BATCH, &[("content-type", "text/plain")], b"{}").await,
    ];
    let mut seen = Vec::new();
    while let Some(answer) = answers.pop() {
        let problem = answer.json();
        let mut codes = vec![problem["type"].as_str().unwrap().to_owned()];
        codes.push(format!("/problems/{}", problem["code"].as_str().unwrap()));
        for fault in problem["errors"].as_array().into_iter().flatten() {
            codes.push(format!("/problems/{}", fault["code"].as_str().unwrap()));
        }
        for path in codes {
            let page = client.get(&path).await;
            assert_eq!(
                (page.status, page.field("content-type")),
                (200, "text/html; charset=utf-8"),
                "{path}"
            );
            seen.push(path);
        }
    }
    for kind in service::problem::Kind::ALL {
        assert_eq!(client.get(kind.type_uri()).await.status, 200, "{}", kind.code());
    }
    for code in FaultCode::ALL {
        assert_eq!(client.get(&format!("/problems/{code}")).await.status, 200, "{code}");
    }
    assert!(seen.len() > 20);
    gateway.stop().await;
}
