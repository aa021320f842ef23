//! People of an account, as an owner sees and changes them.

use accounts::{AccountRole, Accounts, Subject, User};
use serde_json::{Value, json};

use crate::browser::{Browser, SESSION};
use crate::provider::Provider;
use crate::stack::{Answer, Stack};

const MEMBERS: &str = "/api/v1/auth/members";
const KEYS: &str = "/api/v1/auth/keys";

pub(crate) fn subject(name: &str) -> Subject {
    Subject {
        issuer: "https://id.example".to_owned(),
        subject: name.to_owned(),
        email: Some(format!("{name}@mail.test").parse().unwrap()),
        name: None,
    }
}

/// A person at the first sign-in.
async fn person(store: &Accounts, name: &str) -> User {
    store.sign_in(&subject(name)).await.unwrap()
}

/// A browser of an owner with an account, and that account.
pub(crate) async fn owner(stack: &Stack, name: &str) -> (Browser, String) {
    let store = &stack.deps.accounts;
    let user = person(store, name).await;
    let account_id = store.own_account(&user.id).await.unwrap().unwrap();
    (Browser::start(stack, &user).await, account_id)
}

/// A browser of whoever signs in by a login link for this role, and their ID.
pub(crate) async fn by_link(stack: &Stack, account_id: &str, role: AccountRole) -> (Browser, String) {
    let store = &stack.deps.accounts;
    let link = store.create_login_link(Some(account_id), role).await.unwrap();
    let user = store.use_login_link(&link).await.unwrap().unwrap();
    (Browser::start(stack, &user).await, user.id)
}

async fn set_role(stack: &Stack, browser: &Browser, user_id: &str, role: &str) -> Answer {
    let path = format!("{MEMBERS}/{user_id}");
    browser.json(stack, "PATCH", &path, &json!({"role": role})).await
}

async fn remove(stack: &Stack, browser: &Browser, user_id: &str) -> Answer {
    browser.ask(stack, "DELETE", &format!("{MEMBERS}/{user_id}")).await
}

#[tokio::test]
async fn members_are_listed_changed_and_removed() {
    let stack = Stack::start().await;
    let (anna, account_id) = owner(&stack, "anna").await;
    let (reader, reader_id) = by_link(&stack, &account_id, AccountRole::Reader).await;
    let listed = reader.ask(&stack, "GET", MEMBERS).await.expect(200);
    let members = listed["members"].as_array().unwrap();
    let shown = |one: &Value| json!([one["email"], one["role"], one["isLoginLink"], one["isOwn"]]);
    assert_eq!(
        members.iter().map(shown).collect::<Vec<_>>(),
        [
            json!(["anna@mail.test", "owner", false, false]),
            json!([null, "reader", true, true])
        ]
    );
    let annas_id = members[0]["userId"].as_str().unwrap();
    // A reader who promotes herself, and one who removes the owner.
    for refused in [
        set_role(&stack, &reader, &reader_id, "owner").await,
        set_role(&stack, &reader, annas_id, "reader").await,
        remove(&stack, &reader, annas_id).await,
    ] {
        refused.refused(403, "insufficient_role");
    }
    for wrong in [
        json!({"role": "admin"}),
        json!({"role": "owner", "accountId": account_id}),
    ] {
        let answer = anna
            .json(&stack, "PATCH", &format!("{MEMBERS}/{reader_id}"), &wrong)
            .await;
        answer.refused(400, "invalid_body");
    }
    set_role(&stack, &anna, annas_id, "editor")
        .await
        .refused(409, "last_owner");
    remove(&stack, &anna, annas_id).await.refused(409, "last_owner");
    assert_eq!(set_role(&stack, &anna, &reader_id, "editor").await.status, 204);
    assert_eq!(reader.ask(&stack, "GET", SESSION).await.expect(200)["role"], "editor");
    // Removed, and the session is over.
    assert_eq!(remove(&stack, &anna, &reader_id).await.status, 204);
    for path in [SESSION, "/api/v1/publisher/data", MEMBERS] {
        reader.ask(&stack, "GET", path).await.refused(401, "no_session");
    }
    remove(&stack, &anna, &reader_id).await.refused(404, "not_found");
    // Another account's owner sees and changes nobody here.
    let (bert, _) = owner(&stack, "bert").await;
    set_role(&stack, &bert, annas_id, "reader")
        .await
        .refused(404, "not_found");
    remove(&stack, &bert, annas_id).await.refused(404, "not_found");
}

/// An API key is the account's, whoever made it.
#[tokio::test]
async fn keys_of_a_removed_member_stay_and_the_trail_names_their_maker() {
    let stack = Stack::start().await;
    let (anna, account_id) = owner(&stack, "anna").await;
    let (other, other_id) = by_link(&stack, &account_id, AccountRole::Owner).await;
    let key = json!({"name": "k", "scope": ["read"], "expiresIn": "1d"});
    let key = other.json(&stack, "POST", KEYS, &key).await.expect(201);
    assert_eq!(remove(&stack, &anna, &other_id).await.status, 204);
    let key_text = key["apiKey"].as_str().unwrap();
    stack.server.get("/api/v1/publisher/data", key_text).await.expect(200);
    let trail = anna.ask(&stack, "GET", "/api/v1/publisher/trail").await.expect(200);
    let made = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["action"] == "key.create");
    let made = made.unwrap();
    assert_eq!(
        (&made["actor"], &made["subject"]),
        (&json!(format!("user:{other_id}")), &key["keyId"])
    );
    let path = format!("{KEYS}/{}", key["keyId"].as_str().unwrap());
    assert_eq!(anna.ask(&stack, "DELETE", &path).await.status, 204);
    stack
        .server
        .get("/api/v1/publisher/data", key_text)
        .await
        .refused(401, "invalid_api_key");
}

/// Looking makes no account: a colleague may invite the person.
#[tokio::test]
async fn an_account_is_made_by_the_first_change() {
    let stack = Stack::start().await;
    let store = &stack.deps.accounts;
    let user = person(store, "anna").await;
    let browser = Browser::start(&stack, &user).await;
    let me = browser.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&me["accountId"], &me["role"], &me["accounts"]),
        (&Value::Null, &json!("owner"), &json!([]))
    );
    for path in [
        "/api/v1/publisher/entries",
        "/api/v1/publisher/trail",
        "/api/v1/verification/status",
        "/api/v1/verification/check?domain=new.example",
        "/api/v1/operators",
        "/api/v1/user/information",
        KEYS,
        MEMBERS,
    ] {
        browser.ask(&stack, "GET", path).await.expect(200);
    }
    let nothing = format!("{KEYS}/0123456789abcdef");
    browser.ask(&stack, "DELETE", &nothing).await.refused(404, "not_found");
    browser
        .ask(&stack, "DELETE", "/api/v1/user/account")
        .await
        .refused(404, "not_found");
    let name = json!({"name": "Anna"});
    browser
        .json(&stack, "PATCH", "/api/v1/user/information", &name)
        .await
        .expect(200);
    assert!(store.list_accounts().await.unwrap().is_empty());
    let domain = json!({"domain": "new.example"});
    browser
        .json(&stack, "POST", "/api/v1/verification/generate", &domain)
        .await
        .expect(200);
    let [account] = &store.list_accounts().await.unwrap()[..] else {
        panic!("one account")
    };
    let me = browser.ask(&stack, "GET", SESSION).await.expect(200);
    assert_eq!(
        (&me["accountId"], &me["role"]),
        (&json!(account.account_id), &json!("owner"))
    );
    assert_eq!(me["accounts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_jwt_of_who_is_in_several_accounts_names_one() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let token = provider.token("anna");
    let key = json!({"name": "k", "scope": ["read"], "expiresIn": "1d"});
    let keys = async |account: Option<&str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(account.map(|account| ("x-account-id", account)));
        stack.server.ask("POST", KEYS, &token, &headers, &key.to_string()).await
    };
    // The account is made by the first change, and is the only one.
    keys(None).await.expect(201);
    let me = stack.server.get("/api/v1/user/information", &token).await.expect(200);
    let own = me["accounts"][0]["id"].as_str().unwrap();
    keys(Some(own)).await.expect(201);
    let store = &stack.deps.accounts;
    let bert = person(store, "bert").await;
    let berts = store.own_account(&bert.id).await.unwrap().unwrap();
    for foreign in [berts.as_str(), "acc_none", "", bert.id.as_str()] {
        keys(Some(foreign)).await.refused(404, "not_found");
    }
    let count = async |account: &str| store.keys_page(account, None, 10).await.unwrap().items.len();
    assert_eq!((count(own).await, count(&berts).await), (2, 0));
}
