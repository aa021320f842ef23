//! Lists: the most used, by purpose and model, and receipts and refusals page by page.

use std::collections::BTreeSet;

use receipt::Purpose;
use serde_json::{Value, json};

use crate::numbers::ours;
use crate::rows::{
    BULK_RECEIPTS, FOREIGN_OPERATOR, Known, NEWS, client, entry, key_text, model, payload_hash_text, receipts_by_trust,
    refused, sums, url,
};
use crate::stack::Stack;

const RECEIPTS: &str = "/api/v1/analytics/receipts";

pub(crate) async fn content_clients_purposes_models(stack: &Stack) {
    let rows = ours();
    let answer = stack.ok("/api/v1/analytics/content").await;
    assert_eq!(answer["totalContent"], 3);
    assert_eq!(
        answer["content"][0],
        json!({
            "entryId": entry(1).to_string(), "title": url(entry(1)), "url": url(entry(1)), "receiptCount": 5,
            "byTrust": {"proven": 3, "unproven": 2}, "uniqueClients": 3,
            "lastSeen": "2026-03-29T22:00:00.000Z", "unknownEntry": true
        })
    );
    let answer = stack.ok("/api/v1/analytics/content?limit=1&purpose=inference").await;
    assert_eq!(
        (&answer["totalContent"], &answer["content"][1]),
        (&json!(2), &Value::Null)
    );

    let answer = stack.ok("/api/v1/analytics/clients").await;
    assert_eq!(answer["totalClients"], 4);
    assert_eq!(
        answer["clients"][0],
        json!({
            "clientId": client(1).to_string(), "keyFingerprint": key_text(1), "operator": null, "trust": "unproven",
            "name": "client 1", "organization": "Organization", "receiptCount": 5,
            "byTrust": {"proven": 4, "unproven": 1}, "lastSeen": "2026-03-29T21:59:59.999Z"
        })
    );

    let answer = stack.ok("/api/v1/analytics/purposes").await;
    for one in answer["purposes"].as_array().unwrap() {
        let expected = sums(rows.iter().filter(|row| one["purpose"] == row.purpose));
        assert_eq!(one["receiptCount"], expected.receipts);
        let parts = receipts_by_trust(rows.iter().filter(|row| one["purpose"] == row.purpose));
        assert_eq!(one["byTrust"], parts);
        assert_eq!(one["uniqueClients"], expected.clients);
    }
    let answer = stack.ok("/api/v1/analytics/purposes?from=2100-01-01").await;
    let nothing = receipts_by_trust([]);
    let zero = |purpose: &str| json!({"purpose": purpose, "receiptCount": 0, "byTrust": nothing, "uniqueClients": 0});
    assert_eq!(
        answer["purposes"],
        Value::from(Purpose::ALL.map(|purpose| zero(purpose.as_str())).to_vec())
    );

    let answer = stack.ok("/api/v1/analytics/models").await;
    assert_eq!(answer["totalModels"], 3);
    for one in answer["models"].as_array().unwrap() {
        let name = one["modelId"].as_str().unwrap_or_default();
        let expected = sums(rows.iter().filter(|row| model(row.client_id) == name));
        assert_eq!(one["receiptCount"], expected.receipts, "{name}");
        let parts = receipts_by_trust(rows.iter().filter(|row| model(row.client_id) == name));
        assert_eq!(one["byTrust"], parts, "{name}");
    }
}

pub(crate) async fn only_receipts_of_a_model(stack: &Stack) {
    let rows = ours();
    for name in ["model-one", "=model(3)", "none"] {
        let expected = sums(rows.iter().filter(|row| model(row.client_id) == name));
        let query = format!("modelId={}", name.replace('=', "%3D"));
        let answer = stack.ok(&format!("/api/v1/analytics/dashboard?{query}")).await;
        assert_eq!(answer["totalReceipts"], expected.receipts, "{name}");
        let answer = stack.ok(&format!("{RECEIPTS}?{query}")).await;
        assert_eq!(answer["receipts"].as_array().unwrap().len() as u64, expected.receipts);
    }
}

/// Newest first.
fn newest(mut rows: Vec<Known>) -> Vec<Known> {
    rows.sort_by_key(|row| (row.timestamp_ms, row.receipt_id, row.payload));
    rows.reverse();
    rows
}

fn is(found: &Value, expected: &Known) -> bool {
    found["receiptId"] == expected.receipt_id.to_string()
        && found["payloadHash"] == payload_hash_text(expected.receipt_id, expected.payload)
        && found["occurrences"] == expected.occurrences
        && found["clientId"] == expected.client_id.to_string()
        && found["modelId"].as_str().unwrap_or_default() == model(expected.client_id)
}

pub(crate) async fn receipts_page_by_page(stack: &Stack) {
    let expected = newest(ours());
    for limit in [1, 3, 10, 11] {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = stack.ok(&format!("{RECEIPTS}?limit={limit}{after}")).await;
            let receipts = page["receipts"].as_array().unwrap();
            assert!(!receipts.is_empty() && receipts.len() <= limit);
            found.extend(receipts.clone());
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
            assert_eq!(receipts.len(), limit, "only the last page is shorter");
        }
        assert_eq!(found.len(), expected.len());
        assert!(
            found.iter().zip(&expected).all(|(found, row)| is(found, row)),
            "{limit}: {found:?}"
        );
    }
    let answer = stack.ok(&format!("{RECEIPTS}?limit=1")).await;
    assert_eq!(
        answer["receipts"][0],
        json!({
            "receiptId": expected[0].receipt_id.to_string(), "timestamp": "2026-03-29T22:00:00.000Z",
            "receivedAt": "2026-03-30T19:46:40.000Z", "publisher": NEWS, "entryId": entry(1).to_string(), "title": url(entry(1)),
            "url": url(entry(1)), "clientId": client(3).to_string(), "clientName": "client 3", "clientVersion": "1.0",
            "organization": "Organization", "purpose": "training", "context": "tests", "datasetId": null, "modelId": "=model(3)",
            "payloadHash": payload_hash_text(expected[0].receipt_id, 1), "occurrences": 2, "signatureAlgorithm": "Ed25519",
            "keyFingerprint": key_text(3), "operator": FOREIGN_OPERATOR, "trust": "proven",
            "beforeVerification": false
        })
    );
    let day = "from=2026-03-29&to=2026-03-30&tz=Europe/Berlin&purpose=inference";
    let answer = stack.ok(&format!("{RECEIPTS}?{day}&clientId={}", client(1))).await;
    assert_eq!(answer["receipts"].as_array().unwrap().len(), 2);
    let answer = stack.ok(&format!("{RECEIPTS}?from=2100-01-01")).await;
    assert_eq!((&answer["receipts"], &answer["nextCursor"]), (&json!([]), &Value::Null));
    // A cursor says where, not whose.
    let cursor = stack.ok(&format!("{RECEIPTS}?limit=1")).await["nextCursor"].clone();
    let path = format!("{RECEIPTS}?cursor={}", cursor.as_str().unwrap());
    let theirs = stack.server.get(&path, &stack.keys.rival, &[]).await.json();
    let theirs = theirs["receipts"].as_array().unwrap();
    assert_eq!(theirs.len(), 2);
    assert!(theirs.iter().all(|one| one["publisher"] == "rival.example"));
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

pub(crate) async fn refusals_page_by_page(stack: &Stack) {
    let path = "/api/v1/analytics/refusals";
    let ours: Vec<_> = refused()
        .into_iter()
        .filter(|(publisher, ..)| *publisher == NEWS)
        .collect();
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..ours.len() {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = stack.ok(&format!("{path}?limit=1{after}")).await;
        assert_eq!(page["totalRefused"], ours.len(), "of all, whatever the page");
        found.push(page["newest"][0]["detail"].as_str().unwrap().to_owned());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
    }
    assert_eq!(cursor, None);
    let expected: Vec<_> = ours.iter().rev().map(|(.., detail)| (*detail).to_owned()).collect();
    assert_eq!(found, expected);
    let answer = stack.ok(&format!("{path}?reason=bad_signature")).await;
    assert_eq!(answer["byReason"], json!({"bad_signature": 2}));
    assert_eq!(answer["newest"].as_array().unwrap().len(), 2);
    let answer = stack.ok(&format!("{path}?reason=no_such_reason")).await;
    assert_eq!((&answer["totalRefused"], &answer["byReason"]), (&json!(0), &json!({})));
    let answer = stack.get(&format!("{path}?limit=2"), &[("accept", "text/csv")]).await;
    let text = answer.text();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].ends_with(',') && !lines[2].ends_with(','), "{text}");
}
