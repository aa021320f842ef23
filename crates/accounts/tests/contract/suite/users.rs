//! Users, and the deletion of their account.

use accounts::{AccountRole, Accounts, Cancellation, Deletion, KeyRequest, Scope, Subject, Tier, User, UserChange};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, account_of};

const ISSUER: &str = "https://id.example";
const GRACE_MS: i64 = 30 * 24 * HOUR_MS;

cases! {
    a_user_is_made_at_the_first_sign_in,
    an_issuer_and_a_subject_are_one_user,
    signed_in_at_one_time_a_user_is_made_once,
    what_is_known_of_a_user_is_corrected,
    an_account_is_deleted_after_its_time_unless_it_is_taken_back,
    asked_twice_a_deletion_keeps_its_time,
    the_deletion_is_the_accounts,
}

fn subject(issuer: &str, subject: &str) -> Subject {
    Subject {
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        email: Some("a@example.com".parse().unwrap()),
        name: None,
    }
}

async fn sign_in(accounts: &Accounts, name: &str) -> User {
    accounts.sign_in(&subject(ISSUER, name)).await.unwrap()
}

async fn count(fixture: &Fixture, table: &str) -> i64 {
    let question = match table {
        "users" => "SELECT COUNT(*) FROM users",
        _ => "SELECT COUNT(*) FROM accounts",
    };
    sqlx::query(question)
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap()
        .get(0)
}

/// The deletion that is planned of a person's only account.
async fn deletion(accounts: &Accounts, user: &User) -> Option<Deletion> {
    let memberships = accounts.memberships(&user.id).await.unwrap();
    assert_eq!(memberships.len(), 1);
    memberships[0].deletion
}

async fn actions(fixture: &Fixture, account_id: &str) -> Vec<(String, String, String)> {
    let question = "SELECT actor, action, detail FROM trail WHERE account_id = $1 ORDER BY id";
    let rows = sqlx::query(question)
        .bind(account_id)
        .fetch_all(&fixture.raw().await)
        .await
        .unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn a_user_is_made_at_the_first_sign_in(fixture: Fixture) {
    let accounts = fixture.open().await;
    let user = sign_in(&accounts, "anna").await;
    assert!(user.id.starts_with("usr_"), "{user:?}");
    assert_eq!((user.issuer.as_str(), user.subject.as_str()), (ISSUER, "anna"));
    assert_eq!(user.email.as_ref().unwrap().as_str(), "a@example.com");
    assert_eq!((user.name.as_ref(), user.created_at_ms), (None, START_MS));
    // A colleague may have invited them: no account is made before they need one.
    assert_eq!(accounts.memberships(&user.id).await.unwrap(), []);
    assert_eq!(count(&fixture, "accounts").await, 0);
    // What the provider says later changes nothing: the user's own word goes before it.
    fixture.pass_ms(1);
    let later = Subject {
        email: Some("b@example.com".parse().unwrap()),
        name: Some("B".parse().unwrap()),
        ..subject(ISSUER, "anna")
    };
    assert_eq!(accounts.sign_in(&later).await.unwrap(), user);
    let request = KeyRequest {
        domains: None,
        name: "k".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + HOUR_MS,
    };
    let account_id = account_of(&accounts, &user).await;
    let membership = accounts.memberships(&user.id).await.unwrap().remove(0);
    assert!(account_id.starts_with("acc_"));
    assert_eq!(
        (
            &membership.account_id,
            membership.role,
            membership.tier,
            membership.deletion
        ),
        (&account_id, AccountRole::Owner, Tier::Free, None)
    );
    let key = accounts.create_key(&account_id, request, "user:x").await.unwrap();
    let principal = accounts.authenticate(&key.api_key).await.unwrap();
    assert_eq!(
        (principal.account_id.as_str(), principal.domains.len()),
        (account_id.as_str(), 0)
    );
    let actor = format!("user:{}", user.id);
    assert_eq!(
        actions(&fixture, &account_id).await[0],
        (actor, "account.create".to_owned(), String::new())
    );
}

async fn an_issuer_and_a_subject_are_one_user(fixture: Fixture) {
    let accounts = fixture.open().await;
    let anna = sign_in(&accounts, "anna").await;
    for (issuer, name) in [
        (ISSUER, "Anna"),
        (ISSUER, "anna "),
        ("https://id.example/", "anna"),
        ("", "anna"),
    ] {
        let other = accounts.sign_in(&subject(issuer, name)).await.unwrap();
        assert_ne!(other.id, anna.id, "{issuer} {name}");
    }
    assert_eq!(
        (count(&fixture, "users").await, count(&fixture, "accounts").await),
        (5, 0)
    );
}

async fn signed_in_at_one_time_a_user_is_made_once(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = stores[number % 2].clone();
        tasks.spawn(async move { sign_in(&store, "anna").await });
    }
    let users = tasks.join_all().await;
    assert!(users.iter().all(|user| user == &users[0]));
    assert_eq!(
        (count(&fixture, "users").await, count(&fixture, "accounts").await),
        (1, 0)
    );
}

async fn what_is_known_of_a_user_is_corrected(fixture: Fixture) {
    let accounts = fixture.open().await;
    let user = sign_in(&accounts, "anna").await;
    let other = sign_in(&accounts, "bert").await;
    let change = async |change: &UserChange| {
        accounts
            .change_user(&user.id, change, "user:me")
            .await
            .unwrap()
            .unwrap()
    };
    let name = UserChange {
        name: Some(Some("Anna Example".parse().unwrap())),
        ..UserChange::default()
    };
    let changed = change(&name).await;
    assert_eq!(changed.name.as_ref().unwrap().as_str(), "Anna Example");
    assert_eq!(changed.email, user.email, "what isn't named stays");
    let both = UserChange {
        email: Some(None),
        name: Some(Some("Anna".parse().unwrap())),
    };
    let changed = change(&both).await;
    assert_eq!(
        (changed.email.as_ref(), changed.name.as_ref().unwrap().as_str()),
        (None, "Anna")
    );
    assert_eq!(change(&UserChange::default()).await, changed);
    assert_eq!(sign_in(&accounts, "anna").await, changed);
    assert_eq!(sign_in(&accounts, "bert").await, other, "nobody else's");
    assert_eq!(accounts.change_user("usr_none", &both, "user:me").await.unwrap(), None);
    // In the trail of each of their accounts.
    let account_id = account_of(&accounts, &user).await;
    change(&name).await;
    change(&both).await;
    let noted: Vec<(String, String)> = actions(&fixture, &account_id)
        .await
        .into_iter()
        .skip(1)
        .map(|(_, a, d)| (a, d))
        .collect();
    let said = |fields: &str| ("user.change".to_owned(), fields.to_owned());
    assert_eq!(noted, [said("name"), said("email,name")]);
}

async fn an_account_is_deleted_after_its_time_unless_it_is_taken_back(fixture: Fixture) {
    let (accounts, elsewhere) = (fixture.open().await, fixture.open().await);
    let user = sign_in(&accounts, "anna").await;
    let me = format!("user:{}", user.id);
    let id = account_of(&accounts, &user).await;
    let id = id.as_str();
    assert_eq!(
        accounts.cancel_deletion(id, &me).await.unwrap(),
        Cancellation::NothingPending
    );
    let planned = accounts.request_deletion(id, GRACE_MS, &me).await.unwrap().unwrap();
    let expected = Deletion {
        requested_at_ms: START_MS,
        erase_after_ms: START_MS + GRACE_MS,
    };
    assert_eq!(planned, expected);
    assert_eq!(
        deletion(&elsewhere, &user).await,
        Some(planned),
        "everything goes on, and says so"
    );
    fixture.pass_ms(GRACE_MS - 1);
    let due = async || {
        elsewhere
            .accounts_due_for_erasure(START_MS + GRACE_MS, 10)
            .await
            .unwrap()
    };
    assert_eq!(
        elsewhere
            .accounts_due_for_erasure(START_MS + GRACE_MS - 1, 10)
            .await
            .unwrap(),
        [""; 0]
    );
    assert_eq!(due().await, [id]);
    assert_eq!(
        elsewhere.cancel_deletion(id, &me).await.unwrap(),
        Cancellation::Done,
        "in the last moment"
    );
    assert_eq!(due().await, [""; 0]);
    assert_eq!(deletion(&accounts, &user).await, None);
    accounts.request_deletion(id, 0, &me).await.unwrap();
    assert_eq!(accounts.cancel_deletion(id, &me).await.unwrap(), Cancellation::TooLate);
    assert_eq!(due().await, [id]);
    let noted: Vec<String> = actions(&fixture, id)
        .await
        .into_iter()
        .map(|(_, action, _)| action)
        .collect();
    assert_eq!(
        noted,
        ["account.create", "account.delete", "account.keep", "account.delete"]
    );
    assert_eq!(accounts.request_deletion("acc_none", 0, &me).await.unwrap(), None);
    assert_eq!(
        accounts.cancel_deletion("acc_none", &me).await.unwrap(),
        Cancellation::NothingPending
    );
}

async fn asked_twice_a_deletion_keeps_its_time(fixture: Fixture) {
    let accounts = fixture.open().await;
    let user = sign_in(&accounts, "anna").await;
    let id = account_of(&accounts, &user).await;
    let first = accounts.request_deletion(&id, GRACE_MS, "user:a").await.unwrap();
    fixture.pass_ms(HOUR_MS);
    assert_eq!(accounts.request_deletion(&id, 0, "user:a").await.unwrap(), first);
    assert_eq!(actions(&fixture, &id).await.len(), 2, "noted once");
}

async fn the_deletion_is_the_accounts(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, bert) = (sign_in(&accounts, "anna").await, sign_in(&accounts, "bert").await);
    let id = account_of(&accounts, &anna).await;
    let join =
        "INSERT INTO members (account_id, user_id, role, created_at_ms, chosen_at_ms) VALUES ($1, $2, 'owner', 1, 1)";
    sqlx::query(join)
        .bind(&id)
        .bind(&bert.id)
        .execute(&fixture.raw().await)
        .await
        .unwrap();
    let planned = accounts.request_deletion(&id, GRACE_MS, "user:anna").await.unwrap();
    assert_eq!(deletion(&accounts, &bert).await, planned);
    assert_eq!(
        accounts.cancel_deletion(&id, "user:bert").await.unwrap(),
        Cancellation::Done
    );
    assert_eq!(deletion(&accounts, &anna).await, None);
}
