//! Months as files: what Python unpacks adds up, and equals the other answers.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::pin::pin;
use std::process::{Command, Stdio};

use accounts::{Scope, Tier};
use analytics_api::AnalyticsConfig;
use blocks::Rows;
use futures_util::future::{select, select_all};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use receipt::{Algorithm, Limits, SigningKey};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use usage::Usage;
use uuid::Uuid;
use warehouse::{Target, Warehouse, WarehouseConfig};

use crate::rows::{RECEIVED_MS, client, entry, ms, row};
use crate::server::new_key;
use crate::stack::{Answer, Stack};

/// Prints each file's text by its name, after a check of all sums.
const UNPACK: &str = r#"
import io, json, sys, zipfile

archive = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert archive.testzip() is None
print(json.dumps({name: archive.read(name).decode("utf-8-sig") for name in archive.namelist()}))
"#;
/// Prints the records of a CSV text as objects.
const RECORDS: &str = "import csv, io, json, sys\n\
    print(json.dumps(list(csv.DictReader(io.StringIO(sys.stdin.buffer.read().decode(), newline='')))))";

/// Standard output of a Python script as JSON.
fn python(script: &str, input: &[u8]) -> Value {
    let mut child = Command::new(test_engines::python().unwrap())
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The script reads everything before it prints.
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn path(month: &str, query: &str) -> String {
    format!("/api/v1/analytics/months/{month}?{query}")
}

/// The files of an archive.
struct Files {
    readme: String,
    receipts: Vec<Value>,
    uses: Vec<Value>,
    summary: Value,
}

impl Files {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        let files: BTreeMap<String, String> = serde_json::from_value(python(UNPACK, &answer.body)).unwrap();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["README.txt", "receipts.ndjson", "summary.json", "uses.csv"]);
        let lines = files["receipts.ndjson"].lines();
        let uses = python(RECORDS, files["uses.csv"].as_bytes());
        Self {
            readme: files["README.txt"].clone(),
            receipts: lines.map(|line| serde_json::from_str(line).unwrap()).collect(),
            uses: uses.as_array().unwrap().clone(),
            summary: serde_json::from_str(&files["summary.json"]).unwrap(),
        }
    }

    fn sum(&self, column: &str) -> u64 {
        let cells = self.uses.iter().map(|row| row[column].as_str().unwrap());
        cells.map(|cell| cell.parse::<u64>().unwrap()).sum()
    }
}

pub(crate) async fn files_add_up_and_equal_the_answers(stack: &Stack) {
    let keys = &stack.keys;
    for (key, month, query, range) in [
        (&keys.publisher, "2026-03", "", "from=2026-03-01&to=2026-04-01"),
        (
            &keys.publisher,
            "2026-03",
            "domain=blog.example",
            "from=2026-03-01&to=2026-04-01",
        ),
        (
            &keys.publisher,
            "2026-03",
            "tz=Europe/Berlin",
            "from=2026-03-01&to=2026-04-01",
        ),
        (&keys.publisher, "2026-02", "", "from=2026-02-01&to=2026-03-01"),
        (&keys.signed, "2026-03", "", "from=2026-03-01&to=2026-04-01"),
        (&keys.bulk, "2026-03", "", "from=2026-03-01&to=2026-04-01"),
        (&keys.publisher, "2025-12", "", "from=2025-12-01&to=2026-01-01"),
    ] {
        let answer = stack.server.get(&path(month, query), key, &[]).await;
        assert_eq!(
            [
                answer.header("content-type"),
                answer.header("content-disposition"),
                answer.header("cache-control"),
                answer.header("x-complete-through"),
            ],
            [
                "application/zip",
                &format!("attachment; filename=\"receipts-{month}.zip\""),
                "no-store",
                &stack.complete_through(),
            ]
        );
        let files = Files::of(&answer);
        let ask = async |list: &str, more: &str| {
            let path = format!("/api/v1/analytics/{list}?{range}&{query}{more}").replace("&&", "&");
            let answer = stack.server.get(path.trim_end_matches('&'), key, &[]).await;
            answer.expect(200)
        };
        // The dashboard's numbers under the same names.
        let dashboard = ask("dashboard", "").await;
        for (name, value) in dashboard.as_object().unwrap() {
            assert_eq!(&files.summary[name], value, "{month} {query}: {name}");
        }
        let total = dashboard["totalReceipts"].as_u64().unwrap();
        let proven = dashboard["byTrust"]["proven"]["totalReceipts"].as_u64().unwrap();
        assert_eq!(files.summary["receiptsInFile"], total);
        assert_eq!(
            (files.sum("receiptCount"), files.sum("provenReceiptCount")),
            (total, proven)
        );
        assert_eq!(files.receipts.len() as u64, total);
        let is_proven = |line: &&Value| line["trust"] == "proven";
        assert_eq!(files.receipts.iter().filter(is_proven).count() as u64, proven);
        // The receipts are those of the list.
        let list = format!("/api/v1/analytics/receipts?{range}&{query}&format=ndjson").replace("&&", "&");
        let listed = stack.server.get(&list, key, &[]).await.text();
        let listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut listed: HashMap<String, Value> = listed.map(|line| (line["payloadHash"].to_string(), line)).collect();
        for line in &files.receipts {
            let expected = listed.remove(&line["payloadHash"].to_string()).unwrap();
            for (name, value) in line.as_object().unwrap() {
                match name.as_str() {
                    "evidence" => assert_eq!(value, &json!([]), "none is stored"),
                    // A list, which rows have as one text.
                    "clientIdClaimedBy" => {}
                    name => assert_eq!(value, &expected[name], "{name}"),
                }
            }
        }
        assert!(listed.is_empty(), "{listed:?}");
        // The uses are those of the lists of content and of clients.
        for (list, of, total_of) in [
            ("content", "entryId", "totalContent"),
            ("clients", "keyFingerprint", "totalClients"),
        ] {
            let answer = ask(list, "&limit=1000").await;
            let total = &answer[total_of];
            if total_of == "totalContent" {
                assert_eq!(&files.summary[total_of], total);
            } else {
                assert_eq!(&files.summary["uniqueClients"], total);
            }
            for item in answer[list].as_array().unwrap() {
                let is_of =
                    |row: &&Value| row[of] == item[of] && (list == "content" || row["clientId"] == item["clientId"]);
                let rows: Vec<&Value> = files.uses.iter().filter(is_of).collect();
                let count = |row: &&Value| row["receiptCount"].as_str().unwrap().parse::<u64>().unwrap();
                assert_eq!(item["receiptCount"], rows.iter().map(count).sum::<u64>(), "{item}");
                let names: &[&str] = match list {
                    "content" => &["title", "url"],
                    _ => &["name", "organization", "trust"],
                };
                for name in names {
                    assert!(rows.iter().all(|row| row[*name] == item[*name]), "{name} of {item}");
                }
            }
        }
        let is_complete = month != "2026-03";
        assert_eq!(
            files.readme.contains("THE MONTH IS NOT COMPLETE"),
            !is_complete,
            "{}",
            files.readme
        );
        assert!(files.readme.contains(&stack.complete_through()));
    }
}

/// A receipt of a client with a key of this algorithm, as it was received.
fn signed_receipt(number: u64, algorithm: Algorithm) -> (Uuid, [u8; 32], Vec<u8>) {
    let id = Uuid::from_u128(0x7d0f_4b1e_3c11_4b6e_9a6b_0d6f_3c7b_0000 + u128::from(number));
    let key = SigningKey::generate(algorithm).unwrap();
    let unsigned = json!({
        "version": "1.0.0", "receiptId": id, "timestamp": "2026-01-10T10:00:00.000Z",
        "content": {
            "entryId": entry(1), "url": "https://months.example/a",
            "contentHash": format!("sha256:{}", "ab".repeat(32)), "publisher": "months.example",
        },
        "client": {"id": client(1), "name": "a", "version": "1", "organization": "b"},
        "usage": {"purpose": "inference", "context": "c"},
    });
    let bytes = receipt::sign_receipt(unsigned.to_string().as_bytes(), &key, &Limits::default().of_any_age()).unwrap();
    let hash = receipt::Evidence::read(&bytes).unwrap().payload_hash();
    (id, hash, bytes)
}

pub(crate) async fn evidence_verifies_with_openssl(stack: &Stack) {
    let mut rows = Rows::default();
    let receipts: Vec<_> = (0..)
        .zip(Algorithm::ALL)
        .map(|(number, algorithm)| signed_receipt(number, algorithm))
        .collect();
    for (number, (id, hash, bytes)) in (0..).zip(&receipts) {
        rows.push_accepted(&blocks::AcceptedRow {
            publisher: "months.example",
            timestamp_ms: ms("2026-01-10T10:00:00Z"),
            receipt_id: *id,
            payload_hash: hash,
            position: (7_u128 << 96) | (number << 16),
            received_at_ms: RECEIVED_MS,
            raw: bytes,
            ..row(client(1), entry(1))
        });
    }
    let (accepted, _) = rows.batches().unwrap();
    let warehouse = &stack.deps.warehouse;
    Usage::new(warehouse.clone())
        .insert_counted(std::slice::from_ref(&accepted))
        .await
        .unwrap();
    warehouse.insert_evidence(&[accepted]).await.unwrap();
    let later = stack.deps.accounts.now_ms() + 86_400_000;
    let key = new_key(
        &stack.deps.accounts,
        &["months.example"],
        Tier::Free,
        Scope::Read,
        later,
    )
    .await;
    let files = Files::of(&stack.server.get(&path("2026-01", ""), &key.api_key, &[]).await);
    assert_eq!(files.receipts.len(), 3);
    for line in &files.receipts {
        let id = line["receiptId"].as_str().unwrap();
        let path = format!("/api/v1/receipts/{id}/evidence");
        let answer = stack.server.get(&path, &key.api_key, &[]).await;
        assert_eq!(line["evidence"], answer.expect(200)["evidence"]);
        let command = line["evidence"][0]["opensslCommand"].as_str().unwrap();
        let verified = Command::new("sh").args(["-ec", command]).stdout(Stdio::null()).status();
        assert!(verified.unwrap().success(), "{line}");
    }
}

pub(crate) async fn who_may_not_read_receipts_gets_no_month(stack: &Stack) {
    let path = path("2026-03", "");
    stack.send("GET", &path, &[]).await.refused(401, "missing_api_key");
    for (key, code) in [
        (&stack.keys.write_only, "insufficient_scope"),
        (&stack.keys.unverified, "no_verified_domain"),
    ] {
        stack.server.get(&path, key, &[]).await.refused(403, code);
    }
}

pub(crate) async fn bad_months_and_too_many_at_a_time(stack: &Stack) {
    for (month, query) in [
        ("2026-13", ""),
        ("2026-3", ""),
        ("1969-12", ""),
        ("now", ""),
        ("2026-03", "tz=Mars"),
        ("2026-03", "from=2026-03-01"),
        ("2026-03", "format=csv"),
        ("2026-03", "purpose=training"),
    ] {
        stack.get(&path(month, query), &[]).await.refused(400, "invalid_query");
    }
    stack
        .get(&path("2026-03", "domain=rival.example"), &[])
        .await
        .refused(403, "domain_not_verified");
    // A warehouse that takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Url(format!("http://{}", listener.local_addr().unwrap()));
    let silent = Warehouse::new(&target, &WarehouseConfig::default()).unwrap();
    let server = stack
        .server_with(AnalyticsConfig::default(), |deps| deps.warehouse = silent)
        .await;
    let path = path("2026-03", "");
    let get = || server.get(&path, &stack.keys.publisher, &[]);
    // Two of them wait for the warehouse.
    let (refused, ..) = select_all([(); 3].map(|()| Box::pin(get()))).await;
    refused.refused(429, "rate_limited");
    server.stop().await;
}

/// An engine that fails within an answer leaves no archive that can be opened.
pub(crate) async fn an_archive_without_its_end_is_none(stack: &Stack) {
    let socket = stack.dir.path().join("cut");
    let listener = UnixListener::bind(&socket).unwrap();
    let engine = stack.dir.path().join("sock");
    // Connections end with the query of the uses, which comes behind the receipts.
    let proxy = tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let engine = UnixStream::connect(&engine).await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_engine, mut to_engine) = engine.into_split();
                let requests = async {
                    let mut piece = vec![0; 64 << 10];
                    loop {
                        let bytes = from_client.read(&mut piece).await.unwrap_or(0);
                        let is_of_uses = piece[..bytes].windows(9).any(|text| text == b"pair_text");
                        if bytes == 0 || is_of_uses || to_engine.write_all(&piece[..bytes]).await.is_err() {
                            return;
                        }
                    }
                };
                let answers = tokio::io::copy(&mut from_engine, &mut to_client);
                let _ = select(pin!(requests), pin!(answers)).await;
            });
        }
    });
    let warehouse = Warehouse::new(&Target::Socket(socket), &WarehouseConfig::default()).unwrap();
    let server = stack
        .server_with(AnalyticsConfig::default(), |deps| deps.warehouse = warehouse)
        .await;
    let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = http::Request::get(format!("http://{}{}", server.address, path("2026-03", "")))
        .header("authorization", format!("Bearer {}", stack.keys.bulk))
        .body(Empty::new())
        .unwrap();
    let answer = client.request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let mut read = Vec::new();
    let broken = loop {
        match body.frame().await {
            Some(Ok(frame)) => read.extend_from_slice(frame.data_ref().unwrap()),
            Some(Err(error)) => break error,
            None => panic!("the answer has an end: {} bytes", read.len()),
        }
    };
    assert!(!read.is_empty(), "receipts came before: {broken}");
    let end_of_central_directory = b"PK\x05\x06";
    assert!(!read.windows(4).any(|four| four == end_of_central_directory));
    proxy.abort();
    server.stop().await;
}
