//! Sessions, and login links.

use std::collections::HashSet;

use accounts::{
    AccountRole, Accounts, AccountsError, LOGIN_LINK_MS, SESSIONS_PER_USER_MAX, Scope, SecretToken, SignInMethod,
    Subject, TrailActor, User,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, account_of, issue};

const MINUTE_MS: i64 = 60_000;

cases! {
    a_session_is_its_users_until_it_ends,
    an_idle_session_ends_and_a_used_one_doesnt,
    a_session_ends_after_its_longest_time,
    a_new_session_ends_the_one_before,
    sessions_of_a_user_are_bounded,
    only_its_account_ends_a_session,
    only_hashes_of_tokens_are_stored,
    a_login_link_is_used_once,
    a_login_link_ends_after_its_time,
    used_at_one_time_a_login_link_signs_in_once,
    links_of_one_role_are_one_user,
    a_link_without_an_account_makes_one,
    a_session_without_an_account_reads_nothing_and_gets_one,
}

/// A person who has signed in, with an account of their own.
async fn user(accounts: &Accounts, subject: &str) -> (User, String) {
    let user = newcomer(accounts, subject).await;
    let account_id = account_of(accounts, &user).await;
    (user, account_id)
}

/// A person who has signed in, and is in no account.
async fn newcomer(accounts: &Accounts, subject: &str) -> User {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: subject.to_owned(),
        email: None,
        name: None,
    };
    accounts.sign_in(&subject).await.unwrap()
}

async fn start(accounts: &Accounts, user: &User) -> SecretToken {
    let now_ms = accounts.now_ms();
    let started = accounts.start_session(user, SignInMethod::Provider, now_ms, None);
    started.await.unwrap()
}

async fn holds(accounts: &Accounts, token: &SecretToken) -> bool {
    accounts.session(token).await.unwrap().is_some()
}

/// Accounts and roles of a person.
async fn roles(accounts: &Accounts, user: &User) -> Vec<(String, AccountRole)> {
    let memberships = accounts.memberships(&user.id).await.unwrap();
    memberships.into_iter().map(|one| (one.account_id, one.role)).collect()
}

async fn actions(accounts: &Accounts, account_id: &str) -> Vec<String> {
    let trail = accounts.trail_page(account_id, None, 100).await.unwrap().items;
    let lines = trail.iter().rev();
    lines
        .map(|one| format!("{} {} {}", one.actor, one.action, one.detail).trim().to_owned())
        .collect()
}

async fn a_session_is_its_users_until_it_ends(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account_id) = user(&accounts, "anna").await;
    let token = start(&accounts, &anna).await;
    let session = accounts.session(&token).await.unwrap().unwrap();
    assert_eq!((&session.user_id, session.role), (&anna.id, AccountRole::Owner));
    assert_eq!((session.signed_in_at_ms, session.seen_at_ms), (START_MS, START_MS));
    let principal = &session.principal;
    assert_eq!(principal.actor, TrailActor::User(anna.id.clone()));
    assert_eq!(principal.account_id, account_id);
    assert_eq!(session.account_id.as_deref(), Some(account_id.as_str()));
    assert_eq!(principal.scopes, [Scope::Read, Scope::Write, Scope::Erase]);
    assert_eq!(principal.limit, None);
    // Another process sees its end at once: nothing is cached.
    let elsewhere = fixture.open().await;
    assert!(holds(&elsewhere, &token).await);
    assert!(accounts.end_session(&anna.id, None, &session.id).await.unwrap());
    assert!(!holds(&elsewhere, &token).await && !holds(&accounts, &token).await);
    assert!(!accounts.end_session(&anna.id, None, &session.id).await.unwrap());
    let unknown = SecretToken::generate().unwrap();
    assert!(!holds(&accounts, &unknown).await);
    let me = format!("user:{}", anna.id);
    assert_eq!(
        actions(&accounts, &account_id).await,
        [
            format!("{me} account.create"),
            format!("{me} session.start identity provider"),
            format!("{me} session.end"),
        ]
    );
}

async fn an_idle_session_ends_and_a_used_one_doesnt(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, _) = user(&accounts, "anna").await;
    let (used, idle) = (start(&accounts, &anna).await, start(&accounts, &anna).await);
    for _ in 0..13 {
        fixture.pass_ms(HOUR_MS - 1);
        let session = accounts.session(&used).await.unwrap().unwrap();
        accounts.touch_session(&session).await.unwrap();
    }
    assert!(holds(&accounts, &used).await && !holds(&accounts, &idle).await);
    // To the minute: a use a moment after the last one isn't written.
    let seen = accounts.session(&used).await.unwrap().unwrap();
    fixture.pass_ms(MINUTE_MS - 1);
    accounts.touch_session(&seen).await.unwrap();
    let again = accounts.session(&used).await.unwrap().unwrap();
    assert_eq!(again.seen_at_ms, seen.seen_at_ms);
    fixture.pass_ms(12 * HOUR_MS - MINUTE_MS);
    assert!(holds(&accounts, &used).await);
    fixture.pass_ms(1);
    assert!(!holds(&accounts, &used).await);
}

async fn a_session_ends_after_its_longest_time(fixture: Fixture) {
    let accounts = fixture.open().await;
    let token = start(&accounts, &user(&accounts, "anna").await.0).await;
    let session = accounts.session(&token).await.unwrap().unwrap();
    assert_eq!(session.ends_at_ms, START_MS + 168 * HOUR_MS);
    for _ in 0..167 {
        fixture.pass_ms(HOUR_MS);
        let session = accounts.session(&token).await.unwrap().unwrap();
        accounts.touch_session(&session).await.unwrap();
    }
    fixture.pass_ms(HOUR_MS - 1);
    assert!(holds(&accounts, &token).await);
    fixture.pass_ms(1);
    assert!(!holds(&accounts, &token).await);
}

async fn a_new_session_ends_the_one_before(fixture: Fixture) {
    let accounts = fixture.open().await;
    let ((anna, _), (bert, _)) = (user(&accounts, "anna").await, user(&accounts, "bert").await);
    let before = start(&accounts, &anna).await;
    // In the same browser, whoever signs in then.
    let started = accounts.start_session(&bert, SignInMethod::Link, START_MS, Some(&before));
    let token = started.await.unwrap();
    assert!(!holds(&accounts, &before).await);
    assert_ne!(token.reveal(), before.reveal());
    let session = accounts.session(&token).await.unwrap().unwrap();
    assert_eq!(session.user_id, bert.id);
    // The time of the proof is never in the future.
    let late = accounts.start_session(&bert, SignInMethod::Link, START_MS + HOUR_MS, None);
    let session = accounts.session(&late.await.unwrap()).await.unwrap().unwrap();
    assert_eq!(session.signed_in_at_ms, START_MS);
}

async fn sessions_of_a_user_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let ((anna, _), (bert, _)) = (user(&accounts, "anna").await, user(&accounts, "bert").await);
    let berts = start(&accounts, &bert).await;
    let mut tokens = Vec::new();
    for _ in 0..=SESSIONS_PER_USER_MAX {
        tokens.push(start(&accounts, &anna).await);
        fixture.pass_ms(1);
    }
    assert!(!holds(&accounts, &tokens[0]).await, "the oldest");
    for token in &tokens[1..] {
        assert!(holds(&accounts, token).await);
    }
    assert!(holds(&accounts, &berts).await);
    let listed = accounts.sessions(&anna.id, None).await.unwrap();
    assert_eq!(listed.len(), usize::try_from(SESSIONS_PER_USER_MAX).unwrap());
    assert!(listed.iter().all(|one| one.user_id == anna.id));
}

async fn only_its_account_ends_a_session(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account_id) = user(&accounts, "anna").await;
    let (bert, berts) = user(&accounts, "bert").await;
    let link = accounts
        .create_login_link(Some(&account_id), AccountRole::Reader)
        .await
        .unwrap();
    let reader = accounts.use_login_link(&link).await.unwrap().unwrap();
    let (annas, readers) = (start(&accounts, &anna).await, start(&accounts, &reader).await);
    let id = accounts.session(&annas).await.unwrap().unwrap().id;
    assert!(!accounts.end_session(&bert.id, Some(&berts), &id).await.unwrap());
    assert!(!accounts.end_session(&reader.id, None, &id).await.unwrap());
    assert!(holds(&accounts, &annas).await);
    let seen = async |user_id: &str, owned: Option<&str>| accounts.sessions(user_id, owned).await.unwrap().len();
    assert_eq!(seen(&anna.id, Some(&account_id)).await, 2);
    assert_eq!(seen(&reader.id, None).await, 1);
    assert_eq!(seen(&bert.id, Some(&berts)).await, 0);
    // An owner ends anybody's in the account.
    let session = accounts.session(&readers).await.unwrap().unwrap();
    let ended = accounts.end_session(&anna.id, Some(&account_id), &session.id).await;
    assert!(ended.unwrap());
    assert!(!holds(&accounts, &readers).await);
}

async fn only_hashes_of_tokens_are_stored(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account_id) = user(&accounts, "anna").await;
    let session = start(&accounts, &anna).await;
    let link = accounts
        .create_login_link(Some(&account_id), AccountRole::Owner)
        .await
        .unwrap();
    for (table, token) in [("sessions", &session), ("login_links", &link)] {
        let query = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT token_hash FROM {table}")));
        let stored: String = query.fetch_one(&fixture.raw().await).await.unwrap().get(0);
        assert_eq!(stored.len(), 64);
        assert_ne!(stored, token.reveal());
    }
}

async fn a_login_link_is_used_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let key = issue(&accounts, "example.com").await;
    let link = accounts
        .create_login_link(Some(&key.account_id), AccountRole::Editor)
        .await
        .unwrap();
    // However often it is resolved, which a mail scanner does too.
    for _ in 0..3 {
        let found = accounts.login_link(&link).await.unwrap().unwrap();
        let account = found.account.unwrap();
        assert_eq!(
            (account.0.as_str(), found.role),
            (key.account_id.as_str(), AccountRole::Editor)
        );
    }
    let editor = accounts.use_login_link(&link).await.unwrap().unwrap();
    assert_eq!(
        roles(&accounts, &editor).await,
        [(key.account_id.clone(), AccountRole::Editor)]
    );
    assert_eq!(accounts.login_link(&link).await.unwrap(), None);
    assert_eq!(accounts.use_login_link(&link).await.unwrap(), None);
    let trail = actions(&accounts, &key.account_id).await;
    assert_eq!(
        trail[trail.len() - 2..],
        ["operator login-link.create editor", "operator member.add editor"]
    );
    let unknown = accounts
        .create_login_link(Some("acc_0"), AccountRole::Owner)
        .await
        .unwrap_err();
    assert!(matches!(unknown, AccountsError::UnknownAccount(_)), "{unknown}");
}

async fn a_login_link_ends_after_its_time(fixture: Fixture) {
    let accounts = fixture.open().await;
    let link = accounts.create_login_link(None, AccountRole::Owner).await.unwrap();
    fixture.pass_ms(LOGIN_LINK_MS - 1);
    assert!(accounts.login_link(&link).await.unwrap().is_some());
    fixture.pass_ms(1);
    assert_eq!(accounts.login_link(&link).await.unwrap(), None);
    assert_eq!(accounts.use_login_link(&link).await.unwrap(), None);
}

async fn used_at_one_time_a_login_link_signs_in_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let key = issue(&accounts, "example.com").await;
    for account_id in [Some(key.account_id.as_str()), None] {
        let link = accounts
            .create_login_link(account_id, AccountRole::Owner)
            .await
            .unwrap();
        let uses = (0..8).map(|_| {
            let (accounts, link) = (accounts.clone(), link.clone());
            tokio::spawn(async move { accounts.use_login_link(&link).await.unwrap().is_some() })
        });
        let mut used = 0;
        for one in uses.collect::<Vec<_>>() {
            used += i32::from(one.await.unwrap());
        }
        assert_eq!(used, 1, "{account_id:?}");
    }
}

async fn links_of_one_role_are_one_user(fixture: Fixture) {
    let accounts = fixture.open().await;
    let key = issue(&accounts, "example.com").await;
    let mut users = HashSet::new();
    for role in AccountRole::ALL.into_iter().chain(AccountRole::ALL) {
        let link = accounts.create_login_link(Some(&key.account_id), role).await.unwrap();
        let user = accounts.use_login_link(&link).await.unwrap().unwrap();
        assert_eq!(roles(&accounts, &user).await, [(key.account_id.clone(), role)]);
        users.insert(user.id);
    }
    assert_eq!(users.len(), 3);
}

async fn a_link_without_an_account_makes_one(fixture: Fixture) {
    let accounts = fixture.open().await;
    let link = accounts.create_login_link(None, AccountRole::Owner).await.unwrap();
    assert_eq!(accounts.login_link(&link).await.unwrap().unwrap().account, None);
    assert!(
        accounts.list_accounts().await.unwrap().is_empty(),
        "not before it is used"
    );
    let first = accounts.use_login_link(&link).await.unwrap().unwrap();
    let account_id = account_of(&accounts, &first).await;
    assert_eq!(
        roles(&accounts, &first).await,
        [(account_id.clone(), AccountRole::Owner)]
    );
    // A second such link, and one for the account, are the same person.
    let again = accounts.create_login_link(None, AccountRole::Owner).await.unwrap();
    assert_eq!(accounts.use_login_link(&again).await.unwrap().unwrap(), first);
    let named = accounts
        .create_login_link(Some(&account_id), AccountRole::Owner)
        .await
        .unwrap();
    assert_eq!(accounts.use_login_link(&named).await.unwrap().unwrap(), first);
    assert_eq!(accounts.list_accounts().await.unwrap().len(), 1);
}

async fn a_session_without_an_account_reads_nothing_and_gets_one(fixture: Fixture) {
    let accounts = fixture.open().await;
    let anna = newcomer(&accounts, "anna").await;
    let (token, other) = (start(&accounts, &anna).await, start(&accounts, &anna).await);
    let session = accounts.session(&token).await.unwrap().unwrap();
    assert_eq!((session.account_id, session.role), (None, AccountRole::Owner));
    assert_eq!(
        (&session.principal.account_id, session.principal.domains.len()),
        (&anna.id, 0)
    );
    assert!(accounts.list_accounts().await.unwrap().is_empty());
    // Of many requests at one time, in two processes, one makes the account.
    let stores = [accounts.clone(), fixture.open().await];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (store, anna) = (stores[number % 2].clone(), anna.clone());
        tasks.spawn(async move { account_of(&store, &anna).await });
    }
    let made: HashSet<String> = tasks.join_all().await.into_iter().collect();
    assert_eq!((made.len(), accounts.list_accounts().await.unwrap().len()), (1, 1));
    let account_id = made.into_iter().next().unwrap();
    for token in [&token, &other] {
        let session = accounts.session(token).await.unwrap().unwrap();
        assert_eq!(session.principal.account_id, account_id);
    }
    let me = format!("user:{}", anna.id);
    assert_eq!(actions(&accounts, &account_id).await, [format!("{me} account.create")]);
    assert_eq!(accounts.own_account("usr_none").await.unwrap(), None);
}
