//! Attribution against a real `receipts up`: a receipt belongs to the owner of the longest verified
//! domain that is the URL's host or a parent of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, Limits, SigningKey, sign_receipt};
use serde_json::{Value, json};
use test_engines::Dns;

use crate::command::{key, ndjson, receipt, receipts, sign};
use crate::flood::get_signed;
use crate::running::{Up, get, new_api_key, post, until};

/// URLs and publishers of receipts, and the domain that each belongs to.
const USES: [(&str, &str, Option<&str>); 8] = [
    ("https://news.example/1", "news.example", Some("news.example")),
    ("https://www.news.example/2", "www.news.example", Some("news.example")),
    ("https://WWW.news.example/3", "news.example", Some("news.example")),
    ("https://m.news.example/4", "m.news.example", Some("news.example")),
    // Another account has the subdomain, whatever the sender writes.
    (
        "https://blog.news.example/5",
        "blog.news.example",
        Some("blog.news.example"),
    ),
    ("https://blog.news.example/6", "news.example", Some("blog.news.example")),
    (
        "https://de.blog.news.example/7",
        "news.example",
        Some("blog.news.example"),
    ),
    ("https://news.exampel/8", "news.exampel", None),
];

#[test]
fn a_receipt_is_the_owners_of_the_longest_verified_domain() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let owner = |domain: &str| new_api_key(&data, domain, &["--tier", "enterprise"]);
    let owners = ["news.example", "blog.news.example"].map(|domain| (domain, owner(domain)));
    let up = Up::start(&data);

    let (private, public) = key(dir.path(), "Ed25519");
    let uses = USES.map(|(url, publisher, _)| {
        let mut receipt = receipt(&public);
        receipt["content"]["url"] = json!(url);
        receipt["content"]["publisher"] = json!(publisher);
        receipt
    });
    let signed = sign(&private, &uses);
    let (gateway, private) = (up.url("gateway"), private.to_str().unwrap());
    let args = ["send", "--url", &gateway, "--key", private, "--batch", "100", "--json"];
    receipts(&args, ndjson(&signed).as_bytes()).expect(0);
    let sent = jiff::Timestamp::now();

    let ask = |path: &str, api_key: &str| {
        let (status, answer) = get(&up.url("analytics"), path, api_key);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    until("the watermark", || {
        let answer = ask("/api/v1/analytics/dashboard", &owners[0].1);
        let through = answer["completeThrough"].as_str().unwrap_or("1970-01-01T00:00:00Z");
        through.parse::<jiff::Timestamp>().unwrap() > sent
    });
    for (domain, api_key) in &owners {
        let mut expected: Vec<&str> = USES
            .iter()
            .filter(|(_, _, of)| *of == Some(domain))
            .map(|(url, ..)| *url)
            .collect();
        expected.sort_unstable();
        for query in [String::new(), format!("&domain={domain}")] {
            let total = ask(&format!("/api/v1/analytics/dashboard?limit=1{query}"), api_key);
            assert_eq!(total["totalReceipts"], expected.len(), "{domain} {query}");
            let list = ask(&format!("/api/v1/analytics/receipts?limit=100{query}"), api_key);
            let mut urls: Vec<&str> = list["receipts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["url"].as_str().unwrap())
                .collect();
            urls.sort_unstable();
            assert_eq!(urls, expected, "{domain} {query}");
        }
    }

    // The lookup says the same.
    let urls = USES.map(|(url, ..)| url);
    let body = json!({ "urls": urls }).to_string();
    let headers = "Content-Type: application/json\r\n";
    let (status, answer) = post(&up.url("publisher"), "/api/v1/entries/lookup", headers, body.as_bytes());
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let found: Vec<Option<&str>> = answer["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["publisher"].as_str())
        .collect();
    assert_eq!(found, USES.map(|(.., of)| of));
    assert_eq!(up.stop(), 0);
}

/// The owner turns subdomains off over the publisher API: their receipts are nobody's, and the
/// sender learns.
#[test]
fn a_domain_verified_without_its_subdomains_leaves_their_receipts_unattributed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let dns = Dns::start("").unwrap();
    let resolver = dns.address().to_string();
    let api_key = new_api_key(&data, "news.example", &["--scope", "read,write"]);
    let up = Up::start_set(&data, &[("RECEIPTS_OUTBOUND_TEST_RESOLVER", &resolver)]);
    let [gateway, publisher, analytics] = ["gateway", "publisher", "analytics"].map(|name| up.url(name));

    let request = json!({"domain": "alone.example", "method": "dns", "includeSubdomains": false}).to_string();
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {api_key}\r\n");
    let (status, answer) = post(
        &publisher,
        "/api/v1/verification/generate",
        &headers,
        request.as_bytes(),
    );
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let token = answer["token"].as_str().unwrap();
    dns.set(&format!("_service-verification.alone.example. 0 IN TXT \"{token}\""))
        .unwrap();
    let (status, checked) = get(&publisher, "/api/v1/verification/check?domain=alone.example", &api_key);
    assert_eq!(
        (status, &checked["verified"], &checked["includeSubdomains"]),
        (200, &json!(true), &json!(false)),
        "{checked}"
    );

    let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
    for (host, is_unattributed) in [("alone.example", false), ("www.alone.example", true)] {
        let mut receipt = receipt(key.public_key_pem());
        receipt["content"]["url"] = json!(format!("https://{host}/lead"));
        receipt["content"]["publisher"] = json!(host);
        let body = sign_receipt(receipt.to_string().as_bytes(), &key, &Limits::default()).unwrap();
        let signature = STANDARD.encode(key.sign(&body).unwrap());
        let headers = format!("Content-Type: application/json\r\nX-Service-Signature: {signature}\r\n");
        assert_eq!(post(&gateway, "/api/v1/receipts", &headers, &body).0, 202);
        let path = format!("/api/v1/receipts/{}", receipt["receiptId"].as_str().unwrap());
        let mut outcome = Value::Null;
        until("the outcome", || {
            outcome = get_signed(&analytics, &path, &key);
            outcome["status"] == "verified"
        });
        assert_eq!(
            outcome["receipts"][0]["beforeVerification"], is_unattributed,
            "{host}: {outcome}"
        );
    }
    until("the owner's total", || {
        let path = "/api/v1/analytics/dashboard?domain=alone.example";
        get(&analytics, path, &api_key).1["totalReceipts"] == 1
    });
    let summary = get_signed(&analytics, "/api/v1/client/summary", &key);
    assert_eq!(
        summary["unattributed"],
        json!({"receipts": 1, "byHost": [{"host": "www.alone.example", "receipts": 1}]})
    );
    assert_eq!(up.stop(), 0);
}
