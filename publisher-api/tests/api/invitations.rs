//! Invitations, from the request of an owner to the new member's session.

use accounts::{AccountRole, INVITATION_MS, SecretToken};
use publisher_api::{PublisherConfig, SmtpConfig};
use serde_json::{Value, json};

use crate::browser::{Browser, HERE, SESSION};
use crate::members::{by_link, owner, subject};
use crate::stack::{Answer, Stack};

const SWITCH: &str = "/api/v1/auth/session/account";
pub(crate) const INVITATIONS: &str = "/api/v1/auth/invitations";

pub(crate) async fn invite(stack: &Stack, browser: &Browser, role: &str) -> Value {
    let answer = browser.json(stack, "POST", INVITATIONS, &json!({"role": role})).await;
    answer.expect(201)
}

/// The path of an invitation's link.
pub(crate) fn path(invitation: &Value) -> String {
    let link = invitation["link"].as_str().unwrap();
    link[link.find("/api/").unwrap()..].to_owned()
}

async fn open(stack: &Stack, path: &str) -> Answer {
    stack
        .server
        .send("GET", path, &[("sec-fetch-site", "cross-site")], "")
        .await
}

async fn press(stack: &Stack, path: &str, headers: &[(&str, &str)]) -> Answer {
    stack.server.send("POST", path, headers, "").await
}

#[tokio::test]
async fn an_invitation_is_made_opened_and_accepted() {
    let stack = Stack::start().await;
    let (anna, account_id) = owner(&stack, "anna").await;
    let made = invite(&stack, &anna, "editor").await;
    let me = anna.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&made["role"], &made["email"], &made["invitedBy"], &made["expiresAt"]),
        (
            &json!("editor"),
            &Value::Null,
            &me["userId"],
            &json!("2027-01-22T08:00:00.000Z")
        )
    );
    let listed = anna.ask(&stack, "GET", INVITATIONS).await;
    let secret = path(&made).rsplit('/').next().unwrap().to_owned();
    assert!(!listed.text().contains(&secret), "the link is shown once");
    assert_eq!(
        listed.expect(200)["invitations"][0]["invitationId"],
        made["invitationId"]
    );
    // Opened by a mail scanner, it stays.
    for _ in 0..3 {
        let page = open(&stack, &path(&made)).await;
        let text = page.text();
        assert_eq!(page.status, 200, "{text}");
        assert!(page.header("set-cookie").is_empty());
        assert!(
            text.contains("anna@mail.test invites you") && text.contains(&account_id) && text.contains("as editor"),
            "{text}"
        );
        assert_eq!(page.header("referrer-policy"), "no-referrer");
    }
    // Another site's page, and a request that no browser's page sent.
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ] {
        let answer = press(&stack, &path(&made), headers).await;
        answer.refused(403, "cross_site");
    }
    let browser = Browser::signed_in(&stack, &press(&stack, &path(&made), &[HERE]).await).await;
    let joined = browser.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&joined["role"], &joined["accountId"]),
        (&json!("editor"), &json!(account_id))
    );
    for again in [
        press(&stack, &path(&made), &[HERE]).await,
        open(&stack, &path(&made)).await,
    ] {
        assert_eq!(again.status, 404, "{}", again.text());
        assert!(again.header("set-cookie").is_empty());
    }
    assert_eq!(
        anna.ask(&stack, "GET", INVITATIONS).await.expect(200)["invitations"],
        json!([])
    );
}

#[tokio::test]
async fn only_owners_invite_and_withdraw() {
    let stack = Stack::start().await;
    let (anna, account_id) = owner(&stack, "anna").await;
    let (bert, _) = owner(&stack, "bert").await;
    let made = invite(&stack, &anna, "reader").await;
    let withdraw = format!("{INVITATIONS}/{}", made["invitationId"].as_str().unwrap());
    for role in [AccountRole::Reader, AccountRole::Editor] {
        let (browser, _) = by_link(&stack, &account_id, role).await;
        let answer = browser
            .json(&stack, "POST", INVITATIONS, &json!({"role": "owner"}))
            .await;
        answer.refused(403, "insufficient_role");
        browser
            .ask(&stack, "DELETE", &withdraw)
            .await
            .refused(403, "insufficient_role");
    }
    bert.ask(&stack, "DELETE", &withdraw).await.refused(404, "not_found");
    assert_eq!(
        bert.ask(&stack, "GET", INVITATIONS).await.expect(200)["invitations"],
        json!([])
    );
    for wrong in [
        json!({}),
        json!({"role": "admin"}),
        json!({"role": "reader", "accountId": account_id}),
        json!({"role": "reader", "email": "bert@mail.test"}),
    ] {
        let answer = anna.json(&stack, "POST", INVITATIONS, &wrong).await;
        answer.refused(400, "invalid_body");
    }
    assert_eq!(anna.ask(&stack, "DELETE", &withdraw).await.status, 204);
    assert_eq!(press(&stack, &path(&made), &[HERE]).await.status, 404);
    anna.ask(&stack, "DELETE", &withdraw).await.refused(404, "not_found");
    let late = invite(&stack, &anna, "reader").await;
    stack.pass_ms(INVITATION_MS);
    assert_eq!(press(&stack, &path(&late), &[HERE]).await.status, 404);
}

#[tokio::test]
async fn an_account_has_twenty_open_invitations() {
    let stack = Stack::start().await;
    let (anna, _) = owner(&stack, "anna").await;
    for _ in 0..20 {
        invite(&stack, &anna, "reader").await;
    }
    let answer = anna.json(&stack, "POST", INVITATIONS, &json!({"role": "reader"})).await;
    answer.refused(409, "too_many_members");
}

#[tokio::test]
async fn an_invitation_by_mail_waits_in_the_outbox_and_shows_no_link() {
    let config = PublisherConfig {
        public_url: Some("https://receipts.example".to_owned()),
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |deps| {
        deps.smtp = SmtpConfig {
            host: Some("127.0.0.1".to_owned()),
            ..SmtpConfig::default()
        };
    })
    .await;
    let (anna, _) = owner(&stack, "anna").await;
    for wrong in ["bert", "bert@mail.test\r\nBcc: c@mail.test", ""] {
        let body = json!({"role": "reader", "email": wrong});
        let answer = anna.json(&stack, "POST", INVITATIONS, &body).await;
        let refused = answer.refused(400, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/email");
        assert!(!refused.to_string().contains("Bcc"));
    }
    let body = json!({"role": "reader", "email": "bert@mail.test"});
    let made = anna.json(&stack, "POST", INVITATIONS, &body).await.expect(201);
    assert_eq!(
        (&made["email"], &made["link"]),
        (&json!("bert@mail.test"), &Value::Null)
    );
    assert_eq!(stack.deps.accounts.outbox().await.unwrap().waiting, 1);
}

/// A person in two accounts: what they do lands in the one that the session is in, and nowhere
/// else.
#[tokio::test]
async fn a_person_switches_between_accounts() {
    let stack = Stack::start().await;
    let store = &stack.deps.accounts;
    let (anna, annas) = owner(&stack, "anna").await;
    let (bert, berts) = owner(&stack, "bert").await;
    let made = invite(&stack, &anna, "reader").await;
    let token = SecretToken::parse(path(&made).rsplit('/').next().unwrap()).unwrap();
    store
        .accept_invitation(&token, Some(&subject("bert")))
        .await
        .unwrap()
        .unwrap();
    let switch = async |browser: &Browser, account: &str| {
        stack.pass_ms(1);
        let body = json!({"accountId": account});
        browser.json(&stack, "PUT", SWITCH, &body).await
    };
    let session = bert.ask(&stack, "GET", SESSION).await.expect(200);
    // An account that he was invited to takes no session that is elsewhere.
    assert_eq!(
        (&session["accountId"], &session["role"]),
        (&json!(berts), &json!("owner"))
    );
    assert_eq!(session["accounts"].as_array().unwrap().len(), 2);
    for foreign in ["acc_none", "", session["userId"].as_str().unwrap()] {
        switch(&bert, foreign).await.refused(404, "not_found");
    }
    switch(&anna, &berts).await.refused(404, "not_found");
    let headers = [
        HERE,
        ("cookie", bert.cookie.as_str()),
        ("content-type", "application/json"),
    ];
    let body = json!({"accountId": annas}).to_string();
    let forged = stack.server.send("PUT", SWITCH, &headers, &body).await;
    forged.refused(403, "bad_csrf_token");
    let switched = switch(&bert, &annas).await;
    let body = switched.expect(200);
    assert_eq!((&body["accountId"], &body["role"]), (&json!(annas), &json!("reader")));
    assert_eq!(body["sessionId"], session["sessionId"]);
    let cookie = switched.header("set-cookie").split_once("; ").unwrap();
    assert_eq!(cookie.1, "Path=/; Secure; HttpOnly; SameSite=Strict");
    let moved = Browser::of(&stack, cookie.0.to_owned()).await;
    // Another window with the page of before: its cookie is the new one, its token isn't.
    bert.ask(&stack, "GET", SESSION).await.refused(401, "no_session");
    let window = Browser {
        cookie: moved.cookie.clone(),
        csrf_token: bert.csrf_token.clone(),
    };
    window
        .ask(&stack, "DELETE", "/api/v1/user/account")
        .await
        .refused(403, "bad_csrf_token");
    // A reader here, and an owner at home.
    let name = json!({"domain": "new.example"});
    moved
        .json(&stack, "POST", "/api/v1/verification/generate", &name)
        .await
        .refused(403, "insufficient_role");
    let back = switch(&moved, &berts).await;
    let cookie = back.header("set-cookie").split_once("; ").unwrap().0.to_owned();
    let home = Browser::of(&stack, cookie).await;
    home.json(&stack, "POST", "/api/v1/verification/generate", &name)
        .await
        .expect(200);
    let actions = async |account: &str| {
        let trail = store.trail_page(account, None, 100).await.unwrap().items;
        let own = trail
            .into_iter()
            .filter(|one| one.actor.ends_with(session["userId"].as_str().unwrap()));
        own.map(|one| one.action).collect::<Vec<_>>()
    };
    assert_eq!(actions(&annas).await, ["session.switch", "member.join"]);
    let own = actions(&berts).await;
    assert_eq!(
        own[1..],
        ["session.switch", "session.start", "account.create"],
        "{own:?}"
    );
    // The next sign-in leads to where he was last.
    let user = store.user(session["userId"].as_str().unwrap()).await.unwrap().unwrap();
    let again = Browser::start(&stack, &user).await;
    assert_eq!(
        again.ask(&stack, "GET", SESSION).await.expect(200)["accountId"],
        json!(berts)
    );
    // In which account he is removed matters.
    let removed = anna
        .ask(&stack, "DELETE", &format!("/api/v1/auth/members/{}", user.id))
        .await;
    assert_eq!(removed.status, 204);
    home.ask(&stack, "GET", SESSION).await.expect(200);
    switch(&home, &annas).await.refused(404, "not_found");
}
