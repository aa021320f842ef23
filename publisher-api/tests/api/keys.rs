//! API keys that people make, replace and revoke themselves.

use accounts::{Accounts, AccountsConfig, AuthError, Tier};
use serde_json::{Value, json};

use crate::provider::Provider;
use crate::stack::{Answer, DAY_MS, Stack};

const PATH: &str = "/api/v1/auth/keys";

fn request(name: &str) -> Value {
    json!({"name": name, "scope": ["write", "read"], "expiresIn": "30d"})
}

async fn make(stack: &Stack, token: &str, name: &str) -> Value {
    stack.server.json("POST", PATH, token, &request(name)).await.expect(201)
}

/// Moves the account of a user to a tier.
async fn set_tier(stack: &Stack, accounts: &Accounts, token: &str, tier: Tier) {
    let me = stack.server.get("/api/v1/user/information", token).await.expect(200);
    let account_id = accounts.own_account(text(&me["id"])).await.unwrap().unwrap();
    let before = accounts.set_tier(&account_id, tier, "operator").await;
    assert!(before.unwrap().is_some());
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_made_used_and_revoked() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let made = stack.server.json("POST", PATH, &token, &request("dashboard")).await;
    let body = made.expect(201);
    let id = text(&body["keyId"]);
    let expected = json!({
        "apiKey": body["apiKey"], "keyId": id, "scope": ["read", "write"], "expiresAt": "2027-02-14T08:00:00.000Z",
    });
    assert_eq!(body, expected);
    assert_eq!(made.header("location"), format!("{PATH}/{id}"));
    let key = text(&body["apiKey"]);
    assert!(key.starts_with(&format!("rcpt_{id}_")));
    // It is a key, of an account that has nothing verified yet.
    let page = stack.server.get("/api/v1/publisher/entries", key).await.expect(200);
    assert_eq!(page["entries"], json!([]));
    let me = stack.server.get("/api/v1/user/information", &token).await.expect(200);
    let location = format!("{PATH}/{id}");
    let one = stack.server.get(&location, &token).await.expect(200);
    let listed = json!({
        "keyId": id, "name": "dashboard", "scope": ["read", "write"], "status": "active", "createdAt": "2027-01-15T08:00:00.000Z",
        "expiresAt": "2027-02-14T08:00:00.000Z", "revokedAt": null, "replacedBy": null,
        "createdBy": format!("user:{}", text(&me["id"])), "lastUsedAt": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(one, listed);
    assert_eq!(
        stack.server.get(PATH, &token).await.expect(200),
        json!({"keys": [listed], "nextCursor": null})
    );
    for _ in 0..2 {
        let revoked = stack.server.ask("DELETE", &location, &token, &[], "").await;
        assert_eq!((revoked.status, revoked.body.len()), (204, 0));
    }
    stack
        .server
        .get("/api/v1/publisher/entries", key)
        .await
        .refused(401, "invalid_api_key");
    let one = stack.server.get(&location, &token).await.expect(200);
    assert_eq!(
        (&one["status"], &one["revokedAt"]),
        (&json!("revoked"), &json!("2027-01-15T08:00:00.000Z"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_cant_be_met_says_where_and_why() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let with = |name: &str, value: Value| {
        let mut request = request("a");
        request[name] = value;
        request
    };
    for (request, pointer, reported) in [
        (with("expiresIn", json!("30")), "/expiresIn", "a number and a unit"),
        (with("expiresIn", json!("30m")), "/expiresIn", "30d"),
        (with("expiresIn", json!("1.5y")), "/expiresIn", "30d"),
        (with("expiresIn", json!("0d")), "/expiresIn", "1h to 10y"),
        (with("expiresIn", json!("11y")), "/expiresIn", "1h to 10y"),
        (
            with("expiresIn", json!("99999999999999999999y")),
            "/expiresIn",
            "1h to 10y",
        ),
        (with("expiresIn", json!(30)), "/expiresIn", "string"),
        (with("name", json!("")), "/name", "1 to 100"),
        (with("name", json!("a\nb")), "/name", "control"),
        (with("name", json!("a".repeat(101))), "/name", "1 to 100"),
        (with("scope", json!([])), "/scope", "needs a scope"),
        (
            with("scope", json!(["read", "admin"])),
            "/scope/1",
            "must be one of `read`, `write`, `erase`",
        ),
        (with("scope", json!("read")), "/scope", "must be an array"),
        (with("tier", json!("enterprise")), "/tier", "remove this member"),
        (json!({"name": "a", "scope": ["read"]}), "/expiresIn", "expiresIn"),
    ] {
        let refused = stack
            .server
            .json("POST", PATH, &token, &request)
            .await
            .refused(400, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{request}: {refused}");
        let detail = text(&refused["errors"][0]["detail"]);
        assert!(detail.contains(reported), "{request}: {detail}");
    }
    let answer = stack
        .server
        .ask("POST", PATH, &token, &[("content-type", "text/plain")], "{}")
        .await;
    answer.refused(415, "unsupported_media_type");
    assert_eq!(stack.server.get(PATH, &token).await.expect(200)["keys"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_replaced_with_an_overlap() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = &provider.lasting_token("anna");
    let old = make(&stack, token, "dashboard").await;
    let location = format!("{PATH}/{}/rotate", text(&old["keyId"]));
    let rotate = async |location: &str, body: Value| stack.server.json("POST", location, token, &body).await;
    for (body, pointer) in [
        (json!({"overlap": "31d"}), "/overlap"),
        (json!({"overlap": "0"}), "/overlap"),
        (json!({"overlap": "1d", "expiresIn": "1s"}), "/expiresIn"),
        (json!({"overlap": 0}), "/overlap"),
    ] {
        let refused = rotate(&location, body).await.refused(400, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    stack.pass_ms(DAY_MS);
    let done = rotate(&location, json!({"overlap": "12h", "expiresIn": "1y"})).await;
    let new = done.expect(201);
    let expected = json!({
        "apiKey": new["apiKey"], "keyId": new["keyId"], "scope": ["read", "write"], "expiresAt": "2028-01-16T08:00:00.000Z",
        "replaces": {"keyId": old["keyId"], "expiresAt": "2027-01-16T20:00:00.000Z"},
    });
    assert_eq!(new, expected);
    assert_eq!(done.header("location"), format!("{PATH}/{}", text(&new["keyId"])));
    let works = async |key: &Value| stack.deps.accounts.authenticate(text(&key["apiKey"])).await;
    assert!(works(&old).await.is_ok() && works(&new).await.is_ok());
    let again = rotate(&location, json!({})).await.refused(409, "key_ended");
    assert!(text(&again["detail"]).contains(text(&new["keyId"])), "{again}");
    let listed = stack.server.get(PATH, token).await.expect(200);
    assert_eq!(listed["keys"][1]["replacedBy"], new["keyId"]);
    stack.pass_ms(DAY_MS / 2);
    assert!(matches!(works(&old).await, Err(AuthError::Expired)));
    assert!(works(&new).await.is_ok());
    // At once, for a key that got into the wrong hands.
    let location = format!("{PATH}/{}/rotate", text(&new["keyId"]));
    let newest = rotate(&location, json!({"overlap": "0h"})).await.expect(201);
    assert!(matches!(works(&new).await, Err(AuthError::Revoked)));
    assert!(works(&newest).await.is_ok());
    rotate(&location, json!({})).await.refused(409, "key_ended");
}

/// Text that is no ID is answered as a key that isn't there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_is_no_id_names_no_key() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    for id in ["0011223344556677", "%20", "%00", "a%2Fb", "%F0%9F%92%A9"] {
        for (method, path) in [
            ("GET", format!("{PATH}/{id}")),
            ("DELETE", format!("{PATH}/{id}")),
            ("POST", format!("{PATH}/{id}/rotate")),
        ] {
            let answer = stack.server.json(method, &path, &token, &json!({})).await;
            answer.refused(404, "not_found");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_listed_in_pages() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    for number in 0..4 {
        make(&stack, &token, &format!("{number}")).await;
        stack.pass_ms(1);
    }
    let (mut shown, mut path) = (Vec::new(), format!("{PATH}?limit=3"));
    loop {
        let page = stack.server.get(&path, &token).await.expect(200);
        shown.extend(page["keys"].as_array().unwrap().iter().map(|key| key["name"].clone()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        path = format!("{PATH}?limit=3&cursor={next}");
    }
    assert_eq!(shown, ["3", "2", "1", "0"]);
    for query in [
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=x",
        "cursor=1.%27",
        "more=1",
        "limit=1&limit=1",
    ] {
        let path = format!("{PATH}?{query}");
        stack.server.get(&path, &token).await.refused(400, "invalid_query");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_people_are_counted_by_their_account() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    for left in (0..60).rev() {
        let answer = stack.server.get(PATH, &token).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, "60"));
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    let refused = stack.server.get("/api/v1/user/information", &token).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "30");
    stack.server.get(PATH, &provider.token("bert")).await.expect(200);
}

/// Limit and remaining requests in an answer's headers.
fn quota(answer: &Answer) -> (&str, &str) {
    (
        answer.header("x-ratelimit-limit"),
        answer.header("x-ratelimit-remaining"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_an_account_share_its_quotas() {
    let provider = Provider::new();
    for (per_minute, per_day, limit) in [(6, 10_000, "6"), (60, 6, "6")] {
        let stack = provider
            .stack_changed(|deps| {
                deps.quotas.free_per_minute = per_minute;
                deps.quotas.free_per_day = per_day;
            })
            .await;
        let (anna, bert) = (provider.token("anna"), provider.token("bert"));
        let get = async |key: &Value| stack.server.get("/api/v1/publisher/trail", text(&key["apiKey"])).await;
        let keys = [make(&stack, &anna, "a").await, make(&stack, &anna, "b").await];
        for left in (2..6).rev() {
            let answer = get(&keys[left % 2]).await;
            assert_eq!(
                (answer.status, quota(&answer)),
                (200, (limit, left.to_string().as_str()))
            );
        }
        // One made later, and one that replaces another, have what is left.
        let later = make(&stack, &anna, "c").await;
        assert_eq!(quota(&get(&later).await), (limit, "1"));
        let location = format!("{PATH}/{}/rotate", text(&keys[0]["keyId"]));
        let rotated = stack
            .server
            .json("POST", &location, &anna, &json!({}))
            .await
            .expect(201);
        assert_eq!(quota(&get(&rotated).await), (limit, "0"));
        for key in [&keys[0], &keys[1], &later, &rotated] {
            let refused = get(key).await;
            refused.refused(429, "rate_limited");
            assert_eq!(quota(&refused), (limit, "0"));
        }
        let others = make(&stack, &bert, "b").await;
        assert_eq!(quota(&get(&others).await), (limit, "5"));
        // Whoever has a JWT can still revoke a key that used the quota up.
        let location = format!("{PATH}/{}", text(&later["keyId"]));
        assert_eq!(stack.server.ask("DELETE", &location, &anna, &[], "").await.status, 204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_tier_is_in_force_after_the_caches_time() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let key = make(&stack, &token, "a").await;
    // Another process, as `receipts accounts set-tier` is.
    let clock = std::sync::Arc::clone(&stack.clock);
    let clock = move || clock.load(std::sync::atomic::Ordering::SeqCst);
    let config = AccountsConfig::default();
    let other = Accounts::open_with_clock(&config, stack.dir.path(), clock)
        .await
        .unwrap();
    let get = async || stack.server.get("/api/v1/publisher/trail", text(&key["apiKey"])).await;
    assert_eq!(quota(&get().await), ("60", "59"));
    set_tier(&stack, &other, &token, Tier::Pro).await;
    stack.pass_ms(i64::try_from(config.cache_ms_max).unwrap() - 1);
    assert_eq!(quota(&get().await), ("60", "58"), "from the cache");
    stack.pass_ms(1);
    assert_eq!(quota(&get().await), ("300", "297"), "what was used counts");
    set_tier(&stack, &other, &token, Tier::Free).await;
    stack.pass_ms(i64::try_from(config.cache_ms_max).unwrap());
    assert_eq!(quota(&get().await), ("60", "56"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_names_the_tiers_limit_of_keys() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let mut keys = Vec::new();
    for number in 0..5 {
        keys.push(make(&stack, &token, &number.to_string()).await);
    }
    let refused = stack.server.json("POST", PATH, &token, &request("one more")).await;
    let refused = refused.refused(409, "too_many_keys");
    let detail = text(&refused["detail"]);
    for part in [
        "the tier free allows an account 5 active API keys",
        "revoke or rotate one",
        "higher tier",
    ] {
        assert!(detail.contains(part), "{detail}");
    }
    let rotate = async |key: &Value| {
        let location = format!("{PATH}/{}/rotate", text(&key["keyId"]));
        stack.server.json("POST", &location, &token, &json!({})).await
    };
    let mut newest = Value::Null;
    for key in &keys {
        newest = rotate(key).await.expect(201);
    }
    let refused = rotate(&newest).await.refused(409, "too_many_keys");
    assert!(text(&refused["detail"]).contains("an overlap of 0h"), "{refused}");
}
