//! Every endpoint against the known rows.

use receipt::Purpose;
use serde_json::{Value, json};

use crate::rows::{
    BLOG, Known, NEWS, OPERATOR, client, entry, key_text, known, ms, payload_hash_text, purposes, receipt,
    receipts_by_trust, refused, split, sums, totals_by_trust, url,
};
use crate::stack::Stack;

/// The key of NEWS and BLOG sees these.
pub(crate) fn ours() -> Vec<Known> {
    known()
        .into_iter()
        .filter(|row| row.publisher == NEWS || row.publisher == BLOG)
        .collect()
}

pub(crate) async fn dashboard(stack: &Stack) {
    let answer = stack.ok("/api/v1/analytics/dashboard").await;
    let expected = sums(ours().iter());
    assert_eq!(answer["totalReceipts"], expected.receipts);
    assert_eq!(answer["uniqueClients"], expected.clients);
    assert_eq!(answer["usageByPurpose"], purposes(expected.by_purpose));
    assert_eq!(answer["byTrust"], totals_by_trust(&ours()));
    assert_eq!((&answer["from"], &answer["to"]), (&Value::Null, &Value::Null));
    let top = |number: u8, proven: u64, unproven: u64| {
        let url = url(entry(number));
        json!({
            "entryId": entry(number).to_string(), "url": url, "title": url, "receiptCount": proven + unproven,
            "byTrust": {"proven": proven, "unproven": unproven}, "unknownEntry": true
        })
    };
    assert_eq!(answer["topContent"], json!([top(1, 3, 2), top(2, 3, 1), top(3, 0, 1)]));
    let answer = stack.ok("/api/v1/analytics/dashboard?limit=1").await;
    assert_eq!(answer["topContent"], json!([top(1, 3, 2)]));
}

pub(crate) async fn dashboard_selections(stack: &Stack) {
    let (from, to) = (ms("2026-03-28T23:00:00Z"), ms("2026-03-29T22:00:00Z"));
    let day = |row: &&Known| (from..to).contains(&row.timestamp_ms);
    let rows = ours();
    type Select<'a> = Box<dyn Fn(&&Known) -> bool + Send + Sync + 'a>;
    let selections: Vec<(&str, Select<'_>)> = vec![
        ("from=2026-03-29&to=2026-03-30&tz=Europe/Berlin", Box::new(day)),
        (
            "from=2026-03-29T00:00:00%2B01:00&to=2026-03-30T00:00:00%2B02:00",
            Box::new(day),
        ),
        (
            "from=2026-03-28T23:00:00Z",
            Box::new(|row: &&Known| row.timestamp_ms >= from),
        ),
        (
            "to=2026-03-28T23:00:00Z",
            Box::new(|row: &&Known| row.timestamp_ms < from),
        ),
        ("purpose=inference", Box::new(|row: &&Known| row.purpose == "inference")),
        ("domain=blog.example", Box::new(|row: &&Known| row.publisher == BLOG)),
        (
            "domain=News.Example&purpose=training",
            Box::new(|row: &&Known| row.publisher == NEWS && row.purpose == "training"),
        ),
        ("modelId=model-one", Box::new(|row: &&Known| row.client_id == client(1))),
        // Texts of receipts may have NUL.
        ("modelId=model-one%00", Box::new(|_: &&Known| false)),
        ("from=2100-01-01", Box::new(|_: &&Known| false)),
    ];
    for (query, select) in selections {
        let answer = stack.ok(&format!("/api/v1/analytics/dashboard?{query}")).await;
        let expected = sums(rows.iter().filter(|row| select(row)));
        assert_eq!(answer["totalReceipts"], expected.receipts, "{query}");
        assert_eq!(answer["uniqueClients"], expected.clients, "{query}");
        assert_eq!(answer["usageByPurpose"], purposes(expected.by_purpose), "{query}");
        let parts = totals_by_trust(rows.iter().filter(|row| select(row)));
        assert_eq!(answer["byTrust"], parts, "{query}");
    }
    for (query, select) in [
        (format!("clientId={}", client(1)), 0_u8),
        (format!("entryId={}", entry(2)), 1),
    ] {
        let answer = stack.ok(&format!("/api/v1/analytics/dashboard?{query}")).await;
        let expected = rows.iter().filter(|row| match select {
            0 => row.client_id == client(1),
            _ => row.entry_id == entry(2),
        });
        assert_eq!(answer["totalReceipts"], sums(expected).receipts, "{query}");
    }
}

/// Checks the points of a series: bucket edges by hand, values counted from the rows.
fn expect_points(answer: &Value, edges: &[&str], value: impl Fn(&[&Known]) -> u64) {
    let rows = ours();
    let points = answer.as_array().unwrap();
    assert_eq!(points.len(), edges.len() - 1);
    for (point, edge) in points.iter().zip(edges.windows(2)) {
        let bucket: Vec<&Known> = rows
            .iter()
            .filter(|row| (ms(edge[0])..ms(edge[1])).contains(&row.timestamp_ms))
            .collect();
        assert_eq!(ms(point["start"].as_str().unwrap()), ms(edge[0]));
        assert_eq!(point["value"], value(&bucket), "{}", edge[0]);
        assert_eq!(point["byTrust"], split(bucket, &value), "{}", edge[0]);
    }
}

pub(crate) async fn timeseries_in_a_time_zone(stack: &Stack) {
    // 2026-03-29 has 23 hours in Berlin.
    let days = [
        "2026-03-27T23:00:00Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T22:00:00Z",
        "2026-03-30T22:00:00Z",
    ];
    let query = "interval=day&from=2026-03-28&to=2026-03-31&tz=Europe/Berlin";
    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?metric=receipts&{query}"))
        .await;
    expect_points(&answer["points"], &days, |rows| sums(rows.iter().copied()).receipts);
    assert_eq!(answer["points"][1]["local"], "2026-03-29T00:00:00.000+01:00");
    assert_eq!(answer["points"][2]["local"], "2026-03-30T00:00:00.000+02:00");
    assert_eq!(
        (answer["metric"].as_str(), answer["interval"].as_str()),
        (Some("receipts"), Some("day"))
    );
    assert_eq!(
        (answer["tz"].as_str(), answer["from"].as_str()),
        (Some("Europe/Berlin"), Some("2026-03-27T23:00:00.000Z"))
    );
    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?metric=clients&{query}"))
        .await;
    expect_points(&answer["points"], &days, |rows| sums(rows.iter().copied()).clients);
    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?metric=content&{query}"))
        .await;
    expect_points(&answer["points"], &days, |rows| sums(rows.iter().copied()).entries);
    let answer = stack
        .ok(&format!(
            "/api/v1/analytics/timeseries?metric=receipts&purpose=training&{query}"
        ))
        .await;
    expect_points(&answer["points"], &days, |rows| {
        sums(rows.iter().copied()).by_purpose[0]
    });

    let months = ["2026-01-31T23:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"];
    let query = "interval=month&from=2026-02-01&to=2026-04-01&tz=Europe/Berlin";
    let answer = stack.ok(&format!("/api/v1/analytics/timeseries?{query}")).await;
    expect_points(&answer["points"], &months, |rows| sums(rows.iter().copied()).receipts);
}

pub(crate) async fn every_interval_adds_up(stack: &Stack) {
    let all = sums(
        ours()
            .iter()
            .filter(|row| row.timestamp_ms >= ms("2026-03-28T00:00:00Z")),
    )
    .receipts;
    for (interval, range) in [
        ("minute", "from=2026-03-28T21:59:30Z&to=2026-03-29T23:00:00Z"),
        ("hour", "from=2026-03-28&to=2026-04-01"),
        ("day", "from=2026-03-28&to=2026-04-10"),
        ("week", "from=2026-03-28&to=2026-05-10"),
        ("month", "from=2026-03-28&to=2027-05-10"),
    ] {
        for tz in ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            // The instants are given with offsets or as UTC dates: the zone only moves the buckets.
            let range = range.replace("-28&", "-28T00:00:00Z&");
            let range = if range.ends_with('Z') {
                range
            } else {
                format!("{range}T00:00:00Z")
            };
            let path = format!("/api/v1/analytics/timeseries?interval={interval}&{range}&tz={tz}");
            let answer = stack.ok(&path).await;
            let points = answer["points"].as_array().unwrap();
            let sum: u64 = points.iter().map(|point| point["value"].as_u64().unwrap()).sum();
            assert_eq!(sum, all, "{path}");
        }
    }
}

pub(crate) async fn grouped_series(stack: &Stack) {
    let query = "interval=day&from=2026-03-28&to=2026-03-31&tz=Europe/Berlin";
    let days = [
        "2026-03-27T23:00:00Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T22:00:00Z",
        "2026-03-30T22:00:00Z",
    ];
    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?groupBy=purpose&{query}"))
        .await;
    let series = answer["series"].as_array().unwrap();
    assert_eq!(series.len(), Purpose::ALL.len());
    assert_eq!(answer.get("points"), None);
    for one in series {
        let place = Purpose::ALL
            .iter()
            .position(|purpose| one["key"] == purpose.as_str())
            .unwrap();
        expect_points(&one["points"], &days, |rows| {
            sums(rows.iter().copied()).by_purpose[place]
        });
    }
    // A purpose nobody stated is there all the same.
    let answer = stack
        .ok("/api/v1/analytics/timeseries?groupBy=purpose&from=2100-01-01&to=2100-01-02")
        .await;
    assert_eq!(answer["series"].as_array().unwrap().len(), Purpose::ALL.len());

    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?groupBy=content&limit=1&{query}"))
        .await;
    let series = answer["series"].as_array().unwrap();
    assert_eq!((series.len(), &answer["seriesMax"]), (1, &json!(1)));
    assert_eq!(series[0]["key"], entry(1).to_string());
    expect_points(&series[0]["points"], &days, |rows| {
        rows.iter().filter(|row| row.entry_id == entry(1)).count() as u64
    });
    let answer = stack
        .ok(&format!("/api/v1/analytics/timeseries?groupBy=client&{query}"))
        .await;
    let keys: Vec<_> = answer["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].clone())
        .collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[0], client(1).to_string());
}

pub(crate) async fn default_series_end_with_the_current_interval(stack: &Stack) {
    for (interval, points) in [("minute", 60), ("hour", 48), ("day", 30), ("week", 26), ("month", 12)] {
        let answer = stack
            .ok(&format!("/api/v1/analytics/timeseries?interval={interval}"))
            .await;
        assert_eq!(answer["points"].as_array().unwrap().len(), points, "{interval}");
        let (from, to) = (answer["from"].as_str().unwrap(), answer["to"].as_str().unwrap());
        assert_eq!(answer["points"][0]["start"], from);
        let now = jiff::Timestamp::now().as_millisecond();
        assert!(ms(from) < now && now <= ms(to) + 60_000, "{interval}");
    }
}

pub(crate) async fn csv(stack: &Stack) {
    let path = "/api/v1/analytics/timeseries?interval=day&from=2026-03-29&to=2026-03-31&tz=Europe/Berlin";
    let answer = stack.get(path, &[("accept", "text/csv")]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert_eq!(answer.header("x-complete-through"), stack.complete_through());
    assert_eq!(
        answer.text(),
        "start,local,value,proven,unproven\r\n\
         2026-03-28T23:00:00.000Z,2026-03-29T00:00:00.000+01:00,7,3,4\r\n\
         2026-03-29T22:00:00.000Z,2026-03-30T00:00:00.000+02:00,1,1,0\r\n"
    );
    let answer = stack
        .get("/api/v1/analytics/refusals?limit=3", &[("accept", "text/csv")])
        .await;
    assert!(answer.text().contains("\"'=cmd(), with a comma\""), "{}", answer.text());
}

pub(crate) async fn content(stack: &Stack) {
    let answer = stack.ok(&format!("/api/v1/analytics/content/{}", entry(1))).await;
    let rows: Vec<_> = ours().into_iter().filter(|row| row.entry_id == entry(1)).collect();
    let expected = sums(rows.iter());
    assert_eq!(answer["entryId"], entry(1).to_string());
    assert_eq!(answer["totalReceipts"], expected.receipts);
    assert_eq!(answer["uniqueClients"], expected.clients);
    assert_eq!(answer["usageByPurpose"], purposes(expected.by_purpose));
    assert_eq!(answer["byTrust"], totals_by_trust(&rows));
    assert_eq!(answer["urls"], json!([url(entry(1))]));
    assert_eq!(answer["firstSeen"], "2026-03-28T22:59:59.999Z");
    assert_eq!(answer["lastSeen"], "2026-03-29T22:00:00.000Z");
    let top = &answer["topClients"];
    assert_eq!(
        top[0],
        json!({
            "clientId": client(1).to_string(), "keyFingerprint": key_text(1), "operator": null, "trust": "unproven",
            "name": "client 1", "organization": "Organization", "receiptCount": 3,
            "byTrust": {"proven": 2, "unproven": 1}
        })
    );
    assert_eq!(top.as_array().unwrap().len(), 3);
    // Nothing in a selection is zeros; nothing at all is 404, and so is another publisher's.
    let answer = stack
        .ok(&format!("/api/v1/analytics/content/{}?from=2100-01-01", entry(1)))
        .await;
    assert_eq!(
        (&answer["totalReceipts"], &answer["firstSeen"]),
        (&json!(0), &Value::Null)
    );
    let answer = stack
        .ok(&format!("/api/v1/analytics/content/{}?domain=blog.example", entry(1)))
        .await;
    assert_eq!(answer["totalReceipts"], 0, "it is of the other domain");
    for number in [4, 99] {
        for query in ["", "?from=2026-01-01", "?domain=blog.example"] {
            let answer = stack
                .get(&format!("/api/v1/analytics/content/{}{query}", entry(number)), &[])
                .await;
            assert_eq!(
                (answer.status, answer.json()["code"].as_str()),
                (404, Some("not_found")),
                "{number}"
            );
        }
    }
}

pub(crate) async fn clients(stack: &Stack) {
    let answer = stack.ok(&format!("/api/v1/analytics/clients/{}", client(1))).await;
    // Its receipts for another publisher aren't counted.
    let rows: Vec<_> = ours().into_iter().filter(|row| row.client_id == client(1)).collect();
    let expected = sums(rows.iter());
    assert_eq!(answer["totalReceipts"], expected.receipts);
    assert_eq!(answer["uniqueContent"], expected.entries);
    assert_eq!(answer["byTrust"], totals_by_trust(&rows));
    // Its newest receipt came when the operator listed the key no longer.
    assert_eq!(
        answer["keys"],
        json!([{
            "keyFingerprint": key_text(1), "operator": null, "trust": "unproven", "receiptCount": 5,
            "name": "client 1", "organization": "Organization", "versions": ["1.0"],
            "byTrust": receipts_by_trust(&rows), "lastSeen": "2026-03-29T21:59:59.999Z"
        }])
    );
    assert_eq!(answer["usageByPurpose"], purposes(expected.by_purpose));
    assert_eq!(answer["lastSeen"], "2026-03-29T21:59:59.999Z");
    assert_eq!(answer["topContent"][0]["entryId"], entry(1).to_string());
    assert_eq!(answer["topContent"][0]["receiptCount"], 3);
    let answer = stack
        .ok(&format!("/api/v1/analytics/clients/{}?domain=blog.example", client(1)))
        .await;
    assert_eq!(answer["totalReceipts"], 0, "it is of the other domain");
    let answer = stack
        .get(&format!("/api/v1/analytics/clients/{}", client(5)), &[])
        .await;
    assert_eq!(answer.status, 404, "the rival's client");
}

pub(crate) async fn refusals(stack: &Stack) {
    let answer = stack.ok("/api/v1/analytics/refusals").await;
    assert_eq!(
        answer["byReason"],
        json!({"bad_signature": 2, "bad_content_hash": 1, "malformed": 1})
    );
    assert_eq!(answer["totalRefused"], 4);
    let newest = answer["newest"].as_array().unwrap();
    assert_eq!(newest.len(), 4);
    assert_eq!(
        newest[0],
        json!({
            "receiptId": null, "reason": "malformed", "detail": refused()[3].3, "publisher": NEWS,
            "receivedAt": "2026-03-30T19:46:43.000Z", "clientId": client(1).to_string(), "requestId": "request-3"
        })
    );
    let answer = stack
        .ok("/api/v1/analytics/refusals?limit=1&from=2026-03-30T19:46:41Z&to=2026-03-30T19:46:43Z")
        .await;
    assert_eq!(answer["byReason"], json!({"bad_content_hash": 1, "bad_signature": 1}));
    assert_eq!(answer["newest"].as_array().unwrap().len(), 1);
    // The counts alone.
    let path = "/api/v1/analytics/refusals?groupBy=reason";
    let answer = stack.ok(path).await;
    assert_eq!(
        (&answer["totalRefused"], &answer["newest"], &answer["nextCursor"]),
        (&json!(4), &json!([]), &Value::Null)
    );
    let answer = stack.get(path, &[("accept", "text/csv")]).await;
    assert_eq!(
        answer.text(),
        "reason,refusals\r\nbad_signature,2\r\nbad_content_hash,1\r\nmalformed,1\r\n"
    );
}

pub(crate) async fn receipts(stack: &Stack) {
    let answer = stack.ok(&format!("/api/v1/receipts/{}", receipt(2))).await;
    let hash = payload_hash_text(receipt(2), 1);
    assert_eq!(answer["status"], "verified");
    assert_eq!((&answer["occurrences"], &answer["duplicates"]), (&json!(3), &json!(2)));
    assert_eq!(
        (&answer["conflict"], answer["payloadHash"].as_str()),
        (&json!(false), Some(hash.as_str()))
    );
    assert_eq!(answer["timestamp"], "2026-03-28T23:00:00.000Z");
    assert_eq!(answer["receivedAt"], "2026-03-30T19:46:40.000Z");
    assert_eq!(
        answer.get("reason"),
        None,
        "a tampered copy takes nothing from a valid receipt"
    );
    assert_eq!(answer["rejections"][0]["reason"], "bad_content_hash");
    assert_eq!(
        answer["receipts"],
        json!([{
            "payloadHash": hash, "occurrences": 3, "timestamp": "2026-03-28T23:00:00.000Z",
            "receivedAt": "2026-03-30T19:46:40.000Z", "publisher": NEWS, "entryId": entry(1).to_string(),
            "clientId": client(1).to_string(), "purpose": "training", "signatureAlgorithm": "Ed25519",
            "keyFingerprint": key_text(1), "operator": OPERATOR, "trust": "proven", "beforeVerification": false
        }])
    );

    let answer = stack.ok(&format!("/api/v1/receipts/{}", receipt(8))).await;
    assert_eq!(
        (&answer["conflict"], &answer["occurrences"], &answer["duplicates"]),
        (&json!(true), &json!(3), &json!(1))
    );
    assert_eq!(answer["receipts"].as_array().unwrap().len(), 2);

    let answer = stack.ok(&format!("/api/v1/receipts/{}", receipt(20))).await;
    assert_eq!(
        (answer["status"].as_str(), answer["reason"].as_str()),
        (Some("rejected"), Some("bad_signature"))
    );
    assert_eq!(
        (answer["detail"].as_str(), &answer["occurrences"]),
        (Some(refused()[0].3), &json!(0))
    );
    assert_eq!(answer["receivedAt"], "2026-03-30T19:46:40.000Z");

    // Another publisher's, valid or refused, looks like none at all.
    let mut unknown = stack.ok(&format!("/api/v1/receipts/{}", receipt(99))).await;
    assert_eq!(
        (unknown["status"].as_str(), &unknown["occurrences"]),
        (Some("unknown"), &json!(0))
    );
    assert_eq!(unknown["completeThrough"], stack.complete_through());
    for number in [10, 22] {
        let answer = stack.ok(&format!("/api/v1/receipts/{}", receipt(number))).await;
        unknown["receiptId"] = json!(receipt(number).to_string());
        assert_eq!(answer, unknown);
    }
}
