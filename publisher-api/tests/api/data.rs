//! Access, portability and the audit trail over HTTP.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::future::select;
use publisher_api::PublisherConfig;
use receipt::Purpose;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use warehouse::{Target, Warehouse, WarehouseConfig};

use crate::engine;
use crate::stack::{BOTH, DAY_MS, READ, START_MS, Stack};

const DATA: &str = "/api/v1/publisher/data";
const EXPORT: &str = "/api/v1/publisher/export";
const TRAIL: &str = "/api/v1/publisher/trail";

/// With a warehouse that holds `receipts` of example.com, 3 of rival.example and a refusal of each.
async fn filled(receipts: u64) -> Stack {
    let warehouse = engine::warehouse().await;
    engine::insert(&warehouse, "example.com", START_MS - DAY_MS, 0..receipts).await;
    engine::insert(&warehouse, "rival.example", START_MS - DAY_MS, 5_000..5_003).await;
    // The first receipt's evidence is stored, and the others' isn't yet.
    engine::insert_evidence(&warehouse, "example.com", START_MS - DAY_MS, 0..1).await;
    engine::refuse(&warehouse, "example.com", START_MS - DAY_MS, 6_000).await;
    engine::refuse(&warehouse, "rival.example", START_MS - DAY_MS, 6_001).await;
    Stack::start_with(PublisherConfig::default(), |deps| deps.warehouse = warehouse).await
}

async fn list(stack: &Stack, key: &str, entries: u64) {
    let line = |number: u64| {
        let id = format!("0e000000-0000-4000-8000-{number:012}");
        json!({"entryId": id, "url": format!("https://example.com/{number}"), "title": "=1+1, an article", "authors": ["Ada", "Grace"]})
    };
    let lines: String = (0..entries).map(|number| format!("{}\n", line(number))).collect();
    let headers = [("content-type", "application/x-ndjson")];
    let path = "/api/v1/publisher/entries";
    stack.server.ask("POST", path, key, &headers, &lines).await.expect(200);
}

type Rows = BTreeMap<String, Vec<Value>>;

/// The rows by collection, the cursors with how many rows came before each, and the end line.
fn read(text: &str) -> (Rows, Vec<(String, usize)>, Value) {
    let (mut rows, mut cursors, mut count, mut end) = (Rows::new(), Vec::new(), 0, Value::Null);
    for line in text.lines() {
        assert_eq!(end, Value::Null, "nothing comes behind the end");
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(cursor) = line["cursor"].as_str() {
            cursors.push((cursor.to_owned(), count));
        } else if line["end"] == true {
            end = line;
        } else {
            rows.entry(line["collection"].as_str().unwrap().to_owned())
                .or_default()
                .push(line["row"].clone());
            count += 1;
        }
    }
    (rows, cursors, end)
}

fn counts(rows: &Rows) -> Value {
    rows.iter()
        .map(|(name, rows)| (name.clone(), rows.len().into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn all_of_a_publishers_data_is_reported() {
    let stack = filled(5).await;
    let key = stack.key("example.com,news.example.com", BOTH).await;
    stack.key("rival.example", BOTH).await;
    list(&stack, &key, 101).await;
    let answer = stack.server.get(DATA, &key).await;
    let data = answer.expect(200);
    let of = |name: &str| &data["collections"][name];
    assert_eq!(
        (of("account")["count"].clone(), of("domains")["count"].clone()),
        (json!(1), json!(2))
    );
    assert_eq!(of("domains")["rows"][0]["domain"], "example.com");
    assert_eq!(of("keys")["rows"][0]["scope"], json!(["read", "write"]));
    assert_eq!(of("keys")["rows"][0]["createdAt"], "2027-01-15T08:00:00.000Z");
    assert_eq!(
        (
            of("entries")["count"].clone(),
            of("entries")["rows"].as_array().unwrap().len()
        ),
        (json!(101), 100)
    );
    assert_eq!(
        (of("members").clone(), of("domains")["rest"].clone()),
        (json!({"count": 0, "rows": [], "rest": null}), Value::Null)
    );
    let trail = data["trail"].as_array().unwrap();
    assert_eq!(
        (trail.len(), &trail[0]["action"]),
        (100, &json!("entry.create")),
        "the newest"
    );
    let of_purpose = |purpose: Purpose| json!(if purpose == Purpose::Training { 5 } else { 0 });
    let by_purpose = Purpose::ALL.map(|purpose| (purpose.to_string(), of_purpose(purpose)));
    assert_eq!(
        data["receipts"],
        json!({
            "total": 5, "uniqueClients": 1, "usageByPurpose": Value::from_iter(by_purpose), "refused": 1,
            "rest": "/api/v1/publisher/export?collection=receipts",
        })
    );
    for secret in [key.split('_').nth(2).unwrap(), "secret", "rival", "hash"] {
        assert!(!answer.text().contains(secret), "{secret}: {}", answer.text());
    }
    let rest = of("entries")["rest"].as_str().unwrap();
    let (rows, _, end) = read(&stack.server.get(rest, &key).await.text());
    assert_eq!(
        (rows["entries"].len(), end),
        (1, json!({"end": true, "rows": {"entries": 1}}))
    );
    assert!(!of("entries")["rows"].as_array().unwrap().contains(&rows["entries"][0]));
    stack
        .server
        .get(&format!("{DATA}?x=1"), &key)
        .await
        .refused(400, "invalid_query");
}

#[tokio::test]
async fn an_export_is_gone_on_with_from_any_of_its_cursors() {
    let stack = filled(2_201).await;
    let key = stack.key("example.com", READ).await;
    let writer = stack.key("example.com", BOTH).await;
    list(&stack, &writer, 700).await;
    let answer = stack.server.get(EXPORT, &key).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/x-ndjson")
    );
    let text = answer.text();
    let (whole, cursors, end) = read(&text);
    assert_eq!(end["rows"], counts(&whole));
    let expected =
        json!({"account": 1, "domains": 1, "keys": 2, "entries": 700, "trail": 703, "receipts": 2201, "refusals": 1});
    assert_eq!(counts(&whole), expected);
    assert_eq!(whole["receipts"][0]["clientName"], "=reader, the \"first\"");
    let evidence = |row: &Value| ["receivedBytes", "batchPayloadHash", "batchSignature"].map(|name| row[name].clone());
    assert_eq!(
        evidence(&whole["receipts"][0]),
        [json!("e30="), json!("05".repeat(32)), json!("/wBzaWduYXR1cmU=")]
    );
    assert_eq!(evidence(&whole["receipts"][1]), [(); 3].map(|()| Value::Null));
    assert!(!text.contains("rival") && !text.contains(writer.split('_').nth(2).unwrap()));
    let flat = |rows: &BTreeMap<String, Vec<Value>>| rows.values().flatten().map(Value::to_string).collect::<Vec<_>>();
    for (cursor, before) in &cursors {
        let rest = stack.server.get(&format!("{EXPORT}?cursor={cursor}"), &key).await;
        let (rest, _, end) = read(&rest.text());
        assert_eq!(end["rows"], counts(&rest));
        let rest = flat(&rest);
        let all = flat(&whole);
        assert_eq!(rest.len(), all.len() - before);
        assert!(rest.iter().all(|row| all.contains(row)));
    }
    // Another publisher's cursor says nothing about whose rows come.
    let rival = stack.key("rival.example", READ).await;
    let (rows, ..) = read(
        &stack
            .server
            .get(&format!("{EXPORT}?cursor={}", cursors[0].0), &rival)
            .await
            .text(),
    );
    assert_eq!(counts(&rows)["receipts"], 3);
    for query in [
        "format=xml",
        "format=tar",
        "collection=secrets",
        "cursor=x",
        "format=csv",
        "limit=1",
        "bom=1",
        "collection=keys&collection=keys",
    ] {
        stack
            .server
            .get(&format!("{EXPORT}?{query}"), &key)
            .await
            .refused(400, "invalid_query");
    }
    let of_receipts = &cursors.last().unwrap().0;
    let query = format!("{EXPORT}?collection=keys&cursor={of_receipts}");
    stack.server.get(&query, &key).await.refused(400, "invalid_query");
}

#[tokio::test]
async fn receipts_and_refusals_are_exported_by_time() {
    // Receipts of 07:00 the day before, of 08:00 and of 09:00; refusals of 08:00.
    let warehouse = engine::warehouse().await;
    for (hour, numbers) in [(-1, 0..300_u64), (0, 300..1_900), (1, 1_900..2_100)] {
        let at_ms = START_MS - DAY_MS + hour * 3_600_000;
        engine::insert(&warehouse, "example.com", at_ms, numbers).await;
    }
    engine::refuse(&warehouse, "example.com", START_MS - DAY_MS, 6_000).await;
    let stack = Stack::start_with(PublisherConfig::default(), |deps| deps.warehouse = warehouse).await;
    let key = stack.key("example.com", READ).await;
    for (collection, times, expected) in [
        ("receipts", "", 2_100),
        ("receipts", "&from=2027-01-14T08:00:00Z", 1_800),
        ("receipts", "&to=2027-01-14T08:00:00Z", 300),
        (
            "receipts",
            "&from=2027-01-14T09:00:00%2B01:00&to=2027-01-14T08:00:00.001Z",
            1_600,
        ),
        ("receipts", "&from=2027-01-14&to=2027-01-15", 2_100),
        ("receipts", "&from=2027-01-15", 0),
        ("refusals", "&from=2027-01-14T08:00:00Z", 1),
        ("refusals", "&to=2027-01-14T08:00:00Z", 0),
    ] {
        let path = format!("{EXPORT}?collection={collection}{times}");
        let answer = stack.server.get(&path, &key).await;
        assert_eq!(answer.status, 200, "{path}");
        let (rows, cursors, _) = read(&answer.text());
        assert_eq!(rows.get(collection).map_or(0, Vec::len), expected, "{path}");
        // What follows a cursor is of the same range.
        if let Some((cursor, before)) = cursors.first() {
            let rest = stack.server.get(&format!("{path}&cursor={cursor}"), &key).await;
            let rest = read(&rest.text()).0;
            assert_eq!(rest.get(collection).map_or(0, Vec::len), expected - before, "{path}");
        }
    }
    let path = format!("{EXPORT}?collection=receipts&format=csv&from=2027-01-14&to=2027-01-15");
    let answer = stack.server.get(&path, &key).await;
    let name = "attachment; filename=\"receipts-from-2027-01-14-to-2027-01-15.csv\"";
    assert_eq!(answer.header("content-disposition"), name);
    for query in [
        "from=2027-01-14",
        "collection=keys&to=2027-01-14",
        "collection=receipts&from=yesterday",
        "collection=receipts&from=2027-01-15&to=2027-01-14",
    ] {
        let path = format!("{EXPORT}?{query}");
        stack.server.get(&path, &key).await.refused(400, "invalid_query");
    }
}

#[tokio::test]
async fn a_table_is_safe_to_open() {
    let stack = filled(2_001).await;
    let key = stack.key("example.com", BOTH).await;
    list(&stack, &key, 2).await;
    let entries = stack
        .server
        .get(&format!("{EXPORT}?format=csv&collection=entries"), &key)
        .await
        .text();
    let lines: Vec<&str> = entries.split("\r\n").collect();
    assert_eq!(
        lines[0],
        "entryId,domain,url,title,authors,createdAt,updatedAt,revision,cursor"
    );
    assert!(lines[1].starts_with(
        "0e000000-0000-4000-8000-000000000000,example.com,https://example.com/0,\"'=1+1, an article\",\"Ada; Grace\","
    ));
    assert_eq!((lines.len(), lines[3]), (4, ""));
    let marked = stack
        .server
        .get(&format!("{EXPORT}?format=csv&collection=entries&bom=true"), &key)
        .await
        .text();
    assert_eq!(marked, format!("\u{feff}{entries}"));
    let receipts = stack
        .server
        .get(&format!("{EXPORT}?format=csv&collection=receipts"), &key)
        .await
        .text();
    let lines: Vec<&str> = receipts.split("\r\n").filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 2_002);
    assert!(
        lines[1].contains(",\"'=reader, the \"\"first\"\"\",") && lines[1].ends_with(','),
        "{}",
        lines[1]
    );
    let cursor = lines[2_000].rsplit(',').next().unwrap();
    let rest = stack
        .server
        .get(
            &format!("{EXPORT}?format=csv&collection=receipts&cursor={cursor}"),
            &key,
        )
        .await
        .text();
    assert_eq!(
        rest.trim_end().rsplit_once(',').unwrap().0,
        lines[2_001].rsplit_once(',').unwrap().0,
        "without a header line"
    );
}

#[tokio::test]
async fn without_a_warehouse_what_needs_it_is_503_and_the_rest_comes() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", READ).await;
    stack.server.get(DATA, &key).await.refused(503, "warehouse_unavailable");
    let asked = format!("{EXPORT}?collection=receipts");
    stack
        .server
        .get(&asked, &key)
        .await
        .refused(503, "warehouse_unavailable");
    let (rows, ..) = read(
        &stack
            .server
            .get(&format!("{EXPORT}?collection=keys"), &key)
            .await
            .text(),
    );
    assert_eq!(rows["keys"].len(), 1);
}

#[tokio::test]
async fn the_trail_is_reported_in_pages() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", BOTH).await;
    let rival = stack.key("rival.example", BOTH).await;
    for number in 0..4 {
        stack.pass_ms(1);
        let body = json!({"url": format!("https://example.com/{number}"), "title": "An article"});
        stack
            .server
            .json("POST", "/api/v1/publisher/entries", &key, &body)
            .await
            .expect(201);
    }
    let whole = stack.server.get(TRAIL, &key).await.expect(200);
    let whole = whole["entries"].as_array().unwrap();
    assert_eq!((whole.len(), whole[0]["action"].as_str()), (6, Some("entry.create")));
    assert_eq!(
        (whole[0]["at"].as_str(), whole[5]["actor"].as_str()),
        (Some("2027-01-15T08:00:00.004Z"), Some("operator"))
    );
    let (mut all, mut path) = (Vec::new(), format!("{TRAIL}?limit=2"));
    loop {
        let page = stack.server.get(&path, &key).await.expect(200);
        all.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        path = format!("{TRAIL}?limit=2&cursor={next}");
    }
    assert_eq!(&all, whole);
    let foreign = stack.server.get(TRAIL, &rival).await.expect(200);
    assert_eq!(foreign["entries"].as_array().unwrap().len(), 2);
    for query in ["limit=0", "limit=1001", "cursor=x", "actor=me"] {
        stack
            .server
            .get(&format!("{TRAIL}?{query}"), &key)
            .await
            .refused(400, "invalid_query");
    }
}

#[tokio::test]
async fn an_account_has_one_export_at_a_time_and_others_have_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("warehouse");
    // It takes questions, and doesn't answer them.
    let _silent = UnixListener::bind(&path).unwrap();
    let stack = Stack::start_with(PublisherConfig::default(), |deps| {
        deps.warehouse = Warehouse::new(&Target::Socket(path), &WarehouseConfig::default()).unwrap();
    })
    .await;
    let mine = stack.key("mine.example", BOTH).await;
    let rival = stack.key("rival.example", BOTH).await;
    let asked = format!("{EXPORT}?collection=receipts");
    let one = pin!(stack.server.get(&asked, &mine));
    let other = pin!(stack.server.get(&asked, &mine));
    // Whichever came first waits for the warehouse.
    let (refused, _held) = select(one, other).await.factor_first();
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "5");
    let keys = format!("{EXPORT}?collection=keys");
    assert_eq!(stack.server.get(&keys, &rival).await.status, 200);
}
