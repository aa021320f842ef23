//! API keys that are limited to some domains of their account: every route that acts on a domain
//! honours it.

use serde_json::{Value, json};

use crate::provider::Provider;
use crate::stack::{BOTH, Stack};

const KEYS: &str = "/api/v1/auth/keys";
const ENTRIES: &str = "/api/v1/publisher/entries";
const ERASURES: &str = "/api/v1/publisher/erasures";
const GENERATE: &str = "/api/v1/verification/generate";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

/// All scopes.
const ALL: [accounts::Scope; 3] = [accounts::Scope::Read, accounts::Scope::Write, accounts::Scope::Erase];

/// An account with three domains: a key for all, and one that is limited to `a.example`.
async fn start() -> (Stack, String, String) {
    let stack = Stack::start().await;
    let all = stack.key("a.example,b.example,shop.a.example", &ALL).await;
    let accounts = &stack.deps.accounts;
    let account_id = accounts
        .account_of(&"a.example".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let request = accounts::KeyRequest {
        name: "limited".to_owned(),
        scopes: ALL.to_vec(),
        domains: Some(vec!["a.example".parse().unwrap()]),
        expires_at_ms: accounts.now_ms() + 86_400_000,
    };
    let limited = accounts
        .create_key(&account_id, request, "user:test")
        .await
        .unwrap()
        .api_key;
    (stack, all, limited)
}

async fn entry(stack: &Stack, key: &str, url: &str) -> String {
    let request = json!({"url": url, "title": "t"});
    let made = stack.server.json("POST", ENTRIES, key, &request).await.expect(201);
    text(&made["entryId"]).to_owned()
}

/// Checks that a request is refused for its domain, and says what to do.
#[track_caller]
fn reported(refused: &Value, domain: &str) {
    let detail = text(&refused["detail"]);
    assert!(
        detail.contains("limited to a.example") && detail.contains(domain) && detail.contains("without a limit"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_other_domains_are_none_of_the_keys() {
    let (stack, all, limited) = start().await;
    let mine = entry(&stack, &limited, "https://a.example/1").await;
    let mut others = Vec::new();
    for url in ["https://b.example/1", "https://shop.a.example/1"] {
        others.push(entry(&stack, &all, url).await);
        let request = json!({"url": url.replace('1', "2"), "title": "t"});
        let refused = stack
            .server
            .json("POST", ENTRIES, &limited, &request)
            .await
            .refused(403, "key_domains");
        reported(&refused, url.split('/').nth(2).unwrap());
    }
    let listed = async |key: &str| {
        let page = stack.server.get(ENTRIES, key).await.expect(200);
        let ids = page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| text(&entry["entryId"]).to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(&limited).await, [mine.as_str()]);
    assert_eq!(listed(&all).await.len(), 3);
    let rename = json!({"title": "other"});
    for id in &others {
        let path = format!("{ENTRIES}/{id}");
        stack.server.get(&path, &limited).await.refused(404, "not_found");
        stack
            .server
            .json("PATCH", &path, &limited, &rename)
            .await
            .refused(404, "not_found");
        stack
            .server
            .ask("DELETE", &path, &limited, &[], "")
            .await
            .refused(404, "not_found");
        assert_eq!(
            stack.server.get(&path, &all).await.expect(200)["title"],
            "t",
            "nothing is changed"
        );
    }
    let path = format!("{ENTRIES}/{mine}");
    let moving = json!({"url": "https://b.example/moved"});
    let refused = stack
        .server
        .json("PATCH", &path, &limited, &moving)
        .await
        .refused(403, "key_domains");
    reported(&refused, "b.example");
    assert_eq!(
        stack.server.json("PATCH", &path, &limited, &rename).await.expect(200)["title"],
        "other"
    );
    assert_eq!(stack.server.ask("DELETE", &path, &limited, &[], "").await.status, 204);
    let bulk = "{\"url\":\"https://a.example/3\",\"title\":\"t\"}\n{\"url\":\"https://b.example/3\",\"title\":\"t\"}\n";
    let headers = [("content-type", "application/x-ndjson")];
    let made = stack.server.ask("POST", ENTRIES, &limited, &headers, bulk).await;
    assert!(made.text().contains("key_domains"), "{}", made.text());
    assert_eq!(listed(&all).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erasures_stay_within_the_keys_domains() {
    let (stack, all, limited) = start().await;
    let mine = entry(&stack, &limited, "https://a.example/1").await;
    let other = entry(&stack, &all, "https://b.example/1").await;
    for request in [json!({"allEntries": true}), json!({"personalData": true})] {
        let refused = stack
            .server
            .json("POST", ERASURES, &limited, &request)
            .await
            .refused(403, "key_domains");
        assert!(text(&refused["detail"]).contains("limited to a.example"), "{refused}");
    }
    // Entries of other domains and unknown ones get the same answer.
    for foreign in [other.as_str(), "00000000-0000-4000-8000-000000000009"] {
        let request = json!({"entryIds": [mine, foreign]});
        let refused = stack.server.json("POST", ERASURES, &limited, &request).await;
        let refused = refused.refused(404, "not_found");
        let wanted = format!("this API key's domains have no entry {foreign}; leave it out of entryIds");
        assert_eq!(refused["detail"], wanted);
    }
    let request = json!({"entryIds": [mine]});
    let own = stack
        .server
        .json("POST", ERASURES, &limited, &request)
        .await
        .expect(202);
    let request = json!({"entryIds": [other]});
    let theirs = stack.server.json("POST", ERASURES, &all, &request).await.expect(202);
    let location = |erasure: &Value| format!("{ERASURES}/{}", text(&erasure["erasureId"]));
    stack.server.get(&location(&own), &limited).await.expect(200);
    stack
        .server
        .get(&location(&theirs), &limited)
        .await
        .refused(404, "not_found");
    stack.server.get(&location(&own), &all).await.expect(200);
    for (key, seen) in [(&limited, 1), (&all, 2)] {
        let page = stack.server.get(ERASURES, key).await.expect(200);
        assert_eq!(page["erasures"].as_array().unwrap().len(), seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_operators_and_exports_honour_the_limit() {
    let (stack, all, limited) = start().await;
    let request = json!({"domain": "b.example", "method": "dns"});
    reported(
        &stack
            .server
            .json("POST", GENERATE, &limited, &request)
            .await
            .refused(403, "key_domains"),
        "b.example",
    );
    let both = json!({"domain": "a.example,new.example"});
    reported(
        &stack
            .server
            .json("POST", GENERATE, &limited, &both)
            .await
            .refused(403, "key_domains"),
        "new.example",
    );
    let renew = "/api/v1/verification/renew";
    stack
        .server
        .json("POST", renew, &limited, &request)
        .await
        .refused(403, "key_domains");
    for path in [
        "/api/v1/verification/check?domain=b.example",
        "/api/v1/verification/status?domain=b.example",
    ] {
        stack.server.get(path, &limited).await.refused(403, "key_domains");
    }
    let path = "/api/v1/verification/b.example";
    stack
        .server
        .ask("DELETE", path, &limited, &[], "")
        .await
        .refused(403, "key_domains");
    let status = stack
        .server
        .get("/api/v1/verification/status", &limited)
        .await
        .expect(200);
    let names: Vec<_> = status["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| text(&one["domain"]))
        .collect();
    assert_eq!(names, ["a.example"]);
    let own = json!({"domain": "a.example", "method": "dns"});
    stack.server.json("POST", GENERATE, &limited, &own).await.expect(200);
    // Operators are made of domains too.
    let operators = "/api/v1/operators";
    let request = json!({"domain": "b.example"});
    stack
        .server
        .json("POST", operators, &limited, &request)
        .await
        .refused(403, "key_domains");
    let theirs = stack.server.json("POST", operators, &all, &request).await.json();
    let location = format!("{operators}/{}", text(&theirs["operatorId"]));
    stack.server.get(&location, &limited).await.refused(404, "not_found");
    let listed = stack.server.get(operators, &limited).await.expect(200);
    assert!(!listed.to_string().contains("b.example"), "{listed}");
    // What is about the whole account needs a key for it.
    let (trusted, none) = ("/api/v1/operators/trusted", json!({"operators": []}));
    let refused = stack.server.json("PUT", trusted, &limited, &none).await;
    refused.refused(403, "key_domains");
    for path in ["/api/v1/publisher/data", "/api/v1/publisher/export"] {
        let refused = stack.server.get(path, &limited).await.refused(403, "key_domains");
        assert!(text(&refused["detail"]).contains("the whole account"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_makes_keys_for_some_of_their_domains() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let request = |domains: Value| json!({"name": "a", "scope": ["read"], "expiresIn": "30d", "domains": domains});
    // Nothing is verified yet.
    let refused = stack
        .server
        .json("POST", KEYS, &token, &request(json!(["a.example"])))
        .await
        .refused(400, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/domains/0");
    assert!(text(&refused["detail"]).contains("verify it first"), "{refused}");
    let all = stack
        .server
        .json("POST", KEYS, &token, &request(Value::Null))
        .await
        .expect(201);
    assert!(all.get("domains").is_none());
    let principal = stack.deps.accounts.authenticate(text(&all["apiKey"])).await.unwrap();
    for domain in ["a.example", "b.example"] {
        let new = accounts::NewKey {
            domains: vec![domain.parse().unwrap()],
            account_id: Some(principal.account_id.clone()),
            tier: None,
            is_limited: false,
            name: "vouched".to_owned(),
            scopes: BOTH.to_vec(),
            expires_at_ms: stack.deps.accounts.now_ms() + 86_400_000,
        };
        stack.deps.accounts.create_publisher_key(new).await.unwrap();
    }
    let made = stack
        .server
        .json("POST", KEYS, &token, &request(json!(["B.example"])))
        .await
        .expect(201);
    assert_eq!(made["domains"], json!(["b.example"]));
    let location = format!("{KEYS}/{}", text(&made["keyId"]));
    assert_eq!(
        stack.server.get(&location, &token).await.expect(200)["domains"],
        json!(["b.example"])
    );
    let rotate = format!("{location}/rotate");
    let rotated = stack.server.json("POST", &rotate, &token, &json!({})).await.expect(201);
    assert_eq!(rotated["domains"], json!(["b.example"]), "a rotation widens nothing");
    let principal = stack
        .deps
        .accounts
        .authenticate(text(&rotated["apiKey"]))
        .await
        .unwrap();
    assert!(principal.covers("b.example") && !principal.covers("a.example"));
    for (domains, pointer) in [
        (json!([]), "/domains"),
        (json!(["b.example", "no domain"]), "/domains/1"),
        (json!(["b.example", "c.example"]), "/domains/1"),
        (json!("b.example"), "/domains"),
    ] {
        let refused = stack
            .server
            .json("POST", KEYS, &token, &request(domains))
            .await
            .refused(400, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    // An API key makes no keys at all.
    let key = text(&made["apiKey"]);
    assert_eq!(
        stack.server.json("POST", KEYS, key, &request(Value::Null)).await.status,
        401
    );
}
