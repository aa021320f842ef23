//! Erasures: what was asked for goes, once, with its counts, and nothing else.

use accounts::{
    Accounts, Cancellation, Coverage, ERASURES_OPEN_MAX, EntriesWish, EntryAuthors, EntryContent, EntryTitle, EntryUrl,
    Erasure, ErasureState, ErasureWish, KeyWish, NewEntry, RequestedErasure, Scope, Subject,
};
use sqlx::Row;
use uuid::Uuid;

use crate::{HOUR_MS, Place, START_MS, YEAR_MS, issue};

cases! {
    named_entries_go_and_no_others,
    personal_data_goes_and_the_account_stays,
    all_entries_go_in_steps_and_are_counted_once,
    what_is_asked_of_the_warehouse_waits_for_it,
    the_number_of_open_erasures_is_bounded,
    an_account_goes_whole_once_its_time_is_over,
    another_accounts_erasure_is_none,
}

const KEY: &str = "key:0123456789abcdef";

async fn entries(accounts: &Accounts, account: &str, numbers: std::ops::Range<u64>) -> Vec<Uuid> {
    let new = |number: u64| NewEntry {
        id: Uuid::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0000 | u128::from(number)),
        content: EntryContent {
            url: EntryUrl::parse(&format!("https://example.com/{number}")).unwrap(),
            title: EntryTitle::parse("An article".to_owned()).unwrap(),
            authors: EntryAuthors::parse(vec!["Ada".to_owned()]).unwrap(),
        },
    };
    let all: Vec<NewEntry> = numbers.map(new).collect();
    let ids = all.iter().map(|entry| entry.id).collect();
    for some in all.chunks(500) {
        accounts
            .create_entries(account, KEY, some.to_vec(), 1_000_000)
            .await
            .unwrap();
    }
    ids
}

async fn request(accounts: &Accounts, account: &str, wish: ErasureWish) -> Erasure {
    match accounts.request_erasure(account, KEY, wish).await.unwrap() {
        RequestedErasure::Taken(erasure) => *erasure,
        refused => panic!("{refused:?}"),
    }
}

/// Goes through all steps in this store, and certifies.
async fn finish(accounts: &Accounts, erasure: &Erasure) -> Erasure {
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    assert!(
        accounts
            .certify_erasure(&erasure.id, |_| "certified".to_owned())
            .await
            .unwrap()
    );
    accounts
        .erasure(&erasure.account_id, &erasure.id)
        .await
        .unwrap()
        .unwrap()
}

async fn rows(place: &Place, question: &str) -> i64 {
    let row = sqlx::query(sqlx::AssertSqlSafe(question.to_owned()));
    row.fetch_one(&place.raw().await).await.unwrap().get(0)
}

async fn named_entries_go_and_no_others(place: Place) {
    let accounts = place.open().await;
    let mine = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    let ids = entries(&accounts, &mine, 0..3).await;
    let foreign = entries(&accounts, &other, 10..11).await;
    let wish = ErasureWish {
        entries: EntriesWish::These(vec![ids[1], foreign[0], Uuid::nil()]),
        ..ErasureWish::default()
    };
    let asked = request(&accounts, &mine, wish.clone()).await;
    assert_eq!(
        (asked.state, asked.requested_at_ms, &asked.wish),
        (ErasureState::Store, START_MS, &wish)
    );
    assert_eq!(accounts.open_erasures().await.unwrap(), std::slice::from_ref(&asked));
    let done = finish(&accounts, &asked).await;
    assert_eq!(done.counts.get("entries"), Some(&1));
    assert_eq!(
        (done.state, done.finished_at_ms),
        (ErasureState::Settled, Some(START_MS))
    );
    let (text, sum) = done.certificate.unwrap();
    assert_eq!(text, "certified");
    // `printf certified | sha256sum`
    assert_eq!(sum, "6881efc899e97d9e1e5f13239cf82d441e669b4f78b79d3fe25b86e82874e015");
    assert_eq!(rows(&place, "SELECT COUNT(*) FROM entries").await, 3);
    assert!(accounts.open_erasures().await.unwrap().is_empty());
    assert!(!accounts.certify_erasure(&asked.id, |_| panic!("once")).await.unwrap());
}

async fn personal_data_goes_and_the_account_stays(place: Place) {
    let accounts = place.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "ada".to_owned(),
        email: Some("ada@example.com".parse().unwrap()),
        name: Some("Ada".parse().unwrap()),
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let wish = KeyWish {
        name: "Ada's laptop".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    };
    let key = accounts.create_key(&user.account_id, wish, KEY).await.unwrap();
    entries(&accounts, &user.account_id, 0..2).await;
    let wish = ErasureWish {
        personal_data: true,
        ..ErasureWish::default()
    };
    let asked = request(&accounts, &user.account_id, wish).await;
    let done = finish(&accounts, &asked).await;
    assert_eq!((done.counts["users"], done.counts["api_keys"]), (1, 1));
    assert_eq!(done.counts.get("entries"), None);
    accounts.authenticate(&key.api_key).await.unwrap();
    assert_eq!(
        rows(
            &place,
            "SELECT COUNT(*) FROM users WHERE email IS NULL AND name IS NULL"
        )
        .await,
        1
    );
    assert_eq!(
        rows(&place, "SELECT COUNT(*) FROM api_keys WHERE name = 'erased'").await,
        1
    );
    assert_eq!(rows(&place, "SELECT COUNT(*) FROM entries").await, 2);
}

async fn all_entries_go_in_steps_and_are_counted_once(place: Place) {
    let accounts = place.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    entries(&accounts, &account, 0..1_200).await;
    let wish = ErasureWish {
        entries: EntriesWish::All,
        ..ErasureWish::default()
    };
    let asked = request(&accounts, &account, wish).await;
    assert!(
        accounts.erase_some(&asked.id).await.unwrap(),
        "a bounded number at a time"
    );
    let left = rows(&place, "SELECT COUNT(*) FROM entries").await;
    assert_eq!(left, 200);
    // As by two replicas at once, one of which comes again after its successor.
    let stores = [accounts.clone(), place.open().await];
    let mut steps = Vec::new();
    for store in stores {
        let id = asked.id.clone();
        steps.push(tokio::spawn(
            async move { while store.erase_some(&id).await.unwrap() {} },
        ));
    }
    for step in steps {
        step.await.unwrap();
    }
    assert!(!accounts.erase_some(&asked.id).await.unwrap());
    let stored = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(
        (stored.counts["entries"], stored.state),
        (1_200, ErasureState::Warehouse)
    );
    assert_eq!(rows(&place, "SELECT COUNT(*) FROM entries").await, 0);
}

async fn what_is_asked_of_the_warehouse_waits_for_it(place: Place) {
    let accounts = place.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let wish = ErasureWish {
        receipt_metadata: Some(Coverage {
            domains: vec!["example.com".to_owned()],
            inherited: Vec::new(),
        }),
        ..ErasureWish::default()
    };
    let asked = request(&accounts, &account, wish.clone()).await;
    accounts.note_erased_rows(&asked.id, &[("receipts", 9)]).await.unwrap();
    assert!(
        !accounts
            .certify_erasure(&asked.id, |_| panic!("too early"))
            .await
            .unwrap()
    );
    assert!(!accounts.erase_some(&asked.id).await.unwrap());
    accounts
        .note_erasure_problem(&asked.id, "the warehouse is away")
        .await
        .unwrap();
    let stored = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(stored.problem.as_deref(), Some("the warehouse is away"));
    assert_eq!((stored.state, stored.counts.len()), (ErasureState::Warehouse, 0));
    accounts.note_erased_rows(&asked.id, &[("receipts", 7)]).await.unwrap();
    // After a crash, what was erased already isn't found again.
    accounts.note_erased_rows(&asked.id, &[("receipts", 0)]).await.unwrap();
    place.pass_ms(HOUR_MS);
    let done = finish(&accounts, &asked).await;
    assert_eq!(
        (done.counts["receipts"], done.state, done.problem),
        (7, ErasureState::Done, None)
    );
    let due = START_MS + HOUR_MS;
    assert!(accounts.erasures_to_look_after(due).await.unwrap().is_empty());
    let found = accounts.erasures_to_look_after(due + 1).await.unwrap();
    assert_eq!(found.iter().map(|one| &one.wish).collect::<Vec<_>>(), [&wish]);
    place.pass_ms(HOUR_MS);
    accounts.note_erasure_looked_after(&asked.id, false).await.unwrap();
    assert!(accounts.erasures_to_look_after(due + 1).await.unwrap().is_empty());
    accounts.note_erasure_looked_after(&asked.id, true).await.unwrap();
    assert!(accounts.erasures_to_look_after(i64::MAX).await.unwrap().is_empty());
    let settled = accounts.erasure(&account, &asked.id).await.unwrap().unwrap();
    assert_eq!(
        (settled.state, settled.wish.receipt_metadata),
        (ErasureState::Settled, Some(Coverage::default()))
    );
}

async fn the_number_of_open_erasures_is_bounded(place: Place) {
    let accounts = place.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let wish = ErasureWish {
        personal_data: true,
        ..ErasureWish::default()
    };
    let mut tasks = Vec::new();
    for _ in 0..ERASURES_OPEN_MAX + 3 {
        let (accounts, account, wish) = (accounts.clone(), account.clone(), wish.clone());
        tasks.push(tokio::spawn(async move {
            accounts.request_erasure(&account, KEY, wish).await.unwrap()
        }));
    }
    let mut refused = 0;
    for task in tasks {
        refused += i64::from(task.await.unwrap() == RequestedErasure::TooMany);
    }
    assert_eq!(refused, 3);
    let first = accounts.open_erasures().await.unwrap().remove(0);
    finish(&accounts, &first).await;
    request(&accounts, &account, wish).await;
}

async fn an_account_goes_whole_once_its_time_is_over(place: Place) {
    let accounts = place.open().await;
    let subject = Subject {
        issuer: "https://id.example".to_owned(),
        subject: "ada".to_owned(),
        email: None,
        name: None,
    };
    let user = accounts.sign_in(&subject).await.unwrap();
    let gone = user.account_id;
    let stays = issue(&accounts, "example.org,example.net").await;
    let wish = KeyWish {
        name: "a key".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    };
    let key = accounts.create_key(&gone, wish, KEY).await.unwrap();
    accounts.authenticate(&key.api_key).await.unwrap();
    entries(&accounts, &gone, 0..3).await;
    entries(&accounts, &stays.account_id, 10..12).await;
    let all_entries = ErasureWish {
        entries: EntriesWish::All,
        ..ErasureWish::default()
    };
    let other = request(&accounts, &gone, all_entries.clone()).await;
    // A domain of its own, as a verification makes it.
    let domain = "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms) VALUES ('news.example.com', $1, 'dns', 1, 2)";
    sqlx::query(domain)
        .bind(&gone)
        .execute(&place.raw().await)
        .await
        .unwrap();
    let ancestor = "INSERT INTO domain_ancestors (ancestor, domain) VALUES ('example.com', 'news.example.com')";
    sqlx::query(ancestor).execute(&place.raw().await).await.unwrap();
    assert!(
        !accounts.begin_account_erasure(&gone).await.unwrap(),
        "nobody asked for it"
    );
    accounts.request_deletion(&gone, HOUR_MS, KEY).await.unwrap();
    assert!(
        !accounts.begin_account_erasure(&gone).await.unwrap(),
        "it may be kept after all"
    );
    place.pass_ms(HOUR_MS);
    assert!(accounts.begin_account_erasure(&gone).await.unwrap());
    assert!(
        accounts.begin_account_erasure(&gone).await.unwrap(),
        "by another replica"
    );
    place.pass_ms(-HOUR_MS);
    assert_eq!(
        accounts.cancel_deletion(&gone, KEY).await.unwrap(),
        Cancellation::TooLate,
        "by a replica whose clock is behind"
    );
    place.pass_ms(HOUR_MS);
    let mut open = accounts.open_erasures().await.unwrap();
    open.retain(|erasure| erasure.id != other.id);
    let [erasure] = &open[..] else { panic!("one") };
    assert!(erasure.whole_account);
    let done = finish(&accounts, erasure).await;
    for (table, count) in [
        ("entries", 3),
        ("api_keys", 1),
        ("users", 1),
        ("domains", 1),
        ("accounts", 1),
    ] {
        assert_eq!(done.counts[table], count, "{table}");
    }
    assert!(accounts.authenticate(&key.api_key).await.is_err());
    assert!(!accounts.begin_account_erasure(&gone).await.unwrap());
    for table in ["entries", "api_keys", "users", "domains", "challenges"] {
        let left = format!("SELECT COUNT(*) FROM {table} WHERE account_id = '{gone}'");
        assert_eq!(rows(&place, &left).await, 0, "{table}");
    }
    let left = format!("SELECT COUNT(*) FROM accounts WHERE id = '{gone}'");
    assert_eq!(rows(&place, &left).await, 0);
    let tombstone = accounts.trail_page(&gone, None, 10).await.unwrap().items;
    assert_eq!(
        tombstone.iter().map(|one| one.action.as_str()).collect::<Vec<_>>(),
        ["account.erase"]
    );
    accounts.authenticate(&stays.api_key).await.unwrap();
    assert_eq!(rows(&place, "SELECT COUNT(*) FROM entries").await, 2);
    // What was asked for before ends too, and a key that is in memory yet asks for nothing more.
    assert_eq!(finish(&accounts, &other).await.state, ErasureState::Settled);
    let late = accounts.request_erasure(&gone, KEY, all_entries).await.unwrap();
    assert_eq!(late, RequestedErasure::Gone);
    assert!(accounts.open_erasures().await.unwrap().is_empty());
    // Who comes again is new.
    assert_ne!(accounts.sign_in(&subject).await.unwrap().account_id, gone);
}

async fn another_accounts_erasure_is_none(place: Place) {
    let accounts = place.open().await;
    let mine = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    let wish = ErasureWish {
        personal_data: true,
        ..ErasureWish::default()
    };
    let asked = request(&accounts, &mine, wish).await;
    assert_eq!(accounts.erasure(&other, &asked.id).await.unwrap(), None);
    assert_eq!(accounts.erasure(&mine, "era_0").await.unwrap(), None);
}
