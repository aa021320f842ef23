//! Every address with the session of every role, and with what a stranger could make a browser
//! send.

use std::collections::BTreeMap;

use accounts::AccountRole;

use super::questions::Questions;
use super::table::{Access, Expected, Row, rows};
use super::world::World;
use crate::browser::{Browser, HERE};

const FRESH_MS: i64 = 600_000;

/// A browser of a person with this role in anna's account.
async fn browser(world: &World, role: AccountRole) -> Browser {
    let (store, anna) = (&world.stack.deps.accounts, &world.anna);
    let link = store.create_login_link(Some(&anna.id), role).await.unwrap();
    let user = store.use_login_link(&link).await.unwrap().unwrap();
    let memberships = store.memberships(&user.id).await.unwrap();
    let held = memberships.iter().map(|one| (&one.account_id, one.role));
    assert_eq!(held.collect::<Vec<_>>(), [(&anna.id, role)]);
    Browser::start(&world.stack, &user).await
}

/// Asks about something of anna's, new where it can be used up.
async fn ask(world: &World, row: &Row, headers: &[(&str, &str)], expected: Expected, who: &str) {
    let target = world.target(row.noun, &world.anna).await;
    let before = world.state(&world.anna).await;
    let asked = world.ask_with(row, &target, headers).await;
    let (status, code) = expected;
    let reported = format!("{} {} with {who}: {}", row.method, asked.sent, asked.answer.text());
    assert_eq!(asked.answer.status, status, "{reported}");
    if status >= 400 {
        asked.answer.refused(status, code);
        assert!(
            world.state(&world.anna).await == before,
            "something changed: {reported}"
        );
    }
}

#[tokio::test]
async fn every_address_answers_every_role_as_the_table_says() {
    let world = World::new(Questions::default()).await;
    let guarded = |row: &Row| !matches!(row.access, Access::Open | Access::Public);
    for row in rows().iter().filter(|row| guarded(row)) {
        for role in AccountRole::ALL {
            let is_enough = role >= row.role && !(row.path.ends_with("/sessions/{id}") && role < AccountRole::Owner);
            let expected = match is_enough {
                // Anna is an owner beside them.
                true if row.good_code == "last_owner" => (204, ""),
                true => (row.good, row.good_code),
                // Others see their own sessions alone.
                false if row.access == Access::Session => (404, "not_found"),
                false => (403, "insufficient_role"),
            };
            let browser = browser(&world, role).await;
            ask(&world, row, &browser.headers(), expected, role.as_str()).await;
        }
        let (owner, other) = (
            browser(&world, AccountRole::Owner).await,
            browser(&world, AccountRole::Owner).await,
        );
        let [here, cookie, token] = owner.headers();
        let [_, _, others_token] = other.headers();
        let is_reading = row.method == "GET";
        for site in ["cross-site", "same-site", ""] {
            let headers = [("sec-fetch-site", site), cookie, token];
            ask(&world, row, &headers, (403, "cross_site"), site).await;
        }
        ask(&world, row, &[cookie, token], (403, "cross_site"), "no Sec-Fetch-Site").await;
        if !is_reading {
            ask(&world, row, &[here, cookie], (403, "bad_csrf_token"), "no token").await;
            let headers = [here, cookie, others_token];
            ask(
                &world,
                row,
                &headers,
                (403, "bad_csrf_token"),
                "another session's token",
            )
            .await;
        }
        // The pages of `/docs` act without the session.
        let referer = ("referer", "http://127.0.0.1:8080/docs/publisher/");
        let missing = match row.access {
            Access::Key => "missing_api_key",
            Access::Jwt => "missing_token",
            _ => "no_session",
        };
        ask(
            &world,
            row,
            &[here, cookie, token, referer],
            (401, missing),
            "Swagger UI",
        )
        .await;
        // A credential in a header goes before the cookie.
        let headers = [here, cookie, token, ("authorization", "Bearer nonsense")];
        let invalid = match row.access {
            Access::Key => "invalid_api_key",
            Access::Jwt => "invalid_token",
            _ => "no_session",
        };
        ask(&world, row, &headers, (401, invalid), "a wrong key beside the cookie").await;
        let ended = browser(&world, AccountRole::Owner).await;
        ended.ask(&world.stack, "DELETE", "/api/v1/auth/session").await;
        ask(
            &world,
            row,
            &ended.headers(),
            (401, "no_session"),
            "a cookie from before the sign-out",
        )
        .await;
    }
}

#[tokio::test]
async fn keys_people_and_erasures_need_a_fresh_sign_in() {
    let world = World::new(Questions::default()).await;
    let mut needed = BTreeMap::new();
    let owner = browser(&world, AccountRole::Owner).await;
    world.stack.pass_ms(FRESH_MS);
    for row in rows()
        .iter()
        .filter(|row| matches!(row.access, Access::Key | Access::Jwt))
    {
        let expected = match row.is_fresh {
            true => (403, "sign_in_again"),
            false => (row.good, row.good_code),
        };
        ask(&world, row, &owner.headers(), expected, "an old sign-in").await;
        *needed.entry(row.role).or_insert(0) += 1;
    }
    assert!(needed[&AccountRole::Owner] >= 8, "{needed:?}");
    // A person's requests use the people's quota.
    let data = owner.ask(&world.stack, "GET", "/api/v1/publisher/data").await;
    let by_key = world.stack.server.get("/api/v1/publisher/data", &world.anna.key).await;
    let left = |answer: &crate::stack::Answer| answer.header("x-ratelimit-remaining").parse::<u32>().unwrap();
    assert!(left(&by_key) > left(&data));
    assert_eq!(HERE, owner.headers()[0]);
}
