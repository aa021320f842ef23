//! Lookups of entries by URL over HTTP, by anybody.

use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::stack::{ALL, Answer, Stack};

const ENTRIES: &str = "/api/v1/publisher/entries";
const LOOKUP: &str = "/api/v1/entries";
const BULK: &str = "/api/v1/entries/lookup";
const JSON: (&str, &str) = ("content-type", "application/json");
/// `uuid.uuid5(uuid.NAMESPACE_URL, "https://example.com/a")` in Python.
const DERIVED: &str = "6639460f-3425-5329-8097-a58f06127860";

/// The address of a lookup; everything but letters and digits is escaped.
fn path(url: &str) -> String {
    let escaped: String = url
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("{LOOKUP}?url={escaped}")
}

async fn look_up(stack: &Stack, url: &str) -> Answer {
    stack.server.send("GET", &path(url), &[], "").await
}

async fn bulk(stack: &Stack, body: &Value) -> Answer {
    stack.server.send("POST", BULK, &[JSON], &body.to_string()).await
}

async fn create(stack: &Stack, key: &str, entry: &Value) -> Value {
    stack.server.json("POST", ENTRIES, key, entry).await.expect(201)
}

#[tokio::test]
async fn a_url_has_one_entry_id_before_and_after_it_is_listed() {
    let stack = Stack::start().await;
    let unverified = json!({"url": "https://example.com/a", "entryId": DERIVED, "publisher": null, "listed": false});
    assert_eq!(look_up(&stack, "https://example.com/a").await.expect(200), unverified);

    let key = stack.key("example.com", ALL).await;
    let unlisted =
        json!({"url": "https://example.com/a", "entryId": DERIVED, "publisher": "example.com", "listed": false});
    assert_eq!(look_up(&stack, "https://example.com/a").await.expect(200), unlisted);

    // The ID that clients used is the entry's, if the publisher names no other.
    let request = json!({"url": "https://example.com/a#part", "title": "A", "authors": ["Ada"]});
    assert_eq!(create(&stack, &key, &request).await["entryId"], DERIVED);
    stack.server.json("POST", ENTRIES, &key, &request).await.expect(200);
    let second = json!({"url": "https://example.com/a", "title": "B"});
    let conflict = stack.server.json("POST", ENTRIES, &key, &second).await;
    conflict.refused(409, "entry_conflict");
    let listed = json!({
        "url": "https://example.com/a", "entryId": DERIVED, "publisher": "example.com", "listed": true, "title": "A",
    });
    for form in [
        "https://example.com/a",
        "HTTPS://Example.COM:443/a#other",
        "https://example.com./a",
    ] {
        let answer = look_up(&stack, form).await;
        assert_eq!(answer.expect(200), listed, "{form}");
        assert!(!answer.text().contains("Ada"), "authors aren't public");
    }

    // Whatever a URL looks like: it is found as it was listed, and nothing else is.
    let odd = "https://example.com/./x/../%2e%2E/y\\z";
    create(&stack, &key, &json!({"url": odd, "title": "Odd"})).await;
    let found = look_up(&stack, odd).await.expect(200);
    assert_eq!(
        (&found["listed"], &found["url"]),
        (&json!(true), &json!("https://example.com/./x/../%2e%2E/y%5Cz"))
    );
    assert_eq!(
        look_up(&stack, "https://example.com/y%5Cz").await.expect(200)["listed"],
        false
    );

    // A publisher may also choose the ID, the derived one of another URL included.
    let id = "0e000000-0000-4000-8000-000000000001";
    create(
        &stack,
        &key,
        &json!({"entryId": id, "url": "https://example.com/c", "title": "C"}),
    )
    .await;
    assert_eq!(
        look_up(&stack, "https://example.com/c").await.expect(200)["entryId"],
        id
    );
    let location = format!("{ENTRIES}/{DERIVED}");
    assert_eq!(stack.server.ask("DELETE", &location, &key, &[], "").await.status, 204);
    assert_eq!(look_up(&stack, "https://example.com/a").await.expect(200), unlisted);
    let explicit = json!({"entryId": DERIVED, "url": "https://example.com/a", "title": "A"});
    assert_eq!(create(&stack, &key, &explicit).await["entryId"], DERIVED);
}

#[tokio::test]
async fn a_bulk_has_an_answer_or_a_fault_for_each_url_in_order() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", ALL).await;
    create(&stack, &key, &json!({"url": "https://example.com/a", "title": "A"})).await;
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let body = json!({"urls": [
        "https://example.com/b", "ftp://example.com/", "https://example.com/a", "https://user@example.com/a",
        long, "https://example.com/a", "https://example.com/\u{0}", "", "https://other.example",
    ]});
    let answer = bulk(&stack, &body).await;
    assert_eq!(answer.header("cache-control"), "no-store");
    let body = answer.expect(200);
    let entries = body["entries"].as_array().unwrap();
    let listed: Vec<&Value> = entries.iter().map(|entry| &entry["listed"]).collect();
    let (yes, no, fault) = (json!(true), json!(false), Value::Null);
    assert_eq!(listed, [&no, &fault, &yes, &fault, &fault, &yes, &fault, &fault, &no]);
    assert_eq!(
        (&entries[2]["entryId"], &entries[2]["title"]),
        (&json!(DERIVED), &json!("A"))
    );
    assert_eq!(
        (&entries[8]["url"], &entries[8]["publisher"]),
        (&json!("https://other.example/"), &Value::Null)
    );
    let errors = body["errors"].as_array().unwrap();
    let pointers: Vec<&str> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/urls/1", "/urls/3", "/urls/4", "/urls/6", "/urls/7"]);
    assert!(errors.iter().all(|error| error["code"] == "invalid_url"));
    assert!(
        errors[2]["detail"].as_str().unwrap().contains("2048 bytes"),
        "{}",
        errors[2]
    );
    assert_eq!(
        bulk(&stack, &json!({"urls": []})).await.expect(200),
        json!({"entries": [], "errors": []})
    );
}

#[tokio::test]
async fn bulks_are_bounded_and_faults_name_the_location() {
    let config = PublisherConfig {
        lookup_urls_max: 3,
        lookup_bytes_max: 300,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let of = |count: usize| json!({"urls": vec!["https://example.com/"; count]});
    assert_eq!(
        bulk(&stack, &of(3)).await.expect(200)["entries"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let many = bulk(&stack, &of(4)).await.refused(400, "invalid_body");
    assert_eq!(
        (&many["errors"][0]["pointer"], &many["errors"][0]["code"]),
        (&json!("/urls"), &json!("too_many"))
    );
    let long = json!({"urls": [format!("https://example.com/{}", "a".repeat(300))]});
    bulk(&stack, &long).await.refused(413, "body_too_large");
    for (body, pointer) in [
        (json!({"urls": ["https://example.com/", 7]}), "/urls/1"),
        (json!({"urls": "https://example.com/"}), "/urls"),
        (json!({}), "/urls"),
        (json!(["https://example.com/"]), ""),
        (json!({"urls": [], "url": ""}), "/url"),
    ] {
        let problem = bulk(&stack, &body).await.refused(400, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    let server = &stack.server;
    server
        .send("POST", BULK, &[JSON], "{\"urls\":")
        .await
        .refused(400, "invalid_json");
    let text = [("content-type", "text/plain")];
    server
        .send("POST", BULK, &text, "{}")
        .await
        .refused(415, "unsupported_media_type");
    let gzip = [JSON, ("content-encoding", "gzip")];
    server
        .send("POST", BULK, &gzip, "{}")
        .await
        .refused(415, "unsupported_encoding");
    server
        .send("GET", BULK, &[], "")
        .await
        .refused(405, "method_not_allowed");
}

#[tokio::test]
async fn hostile_urls_are_refused_and_never_echoed_whole() {
    let stack = Stack::start().await;
    let long = format!("https://example.com/{}", "a".repeat(2_029));
    for url in [
        "example.com/a",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https://user:pw@example.com/",
        "https://@example.com/",
        "https://example.com\\@other.example/",
        "https://example.com/\u{0}",
        "https://example.com/\r\nset-cookie: a=b",
        "https://example.com/\u{85}",
        "https://example.com/a b",
        "https://exam%70le.com/",
        "https://[::1]/",
        "https://example.com:99999/",
        "https://example..com/",
        &long,
    ] {
        let problem = look_up(&stack, url).await.refused(400, "invalid_query");
        assert_eq!(problem["errors"][0]["pointer"], "url", "{url}");
        assert!(problem.to_string().len() < 500, "{problem}");
    }
    let server = &stack.server;
    for (query, pointer) in [
        ("", "url"),
        ("?url=", "url"),
        ("?url=https%3A%2F%2Fexample.com&url=https%3A%2F%2Fexample.com", "url"),
        ("?uri=https%3A%2F%2Fexample.com", "uri"),
        ("?url=https%3A%2F%2Fexample.com%2F%FF", "url"),
        // A URL that wasn't percent-encoded ends at its `&`.
        ("?url=https://example.com/?a=b&c=d", "c"),
    ] {
        let answer = server.send("GET", &format!("{LOOKUP}{query}"), &[], "").await;
        let problem = answer.refused(400, "invalid_query");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{query}");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let head = format!("{LOOKUP}?url=https%3A%2F%2Fexample.com%2F{}", "a".repeat(20_000));
    server.send("GET", &head, &[], "").await.refused(431, "head_too_large");

    // What isn't wrong, in unusual forms.
    let longest = format!("https://example.com/{}", "a".repeat(2_028));
    for (url, canonical) in [
        (longest.as_str(), longest.as_str()),
        (
            "https://b\u{fc}cher.example/\u{e4}",
            "https://xn--bcher-kva.example/%C3%A4",
        ),
        ("https://example.com/%C3%A4", "https://example.com/%C3%A4"),
        ("https://example.com/%2e%2E/../a", "https://example.com/%2e%2E/../a"),
        (
            "https://example.com/'; DROP TABLE entries; --"
                .replace(' ', "+")
                .as_str(),
            "https://example.com/%27;+DROP+TABLE+entries;+--",
        ),
        ("https://example.com/%00?%0d%0a", "https://example.com/%00?%0d%0a"),
    ] {
        assert_eq!(look_up(&stack, url).await.expect(200)["url"], canonical);
    }
}

#[tokio::test]
async fn answers_are_cached_until_they_change() {
    let config = PublisherConfig {
        lookup_max_age_s: 60,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let key = stack.key("example.com", ALL).await;
    let first = look_up(&stack, "https://example.com/a").await;
    first.expect(200);
    assert_eq!(first.header("cache-control"), "public, max-age=60");
    assert_eq!(first.header("vary"), "accept-encoding");
    assert_eq!(first.header("content-type"), "application/json");
    let tag = first.header("etag").to_owned();
    let again = async |tag: &str| {
        let headers = [("if-none-match", tag)];
        stack
            .server
            .send("GET", &path("https://example.com/a"), &headers, "")
            .await
    };
    for tags in [tag.as_str(), &format!("\"x\", W/{tag}"), "*"] {
        let unchanged = again(tags).await;
        assert_eq!((unchanged.status, unchanged.text().as_str()), (304, ""), "{tags}");
        assert_eq!(
            (unchanged.header("etag"), unchanged.header("cache-control")),
            (tag.as_str(), "public, max-age=60")
        );
    }
    assert_eq!(again("\"x\"").await.status, 200);
    create(&stack, &key, &json!({"url": "https://example.com/a", "title": "A"})).await;
    let listed = again(&tag).await;
    assert_eq!(listed.expect(200)["listed"], true);
    assert_ne!(listed.header("etag"), tag);
    let head = stack.server.send("HEAD", &path("https://example.com/a"), &[], "").await;
    assert_eq!((head.status, head.header("etag")), (200, listed.header("etag")));
}

#[tokio::test]
async fn each_address_has_a_quota_of_urls() {
    let config = PublisherConfig {
        lookups_per_minute: 10,
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let key = stack.key("example.com", ALL).await;
    let from = async |address: &str, count: usize| {
        let body = json!({"urls": vec!["https://example.com/"; count]}).to_string();
        let headers = [JSON, ("x-forwarded-for", address)];
        stack.server.send("POST", BULK, &headers, &body).await
    };
    let counted = |answer: &Answer| {
        ["limit", "remaining", "cost"].map(|name| answer.header(&format!("x-ratelimit-{name}")).to_owned())
    };
    let answer = from("2001:db8::1", 7).await;
    answer.expect(200);
    assert_eq!(counted(&answer), ["10", "3", "7"]);
    assert!(!answer.header("x-ratelimit-reset").is_empty());
    // The same /64, and more than is left; one unit was charged before the body was read.
    let refused = from("2001:db8::ffff:1", 4).await;
    refused.refused(429, "rate_limited");
    assert_eq!(counted(&refused), ["10", "2", "4"]);
    assert_eq!(refused.header("retry-after"), "30");
    from("2001:db8::2", 2).await.expect(200);
    let refused = from("2001:db8::2", 1).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("cache-control"), "no-store");
    // Others have their own quota, and so have accounts.
    from("2001:db8:0:1::1", 10).await.expect(200);
    stack.server.get(ENTRIES, &key).await.expect(200);
    // A bulk over the whole quota is answered once.
    let whole = from("192.0.2.7", 500).await;
    whole.expect(200);
    assert_eq!(counted(&whole), ["10", "0", "10"]);
    from("::ffff:192.0.2.7", 1).await.refused(429, "rate_limited");
    // Single lookups, faulty ones too.
    let headers = [("x-forwarded-for", "192.0.2.8")];
    let single = async |url: &str| stack.server.send("GET", &path(url), &headers, "").await;
    let first = single("https://example.com/").await;
    first.expect(200);
    assert_eq!(counted(&first), ["10", "9", "1"]);
    let faulty = single("nonsense").await;
    faulty.refused(400, "invalid_query");
    assert_eq!(counted(&faulty), ["10", "8", "1"]);
}

#[tokio::test]
async fn nobody_names_an_address_but_a_trusted_proxy() {
    let config = PublisherConfig {
        lookups_per_minute: 2,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let mut statuses = Vec::new();
    for number in 0..3 {
        let address = format!("192.0.2.{number}");
        let headers = [("x-forwarded-for", address.as_str())];
        let answer = stack
            .server
            .send("GET", &path("https://example.com/"), &headers, "")
            .await;
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}
