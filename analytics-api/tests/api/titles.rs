//! Titles and URLs of entries come from the account store, at once and only as far as it answers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, atomic::AtomicI64};

use accounts::{
    Accounts, AccountsConfig, Created, EntryAuthors, EntryContent, EntryTitle, EntryUrl, KeyRequest, NewEntry, Scope,
};
use analytics_api::AnalyticsConfig;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rows::{BLOG, client, entry, url};
use crate::stack::Stack;

const DASHBOARD: &str = "/api/v1/analytics/dashboard";
/// An entry of the publisher's that no receipt names.
const UNUSED: u8 = 60;

async fn list(stack: &Stack, key: &str, id: Uuid, title: &str) -> String {
    let accounts = &stack.deps.accounts;
    let account = accounts.authenticate(key).await.unwrap().account_id;
    let content = EntryContent {
        url: EntryUrl::parse(&format!("https://news.example/{title}")).unwrap(),
        title: EntryTitle::parse(title.to_owned()).unwrap(),
        authors: EntryAuthors::default(),
    };
    let created = accounts
        .create_entries(&account, "key:test", vec![NewEntry { id, content }], 100)
        .await;
    assert!(matches!(created.unwrap()[..], [Created::New(_)]));
    account
}

fn named(content: &Value) -> (&Value, &Value, &Value) {
    (&content["title"], &content["url"], &content["unknownEntry"])
}

pub(crate) async fn entries_are_shown_by_their_own_titles(stack: &Stack) {
    let account = list(stack, &stack.keys.publisher, entry(1), "One").await;
    list(stack, &stack.keys.publisher, entry(UNUSED), "Unused").await;
    // Another account's entry of an id that our receipts name stays its own.
    let rival = list(stack, &stack.keys.rival, entry(2), "Rival").await;

    let (one, two) = (json!("https://news.example/One"), json!(url(entry(2))));
    let (ours, unknown) = ((&json!("One"), &one, &json!(false)), (&two, &two, &json!(true)));
    let answer = stack.ok(DASHBOARD).await;
    assert_eq!(named(&answer["topContent"][0]), ours);
    assert_eq!(named(&answer["topContent"][1]), unknown);
    let answer = stack.ok(&format!("/api/v1/analytics/clients/{}", client(1))).await;
    assert_eq!(named(&answer["topContent"][0]), ours);
    let answer = stack.ok(&format!("/api/v1/analytics/content/{}", entry(1))).await;
    assert_eq!(named(&answer), ours);
    assert_eq!(answer["urls"], json!([url(entry(1))]), "the receipts' own");
    let answer = stack.ok(&format!("/api/v1/analytics/content/{}", entry(2))).await;
    assert_eq!(named(&answer), unknown);

    // What is listed is there, used or not; what is erased isn't.
    let path = format!("/api/v1/analytics/content/{}", entry(UNUSED));
    let answer = stack.ok(&path).await;
    assert_eq!(
        (&answer["title"], &answer["totalReceipts"]),
        (&json!("Unused"), &json!(0))
    );
    // A key for another domain of the account neither sees it, nor that it exists.
    let accounts = &stack.deps.accounts;
    let request = KeyRequest {
        name: "blog".to_owned(),
        scopes: vec![Scope::Read],
        domains: Some(vec![BLOG.parse().unwrap()]),
        expires_at_ms: accounts.now_ms() + 3_600_000,
    };
    let limited = accounts
        .create_key(&account, request, "user:test")
        .await
        .unwrap()
        .api_key;
    assert_eq!(stack.server.get(&path, &limited, &[]).await.status, 404);
    // A search finds entries by their own titles, and for the key only those that it may see.
    let path_of_search = "/api/v1/analytics/content?q=oNE";
    let found = stack.ok(path_of_search).await;
    assert_eq!((&found["totalContent"], named(&found["content"][0])), (&json!(1), ours));
    let found = stack.server.get(path_of_search, &limited, &[]).await.json();
    assert_eq!(found["totalContent"], 0, "{found}");
    for (account, id) in [(&account, entry(1)), (&account, entry(UNUSED)), (&rival, entry(2))] {
        accounts.erase_entry(account, "key:test", id, None).await.unwrap();
    }
    assert_eq!(stack.get(&path, &[]).await.status, 404);
    let answer = stack.ok(DASHBOARD).await;
    let first = json!(url(entry(1)));
    assert_eq!(named(&answer["topContent"][0]), (&first, &first, &json!(true)));
}

/// Labels are missing when the key is remembered and then the store goes away.
pub(crate) async fn an_account_store_that_fails_costs_only_the_titles(stack: &Stack) {
    let now_ms = Arc::new(AtomicI64::new(jiff::Timestamp::now().as_millisecond()));
    let clock = move || now_ms.load(Ordering::SeqCst);
    let config = AccountsConfig::default();
    let accounts = Accounts::open_with_clock(&config, stack.dir.path(), clock)
        .await
        .unwrap();
    accounts.authenticate(&stack.keys.publisher).await.unwrap();
    accounts.close().await;
    let server = stack
        .server_with(AnalyticsConfig::default(), |deps| deps.accounts = accounts)
        .await;
    let answer = server.get(DASHBOARD, &stack.keys.publisher, &[]).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let first = json!(url(entry(1)));
    let content = &answer["topContent"][0];
    assert_eq!(named(content), (&first, &first, &Value::Null), "{content}");
    assert!(content.get("unknownEntry").is_none(), "it can't be determined");
    assert_eq!(content["receiptCount"], 5);
    // But whether there is an entry that no receipt names is for the store to say, and which titles
    // have a text.
    for path in [
        format!("/api/v1/analytics/content/{}", entry(UNUSED)),
        "/api/v1/analytics/content?q=one".to_owned(),
    ] {
        let answer = server.get(&path, &stack.keys.publisher, &[]).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (503, Some("accounts_unavailable"))
        );
    }
    server.stop().await;
}
