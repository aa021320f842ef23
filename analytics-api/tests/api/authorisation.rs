//! Permissions: callers, what they see, and how often.

use std::sync::Arc;

use accounts::{AccountRole, Accounts, AccountsConfig, NewKey, Scope, SignInMethod, Tier};
use analytics_api::{AnalyticsConfig, Deps};
use service::rate_limit::InProcessLimiter;

use crate::rows::{NEWS, RIVAL, client, entry, receipt, sample_rows};
use crate::server::new_key;
use crate::stack::{LIMITER_MS, Stack};

fn addresses() -> [String; 12] {
    [
        "/api/v1/analytics/dashboard".to_owned(),
        "/api/v1/analytics/timeseries".to_owned(),
        "/api/v1/analytics/content".to_owned(),
        "/api/v1/analytics/clients".to_owned(),
        "/api/v1/analytics/purposes".to_owned(),
        "/api/v1/analytics/models".to_owned(),
        "/api/v1/analytics/operators".to_owned(),
        "/api/v1/analytics/receipts".to_owned(),
        format!("/api/v1/analytics/content/{}", entry(1)),
        format!("/api/v1/analytics/clients/{}", client(1)),
        "/api/v1/analytics/refusals".to_owned(),
        format!("/api/v1/receipts/{}", receipt(1)),
    ]
}

pub(crate) async fn keys(stack: &Stack) {
    let keys = &stack.keys;
    let unknown = {
        // A right form with a wrong secret: two keys' halves.
        let middle = keys.publisher.rfind('_').unwrap();
        format!(
            "{}{}",
            &keys.publisher[..middle],
            &keys.rival[keys.rival.rfind('_').unwrap()..]
        )
    };
    for path in addresses() {
        for (authorization, status, code) in [
            (None, 401, "missing_api_key"),
            (Some("Bearer ".to_owned()), 401, "invalid_api_key"),
            (Some("Basic dXNlcjpwYXNz".to_owned()), 401, "invalid_api_key"),
            (Some("Bearer nonsense".to_owned()), 401, "invalid_api_key"),
            (Some(format!("Bearer {unknown}")), 401, "invalid_api_key"),
            (Some(format!("Bearer {}", keys.revoked)), 401, "invalid_api_key"),
            (Some(format!("Bearer {}", keys.expired)), 401, "expired_api_key"),
            (Some(format!("Bearer {}", keys.write_only)), 403, "insufficient_scope"),
            (Some(format!("Bearer {}", keys.unverified)), 403, "no_verified_domain"),
            (Some(format!("Bearer {}", keys.publisher)), 200, ""),
        ] {
            let headers: Vec<_> = authorization
                .iter()
                .map(|value| ("authorization", value.as_str()))
                .collect();
            let answer = stack.send("GET", &path, &headers).await;
            let shown = format!("{path} with {authorization:?}: {}", answer.text());
            assert_eq!(answer.status, status, "{shown}");
            let valid_key = matches!(status, 200 | 403);
            assert_eq!(answer.headers.contains_key("x-ratelimit-limit"), valid_key, "{shown}");
            assert_eq!(
                answer.headers.contains_key("www-authenticate"),
                status == 401,
                "{shown}"
            );
            if status != 200 {
                assert_eq!(answer.json()["code"], code, "{shown}");
                assert!(!answer.text().contains(&keys.publisher));
            }
        }
    }
}

/// Every address of the document with a person's session: what takes an API key takes it of every
/// role, from this origin alone, and nothing else does.
pub(crate) async fn sessions(stack: &Stack) {
    let store = &stack.deps.accounts;
    let account_id = store.account_of(&NEWS.parse().unwrap()).await.unwrap().unwrap();
    let sign_in = async |role: AccountRole| {
        let link = store.create_login_link(Some(&account_id), role).await.unwrap();
        let user = store.use_login_link(&link).await.unwrap().unwrap();
        let token = store
            .start_session(&user, SignInMethod::Link, store.now_ms(), None)
            .await
            .unwrap();
        let session = store.session(&token).await.unwrap().unwrap();
        (session, format!("__Host-receipts={}", token.reveal()))
    };
    let mut roles = Vec::new();
    for role in AccountRole::ALL {
        roles.push((role, sign_in(role).await.1));
    }
    let (session, ended) = sign_in(AccountRole::Owner).await;
    assert!(store.end_session(&session.user_id, None, &session.id).await.unwrap());
    let document = serde_json::to_value(analytics_api::document()).unwrap();
    let mut keyed = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        assert_eq!(
            item.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["get"],
            "{path} needs a row of its own"
        );
        let security = item["get"]["security"].to_string();
        let address = path
            .replace("{clientId}", &client(1).to_string())
            .replace("{entryId}", &entry(1).to_string())
            .replace("{receiptId}", &receipt(1).to_string())
            .replace("{month}", "2026-03");
        assert!(!address.contains('{'), "{path}");
        // A stream has no end: what it answers to another type shows that it was let in.
        let (accept, good) = match path.as_str() {
            "/api/v1/analytics/live" => ("application/json", 406),
            // The rows of these tests have no evidence.
            "/api/v1/receipts/{receiptId}/evidence" => ("*/*", 404),
            _ => ("*/*", 200),
        };
        let ask = async |cookie: &str, more: &[(&str, &str)]| {
            let headers = [&[("cookie", cookie), ("accept", accept)], more].concat();
            let answer = stack.send("GET", &address, &headers).await;
            let code = if answer.status < 400 {
                String::new()
            } else {
                answer.json()["code"].as_str().unwrap().to_owned()
            };
            (answer.status, code)
        };
        let here = ("sec-fetch-site", "same-origin");
        let refused = |status, code: &str| (status, code.to_owned());
        if !security.contains("apiKey") {
            let (status, _) = ask(&roles[2].1, &[here]).await;
            let wanted = if security == "null" { 200 } else { 401 };
            assert_eq!(status, wanted, "{path}: a session is no sender's signature");
            continue;
        }
        keyed += 1;
        for (role, cookie) in &roles {
            assert_eq!(ask(cookie, &[here]).await.0, good, "{path} as {role}");
            assert_eq!(
                ask(cookie, &[("sec-fetch-site", "none")]).await.0,
                good,
                "{path} as {role}"
            );
            for site in ["same-site", "cross-site", ""] {
                let answer = ask(cookie, &[("sec-fetch-site", site)]).await;
                assert_eq!(answer, refused(403, "cross_site"), "{path} from {site}");
            }
            assert_eq!(ask(cookie, &[]).await, refused(403, "cross_site"), "{path}");
            let docs = ("referer", "http://127.0.0.1/docs/analytics/");
            assert_eq!(
                ask(cookie, &[here, docs]).await,
                refused(401, "missing_api_key"),
                "{path}"
            );
            let wrong = ("authorization", "Bearer nonsense");
            assert_eq!(
                ask(cookie, &[here, wrong]).await,
                refused(401, "invalid_api_key"),
                "{path}"
            );
        }
        assert_eq!(ask(&ended, &[here]).await, refused(401, "no_session"), "{path}");
        assert_eq!(
            ask("__Host-receipts=1", &[here]).await,
            refused(401, "no_session"),
            "{path}"
        );
    }
    assert!(keyed >= 12, "{keyed}");
}

/// Whoever tries keys is slowed down by address, and nobody else.
pub(crate) async fn wrong_keys(stack: &Stack) {
    const PATH: &str = "/api/v1/analytics/dashboard";
    let elsewhere = tempfile::tempdir().unwrap();
    let store = Accounts::open(&AccountsConfig::default(), elsewhere.path())
        .await
        .unwrap();
    let domain: accounts::Domain = "elsewhere.example".parse().unwrap();
    let new = NewKey {
        account_id: store.account_of(&domain).await.unwrap(),
        domains: vec![domain],
        tier: None,
        is_limited: false,
        name: "test".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: jiff::Timestamp::now().as_millisecond() + 60_000,
    };
    let unknown = store.create_publisher_key(new).await.unwrap().issued.api_key;
    store.close().await;
    let config = AnalyticsConfig {
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..AnalyticsConfig::default()
    };
    let change = |deps: &mut Deps| {
        deps.limiter = Arc::new(InProcessLimiter::with_clock(100, || LIMITER_MS));
        deps.quotas.address_wrong_keys_per_minute = 3;
    };
    let server = stack.server_with(config, change).await;
    let get = async |key: &str, address: &str| server.get(PATH, key, &[("x-forwarded-for", address)]).await;
    let status = async |key: &str, address: &str| get(key, address).await.status;
    let (right, revoked) = (&stack.keys.publisher, &stack.keys.revoked);
    // Neither a right key, nor a revoked one, nor a typo is counted.
    for _ in 0..5 {
        assert_eq!(status(right, "192.0.2.1").await, 200);
        assert_eq!(status(revoked, "192.0.2.1").await, 401);
        assert_eq!(status("rcpt_nonsense", "192.0.2.1").await, 401);
    }
    for _ in 0..3 {
        assert_eq!(status(&unknown, "192.0.2.1").await, 401);
    }
    for _ in 0..2 {
        let refused = get(&unknown, "192.0.2.1").await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, "30"));
        assert!(
            refused.json()["detail"]
                .as_str()
                .unwrap()
                .contains("3 unknown API keys")
        );
    }
    assert_eq!(status(right, "192.0.2.1").await, 200);
    assert_eq!(status(&unknown, "192.0.2.2").await, 401);
    server.stop().await;
}

pub(crate) async fn domains(stack: &Stack) {
    // Each publisher sees its own; the rival's numbers are its own too.
    let answer = stack
        .server
        .get("/api/v1/analytics/dashboard", &stack.keys.rival, &[])
        .await;
    let rivals = sample_rows().iter().filter(|row| row.publisher == RIVAL).count();
    assert_eq!(answer.json()["totalReceipts"], rivals);
    let answer = stack
        .server
        .get("/api/v1/analytics/refusals", &stack.keys.rival, &[])
        .await;
    assert_eq!(answer.json()["totalRefused"], 1);
    let answer = stack
        .server
        .get(&format!("/api/v1/receipts/{}", receipt(11)), &stack.keys.rival, &[])
        .await;
    assert_eq!(
        (answer.json()["status"].as_str(), answer.json()["occurrences"].as_u64()),
        (Some("verified"), Some(4))
    );
    // The client is known to both, with each one's own numbers.
    let path = format!("/api/v1/analytics/clients/{}", client(1));
    assert_eq!(
        stack.server.get(&path, &stack.keys.rival, &[]).await.json()["totalReceipts"],
        1
    );
    // Asking for a foreign domain, or one that doesn't exist, is refused alike.
    for path in addresses() {
        for domain in [RIVAL, "nowhere.example", "%25", "news.example%20"] {
            let answer = stack.get(&format!("{path}?domain={domain}"), &[]).await;
            assert_eq!(
                (answer.status, answer.json()["code"].as_str()),
                (403, Some("domain_not_verified")),
                "{domain}"
            );
        }
    }
}

pub(crate) async fn quotas(stack: &Stack) {
    let path = "/api/v1/analytics/dashboard";
    let reset = (LIMITER_MS / 60_000 + 1) * 60;
    for number in 1..=60 {
        // A refused query counts, and says so, as an answered one does.
        let path = if number % 20 == 0 {
            "/api/v1/analytics/dashboard?bad=1"
        } else {
            path
        };
        let answer = stack.server.get(path, &stack.keys.free, &[]).await;
        assert_eq!(answer.status, if number % 20 == 0 { 400 } else { 200 });
        assert_eq!(answer.header("x-ratelimit-limit"), "60");
        assert_eq!(answer.header("x-ratelimit-remaining"), (60 - number).to_string());
        assert_eq!(answer.header("x-ratelimit-reset"), reset.to_string());
    }
    let answer = stack.server.get(path, &stack.keys.free, &[]).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (429, Some("rate_limited"))
    );
    assert_eq!(
        (answer.header("x-ratelimit-remaining"), answer.header("retry-after")),
        ("0", "30")
    );
    // Keys of an account share its quota. `crates/service` tests that replicas do, too.
    let expires_at_ms = stack.deps.accounts.now_ms() + 86_400_000;
    let second = new_key(
        &stack.deps.accounts,
        &["free.example"],
        Tier::Free,
        Scope::Read,
        expires_at_ms,
    );
    let answer = stack.server.get(path, &second.await.api_key, &[]).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (429, "0"));
    let dear = format!("{path}?from=2019-01-01&to=2026-01-01");
    let answer = stack.server.get(&dear, &stack.keys.bulk, &[]).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-cost")), (200, "5"));
    // Another key's quota is its own, of its own tier.
    let answer = stack.server.get(path, &stack.keys.rival, &[]).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, "300"));
}
