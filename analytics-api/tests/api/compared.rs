//! The period before: months with months, days with days whatever their hours, anything else by its
//! duration.

use serde_json::{Value, json};

use crate::numbers::ours;
use crate::rows::{Known, ms, purposes, sums, totals_by_trust};
use crate::stack::Stack;

fn within(rows: &[Known], from: &str, to: &str) -> Vec<Known> {
    let range = ms(from)..ms(to);
    rows.iter()
        .filter(|row| range.contains(&row.timestamp_ms))
        .cloned()
        .collect()
}

pub(crate) async fn dashboards(stack: &Stack) {
    let rows = ours();
    for (query, from, to) in [
        // The day of 23 hours, and the one after it.
        (
            "from=2026-03-29&to=2026-03-30&tz=Europe/Berlin",
            "2026-03-27T23:00:00Z",
            "2026-03-28T23:00:00Z",
        ),
        (
            "from=2026-03-30&to=2026-03-31&tz=Europe/Berlin",
            "2026-03-28T23:00:00Z",
            "2026-03-29T22:00:00Z",
        ),
        (
            "from=2026-03-01&to=2026-04-01&tz=Europe/Berlin",
            "2026-01-31T23:00:00Z",
            "2026-02-28T23:00:00Z",
        ),
        (
            "from=2026-03-30&to=2026-04-06",
            "2026-03-23T00:00:00Z",
            "2026-03-30T00:00:00Z",
        ),
        (
            "from=2026-03-29T10:30:00Z&to=2026-03-29T22:30:00Z",
            "2026-03-28T22:30:00Z",
            "2026-03-29T10:30:00Z",
        ),
    ] {
        let answer = stack
            .ok(&format!("/api/v1/analytics/dashboard?compare=previous&{query}"))
            .await;
        let expected = sums(within(&rows, from, to).iter());
        let previous = &answer["previous"];
        assert_eq!(
            (
                ms(previous["from"].as_str().unwrap()),
                ms(previous["to"].as_str().unwrap())
            ),
            (ms(from), ms(to)),
            "{query}"
        );
        assert_eq!(previous["to"], answer["from"], "{query}");
        assert_eq!(previous["totalReceipts"], expected.receipts, "{query}");
        assert_eq!(previous["uniqueClients"], expected.clients, "{query}");
        assert_eq!(previous["usageByPurpose"], purposes(expected.by_purpose), "{query}");
        let parts = totals_by_trust(&within(&rows, from, to));
        assert_eq!(previous["byTrust"], parts, "{query}");
    }
    let query = "from=2026-03-29&to=2026-03-30&tz=Europe/Berlin";
    let plain = stack.ok(&format!("/api/v1/analytics/dashboard?{query}")).await;
    assert_eq!(plain.get("previous"), None);
    let answer = stack
        .get(
            &format!("/api/v1/analytics/dashboard?compare=previous&limit=1&{query}"),
            &[("accept", "text/csv")],
        )
        .await;
    let text = answer.text();
    assert!(
        text.starts_with("measure,key,label,value,previous\r\ntotalReceipts,,,7,1\r\n"),
        "{text}"
    );
    let parts = "\r\ntotalReceipts,proven,,3,1\r\nuniqueClients,proven,,1,1\r\n\
                 totalReceipts,unproven,,4,0\r\nuniqueClients,unproven,,3,0\r\n";
    assert!(text.contains(parts), "{text}");
}

fn values(points: &Value) -> Vec<u64> {
    let points = points.as_array().unwrap();
    points.iter().map(|point| point["value"].as_u64().unwrap()).collect()
}

pub(crate) async fn series(stack: &Stack) {
    // March has 31 days, February 28; neither the other's hours.
    let query = "from=2026-03-01&to=2026-04-01&tz=Europe/Berlin&compare=previous";
    let answer = stack.ok(&format!("/api/v1/analytics/timeseries?{query}")).await;
    let (points, before) = (values(&answer["points"]), values(&answer["previous"]["points"]));
    assert_eq!((points.len(), before.len()), (31, 28));
    assert_eq!((points.iter().sum::<u64>(), before.iter().sum::<u64>()), (9, 1));
    assert_eq!(before[9], 1, "the tenth of February");
    assert_eq!(
        answer["previous"]["points"][0]["local"],
        "2026-02-01T00:00:00.000+01:00"
    );

    // The hours of a day of 23, beside those of the 24 before.
    let query = "interval=hour&from=2026-03-29&to=2026-03-30&tz=Europe/Berlin&compare=previous";
    let answer = stack.ok(&format!("/api/v1/analytics/timeseries?{query}")).await;
    let (points, before) = (values(&answer["points"]), values(&answer["previous"]["points"]));
    assert_eq!((points.len(), before.len()), (23, 24));
    assert_eq!((points.iter().sum::<u64>(), before.iter().sum::<u64>()), (7, 1));

    // Without a range the last intervals are compared with as many before them.
    let answer = stack
        .ok("/api/v1/analytics/timeseries?interval=month&compare=previous")
        .await;
    assert_eq!(values(&answer["previous"]["points"]).len(), 12);
    assert_eq!(answer["previous"]["to"], answer["from"]);

    let query = "groupBy=purpose&from=2026-03-29&to=2026-03-30&tz=Europe/Berlin&compare=previous";
    let answer = stack.ok(&format!("/api/v1/analytics/timeseries?{query}")).await;
    assert_eq!(answer["previous"]["series"].as_array().unwrap().len(), 3);
    assert_eq!(answer["previous"].get("points"), None);
    let answer = stack
        .get(
            &format!("/api/v1/analytics/timeseries?{query}"),
            &[("accept", "text/csv")],
        )
        .await;
    let text = answer.text();
    assert!(
        text.starts_with("period,purpose,start,local,value,proven,unproven\r\ncurrent,"),
        "{text}"
    );
    assert!(
        text.contains("\r\nprevious,training,2026-03-27T23:00:00.000Z,2026-03-28T00:00:00.000+01:00,1,1,0\r\n"),
        "{text}"
    );
}

pub(crate) async fn a_series_of_models(stack: &Stack) {
    let query = "groupBy=model&from=2026-03-01&to=2026-04-01&interval=month";
    let answer = stack.ok(&format!("/api/v1/analytics/timeseries?{query}")).await;
    let series: Vec<(Value, u64)> = answer["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["key"].clone(), values(&one["points"]).iter().sum()))
        .collect();
    assert_eq!(
        series,
        [(json!("model-one"), 5), (Value::Null, 3), (json!("=model(3)"), 1)]
    );
}
