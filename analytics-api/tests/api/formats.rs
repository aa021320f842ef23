//! Formats of answers: media types, entity tags, HEAD, and the words of strangers in them.

use std::io::Read;
use std::sync::atomic::Ordering;

use accounts::{EntryAuthors, EntryContent, EntryTitle, EntryUrl, NewEntry};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::rows::{client, entry, receipt};
use crate::stack::Stack;

const ACCEPTED: [&str; 4] = [
    "application/json",
    "text/csv",
    "application/x-ndjson",
    "application/vnd.apache.parquet",
];

pub(crate) fn addresses() -> Vec<String> {
    let mut all: Vec<String> = [
        "dashboard",
        "timeseries",
        "content",
        "clients",
        "purposes",
        "models",
        "operators",
        "refusals",
        "receipts",
    ]
    .map(|name| format!("/api/v1/analytics/{name}"))
    .into();
    all.push(format!("/api/v1/analytics/content/{}", entry(1)));
    all.push(format!("/api/v1/analytics/clients/{}", client(1)));
    all
}

pub(crate) async fn every_endpoint_in_every_format(stack: &Stack) {
    for path in addresses() {
        for (accept, kind) in [
            ("application/json", "application/json"),
            ("text/csv", "text/csv; charset=utf-8; header=present"),
            ("application/x-ndjson", "application/x-ndjson"),
            ("application/vnd.apache.parquet", "application/vnd.apache.parquet"),
        ] {
            let answer = stack.get(&path, &[("accept", accept)]).await;
            assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
            assert_eq!(
                answer.header("x-complete-through"),
                stack.complete_through(),
                "{path} {accept}"
            );
            assert_eq!(answer.header("vary"), "accept, accept-encoding, authorization, cookie");
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            if kind == "application/vnd.apache.parquet" {
                assert!(answer.body.starts_with(b"PAR1") && answer.body.ends_with(b"PAR1"));
                continue;
            }
            let text = answer.text();
            match accept {
                "application/json" => assert_eq!(answer.json()["completeThrough"], stack.complete_through()),
                "text/csv" => {
                    let columns = text.lines().next().unwrap().matches(',').count();
                    let plain = text.split_terminator("\r\n").filter(|line| !line.contains('"'));
                    assert!(plain.clone().count() > 1, "{path}: {text}");
                    assert!(
                        plain.clone().all(|line| line.matches(',').count() == columns),
                        "{path}: {text}"
                    );
                    let name = path.strip_prefix("/api/v1/analytics/").unwrap().replace('/', "-");
                    let disposition = format!("attachment; filename=\"{name}.csv\"");
                    assert_eq!(answer.header("content-disposition"), disposition);
                    let marked = stack.get(&format!("{path}?bom=true"), &[("accept", accept)]).await;
                    assert_eq!(marked.text(), format!("\u{feff}{text}"), "{path}");
                    if !answer.header("etag").is_empty() {
                        assert_ne!(marked.header("etag"), answer.header("etag"), "{path}");
                    }
                }
                _ => assert!(
                    text.lines()
                        .all(|line| serde_json::from_str::<Value>(line).unwrap().is_object()),
                    "{path}: {text}"
                ),
            }
        }
        for accept in ["image/png", "text/html", "application/json;q=0, text/csv;q=0"] {
            let answer = stack.get(&path, &[("accept", accept)]).await;
            assert_eq!(
                (answer.status, answer.json()["code"].as_str()),
                (406, Some("not_acceptable")),
                "{path}"
            );
        }
    }
    let lookup = format!("/api/v1/receipts/{}", receipt(1));
    let answer = stack.get(&lookup, &[("accept", "text/csv")]).await;
    assert_eq!(answer.status, 406);
}

/// A link or a spreadsheet sends no `Accept` of ours.
pub(crate) async fn formats_by_the_address(stack: &Stack) {
    for path in addresses() {
        for (format, accept) in [
            ("json", "application/json"),
            ("csv", "text/csv"),
            ("ndjson", "application/x-ndjson"),
            ("parquet", "application/vnd.apache.parquet"),
        ] {
            let expected = stack.get(&path, &[("accept", accept)]).await;
            let browsers = "text/html,application/xhtml+xml;q=0.9,image/png";
            let address = format!("{path}?format={format}");
            let answer = stack.get(&address, &[("accept", browsers)]).await;
            assert_eq!(
                (answer.status, answer.header("content-type"), &answer.body),
                (200, expected.header("content-type"), &expected.body),
                "{address}"
            );
            let name = answer.header("content-disposition");
            assert_eq!(
                name.ends_with(&format!(".{format}\"")),
                format != "json",
                "{address} {name}"
            );
            let range = "from=2025-01-01&to=2125-01-01T00:00:00Z";
            let ranged = stack.get(&format!("{address}&{range}"), &[]).await;
            let end = format!("-from-2025-01-01-to-2125-01-01T000000Z.{format}\"");
            let name = ranged.header("content-disposition");
            assert!(
                ranged.status == 400 || name.ends_with(&end) == (format != "json"),
                "{name}"
            );
        }
        let refused = stack.get(&format!("{path}?format=xlsx"), &[]).await;
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (400, Some("invalid_query"))
        );
    }
}

/// Pages of the origins that are named may read answers with a key; no other page may.
pub(crate) async fn pages_of_other_origins(stack: &Stack) {
    let config = analytics_api::AnalyticsConfig {
        cors_origins: vec!["https://stats.example".to_owned()],
        ..Default::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    let path = "/api/v1/analytics/clients";
    let bearer = format!("Bearer {}", stack.keys.publisher);
    for (origin, allowed) in [
        ("https://stats.example", true),
        ("https://evil.example", false),
        ("null", false),
    ] {
        let asked = [
            ("origin", origin),
            ("access-control-request-method", "GET"),
            ("access-control-request-headers", "authorization"),
        ];
        let preflight = server.send("OPTIONS", path, &asked).await;
        assert_eq!(preflight.status, 200);
        let answer = server
            .send("GET", path, &[("authorization", &bearer), ("origin", origin)])
            .await;
        assert_eq!(answer.status, 200);
        for answer in [&preflight, &answer] {
            let expected = if allowed { origin } else { "" };
            assert_eq!(answer.header("access-control-allow-origin"), expected);
            assert_eq!(answer.header("access-control-allow-credentials"), "");
            let varies = answer
                .headers
                .get_all("vary")
                .iter()
                .any(|value| value.to_str().unwrap().contains("origin"));
            assert!(varies, "{origin}");
        }
        assert_eq!(preflight.header("access-control-allow-methods"), "GET,HEAD");
        assert!(
            preflight
                .header("access-control-allow-headers")
                .contains("authorization")
        );
        assert!(
            answer
                .header("access-control-expose-headers")
                .contains("x-complete-through")
        );
    }
    // What is refused says so to the page, too.
    let refused = server.send("GET", path, &[("origin", "https://stats.example")]).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), "https://stats.example");
    server.stop().await;
    // Without the setting nothing is allowed.
    let answer = stack.get(path, &[("origin", "https://stats.example")]).await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    assert_eq!(stack.send("OPTIONS", path, &[]).await.status, 405);
}

/// The tag is of the numbers: it stays while only `completeThrough` moves, which the 304 tells.
pub(crate) async fn compressed_answers(stack: &Stack) {
    for (path, accept) in [
        ("/openapi.json", "application/json"),
        ("/api/v1/analytics/receipts", "text/csv"),
        ("/api/v1/analytics/receipts", "application/x-ndjson"),
    ] {
        let plain = stack.get(path, &[("accept", accept)]).await;
        assert!(
            plain.body.len() > 1_024 && !plain.headers.contains_key("content-encoding"),
            "{path}"
        );
        let fields = [("accept", accept), ("accept-encoding", "br, gzip")];
        let small = stack.get(path, &fields).await;
        assert_eq!(
            (small.status, small.header("content-encoding")),
            (200, "gzip"),
            "{path}"
        );
        assert!(small.header("vary").contains("accept-encoding"), "{path}");
        assert!(small.body.len() < plain.body.len(), "{path}");
        let mut back = Vec::new();
        GzDecoder::new(&small.body[..]).read_to_end(&mut back).unwrap();
        assert_eq!(String::from_utf8(back).unwrap(), plain.text(), "{path} {accept}");
    }
}

pub(crate) async fn tags_and_revalidation(stack: &Stack) {
    let server = stack
        .server_with(
            analytics_api::AnalyticsConfig {
                watermark_age_ms_max: 0,
                ..Default::default()
            },
            |_| {},
        )
        .await;
    let before = stack.progress.complete_ms.load(Ordering::SeqCst);
    for path in addresses() {
        for accept in ACCEPTED {
            if path.ends_with("/receipts") && accept != "application/json" {
                continue;
            }
            let ask = |tag: String| {
                let (server, path) = (&server, &path);
                async move {
                    let headers = [("accept", accept), ("if-none-match", tag.as_str())];
                    server.get(path, &stack.keys.publisher, &headers).await
                }
            };
            let first = ask("\"none\"".to_owned()).await;
            let tag = first.header("etag").to_owned();
            assert_eq!(first.status, 200, "{path}");
            assert_eq!(tag.starts_with("W/\""), accept == "application/json", "{path} {tag}");
            assert_eq!(first.header("cache-control"), "private, no-cache");
            stack.progress.complete_ms.store(before + 7, Ordering::SeqCst);
            for existing in [tag.clone(), format!("\"a\", {tag}"), "*".to_owned()] {
                let again = ask(existing).await;
                assert_eq!((again.status, again.text().len()), (304, 0), "{path} {accept}");
                assert_eq!(again.header("etag"), tag);
                assert_eq!(again.header("x-complete-through"), stack.complete_through());
                assert_eq!(again.header("cache-control"), "private, no-cache");
                assert_eq!(again.header("vary"), "accept, accept-encoding, authorization, cookie");
                assert!(again.headers.contains_key("x-ratelimit-remaining"));
            }
            let anew = ask("\"other\"".to_owned()).await;
            assert_eq!(
                (anew.status, anew.header("etag")),
                (200, tag.as_str()),
                "{path} {accept}"
            );
            stack.progress.complete_ms.store(before, Ordering::SeqCst);
        }
    }
    // Answers share a reading for a while: the next scenario begins with one of its own.
    loop {
        let answer = stack.get(&addresses()[0], &[("accept", "text/csv")]).await;
        if answer.header("x-complete-through") == stack.complete_through() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // Other numbers, another tag; other forms, other tags.
    let tag = async |path: &str, accept: &str| {
        let answer = stack.get(path, &[("accept", accept)]).await;
        answer.header("etag").to_owned()
    };
    let all = "/api/v1/analytics/dashboard";
    let some = "/api/v1/analytics/dashboard?purpose=training";
    assert_ne!(tag(all, "application/json").await, tag(some, "application/json").await);
    assert_ne!(tag(all, "text/csv").await, tag(all, "application/x-ndjson").await);
    server.stop().await;
}

pub(crate) async fn heads(stack: &Stack) {
    let bearer = format!("Bearer {}", stack.keys.publisher);
    for path in addresses() {
        for accept in ACCEPTED {
            let headers = [("authorization", bearer.as_str()), ("accept", accept)];
            let got = stack.send("GET", &path, &headers).await;
            let answer = stack.send("HEAD", &path, &headers).await;
            assert_eq!((answer.status, answer.text().len()), (200, 0), "{path}");
            for name in ["content-type", "etag", "x-complete-through", "cache-control"] {
                assert_eq!(answer.header(name), got.header(name), "{path} {name}");
            }
        }
    }
}

/// Titles are the publisher's, names of clients and models are whoever's: in a spreadsheet or a
/// page they must stay words.
pub(crate) async fn words_of_strangers(stack: &Stack) {
    let accounts = &stack.deps.accounts;
    let account = accounts.authenticate(&stack.keys.publisher).await.unwrap().account_id;
    let titles = [
        (entry(1), "=HYPERLINK(\"http://x.example\",\"a\")"),
        (
            entry(2),
            "<script>alert(1)</script> \u{645}\u{6cc}\u{200c}\u{62e}\u{200f}",
        ),
        (entry(3), "+1, \"two\"\u{2028}li\\nes"),
    ];
    for (id, title) in titles {
        let content = EntryContent {
            url: EntryUrl::parse(&format!("https://news.example/{id}")).unwrap(),
            title: EntryTitle::parse(title.to_owned()).unwrap(),
            authors: EntryAuthors::default(),
        };
        let created = accounts
            .create_entries(&account, "key:test", vec![NewEntry { id, content }], 100)
            .await;
        created.unwrap();
    }
    let path = "/api/v1/analytics/content";
    let csv = stack.get(path, &[("accept", "text/csv")]).await;
    let text = csv.text();
    assert!(
        text.contains(",\"'=HYPERLINK(\"\"http://x.example\"\",\"\"a\"\")\","),
        "{text}"
    );
    // A separator of lines that isn't one of CSV's.
    assert!(text.contains(",\"'+1, \"\"two\"\"\\u{2028}li\\\\nes\","), "{text}");
    // Joiners and marks of direction are letters.
    assert!(text.contains(&format!(",{},", titles[1].1)), "{text}");
    // Nobody takes it for a page.
    assert_eq!(csv.header("x-content-type-options"), "nosniff");
    for accept in ["application/json", "application/x-ndjson"] {
        let answer = stack.get(path, &[("accept", accept)]).await;
        let found: Vec<Value> = match accept {
            "application/json" => answer.json()["content"].as_array().unwrap().clone(),
            _ => answer
                .text()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        };
        for (id, title) in titles {
            let one = found.iter().find(|one| one["entryId"] == id.to_string()).unwrap();
            assert_eq!(
                (one["title"].as_str(), &one["unknownEntry"]),
                (Some(title), &Value::Bool(false))
            );
        }
    }
    for (id, _) in titles {
        accounts.erase_entry(&account, "key:test", id, None).await.unwrap();
    }
}

pub(crate) async fn each_answer_has_an_example_that_fits_its_schema(stack: &Stack) {
    // Short ones of what other scenarios request at length.
    for rows in ["receipts?limit=1", "timeseries?from=2026-03-24&to=2026-03-27"] {
        stack.get(&format!("/api/v1/analytics/{rows}&format=ndjson"), &[]).await;
    }
    let document = analytics_api::document().to_json().unwrap();
    test_engines::examples::check(&document).unwrap();
}

pub(crate) async fn the_document(stack: &Stack) {
    let answer = stack.send("GET", "/openapi.json", &[]).await;
    assert_eq!(answer.status, 200);
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    for path in addresses() {
        let path = path
            .replace(&entry(1).to_string(), "{entryId}")
            .replace(&client(1).to_string(), "{clientId}");
        assert!(document["paths"].get(&path).is_some(), "{path}");
    }
    let at_its_name = stack.send("GET", "/openapi/analytics.json", &[]).await;
    assert_eq!(at_its_name.json(), document);
    let answer = stack.send("GET", "/docs/analytics/", &[]).await;
    assert_eq!(answer.status, 200);
    // Limits are those of this configuration.
    let config = analytics_api::AnalyticsConfig {
        top_max: 7,
        ..Default::default()
    };
    let server = stack.server_with(config, |_| {}).await;
    let document = server.send("GET", "/openapi.json", &[]).await.json();
    let parameters = document["paths"]["/api/v1/analytics/content"]["get"]["parameters"]
        .as_array()
        .unwrap();
    let limit = parameters.iter().find(|one| one["name"] == "limit").unwrap();
    assert_eq!(limit["schema"]["maximum"], 7);
    server.stop().await;
}
