//! Queries that are refused: status, code, and which parameter.

use cursors::RankingListPosition;
use serde_json::Value;

use crate::rows::{entry, receipt};
use crate::stack::Stack;

/// Each parameter in the OpenAPI document is read by its handler, which a value that no parameter
/// can have shows, and is described in docs/analytics.md.
pub(crate) async fn documented_parameters(stack: &Stack) {
    let guide = include_str!("../../../docs/analytics.md");
    let document = serde_json::to_value(analytics_api::document()).unwrap();
    let impossible = "x".repeat(5_000);
    let id = entry(1).to_string();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.starts_with("/api/v1/analytics/") {
            continue;
        }
        let path = path.replace("{entryId}", &id).replace("{clientId}", &id);
        let path = path.replace("{month}", "2026-03");
        for parameter in item["get"]["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] != "query" {
                continue;
            }
            assert!(guide.contains(&format!("`{name}")), "docs/analytics.md lacks {name}");
            let answer = stack.get(&format!("{path}?{name}={impossible}"), &[]).await;
            let pointer = answer.json()["errors"][0]["pointer"].clone();
            let expected = match name {
                // Nobody verified it.
                "domain" => (403, Value::Null),
                _ => (400, Value::from(name)),
            };
            assert_eq!((answer.status, pointer), expected, "{path}?{name}=");
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

pub(crate) async fn invalid_queries(stack: &Stack) {
    let series = "/api/v1/analytics/timeseries";
    let dashboard = "/api/v1/analytics/dashboard";
    let content = format!("/api/v1/analytics/content/{}", entry(1));
    let lookup = format!("/api/v1/receipts/{}", receipt(1));
    let (list, refusals) = ("/api/v1/analytics/receipts", "/api/v1/analytics/refusals");
    let long_model = format!("modelId={}", "m".repeat(4_097));
    let other_order = RankingListPosition {
        sort: "entryId".to_owned(),
        value: 0,
        tie: "00".to_owned(),
    };
    let other_order = format!("sort=lastSeen&cursor={}", other_order.to_text());
    let many_models = vec!["modelId!=m"; 51].join("&");
    let long_search = format!("q={}", "a".repeat(201));
    let long_cursor = format!("cursor={}", "a".repeat(600));
    for (path, query, parameter, detail) in [
        (
            dashboard,
            "form=2026-01-01",
            "form",
            "allowed here: from, to, tz, clientId, clientId!, entryId, entryId!, purpose, purpose!, modelId, modelId!, \
             trust, operator, operator!, keyFingerprint, keyFingerprint!, beforeVerification, domain, limit, compare",
        ),
        (dashboard, "from=2026-01-01&from=2026-01-02", "from", "more than once"),
        (dashboard, "from=", "from", "empty"),
        (dashboard, "from=yesterday", "from", "not a time"),
        (dashboard, "from=2026-01-01T00:00:00", "from", "offset"),
        (dashboard, "from=2026-02-30", "from", "no such date"),
        (dashboard, "to=1969-01-01", "to", "1970"),
        (dashboard, "from=2026-01-02&to=2026-01-01", "from", "must be before"),
        (dashboard, "from=2026-01-02&to=2026-01-02", "from", "must be before"),
        (dashboard, "tz=Mars/Base", "tz", "IANA"),
        (dashboard, "purpose=spying", "purpose", "training, inference"),
        (dashboard, "clientId=7", "clientId", "UUID"),
        (dashboard, "purpose=training,inference", "purpose", "is not one of"),
        (dashboard, "purpose=training&purpose=spying", "purpose", "is not one of"),
        (
            dashboard,
            "purpose=training&purpose!=research",
            "purpose!",
            "not beside purpose",
        ),
        (dashboard, "clientId!=7", "clientId!", "UUID"),
        (dashboard, "trust!=proven", "trust!", "unknown parameter"),
        (
            &lookup,
            "keyFingerprint=08&keyFingerprint=08",
            "keyFingerprint",
            "more than once",
        ),
        (dashboard, &many_models, "modelId!", "more than 50 times"),
        (dashboard, "entryId=%00", "entryId", "UUID"),
        (dashboard, "limit=1001", "limit", "0 to 1000"),
        (dashboard, "limit=-1", "limit", "0 to 1000"),
        (dashboard, "interval=day", "interval", "unknown parameter"),
        (series, "metric=bytes", "metric", "receipts, clients, content"),
        (
            series,
            "interval=fortnight",
            "interval",
            "minute, hour, day, week, month",
        ),
        (
            series,
            "groupBy=url",
            "groupBy",
            "purpose, client, content, model, operator",
        ),
        (series, "groupBy=client,url", "groupBy", "\"url\" is not one of"),
        (series, "groupBy=client,client", "groupBy", "named twice"),
        (series, "groupBy=client,", "groupBy", "\"\" is not one of"),
        (series, "groupBy=client,model,purpose", "groupBy", "or two"),
        (series, "limit=3", "limit", "groupBy"),
        (series, "from=2150-01-01", "from", "must be before"),
        (
            series,
            "interval=minute&from=2026-01-01&to=2026-02-01",
            "interval",
            "choose interval=hour",
        ),
        (
            series,
            "interval=hour&groupBy=client&from=2026-01-01&to=2026-02-01",
            "interval",
            "fewer series",
        ),
        (
            series,
            "interval=day&from=1970-01-01&to=2199-12-31",
            "interval",
            "at most 2000 are answered",
        ),
        (dashboard, "compare=previous", "compare", "give from and to"),
        (
            dashboard,
            "compare=previous&from=2026-01-01",
            "compare",
            "give from and to",
        ),
        (
            dashboard,
            "compare=next&from=2026-01-01&to=2026-02-01",
            "compare",
            "previous",
        ),
        (
            dashboard,
            "compare=previous&from=1970-01-01&to=1970-02-01",
            "compare",
            "before the year 1970",
        ),
        (
            series,
            "compare=previous&from=1970-02-01&to=2026-02-01&interval=month",
            "compare",
            "1970",
        ),
        (dashboard, "modelId=", "modelId", "empty"),
        (dashboard, &long_model, "modelId", "4096 bytes"),
        (dashboard, "tz=Europe/Berlin%00", "tz", "IANA"),
        (dashboard, "tz=%3Cscript%3E", "tz", "IANA"),
        (
            dashboard,
            "purpose=training%27%20OR%201=1",
            "purpose",
            "training, inference",
        ),
        (list, "limit=1001", "limit", "1 to 1000"),
        (list, "limit=0", "limit", "1 to 1000"),
        (list, "limit=1e3", "limit", "1 to 1000"),
        (list, "cursor=nonsense", "cursor", "not a cursor"),
        (list, "cursor=W10", "cursor", "not a cursor"),
        (list, &long_cursor, "cursor", "not a cursor"),
        (list, "compare=previous", "compare", "unknown parameter"),
        (list, "from=2026-01-02&to=2026-01-01", "from", "must be before"),
        (refusals, "cursor=W10", "cursor", "not a cursor"),
        (refusals, "reason=Bad%20Signature", "reason", "bad_signature"),
        (refusals, "limit=1001", "limit", "1 to 1000"),
        ("/api/v1/analytics/content", "limit=1001", "limit", "1 to 1000"),
        ("/api/v1/analytics/clients", "limit=0", "limit", "1 to 1000"),
        (refusals, "groupBy=reason&limit=3", "limit", "groupBy"),
        (refusals, "groupBy=publisher", "groupBy", "reason"),
        ("/api/v1/analytics/models", "purpose=x", "purpose", "training"),
        (
            "/api/v1/analytics/models",
            "sort=lastSeen",
            "sort",
            "-receiptCount, receiptCount",
        ),
        (
            "/api/v1/analytics/content",
            "sort=title",
            "sort",
            "-lastSeen, lastSeen, -entryId",
        ),
        ("/api/v1/analytics/content", "cursor=W10", "cursor", "not a cursor"),
        (
            "/api/v1/analytics/content",
            &other_order,
            "cursor",
            "the `sort` that it came with",
        ),
        ("/api/v1/analytics/clients", &long_search, "q", "1 to 200 characters"),
        ("/api/v1/analytics/content", "q=a%00", "q", "none of them NUL"),
        ("/api/v1/analytics/purposes", "q=a", "q", "unknown parameter"),
        ("/api/v1/analytics/purposes", "limit=3", "limit", "unknown parameter"),
        (&content, "entryId=7", "entryId", "unknown parameter"),
        ("/api/v1/analytics/content/7", "", "entryId", "UUID"),
        ("/api/v1/analytics/clients/%2e%2e", "", "clientId", "UUID"),
        (
            "/api/v1/analytics/refusals",
            "purpose=training",
            "purpose",
            "unknown parameter",
        ),
        (&lookup, "from=2026-01-01", "from", "allowed here: domain"),
        ("/api/v1/receipts/not-a-uuid", "", "receiptId", "UUID"),
    ] {
        let answer = stack.get(format!("{path}?{query}").trim_end_matches('?'), &[]).await;
        let body = answer.json();
        assert_eq!(answer.status, 400, "{path}?{query}: {body}");
        assert_eq!(body["code"], "invalid_query", "{path}?{query}");
        assert_eq!(body["errors"][0]["pointer"], parameter, "{path}?{query}");
        let text = body["errors"][0]["detail"].as_str().unwrap();
        assert!(text.contains(detail), "{path}?{query}: {text}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(body["requestId"], answer.header("x-request-id"));
    }
}

pub(crate) async fn addresses_and_methods(stack: &Stack) {
    let answer = stack.send("GET", "/api/v1/nothing", &[]).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (404, Some("not_found"))
    );
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let answer = stack.send("POST", "/api/v1/analytics/dashboard", &[]).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (405, Some("method_not_allowed"))
    );
    assert_eq!(answer.header("allow"), "GET,HEAD");
    let answer = stack.get("/api/v1/receipts/%ff", &[]).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (400, Some("bad_request"))
    );
    let answer = stack.send("GET", "/", &[]).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("/api/v1/analytics/dashboard"));
    let answer = stack.send("GET", "/healthz", &[]).await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("alive")));
}

pub(crate) async fn request_ids_and_caching(stack: &Stack) {
    let answer = stack
        .get("/api/v1/analytics/dashboard", &[("x-request-id", "mine-1")])
        .await;
    assert_eq!(answer.header("x-request-id"), "mine-1");
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    let answer = stack.get("/api/v1/analytics/dashboard?bad=1", &[]).await;
    assert_eq!(answer.header("cache-control"), "no-store");
    for path in ["/", "/healthz", "/readyz", "/nothing", "/api/v1/analytics/dashboard"] {
        let answer = stack.send("GET", path, &[("x-request-id", "two words")]).await;
        assert_eq!(answer.header("x-request-id").len(), 36, "{path}");
    }
}

/// Policies for browsers: nothing is run or framed, unless it is a page, and then by
/// its own policy.
pub(crate) async fn policies(stack: &Stack) {
    for (method, path, status, loads) in [
        ("GET", "/api/v1/analytics/dashboard", 401, "default-src 'none'; frame"),
        ("GET", "/nothing", 404, "default-src 'none'; frame"),
        ("GET", "/dashboard", 200, "default-src 'none'; script-src 'self'"),
        ("GET", "/dashboard/", 308, "default-src 'none'; frame"),
        ("GET", "/dashboard/assets/none.js", 404, "default-src 'none'; frame"),
        ("POST", "/dashboard", 405, "default-src 'none'; frame"),
        ("GET", "/docs", 303, "default-src 'self'"),
        ("GET", "/docs/analytics/", 200, "default-src 'self'"),
        (
            "GET",
            "/docs/analytics/swagger-initializer.js",
            200,
            "default-src 'self'",
        ),
    ] {
        let answer = stack.send(method, path, &[]).await;
        let policy = answer.header("content-security-policy");
        assert_eq!(
            (answer.status, policy.starts_with(loads)),
            (status, true),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    let answer = stack.send("GET", "/docs/analytics/swagger-initializer.js", &[]).await;
    let reported = answer.text().replace([' ', '\n'], "");
    assert!(reported.contains("\"validatorUrl\":\"none\""), "{reported}");
}

pub(crate) async fn heads_over_the_limit(stack: &Stack) {
    let long = "x".repeat(17 << 10);
    let answer = stack
        .get("/api/v1/analytics/dashboard", &[("x-long", long.as_str())])
        .await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (431, Some("head_too_large"))
    );
}
