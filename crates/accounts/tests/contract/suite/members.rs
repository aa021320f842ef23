//! Members of accounts: their roles, and who may change them.

use accounts::{
    AccountRole, Accounts, COLLECTIONS, ExportValue, MemberError, NewErasure, RequestedErasure, SecretToken,
    SignInMethod, Subject, User,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, account_of, issue};

cases! {
    an_owner_changes_roles_and_removes_members,
    only_an_owner_of_the_account_changes_its_members,
    the_last_owner_stays,
    of_two_owners_who_remove_each_other_one_stays,
    a_removed_members_sessions_end_and_those_elsewhere_dont,
    who_is_removed_from_the_only_account_is_erased,
    an_erasure_spares_who_is_elsewhere_too,
    members_are_exported_with_their_account,
}

/// A person at the first sign-in.
pub(super) async fn person(accounts: &Accounts, name: &str) -> User {
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: Some(format!("{name}@mail.test").parse().unwrap()),
        name: Some(name.parse().unwrap()),
    };
    accounts.sign_in(&subject).await.unwrap()
}

/// A person with an account of their own.
pub(super) async fn owner(accounts: &Accounts, name: &str) -> (User, String) {
    let user = person(accounts, name).await;
    let account_id = account_of(accounts, &user).await;
    (user, account_id)
}

/// Makes a person a member, past the store.
pub(super) async fn add(fixture: &Fixture, account_id: &str, user: &User, role: AccountRole) {
    let insert =
        "INSERT INTO members (account_id, user_id, role, created_at_ms, chosen_at_ms) VALUES ($1, $2, $3, $4, $4)";
    let insert = sqlx::query(insert).bind(account_id).bind(&user.id).bind(role.as_str());
    insert.bind(START_MS + 1).execute(&fixture.raw().await).await.unwrap();
}

pub(super) async fn roles(accounts: &Accounts, account_id: &str) -> Vec<(String, AccountRole)> {
    let members = accounts.members(account_id).await.unwrap();
    let name = |one: &accounts::Member| one.name.as_ref().unwrap().as_str().to_owned();
    members.iter().map(|one| (name(one), one.role)).collect()
}

async fn start(accounts: &Accounts, user: &User) -> SecretToken {
    let started = accounts.start_session(user, SignInMethod::Provider, accounts.now_ms(), None);
    started.await.unwrap()
}

async fn count(fixture: &Fixture, query: &'static str) -> i64 {
    sqlx::query(query).fetch_one(&fixture.raw().await).await.unwrap().get(0)
}

fn named(pairs: &[(&str, AccountRole)]) -> Vec<(String, AccountRole)> {
    pairs.iter().map(|(name, role)| ((*name).to_owned(), *role)).collect()
}

async fn an_owner_changes_roles_and_removes_members(fixture: Fixture) {
    use AccountRole::{Editor, Owner, Reader};
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let bert = person(&accounts, "bert").await;
    add(&fixture, &account, &bert, Reader).await;
    assert_eq!(
        roles(&accounts, &account).await,
        named(&[("anna", Owner), ("bert", Reader)])
    );
    let session = start(&accounts, &bert).await;
    for role in [Editor, Owner, Reader, Reader] {
        accounts.set_role(&account, &anna.id, &bert.id, role).await.unwrap();
        // From the next request on.
        let held = accounts.session(&session).await.unwrap().unwrap();
        assert_eq!((held.role, held.principal.scopes), (role, role.scopes().to_vec()));
    }
    accounts.remove_member(&account, &anna.id, &bert.id).await.unwrap();
    assert_eq!(roles(&accounts, &account).await, named(&[("anna", Owner)]));
    for gone in [&bert.id, "usr_none"] {
        let unknown = accounts.remove_member(&account, &anna.id, gone).await;
        assert!(matches!(unknown, Err(MemberError::Unknown)), "{unknown:?}");
        let unknown = accounts.set_role(&account, &anna.id, gone, Owner).await;
        assert!(matches!(unknown, Err(MemberError::Unknown)), "{unknown:?}");
    }
    let trail = accounts.trail_page(&account, None, 100).await.unwrap().items;
    let me = format!("user:{}", anna.id);
    let noted: Vec<_> = trail
        .iter()
        .rev()
        .filter(|one| one.action.starts_with("member.") && one.actor == me && one.subject == bert.id)
        .map(|one| format!("{} {}", one.action, one.detail))
        .collect();
    assert_eq!(
        noted,
        [
            "member.set-role reader to editor",
            "member.set-role editor to owner",
            "member.set-role owner to reader",
            "member.remove reader",
        ]
    );
}

async fn only_an_owner_of_the_account_changes_its_members(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let (bert, _) = owner(&accounts, "bert").await;
    let (editor, reader) = (person(&accounts, "edith").await, person(&accounts, "rita").await);
    add(&fixture, &account, &editor, AccountRole::Editor).await;
    add(&fixture, &account, &reader, AccountRole::Reader).await;
    let before = roles(&accounts, &account).await;
    // A reader who promotes herself, an editor who demotes an owner, another account's owner.
    for by in [&reader, &editor, &bert] {
        for whom in [&anna, &editor, &reader] {
            let refused = accounts.set_role(&account, &by.id, &whom.id, AccountRole::Owner).await;
            assert!(matches!(refused, Err(MemberError::NotOwner)), "{refused:?}");
            let refused = accounts.remove_member(&account, &by.id, &whom.id).await;
            assert!(matches!(refused, Err(MemberError::NotOwner)), "{refused:?}");
        }
    }
    assert_eq!(roles(&accounts, &account).await, before);
}

async fn the_last_owner_stays(fixture: Fixture) {
    use AccountRole::{Editor, Owner, Reader};
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let bert = person(&accounts, "bert").await;
    add(&fixture, &account, &bert, Reader).await;
    for role in [Editor, Reader] {
        let refused = accounts.set_role(&account, &anna.id, &anna.id, role).await;
        assert!(matches!(refused, Err(MemberError::LastOwner)), "{refused:?}");
    }
    let refused = accounts.remove_member(&account, &anna.id, &anna.id).await;
    assert!(matches!(refused, Err(MemberError::LastOwner)), "{refused:?}");
    accounts.set_role(&account, &anna.id, &anna.id, Owner).await.unwrap();
    // With another owner she may go.
    accounts.set_role(&account, &anna.id, &bert.id, Owner).await.unwrap();
    accounts.remove_member(&account, &anna.id, &anna.id).await.unwrap();
    assert_eq!(roles(&accounts, &account).await, named(&[("bert", Owner)]));
}

async fn of_two_owners_who_remove_each_other_one_stays(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    for demote in [false, true] {
        for turn in 0..10 {
            let (anna, account) = owner(&stores[0], &format!("anna{demote}{turn}")).await;
            let bert = person(&stores[0], &format!("bert{demote}{turn}")).await;
            add(&fixture, &account, &bert, AccountRole::Owner).await;
            let change = |store: Accounts, by: String, whom: String| {
                let account = account.clone();
                tokio::spawn(async move {
                    match demote {
                        true => store.set_role(&account, &by, &whom, AccountRole::Reader).await,
                        false => store.remove_member(&account, &by, &whom).await,
                    }
                })
            };
            let one = change(stores[0].clone(), anna.id.clone(), bert.id.clone());
            let other = change(stores[1].clone(), bert.id.clone(), anna.id.clone());
            let (one, other) = (one.await.unwrap(), other.await.unwrap());
            let refused = [one, other].into_iter().filter_map(Result::err).collect::<Vec<_>>();
            // Who comes second isn't an owner any more.
            assert!(matches!(refused[..], [MemberError::NotOwner]), "{refused:?}");
            let left = roles(&stores[0], &account).await;
            let owners = left.iter().filter(|(_, role)| *role == AccountRole::Owner);
            assert_eq!(owners.count(), 1, "{left:?}");
        }
    }
}

async fn a_removed_members_sessions_end_and_those_elsewhere_dont(fixture: Fixture) {
    let (accounts, elsewhere) = (fixture.open().await, fixture.open().await);
    let (anna, account) = owner(&accounts, "anna").await;
    let (bert, berts) = owner(&accounts, "bert").await;
    let own = start(&accounts, &bert).await;
    add(&fixture, &account, &bert, AccountRole::Owner).await;
    let removed = start(&accounts, &bert).await;
    let account_of_session = async |token: &SecretToken| {
        let session = elsewhere.session(token).await.unwrap();
        session.and_then(|session| session.account_id)
    };
    assert_eq!(account_of_session(&own).await, Some(berts));
    assert_eq!(account_of_session(&removed).await, Some(account.clone()));
    accounts.remove_member(&account, &anna.id, &bert.id).await.unwrap();
    // In every process from the next request on.
    assert!(elsewhere.session(&removed).await.unwrap().is_none());
    assert!(elsewhere.session(&own).await.unwrap().is_some());
    assert!(
        accounts.user(&bert.id).await.unwrap().is_some(),
        "he has an account of his own"
    );
    // A session that began while its person was removed doesn't hold either.
    let late = sqlx::query("UPDATE sessions SET account_id = $1 WHERE user_id = $2");
    let late = late.bind(&account).bind(&bert.id);
    late.execute(&fixture.raw().await).await.unwrap();
    assert!(elsewhere.session(&own).await.unwrap().is_none());
}

async fn who_is_removed_from_the_only_account_is_erased(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let bert = person(&accounts, "bert").await;
    // A session of before he was in any account.
    let session = start(&accounts, &bert).await;
    add(&fixture, &account, &bert, AccountRole::Editor).await;
    accounts.remove_member(&account, &anna.id, &bert.id).await.unwrap();
    assert!(accounts.session(&session).await.unwrap().is_none());
    assert_eq!(accounts.user(&bert.id).await.unwrap(), None);
    let left = "SELECT COUNT(*) FROM users WHERE email LIKE 'bert%' OR name LIKE 'bert%'";
    assert_eq!(count(&fixture, left).await, 0);
    // Who comes again is new, and in no account.
    let again = person(&accounts, "bert").await;
    assert_ne!(again.id, bert.id);
    assert_eq!(accounts.memberships(&again.id).await.unwrap(), []);
}

async fn an_erasure_spares_who_is_elsewhere_too(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (anna, account) = owner(&accounts, "anna").await;
    let (bert, berts) = owner(&accounts, "bert").await;
    add(&fixture, &account, &bert, AccountRole::Reader).await;
    let request = NewErasure {
        personal_data: true,
        ..NewErasure::default()
    };
    let requested = accounts.request_erasure(&account, "key:1", request, 0).await.unwrap();
    let RequestedErasure::Taken(erasure) = requested else {
        panic!("it isn't taken")
    };
    accounts.begin_scheduled_erasures().await.unwrap();
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    let names = async |account: &str| {
        let members = accounts.members(account).await.unwrap();
        let names = members
            .into_iter()
            .map(|one| one.name.map(|name| name.as_str().to_owned()));
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&account).await, [None, Some("bert".to_owned())]);
    // The whole account, with everybody who is in no other.
    accounts.request_deletion(&account, HOUR_MS, "user:anna").await.unwrap();
    fixture.pass_ms(HOUR_MS);
    assert!(accounts.begin_account_erasure(&account).await.unwrap());
    for erasure in accounts.open_erasures().await.unwrap() {
        while accounts.erase_some(&erasure.id).await.unwrap() {}
    }
    assert_eq!(accounts.user(&anna.id).await.unwrap(), None);
    assert_eq!(accounts.user(&bert.id).await.unwrap().as_ref(), Some(&bert));
    assert_eq!(roles(&accounts, &berts).await, named(&[("bert", AccountRole::Owner)]));
    assert_eq!(count(&fixture, "SELECT COUNT(*) FROM accounts").await, 1);
}

async fn members_are_exported_with_their_account(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (_, account) = owner(&accounts, "anna").await;
    let other = issue(&accounts, "other.example").await.account_id;
    let (bert, _) = owner(&accounts, "bert").await;
    add(&fixture, &account, &bert, AccountRole::Reader).await;
    let members = COLLECTIONS.iter().find(|one| one.name == "members").unwrap();
    let names: Vec<_> = members.columns.iter().map(|column| column.name).collect();
    assert_eq!(
        names,
        [
            "userId",
            "issuer",
            "subject",
            "email",
            "name",
            "role",
            "memberSince",
            "createdAt"
        ]
    );
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = accounts
            .collection_page(&account, members, after.as_ref(), 1)
            .await
            .unwrap();
        let Some(row) = page.into_iter().next() else { break };
        rows.push((row.cells[3].clone(), row.cells[5].clone()));
        after = Some(row.cursor);
    }
    let text = |text: &str| ExportValue::Text(text.to_owned());
    assert_eq!(
        rows,
        [
            (text("anna@mail.test"), text("owner")),
            (text("bert@mail.test"), text("reader")),
        ]
    );
    assert_eq!(accounts.collection_rows(&account, members).await.unwrap(), 2);
    assert_eq!(accounts.collection_rows(&other, members).await.unwrap(), 0);
}
