//! Erasures over HTTP, from the request to the end; accounts whose time is over; what is retained
//! for a time.

use std::time::Duration;

use accounts::Accounts;
use publisher_api::{Eraser, PublisherConfig};
use serde_json::{Value, json};
use usage::Usage;
use warehouse::{CommittedOffset, LedgerRow, SqlStatement, VerdictsPosition, Warehouse};

use crate::engine;
use crate::stack::{ALL, BOTH, DAY_MS, START_MS, Stack};

const PATH: &str = "/api/v1/publisher/erasures";

/// As [`without_writer`], beside a writer.
async fn filled() -> (Stack, Warehouse) {
    let (stack, warehouse) = without_writer().await;
    tokio::spawn(execute_rebuilds(warehouse.clone()));
    (stack, warehouse)
}

/// Executes requests as the writer does.
async fn execute_rebuilds(warehouse: Warehouse) {
    let usage = Usage::new(warehouse);
    loop {
        for request in usage.pending_rebuilds().await.unwrap() {
            usage.execute_rebuild(&request, None).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Receipts 0 to 4 of example.com, 5 and 6 of rival.example, refusals 7 and 8 of both, and their
/// line in the ledger.
async fn without_writer() -> (Stack, Warehouse) {
    let warehouse = engine::warehouse().await;
    engine::insert(&warehouse, "example.com", START_MS - DAY_MS, 0..5).await;
    engine::insert(&warehouse, "rival.example", START_MS - DAY_MS, 5..7).await;
    engine::refuse(&warehouse, "example.com", START_MS - DAY_MS, 7).await;
    engine::refuse(&warehouse, "rival.example", START_MS - DAY_MS, 8).await;
    let line = LedgerRow {
        epoch: 1,
        partition: 0,
        first_offset: 0,
        last_offset: 8,
        records: 9,
        receipts_in: 9,
        accepted: 7,
        rejected: 2,
        verifier: "v".to_owned(),
        committed_at_ms: START_MS,
        shard: 0,
        verdicts: VerdictsPosition { epoch: 1, offset: 0 },
        touched: warehouse::Touched::default(),
    };
    warehouse.insert_ledger(&[line], None).await.unwrap();
    let given = warehouse.clone();
    let stack = Stack::start_with(at_once(), |deps| deps.warehouse = given).await;
    (stack, warehouse)
}

/// Erasures begin when they are requested.
fn at_once() -> PublisherConfig {
    PublisherConfig {
        erasure_delay_hours: 0,
        ..PublisherConfig::default()
    }
}

async fn assert_the_books_are_exact(warehouse: &Warehouse) {
    let end = CommittedOffset {
        epoch: 1,
        partition: 0,
        next_offset: 9,
    };
    let sums = warehouse.audit(&[end]).await.unwrap();
    assert!(sums.findings.is_empty(), "{:?}", sums.findings);
}

fn eraser(stack: &Stack, warehouse: &Warehouse) -> Eraser {
    Eraser::new(stack.deps.accounts.clone(), warehouse.clone(), 90, 90)
}

/// The process does it by itself; this only looks.
async fn done(stack: &Stack, key: &str, location: &str) -> Value {
    for _ in 0..3_000 {
        let erasure = stack.server.get(location, key).await.expect(200);
        if erasure["state"] == "done" {
            return erasure;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it isn't done");
}

/// The process may hold the lease for a moment; this continues until `reached`.
async fn turn_until<F: Future<Output = bool>>(eraser: &Eraser, reached: impl Fn() -> F) {
    for _ in 0..3_000 {
        eraser.turn().await.unwrap();
        if reached().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it isn't reached");
}

async fn ask(stack: &Stack, key: &str, body: Value) -> String {
    let answer = stack.server.json("POST", PATH, key, &body).await;
    let erasure = answer.expect(202);
    let location = answer.header("location").to_owned();
    assert_eq!(location, format!("{PATH}/{}", erasure["erasureId"].as_str().unwrap()));
    location
}

#[tokio::test]
async fn clients_are_erased_and_the_numbers_stay() {
    let (stack, warehouse) = filled().await;
    let key = stack.key("example.com", ALL).await;
    let rival = stack.key("rival.example", ALL).await;
    let location = ask(&stack, &key, json!({"receiptClientMetadata": true})).await;
    let erasure = done(&stack, &key, &location).await;
    assert_eq!(erasure["erased"], json!({"receipts": 5, "rejected": 1, "evidence": 0}));
    let export = |name: &'static str| format!("/api/v1/publisher/export?collection={name}");
    let mine = stack.server.get(&export("receipts"), &key).await.text();
    assert!(
        !mine.contains("reader") && !mine.contains("Readers") && !mine.contains("a context"),
        "{mine}"
    );
    assert_eq!(
        mine.matches("\"clientId\":\"00000000-0000-0000-0000-000000000000\"")
            .count(),
        5
    );
    let refusals = stack.server.get(&export("refusals"), &key).await.text();
    assert!(
        refusals.contains("bad_signature") && !refusals.contains("the signature isn't"),
        "{refusals}"
    );
    let theirs = stack.server.get(&export("receipts"), &rival).await.text();
    assert_eq!(theirs.matches("\"organization\":\"Readers\"").count(), 2);
    assert_the_books_are_exact(&warehouse).await;
    // A client's retry, after the erasure.
    engine::insert(&warehouse, "example.com", START_MS - DAY_MS, 0..1).await;
    let mine = stack.server.get(&export("receipts"), &key).await.text();
    assert!(!mine.contains("Readers"), "{mine}");
    // And a day later its own bytes are gone.
    stack.pass_ms(DAY_MS + 1);
    let left = warehouse::MetadataErasure {
        scope: warehouse::QueryScope::of(vec!["example.com".to_owned()]),
        before_ms: START_MS,
        person: None,
    };
    let gone = || async { warehouse.metadata_left(&left).await.unwrap().is_none() };
    turn_until(&eraser(&stack, &warehouse), gone).await;
    // Nobody sees another's erasure.
    let foreign = stack.server.get(&location, &rival).await.refused(404, "not_found");
    let none = stack
        .server
        .get(&format!("{PATH}/era_0"), &rival)
        .await
        .refused(404, "not_found");
    assert_eq!(foreign["detail"], none["detail"]);
    for nonsense in ["%00", "a%20b", &"x".repeat(100)] {
        stack
            .server
            .get(&format!("{PATH}/{nonsense}"), &key)
            .await
            .refused(404, "not_found");
    }
}

/// Without a writer: aggregates have no people, so nothing waits for one.
#[tokio::test]
async fn a_researcher_is_erased_and_the_clients_stay() {
    let (stack, warehouse) = without_writer().await;
    let key = stack.key("example.com", ALL).await;
    let location = ask(&stack, &key, json!({"researcherId": "nobody"})).await;
    let erasure = done(&stack, &key, &location).await;
    assert_eq!(erasure["erased"], json!({"receipts": 0, "rejected": 0, "evidence": 0}));
    let location = ask(&stack, &key, json!({"researcherId": "doctor"})).await;
    let erasure = done(&stack, &key, &location).await;
    assert_eq!(erasure["summary"], "a researcher in receipts");
    assert_eq!(erasure["erased"], json!({"receipts": 5, "rejected": 0, "evidence": 0}));
    let export = "/api/v1/publisher/export?collection=receipts";
    let mine = stack.server.get(export, &key).await.text();
    assert!(!mine.contains("doctor") && !mine.contains("a context"), "{mine}");
    assert_eq!(mine.matches("\"organization\":\"Readers\"").count(), 5);
    let theirs = stack
        .server
        .get(export, &stack.key("rival.example", ALL).await)
        .await
        .text();
    assert_eq!(theirs.matches("doctor").count(), 2);
    assert_the_books_are_exact(&warehouse).await;
}

#[tokio::test]
async fn aggregates_lose_their_clients_before_an_erasure_is_done() {
    let (stack, warehouse) = without_writer().await;
    let usage = Usage::new(warehouse.clone());
    let key = stack.key("example.com", ALL).await;
    let location = ask(&stack, &key, json!({"receiptClientMetadata": true})).await;
    // Without a writer it can't be done.
    for _ in 0..3_000 {
        if !usage.pending_rebuilds().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stack.server.get(&location, &key).await.expect(200)["state"], "running");
    tokio::spawn(execute_rebuilds(warehouse.clone()));
    done(&stack, &key, &location).await;
    let names = |publisher: &str| {
        let sql = format!(
            "SELECT groupUniqArray(toString(client_name)) FROM usage WHERE grain = 'client' AND publisher = '{publisher}'"
        );
        warehouse.one::<Vec<String>>("test", SqlStatement::new(sql))
    };
    assert_eq!(names("example.com").await.unwrap(), [""]);
    assert_eq!(names("rival.example").await.unwrap(), ["=reader, the \"first\""]);
    let data = stack.server.get("/api/v1/publisher/data", &key).await.expect(200);
    assert_eq!(data["receipts"]["total"], 5);
}

#[tokio::test]
async fn entries_and_names_are_erased() {
    let (stack, _) = filled().await;
    let key = stack.key("example.com", ALL).await;
    let entries = "/api/v1/publisher/entries";
    let mut ids = Vec::new();
    for number in 0..3 {
        let body = json!({"url": format!("https://example.com/{number}"), "title": "An article"});
        let made = stack.server.json("POST", entries, &key, &body).await.expect(201);
        ids.push(made["entryId"].as_str().unwrap().to_owned());
    }
    let location = ask(&stack, &key, json!({"entryIds": [ids[1]], "personalData": true})).await;
    let erasure = done(&stack, &key, &location).await;
    assert_eq!(
        (
            erasure["erased"]["entries"].as_u64(),
            erasure["erased"]["api_keys"].as_u64()
        ),
        (Some(1), Some(1))
    );
    stack
        .server
        .get(&format!("{entries}/{}", ids[1]), &key)
        .await
        .refused(404, "not_found");
    stack
        .server
        .get(&format!("{entries}/{}", ids[0]), &key)
        .await
        .expect(200);
    let location = ask(&stack, &key, json!({"allEntries": true})).await;
    assert_eq!(done(&stack, &key, &location).await["erased"]["entries"], 2);
    let left = stack.server.get(entries, &key).await.expect(200);
    assert_eq!(left["entries"], json!([]));
    let trail = stack.server.get("/api/v1/publisher/trail", &key).await.text();
    assert!(
        trail.contains("erasure.request") && trail.contains("erasure.finish"),
        "{trail}"
    );
}

#[tokio::test]
async fn an_erasure_begins_a_day_later_and_can_be_cancelled_until_then() {
    let (deps, warehouse) = filled().await;
    drop(deps);
    let given = warehouse.clone();
    let stack = Stack::start_with(PublisherConfig::default(), |deps| deps.warehouse = given).await;
    let (key, editor) = (
        stack.key("example.com", ALL).await,
        stack.key("example.com", BOTH).await,
    );
    let rival = stack.key("rival.example", ALL).await;
    let mut entries = Vec::new();
    for number in 0..2 {
        let body = json!({"url": format!("https://example.com/{number}"), "title": "An article"});
        let made = stack
            .server
            .json("POST", "/api/v1/publisher/entries", &key, &body)
            .await;
        entries.push(made.expect(201)["entryId"].as_str().unwrap().to_owned());
    }
    let there = async |number: usize| {
        let location = format!("/api/v1/publisher/entries/{}", entries[number]);
        stack.server.get(&location, &key).await.status == 200
    };
    let clients = async || {
        let export = stack
            .server
            .get("/api/v1/publisher/export?collection=receipts", &key)
            .await;
        export.text().matches("\"organization\":\"Readers\"").count()
    };
    let show = async |location: &str| stack.server.get(location, &key).await.expect(200);
    let cancel = async |location: &str, key: &str| stack.server.ask("DELETE", location, key, &[], "").await;

    let all = json!({"entryIds": [entries[0]], "receiptClientMetadata": true});
    let first = ask(&stack, &key, all).await;
    let scheduled = show(&first).await;
    assert_eq!(
        (&scheduled["state"], &scheduled["requestedAt"], &scheduled["executeAt"]),
        (
            &json!("scheduled"),
            &json!("2027-01-15T08:00:00.000Z"),
            &json!("2027-01-16T08:00:00.000Z")
        )
    );
    stack.pass_ms(DAY_MS / 2);
    let second = ask(&stack, &key, json!({"entryIds": [entries[1]]})).await;
    let third = ask(&stack, &key, json!({"allEntries": true})).await;
    // Whoever may not request an erasure may not cancel one, and nobody cancels another's.
    cancel(&third, &editor).await.refused(403, "insufficient_scope");
    cancel(&third, &rival).await.refused(404, "not_found");
    cancel(&format!("{PATH}/era_0"), &key).await.refused(404, "not_found");
    cancel(&format!("{PATH}/%00"), &key).await.refused(404, "not_found");
    let list = async |query: &str, key: &str| stack.server.get(&format!("{PATH}{query}"), key).await.expect(200);
    let ids = |page: &Value| -> Vec<String> {
        let erasures = page["erasures"].as_array().unwrap().iter();
        erasures
            .map(|one| format!("{PATH}/{}", one["erasureId"].as_str().unwrap()))
            .collect()
    };
    let page = list("?limit=2", &editor).await;
    assert_eq!(ids(&page), [third.clone(), second.clone()], "newest first");
    assert_eq!(page["erasures"][0]["summary"], "all entries");
    let cursor = page["nextCursor"].as_str().unwrap();
    let last = list(&format!("?limit=2&cursor={cursor}"), &editor).await;
    assert_eq!((ids(&last), &last["nextCursor"]), (vec![first.clone()], &Value::Null));
    assert_eq!(list("", &rival).await["erasures"], json!([]));
    let cancelled = cancel(&third, &key).await.expect(200);
    assert_eq!(
        (&cancelled["state"], &cancelled["cancelledAt"], &cancelled["finishedAt"]),
        (&json!("cancelled"), &json!("2027-01-15T20:00:00.000Z"), &Value::Null)
    );
    stack.pass_ms(DAY_MS / 2 - 1);
    assert_eq!(
        cancel(&third, &key).await.expect(200),
        cancelled,
        "again nothing changes"
    );
    let eraser = eraser(&stack, &warehouse);
    eraser.turn().await.unwrap();
    // A replica that was at it has seen the same clock.
    assert_eq!(show(&first).await, scheduled);
    assert!(there(0).await && there(1).await);
    assert_eq!(clients().await, 5, "readers see what they saw");
    // The first one's time comes, and not yet the second one's.
    stack.pass_ms(1);
    let done = || async { show(&first).await["state"] == "done" };
    turn_until(&eraser, done).await;
    assert!(!there(0).await && there(1).await);
    assert_eq!(clients().await, 0);
    assert_eq!(show(&second).await["state"], "scheduled");
    let late = cancel(&first, &key).await.refused(409, "erasure_begun");
    assert!(
        late["detail"].as_str().unwrap().contains("can't be cancelled"),
        "{late}"
    );
    stack.pass_ms(DAY_MS);
    let done = || async { show(&second).await["state"] == "done" };
    turn_until(&eraser, done).await;
    assert!(!there(1).await);
    assert_eq!(show(&third).await, cancelled);
    assert_the_books_are_exact(&warehouse).await;
}

#[tokio::test]
async fn what_cant_be_erased_is_refused_with_its_location() {
    let (stack, _) = filled().await;
    let (key, editor) = (
        stack.key("example.com", ALL).await,
        stack.key("example.com", BOTH).await,
    );
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"entryIds": []}), ""),
        (json!({"everything": true}), "/everything"),
        (json!({"entryIds": ["x"]}), "/entryIds/0"),
        (json!({"entryIds": [1]}), "/entryIds/0"),
        (
            json!({"entryIds": ["0e000000-0000-4000-8000-000000000001"], "allEntries": true}),
            "/allEntries",
        ),
        (
            json!({"entryIds": vec!["0e000000-0000-4000-8000-000000000001"; 1_001]}),
            "/entryIds",
        ),
        (json!({"allEntries": "yes"}), "/allEntries"),
        (json!({"researcherId": ""}), "/researcherId"),
        (json!({"sessionId": "x".repeat(4_097)}), "/sessionId"),
        (json!({"researcherId": "a", "sessionId": "b"}), "/sessionId"),
        (json!({"receiptClientMetadata": true, "sessionId": "b"}), "/sessionId"),
    ] {
        let problem = stack
            .server
            .json("POST", PATH, &key, &body)
            .await
            .refused(400, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    let all = json!({"allEntries": true});
    let refused = stack.server.json("POST", PATH, &editor, &all).await;
    let refused = refused.refused(403, "insufficient_scope");
    assert!(
        refused["detail"].as_str().unwrap().contains("the scope erase"),
        "{refused}"
    );
    stack.pass_ms(366 * DAY_MS);
    let clients = json!({"receiptClientMetadata": true});
    stack
        .server
        .json("POST", PATH, &key, &clients)
        .await
        .refused(403, "no_verified_domain");
    // What is the account's own can be erased without a domain.
    ask(&stack, &key, json!({"personalData": true})).await;
}

/// As two replicas over one store, both at once, and a third that comes after a crash in the
/// middle.
#[tokio::test]
async fn replicas_erase_once() {
    let (stack, warehouse) = filled().await;
    let key = stack.key("example.com", ALL).await;
    let location = ask(&stack, &key, json!({"receiptClientMetadata": true, "allEntries": true})).await;
    let erasers = [
        eraser(&stack, &warehouse),
        eraser(&stack, &warehouse),
        eraser(&stack, &warehouse),
    ];
    let turns = erasers.iter().map(Eraser::turn);
    for turn in futures_util::future::join_all(turns).await {
        turn.unwrap();
    }
    let erasure = done(&stack, &key, &location).await;
    assert_eq!(erasure["erased"]["receipts"], 5);
    let trail = stack.server.get("/api/v1/publisher/trail", &key).await.text();
    assert_eq!(trail.matches("erasure.finish").count(), 1);
    assert_the_books_are_exact(&warehouse).await;
}

#[tokio::test]
async fn a_warehouse_that_is_away_is_reported_and_waited_for() {
    let stack = Stack::start_with(at_once(), |_| {}).await;
    let key = stack.key("example.com", ALL).await;
    let location = ask(&stack, &key, json!({"receiptClientMetadata": true})).await;
    let mut erasure = Value::Null;
    for _ in 0..3_000 {
        erasure = stack.server.get(&location, &key).await.expect(200);
        if erasure["problem"] != Value::Null {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(erasure["state"], "running");
    let warehouse = engine::warehouse().await;
    let ended = || async { stack.server.get(&location, &key).await.expect(200)["state"] == "done" };
    turn_until(&eraser(&stack, &warehouse), ended).await;
}

#[tokio::test]
async fn an_account_is_gone_after_its_grace() {
    let (stack, warehouse) = filled().await;
    let key = stack.key("example.com", ALL).await;
    let accounts: &Accounts = &stack.deps.accounts;
    let account_id = accounts.authenticate(&key).await.unwrap().account_id;
    accounts
        .request_deletion(&account_id, DAY_MS, "user:test")
        .await
        .unwrap();
    let eraser = eraser(&stack, &warehouse);
    eraser.turn().await.unwrap();
    stack.server.get("/api/v1/publisher/trail", &key).await.expect(200);
    stack.pass_ms(DAY_MS);
    let gone = || async { stack.server.get("/api/v1/publisher/trail", &key).await.status == 401 };
    turn_until(&eraser, gone).await;
    assert_eq!(
        accounts.account_of(&"example.com".parse().unwrap()).await.unwrap(),
        None
    );
    // The domain is anybody's to verify now.
    let next = stack.key("example.com", ALL).await;
    let data = stack.server.get("/api/v1/publisher/data", &next).await.expect(200);
    assert_eq!(
        (
            data["collections"]["erasures"]["count"].as_u64(),
            data["receipts"]["total"].as_u64()
        ),
        (Some(0), Some(5))
    );
}

#[tokio::test]
async fn addresses_go_after_ninety_days() {
    let (stack, warehouse) = filled().await;
    let eraser = eraser(&stack, &warehouse);
    let blank = || async {
        let filter = warehouse::RejectedFilter::default();
        let keys = warehouse
            .rejected_keys(&filter, warehouse::RejectedOrder::Stored, None, 10)
            .await
            .unwrap();
        let rows = warehouse.rejected(&keys).await.unwrap();
        rows.iter().all(|row| row.client_address.is_empty()) && rows.len() == 2
    };
    stack.pass_ms(89 * DAY_MS - 1);
    eraser.turn().await.unwrap();
    assert!(!blank().await);
    stack.pass_ms(DAY_MS);
    turn_until(&eraser, blank).await;
    assert_the_books_are_exact(&warehouse).await;
}
