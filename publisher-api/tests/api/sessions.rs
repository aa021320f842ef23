//! Signing in by a link, and what can be done to a session.

use accounts::{AccountRole, LOGIN_LINK_MS, SecretToken};
use serde_json::json;

use crate::browser::{Browser, HERE, SESSION};
use crate::provider::Provider;
use crate::stack::{Answer, BOTH, Stack};

const SESSIONS: &str = "/api/v1/auth/sessions";

async fn account(stack: &Stack) -> String {
    stack.key("news.example", BOTH).await;
    let domain = "news.example".parse().unwrap();
    stack.deps.accounts.account_of(&domain).await.unwrap().unwrap()
}

/// The path of a new login link.
async fn link(stack: &Stack, role: AccountRole) -> String {
    let account = account(stack).await;
    let link = stack
        .deps
        .accounts
        .create_login_link(Some(&account), role)
        .await
        .unwrap();
    format!("/api/v1/auth/link/{}", link.reveal())
}

async fn open(stack: &Stack, path: &str) -> Answer {
    stack.server.send("GET", path, &[], "").await
}

async fn press(stack: &Stack, path: &str, headers: &[(&str, &str)]) -> Answer {
    stack.server.send("POST", path, headers, "").await
}

#[tokio::test]
async fn a_link_signs_in_once_and_not_by_being_opened() {
    let stack = Stack::start().await;
    let path = link(&stack, AccountRole::Editor).await;
    // A mail scanner opens it, and requests its head, as often as it likes.
    for _ in 0..3 {
        let page = open(&stack, &path).await;
        assert_eq!(page.status, 200);
        assert!(page.header("set-cookie").is_empty());
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(
            (page.header("referrer-policy"), page.header("cache-control")),
            ("no-referrer", "no-store")
        );
        let policy = page.header("content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
            "{policy}"
        );
        // Whose account it is, so that nobody is signed in to another's unknowingly.
        let text = page.text();
        assert!(
            text.contains("news.example") && text.contains(&account(&stack).await),
            "{text}"
        );
        assert!(
            text.contains("as editor") && text.contains("Continue only if you asked for it"),
            "{text}"
        );
    }
    let answer = press(&stack, &path, &[HERE]).await;
    let browser = Browser::signed_in(&stack, &answer).await;
    let me = browser.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&me["role"], &me["accountId"]),
        (&json!("editor"), &json!(account(&stack).await))
    );
    for again in [press(&stack, &path, &[HERE]).await, open(&stack, &path).await] {
        assert_eq!(again.status, 404);
        assert!(again.header("set-cookie").is_empty() && again.text().contains("can’t be used"));
    }
}

#[tokio::test]
async fn only_the_links_page_signs_in() {
    let stack = Stack::start().await;
    let path = link(&stack, AccountRole::Owner).await;
    let refused: [&[(&str, &str)]; 4] = [
        &[],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:3000")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-origin")],
    ];
    for headers in refused {
        let answer = press(&stack, &path, headers).await;
        answer.refused(403, "cross_site");
        assert!(answer.header("set-cookie").is_empty());
    }
    // Nothing used it up.
    Browser::signed_in(&stack, &press(&stack, &path, &[HERE]).await).await;
}

#[tokio::test]
async fn a_link_ends_after_its_time_and_a_wrong_one_is_none() {
    let stack = Stack::start().await;
    let path = link(&stack, AccountRole::Owner).await;
    stack.pass_ms(LOGIN_LINK_MS);
    let nobodys = format!("/api/v1/auth/link/{}", SecretToken::generate().unwrap().reveal());
    for path in [path.as_str(), &nobodys, "/api/v1/auth/link/nonsense"] {
        assert_eq!(open(&stack, path).await.status, 404, "{path}");
        assert_eq!(press(&stack, path, &[HERE]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn guesses_are_bounded_by_address() {
    let stack = Stack::start_with(publisher_api::PublisherConfig::default(), |deps| {
        deps.quotas.address_wrong_keys_per_minute = 3;
    })
    .await;
    let guess = || SecretToken::generate().unwrap().reveal();
    let cookie = format!("__Host-receipts={}", guess());
    assert_eq!(
        open(&stack, &format!("/api/v1/auth/link/{}", guess())).await.status,
        404
    );
    for _ in 0..2 {
        let answer = stack
            .server
            .send("GET", SESSION, &[HERE, ("cookie", &cookie)], "")
            .await;
        answer.refused(401, "no_session");
    }
    let answer = stack
        .server
        .send("GET", SESSION, &[HERE, ("cookie", &cookie)], "")
        .await;
    answer.refused(429, "rate_limited");
    let path = format!("/api/v1/auth/link/{}", guess());
    open(&stack, &path).await.refused(429, "rate_limited");
    press(&stack, &path, &[HERE]).await.refused(429, "rate_limited");
}

/// Fixation: a token that somebody put into the browser before the sign-in is worth nothing after
/// it.
#[tokio::test]
async fn a_sign_in_gives_a_new_token_and_ends_the_one_before() {
    let stack = Stack::start().await;
    let first = press(&stack, &link(&stack, AccountRole::Reader).await, &[HERE]).await;
    let first = Browser::signed_in(&stack, &first).await;
    let chosen = format!("__Host-receipts={}", SecretToken::generate().unwrap().reveal());
    for before in [&first.cookie, &chosen] {
        let path = link(&stack, AccountRole::Owner).await;
        let answer = press(&stack, &path, &[HERE, ("cookie", before)]).await;
        let browser = Browser::signed_in(&stack, &answer).await;
        assert_ne!(&browser.cookie, before);
        let answer = stack.server.send("GET", SESSION, &[HERE, ("cookie", before)], "").await;
        answer.refused(401, "no_session");
    }
}

#[tokio::test]
async fn a_stolen_cookie_is_worth_nothing_after_the_sign_out() {
    let stack = Stack::start().await;
    let answer = press(&stack, &link(&stack, AccountRole::Owner).await, &[HERE]).await;
    let browser = Browser::signed_in(&stack, &answer).await;
    browser.ask(&stack, "GET", "/api/v1/publisher/data").await;
    let out = browser.ask(&stack, "DELETE", SESSION).await;
    assert_eq!(out.status, 204);
    assert_eq!(
        out.header("set-cookie"),
        "__Host-receipts=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"
    );
    for (method, path) in [
        ("GET", SESSION),
        ("GET", "/api/v1/publisher/data"),
        ("GET", "/api/v1/verification/check"),
        ("GET", "/api/v1/auth/keys"),
        ("DELETE", SESSION),
    ] {
        let answer = browser.ask(&stack, method, path).await;
        answer.refused(401, "no_session");
        assert!(!answer.headers.contains_key("x-ratelimit-limit"), "{path}");
    }
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let stack = Stack::start().await;
    let sign_in = async |role| {
        let answer = press(&stack, &link(&stack, role).await, &[HERE]).await;
        Browser::signed_in(&stack, &answer).await
    };
    let (owner, reader, other) = (
        sign_in(AccountRole::Owner).await,
        sign_in(AccountRole::Reader).await,
        sign_in(AccountRole::Reader).await,
    );
    let list = async |browser: &Browser| {
        let body = browser.ask(&stack, "GET", SESSIONS).await.expect(200);
        body["sessions"].as_array().unwrap().clone()
    };
    assert_eq!((list(&owner).await.len(), list(&reader).await.len()), (3, 2));
    let own = list(&reader).await;
    let mine: Vec<_> = own.iter().filter(|one| one["isOwn"] == true).collect();
    assert_eq!(mine.len(), 1);
    // A reader ends the session on the lost laptop, and not the owner's.
    let lost = own.iter().find(|one| one["isOwn"] == false).unwrap();
    let end = async |browser: &Browser, id: &str| browser.ask(&stack, "DELETE", &format!("{SESSIONS}/{id}")).await;
    assert_eq!(end(&reader, lost["sessionId"].as_str().unwrap()).await.status, 204);
    other.ask(&stack, "GET", SESSION).await.refused(401, "no_session");
    let owners = list(&owner).await;
    let owners = owners.iter().find(|one| one["isOwn"] == true).unwrap();
    end(&reader, owners["sessionId"].as_str().unwrap())
        .await
        .refused(404, "not_found");
    let readers = mine[0]["sessionId"].as_str().unwrap();
    assert_eq!(end(&owner, readers).await.status, 204);
    reader.ask(&stack, "GET", SESSION).await.refused(401, "no_session");
}

/// The trail names the person for a request with a session. A JWT is no session.
#[tokio::test]
async fn the_trail_names_the_person() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let answer = press(&stack, &link(&stack, AccountRole::Owner).await, &[HERE]).await;
    let browser = Browser::signed_in(&stack, &answer).await;
    let me = browser.ask(&stack, "GET", SESSION).await.expect(200);
    let mut headers = browser.headers().to_vec();
    headers.push(("content-type", "application/json"));
    let domain = json!({"domain": "new.example"}).to_string();
    let generated = stack
        .server
        .send("POST", "/api/v1/verification/generate", &headers, &domain)
        .await;
    generated.expect(200);
    let key = json!({"name": "k", "scope": ["read"], "expiresIn": "1d"}).to_string();
    stack
        .server
        .send("POST", "/api/v1/auth/keys", &headers, &key)
        .await
        .expect(201);
    let trail = browser.ask(&stack, "GET", "/api/v1/publisher/trail").await.expect(200);
    let user = format!("user:{}", me["userId"].as_str().unwrap());
    let actions: Vec<_> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["actor"] == user.as_str())
        .collect();
    let named = |action: &str| actions.iter().any(|one| one["action"] == action);
    assert!(named("key.create") && named("session.start"), "{trail}");
    assert!(actions.len() >= 3, "{trail}");
    let token = provider.token("anna");
    stack.server.get(SESSION, &token).await.refused(401, "no_session");
    stack
        .server
        .get("/api/v1/publisher/data", &token)
        .await
        .refused(401, "invalid_api_key");
}
