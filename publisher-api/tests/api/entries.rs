//! Entries over HTTP.

use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::stack::{ALL, Stack};

const PATH: &str = "/api/v1/publisher/entries";
const ID: &str = "0e000000-0000-4000-8000-000000000001";

fn id(number: u32) -> String {
    format!("0e000000-0000-4000-8000-{number:012}")
}

fn request(number: u32) -> Value {
    json!({
        "entryId": id(number), "url": format!("https://example.com/{number}"), "title": format!("Article {number}"), "authors": ["Ada"],
    })
}

async fn bulk(stack: &Stack, key: &str, lines: &str) -> crate::stack::Answer {
    let headers = [("content-type", "application/x-ndjson")];
    stack.server.ask("POST", PATH, key, &headers, lines).await
}

#[tokio::test]
async fn an_entrys_life() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", ALL).await;
    let made = stack.server.json("POST", PATH, &key, &request(1)).await;
    let expected = json!({
        "entryId": ID, "url": "https://example.com/1", "title": "Article 1", "authors": ["Ada"], "domain": "example.com",
        "createdAt": "2027-01-15T08:00:00.000Z", "updatedAt": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(made.expect(201), expected);
    let location = format!("{PATH}/{ID}");
    assert_eq!(made.header("location"), location);
    let first = made.header("etag").to_owned();
    let again = stack.server.json("POST", PATH, &key, &request(1)).await;
    assert_eq!(
        (again.expect(200), again.header("etag")),
        (expected.clone(), first.as_str())
    );
    let read = stack.server.get(&location, &key).await;
    assert_eq!((read.expect(200), read.header("etag")), (expected, first.as_str()));

    stack.pass_ms(1_500);
    let patch = json!({"title": "Right", "authors": null});
    let kind = ("content-type", "application/merge-patch+json");
    let done = stack
        .server
        .ask(
            "PATCH",
            &location,
            &key,
            &[kind, ("if-match", &first)],
            &patch.to_string(),
        )
        .await;
    let right = json!({
        "entryId": ID, "url": "https://example.com/1", "title": "Right", "authors": [], "domain": "example.com",
        "createdAt": "2027-01-15T08:00:00.000Z", "updatedAt": "2027-01-15T08:00:01.500Z",
    });
    assert_eq!(done.expect(200), right);
    let second = done.header("etag").to_owned();
    assert_ne!(first, second);
    for method in ["PATCH", "DELETE"] {
        let stale = stack
            .server
            .ask(method, &location, &key, &[kind, ("if-match", &first)], "{}")
            .await;
        stale.refused(412, "precondition_failed");
    }
    let unchanged = stack
        .server
        .ask("PATCH", &location, &key, &[kind, ("if-match", "*")], "{}")
        .await;
    assert_eq!(
        (unchanged.expect(200), unchanged.header("etag")),
        (right, second.as_str())
    );

    let listed = stack.server.json("POST", PATH, &key, &request(1)).await;
    let conflict = listed.refused(409, "entry_conflict");
    assert!(conflict["detail"].as_str().unwrap().contains("PATCH"), "{conflict}");
    let erased = stack
        .server
        .ask("DELETE", &location, &key, &[("if-match", &second)], "")
        .await;
    assert_eq!((erased.status, erased.text().as_str()), (204, ""));
    for method in ["DELETE", "GET"] {
        stack
            .server
            .ask(method, &location, &key, &[], "")
            .await
            .refused(404, "not_found");
    }
    let made = stack
        .server
        .json(
            "POST",
            PATH,
            &key,
            &json!({"url": "https://example.com/x", "title": "X"}),
        )
        .await;
    let made = made.expect(201);
    assert_eq!(
        (made["authors"].clone(), made["entryId"].as_str().unwrap().len()),
        (json!([]), 36)
    );
    // As in a site map: without a title, the URL is it.
    let made = stack
        .server
        .json("POST", PATH, &key, &json!({"url": "https://EXAMPLE.com/y"}))
        .await;
    assert_eq!(made.expect(201)["title"], "https://example.com/y");
}

#[tokio::test]
async fn refusals_name_the_location() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", ALL).await;
    stack.server.json("POST", PATH, &key, &request(1)).await.expect(201);
    let with = |member: &str, value: Value| {
        let mut request = request(2);
        request[member] = value;
        request
    };
    for (body, pointers) in [
        (
            with("entryId", json!("0e0000000000400080000000000000001")),
            &["/entryId"][..],
        ),
        (with("url", json!("/relative")), &["/url"]),
        (with("url", json!("https://user:pw@example.com/")), &["/url"]),
        (with("title", json!("")), &["/title"]),
        (with("authors", json!(["Ada", "B\u{7}"])), &["/authors/1"]),
        (with("authors", json!([1])), &["/authors/0"]),
        (with("domain", json!("example.com")), &["/domain"]),
        (
            json!({"url": "ftp://example.com/", "title": " ", "authors": [""]}),
            &["/url", "/title", "/authors/0"],
        ),
        (json!({"title": "No address"}), &["/url"]),
        (json!({"url": 1, "further": 2}), &["/further", "/url"]),
        (json!([]), &[""]),
    ] {
        let problem = stack
            .server
            .json("POST", PATH, &key, &body)
            .await
            .refused(400, "invalid_body");
        let reported: Vec<&str> = problem["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(reported, pointers, "{body}");
    }
    let location = format!("{PATH}/{ID}");
    for (body, pointer) in [
        (json!({"title": null}), "/title"),
        (json!({"url": null}), "/url"),
        (json!({"url": "https://127.0.0.1/"}), "/url"),
        (json!({"entryId": id(3)}), "/entryId"),
        (json!({"createdAt": "2020-01-01T00:00:00Z"}), "/createdAt"),
        (json!("text"), ""),
    ] {
        let problem = stack
            .server
            .json("PATCH", &location, &key, &body)
            .await
            .refused(400, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    let elsewhere = json!({"url": "https://www.example.org/"});
    for (method, path, body) in [
        ("POST", PATH, with("url", elsewhere["url"].clone())),
        ("PATCH", location.as_str(), elsewhere),
    ] {
        let problem = stack
            .server
            .json(method, path, &key, &body)
            .await
            .refused(403, "domain_not_verified");
        assert!(
            problem["detail"].as_str().unwrap().starts_with("www.example.org "),
            "{problem}"
        );
    }
    for method in ["GET", "PATCH", "DELETE"] {
        let headers = [("content-type", "application/json")];
        let path = format!("{PATH}/nonsense");
        let asked = stack.server.ask(method, &path, &key, &headers, "{}").await;
        asked.refused(400, "invalid_query");
    }
    let headers = [("content-type", "text/plain")];
    for (method, path) in [("POST", PATH), ("PATCH", &location)] {
        let asked = stack.server.ask(method, path, &key, &headers, "{}").await;
        asked.refused(415, "unsupported_media_type");
    }
    let entry = stack.server.get(&location, &key).await.expect(200);
    assert_eq!(entry["title"], "Article 1", "nothing of it was changed");
}

#[tokio::test]
async fn an_entry_that_is_known_is_not_sent_again() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", ALL).await;
    stack.server.json("POST", PATH, &key, &request(1)).await.expect(201);
    let location = format!("{PATH}/{ID}");
    let ask = async |tags: &str| {
        let headers = [("if-none-match", tags)];
        stack.server.ask("GET", &location, &key, &headers, "").await
    };
    let first = ask("\"other\"").await;
    assert_eq!(first.status, 200);
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    for tags in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let unchanged = ask(&tags).await;
        assert_eq!(
            (unchanged.status, &unchanged.headers["etag"]),
            (304, &first.headers["etag"]),
            "{tags}"
        );
        assert!(unchanged.body.is_empty());
    }
    let title = json!({"title": "Other"});
    stack.server.json("PATCH", &location, &key, &title).await.expect(200);
    assert_eq!(ask(&tag).await.status, 200);
}

#[tokio::test]
async fn a_bulk_tells_of_each_line_and_can_be_sent_again() {
    let stack = Stack::start().await;
    let (key, rival) = (
        stack.key("example.com", ALL).await,
        stack.key("rival.example", ALL).await,
    );
    let mut theirs = request(7);
    theirs["url"] = json!("https://rival.example/7");
    stack.server.json("POST", PATH, &rival, &theirs).await.expect(201);
    let mut elsewhere = request(3);
    elsewhere["url"] = json!("https://other.example/");
    let mut differs = request(1);
    differs["title"] = json!("Another");
    let lines = [
        request(1).to_string(),
        String::new(),
        request(1).to_string(),
        "{\"url\":".to_owned(),
        elsewhere.to_string(),
        differs.to_string(),
        request(7).to_string(),
        json!({"url": "https://example.com/8", "title": "8", format!("{:x<500}", "x"): 1}).to_string(),
        json!({"entryId": id(9), "url": "https://example.com/9", "title": "9", "authors": ["a", ""]}).to_string(),
        request(10).to_string(),
    ]
    .join("\n");
    let answer = bulk(&stack, &key, &lines).await.expect(200);
    let line = |line: u32, status: &str, entry: Option<u32>| match entry {
        Some(entry) => json!({"line": line, "status": status, "entryId": id(entry)}),
        None => json!({"line": line, "status": status}),
    };
    let shown: Vec<Value> = answer["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let mut line = line.clone();
            line.as_object_mut()
                .unwrap()
                .retain(|name, _| matches!(name.as_str(), "line" | "status" | "entryId"));
            line
        })
        .collect();
    let expected = [
        line(1, "created", Some(1)),
        line(3, "unchanged", Some(1)),
        line(4, "refused", None),
        line(5, "refused", None),
        line(6, "refused", Some(1)),
        line(7, "created", Some(7)),
        line(8, "refused", None),
        line(9, "refused", None),
        line(10, "created", Some(10)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        (&answer["created"], &answer["unchanged"], &answer["refused"]),
        (&json!(3), &json!(1), &json!(5))
    );
    let codes: Vec<&str> = answer["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|line| line["code"].as_str())
        .collect();
    assert_eq!(
        codes,
        [
            "invalid_json",
            "domain_not_verified",
            "entry_conflict",
            "invalid_member",
            "invalid_author"
        ]
    );
    assert_eq!(answer["lines"][7]["pointer"], "/authors/1");
    assert!(
        answer["lines"][6]["detail"].as_str().unwrap().len() < 250,
        "the caller's words are cut"
    );

    // More than one transaction; again, and again with one more.
    let many: Vec<String> = (100..700).map(|number| request(number).to_string()).collect();
    let many = many.join("\n");
    assert_eq!(bulk(&stack, &key, &many).await.expect(200)["created"], 600);
    assert_eq!(bulk(&stack, &key, &many).await.expect(200)["unchanged"], 600);
    let more = format!("{many}\r\n{}\r\n", request(700));
    let answer = bulk(&stack, &key, &more).await.expect(200);
    assert_eq!(
        (&answer["created"], &answer["unchanged"], &answer["refused"]),
        (&json!(1), &json!(600), &json!(0))
    );
    assert_eq!(
        answer["lines"][600],
        json!({"line": 601, "status": "created", "entryId": id(700)})
    );
    assert_eq!(
        bulk(&stack, &key, "").await.expect(200),
        json!({"created": 0, "unchanged": 0, "refused": 0, "lines": []})
    );
}

#[tokio::test]
async fn entries_and_bulks_are_bounded() {
    let config = PublisherConfig {
        entries_max: 3,
        bulk_lines_max: 4,
        bulk_bytes_max: 1_000,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let key = stack.key("example.com", ALL).await;
    let lines = |count: u32| {
        (1..=count)
            .map(|number| request(number).to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let long = format!("{}{}", lines(1), " ".repeat(1_000));
    for body in [lines(5), long] {
        bulk(&stack, &key, &body).await.refused(413, "body_too_large");
    }
    let page = stack.server.get(PATH, &key).await.expect(200);
    assert_eq!(
        page["entries"],
        json!([]),
        "a body that is declared too long stores nothing"
    );
    let answer = bulk(&stack, &key, &lines(4)).await.expect(200);
    assert_eq!((&answer["created"], &answer["refused"]), (&json!(3), &json!(1)));
    assert_eq!(answer["lines"][3]["code"], "too_many_entries");
    stack
        .server
        .json("POST", PATH, &key, &request(9))
        .await
        .refused(409, "too_many_entries");
    stack.server.json("POST", PATH, &key, &request(2)).await.expect(200);
}

#[tokio::test]
async fn lists_are_read_in_pages() {
    let stack = Stack::start().await;
    let key = stack.key("example.com,example.org", ALL).await;
    for number in 1..=7 {
        let mut request = request(number);
        if number == 4 {
            request["url"] = json!("https://example.org/Special?q=4");
        }
        stack.server.json("POST", PATH, &key, &request).await.expect(201);
        stack.pass_ms(1_000);
    }
    let numbers = |page: &Value| -> Vec<u64> {
        let entries = page["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["entryId"].as_str().unwrap()[35..].parse().unwrap())
            .collect()
    };
    let (mut seen, mut path) = (Vec::new(), format!("{PATH}?limit=3"));
    loop {
        let page = stack.server.get(&path, &key).await.expect(200);
        seen.extend(numbers(&page));
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("{PATH}?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1], "newest first");
    for (query, expected) in [
        ("q=special", vec![4]),
        ("q=Article%205", vec![5]),
        ("q=%25", vec![]),
        ("domain=example.ORG", vec![4]),
        ("createdFrom=2027-01-15T08:00:05Z", vec![7, 6]),
        (
            "createdFrom=2027-01-15T09:00:02%2B01:00&createdTo=2027-01-15T08:00:04Z",
            vec![4, 3],
        ),
        ("updatedFrom=2027-01-15T08:00:06Z", vec![7]),
        ("domain=example.com&q=article&createdTo=2027-01-15T08:00:01Z", vec![1]),
    ] {
        let page = stack.server.get(&format!("{PATH}?{query}"), &key).await.expect(200);
        assert_eq!(numbers(&page), expected, "{query}");
    }
    let long = format!("q={}", "x".repeat(201));
    for query in [
        "limit=0",
        "limit=1001",
        "cursor=x",
        "cursor=",
        "q=",
        "page=2",
        "createdFrom=yesterday",
        "q=a%00b",
        "domain=%00.example.com",
        &long,
    ] {
        stack
            .server
            .get(&format!("{PATH}?{query}"), &key)
            .await
            .refused(400, "invalid_query");
    }
    let page = stack
        .server
        .get(&format!("{PATH}?domain=rival.example"), &key)
        .await
        .expect(200);
    assert_eq!(page["entries"], json!([]), "none of theirs are on it");
}

#[tokio::test]
async fn lists_are_read_as_rows() {
    let stack = Stack::start().await;
    let key = stack.key("example.com", ALL).await;
    for number in 1..=5 {
        let mut request = request(number);
        request["authors"] = json!(["Ada Lovelace", "=Grace"]);
        stack.server.json("POST", PATH, &key, &request).await.expect(201);
        stack.pass_ms(1_000);
    }
    let all = stack.server.get(PATH, &key).await.expect(200);
    let (mut rows, mut path) = (Vec::new(), format!("{PATH}?format=ndjson&limit=2"));
    loop {
        let answer = stack.server.get(&path, &key).await;
        let name = answer.header("content-disposition");
        assert_eq!(name, "attachment; filename=\"entries.ndjson\"");
        let lines = answer.text();
        rows.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        let Some(cursor) = rows.last().unwrap()["cursor"].as_str() else {
            break;
        };
        path = format!("{PATH}?format=ndjson&limit=2&cursor={cursor}");
    }
    assert_eq!(rows.len(), 5);
    for (row, entry) in rows.iter().zip(all["entries"].as_array().unwrap()) {
        for name in ["entryId", "url", "title", "domain", "createdAt", "updatedAt"] {
            assert_eq!(row[name], entry[name]);
        }
        assert_eq!(row["authors"], "Ada Lovelace; =Grace");
    }
    let accepts = async |kind: &str, query: &str| {
        let headers = [("accept", kind)];
        let path = format!("{PATH}?limit=1{query}");
        stack.server.ask("GET", &path, &key, &headers, "").await
    };
    let csv = accepts("text/csv", "&bom=true").await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8; header=present");
    let text = csv.text();
    let (head, row) = text.split_once("\r\n").unwrap();
    assert_eq!(
        head,
        "\u{feff}entryId,url,title,authors,domain,createdAt,updatedAt,cursor"
    );
    assert!(row.contains(",\"Ada Lovelace; '=Grace\",example.com,"), "{row}");
    let parquet = accepts("application/vnd.apache.parquet", "").await;
    assert!(parquet.body.starts_with(b"PAR1") && parquet.body.ends_with(b"PAR1"));
    accepts("image/png", "").await.refused(406, "not_acceptable");
    accepts("*/*", "&format=xlsx").await.refused(400, "invalid_query");
    // Nothing that fits: no row, and so no cursor is lost.
    assert_eq!(accepts("application/x-ndjson", "&q=%25").await.text(), "");
}
