//! Forms of numbers that `exact` doesn't query: default ranges, CSV, and counts alone. Whether each
//! number is right is its part.

use serde_json::{Value, json};

use crate::rows::{BLOG, NEWS, SampleRow, ms, sample_rows};
use crate::stack::Stack;

/// The key of NEWS and BLOG sees these.
pub(crate) fn ours() -> Vec<SampleRow> {
    sample_rows()
        .into_iter()
        .filter(|row| row.publisher == NEWS || row.publisher == BLOG)
        .collect()
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
    // They are compared with as many intervals before them.
    let path = "/api/v1/analytics/timeseries?interval=month&compare=previous";
    let answer = stack.ok(path).await;
    assert_eq!(answer["previous"]["points"].as_array().unwrap().len(), 12);
    assert_eq!(answer["previous"]["to"], answer["from"]);
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

pub(crate) async fn counts_of_refusals(stack: &Stack) {
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
    let answer = stack.ok("/api/v1/analytics/refusals?reason=no_such_reason").await;
    assert_eq!((&answer["totalRefused"], &answer["byReason"]), (&json!(0), &json!({})));
}

pub(crate) async fn texts_of_receipts_may_have_nul(stack: &Stack) {
    let answer = stack.ok("/api/v1/analytics/dashboard?modelId=model-one%00").await;
    assert_eq!(answer["totalReceipts"], 0);
}

pub(crate) async fn csv_beside_the_period_before(stack: &Stack) {
    let query = "compare=previous&from=2026-03-29&to=2026-03-30&tz=Europe/Berlin";
    let path = format!("/api/v1/analytics/dashboard?limit=1&{query}");
    let text = stack.get(&path, &[("accept", "text/csv")]).await.text();
    assert!(
        text.starts_with("measure,key,label,value,previous\r\ntotalReceipts,,,7,1\r\n"),
        "{text}"
    );
    let parts = "\r\ntotalReceipts,proven,,3,1\r\nuniqueClients,proven,,1,1\r\n\
                 totalReceipts,unproven,,4,0\r\nuniqueClients,unproven,,3,0\r\n";
    assert!(text.contains(parts), "{text}");
    let path = format!("/api/v1/analytics/timeseries?groupBy=purpose&{query}");
    let text = stack.get(&path, &[("accept", "text/csv")]).await.text();
    assert!(
        text.starts_with("period,purpose,label,start,local,value,proven,unproven\r\ncurrent,"),
        "{text}"
    );
    assert!(
        text.contains(
            "\r\nprevious,training,training,2026-03-27T23:00:00.000Z,2026-03-28T00:00:00.000+01:00,1,1,0\r\n"
        ),
        "{text}"
    );
}
