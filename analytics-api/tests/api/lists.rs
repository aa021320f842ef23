//! Receipts and refusals as streams and rows, and their cursors.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::numbers::ours;
use crate::rows::{BULK_RECEIPTS, SampleRow, model, payload_hash_text};
use crate::stack::Stack;

const RECEIPTS: &str = "/api/v1/analytics/receipts";

/// Newest first.
fn newest(mut rows: Vec<SampleRow>) -> Vec<SampleRow> {
    rows.sort_by_key(|row| (row.timestamp_ms, row.receipt_id, row.payload));
    rows.reverse();
    rows
}

fn is(found: &Value, expected: &SampleRow) -> bool {
    found["receiptId"] == expected.receipt_id.to_string()
        && found["payloadHash"] == payload_hash_text(expected.receipt_id, expected.payload)
        && found["occurrences"] == expected.occurrences
        && found["clientId"] == expected.client_id.to_string()
        && found["modelId"].as_str().unwrap_or_default() == model(expected.client_id)
}

pub(crate) async fn a_cursor_says_where_and_not_whose(stack: &Stack) {
    let cursor = stack.ok(&format!("{RECEIPTS}?limit=1")).await["nextCursor"].clone();
    let path = format!("{RECEIPTS}?cursor={}", cursor.as_str().unwrap());
    let theirs = stack.server.get(&path, &stack.keys.rival, &[]).await.json();
    let theirs = theirs["receipts"].as_array().unwrap();
    assert_eq!(theirs.len(), 2);
    assert!(theirs.iter().all(|one| one["publisher"] == "rival.example"));
}

pub(crate) async fn refusals_as_rows(stack: &Stack) {
    let path = "/api/v1/analytics/refusals?limit=2";
    let text = stack.get(path, &[("accept", "text/csv")]).await.text();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].ends_with(',') && !lines[2].ends_with(','), "{text}");
}

pub(crate) async fn receipts_as_a_stream(stack: &Stack) {
    let expected = newest(ours());
    let ndjson = &[("accept", "application/x-ndjson")];
    let answer = stack.get(RECEIPTS, ndjson).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    assert_eq!(answer.header("x-complete-through"), stack.complete_through());
    assert_eq!(answer.header("etag"), "", "what it holds is known at its end only");
    assert_eq!(answer.header("cache-control"), "no-store");
    let text = answer.text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), expected.len());
    assert!(lines.iter().zip(&expected).all(|(found, row)| is(found, row)));
    assert!(
        lines.iter().all(|line| line["cursor"] == Value::Null),
        "there is nothing behind"
    );

    // Part of it, and on from there.
    let answer = stack.get(&format!("{RECEIPTS}?limit=4"), ndjson).await;
    let first: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(first.len(), 4);
    assert!(first[..3].iter().all(|line| line["cursor"] == Value::Null));
    let cursor = first[3]["cursor"].as_str().unwrap();
    let answer = stack.get(&format!("{RECEIPTS}?cursor={cursor}"), ndjson).await;
    assert_eq!(answer.text().lines().count(), expected.len() - 4);
    let answer = stack
        .get(&format!("{RECEIPTS}?limit=2"), &[("accept", "text/csv")])
        .await;
    let text = answer.text();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("receiptId,timestamp,") && lines[0].ends_with(",cursor"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains("\"'=model(3)\"") && lines[1].ends_with(','),
        "{}",
        lines[1]
    );
    let ids: BTreeSet<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    // Streams may be longer than pages.
    let answer = stack.get(&format!("{RECEIPTS}?limit=1000000"), ndjson).await;
    assert_eq!(answer.status, 200);
    let answer = stack.get(&format!("{RECEIPTS}?limit=1000001"), ndjson).await;
    assert_eq!(
        (answer.status, answer.json()["errors"][0]["pointer"].as_str()),
        (400, Some("limit"))
    );
}

/// Long lists are few pages, whose rows are complete with their names and URLs.
pub(crate) async fn rankings_of_long_pages(stack: &Stack) {
    for (list, id, named) in [("content", "entryId", "url"), ("clients", "clientId", "name")] {
        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
        for rows in [1_000, 1_000, 500] {
            let path = format!("/api/v1/analytics/{list}?sort={id}&limit=1000{cursor}");
            let answer = stack.server.get(&path, &stack.keys.bulk, &[]).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert_eq!(answer.header("x-ratelimit-cost"), "4", "{path}");
            let answer = answer.json();
            let page = answer[list].as_array().unwrap();
            assert_eq!(page.len(), rows, "{path}");
            assert!(page.iter().all(|row| row[named] != ""), "{path}");
            seen.extend(page.iter().map(|row| row[id].to_string()));
            cursor = answer["nextCursor"]
                .as_str()
                .map_or(String::new(), |next| format!("&cursor={next}"));
        }
        assert_eq!((seen.len(), cursor.as_str()), (BULK_RECEIPTS as usize, ""));
    }
}

pub(crate) async fn a_stream_of_many_pages(stack: &Stack) {
    let rows = async |query: &str| -> Vec<Value> {
        let headers = [("accept", "application/x-ndjson")];
        let answer = stack
            .server
            .get(&format!("{RECEIPTS}?{query}"), &stack.keys.bulk, &headers)
            .await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let text = answer.text();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = rows("").await;
    let ids: BTreeSet<String> = all.iter().map(|row| row["receiptId"].to_string()).collect();
    assert_eq!(
        (all.len(), ids.len()),
        (BULK_RECEIPTS as usize, BULK_RECEIPTS as usize),
        "each once"
    );
    let times: Vec<&str> = all.iter().map(|row| row["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "newest first");
    assert_eq!(
        all.iter().filter(|row| row["occurrences"] == 2).count(),
        BULK_RECEIPTS.div_ceil(7) as usize
    );
    let marked: Vec<usize> = (1..)
        .zip(&all)
        .filter(|(_, row)| row["cursor"] != Value::Null)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(marked, [1_000, 2_000]);
    // What broke off behind a cursor is gone on with, without gap or repeat, as rows or as pages.
    for at in marked {
        let cursor = all[at - 1]["cursor"].as_str().unwrap();
        let rest = rows(&format!("cursor={cursor}")).await;
        assert_eq!(rest, all[at..]);
        let path = format!("{RECEIPTS}?limit=1000&cursor={cursor}");
        let page = stack.server.get(&path, &stack.keys.bulk, &[]).await.json();
        let page: Vec<&Value> = page["receipts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["receiptId"])
            .collect();
        let expected: Vec<&Value> = all[at..].iter().take(1_000).map(|row| &row["receiptId"]).collect();
        assert_eq!(page, expected);
    }
    let some = rows("limit=1500").await;
    let bare = |rows: &[Value]| rows.iter().map(|row| row["receiptId"].clone()).collect::<Vec<_>>();
    assert_eq!(bare(&some), bare(&all[..1_500]));
    let marked: Vec<usize> = (1..)
        .zip(&some)
        .filter(|(_, row)| row["cursor"] != Value::Null)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(marked, [1_000, 1_500]);
}
