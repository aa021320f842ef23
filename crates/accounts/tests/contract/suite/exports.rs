//! Exports: each row of the account in one page, whatever is written meanwhile, and no secret; the
//! trail, newest first.

use std::collections::BTreeSet;

use accounts::{
    Accounts, COLLECTIONS, Collection, Cursor, EntryAuthors, EntryContent, EntryTitle, EntryUrl, ExportValue, NewEntry,
    TrailEntry,
};
use uuid::Uuid;

use crate::{Fixture, START_MS, issue};

cases! {
    every_collection_is_walked_whole,
    rows_are_in_one_page_each_beside_writers,
    no_secret_is_exported,
    the_trail_is_read_newest_first,
}

const KEY: &str = "key:0123456789abcdef";

fn collection(name: &str) -> &'static Collection {
    COLLECTIONS.iter().find(|one| one.name == name).unwrap()
}

async fn entries(accounts: &Accounts, account: &str, numbers: std::ops::Range<u64>) {
    let new = |number: u64| NewEntry {
        // In no order of their creation.
        id: Uuid::from_u128((u128::from(number * 7 % 11) << 64) | 0x4000_8000_0000_0000_0000 | u128::from(number)),
        content: EntryContent {
            url: EntryUrl::parse(&format!("https://example.com/{number}")).unwrap(),
            title: EntryTitle::parse(format!("Article {number}")).unwrap(),
            authors: EntryAuthors::parse(vec!["Ada".to_owned(), "Grace, \"G\"".to_owned()]).unwrap(),
        },
    };
    accounts
        .create_entries(account, KEY, numbers.map(new).collect(), 1_000)
        .await
        .unwrap();
}

async fn walk(accounts: &Accounts, account: &str, collection: &Collection, rows_max: i64) -> Vec<Vec<ExportValue>> {
    let (mut all, mut after): (Vec<Vec<ExportValue>>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = accounts
            .collection_page(account, collection, after.as_ref(), rows_max)
            .await
            .unwrap();
        let Some(last) = page.last() else { return all };
        after = Some(last.cursor.clone());
        all.extend(page.into_iter().map(|row| row.cells));
    }
}

async fn every_collection_is_walked_whole(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mine = issue(&accounts, "example.com,example.org,b.example").await.account_id;
    let other = issue(&accounts, "other.example").await.account_id;
    entries(&accounts, &mine, 0..4).await;
    fixture.pass_ms(1);
    entries(&accounts, &mine, 4..7).await;
    for collection in COLLECTIONS {
        let whole = walk(&accounts, &mine, collection, 1_000).await;
        assert_eq!(
            accounts.collection_rows(&mine, collection).await.unwrap(),
            whole.len() as u64,
            "{}",
            collection.name
        );
        assert!(whole.iter().all(|row| row.len() == collection.columns.len()));
        for rows_max in [1, 2, 3] {
            assert_eq!(
                walk(&accounts, &mine, collection, rows_max).await,
                whole,
                "{} by {rows_max}",
                collection.name
            );
        }
    }
    let whole = walk(&accounts, &mine, collection("entries"), 100).await;
    assert_eq!(whole.len(), 7);
    assert_eq!(
        whole[0][4],
        ExportValue::List(vec!["Ada".to_owned(), "Grace, \"G\"".to_owned()])
    );
    assert_eq!(whole[6][5], ExportValue::Instant(START_MS + 1));
    let domains = walk(&accounts, &mine, collection("domains"), 2).await;
    let names: Vec<_> = domains.iter().map(|row| row[0].clone()).collect();
    assert_eq!(
        names,
        ["b.example", "example.com", "example.org"].map(|name| ExportValue::Text(name.to_owned()))
    );
    assert_eq!(
        (domains[0][3].clone(), domains[0][6].clone()),
        (ExportValue::Flag(true), ExportValue::Absent)
    );
    let keys = walk(&accounts, &mine, collection("keys"), 2).await;
    assert_eq!(keys[0][2], ExportValue::List(vec!["read".to_owned()]));
    assert_eq!(
        walk(&accounts, &other, collection("entries"), 2).await,
        Vec::<Vec<ExportValue>>::new()
    );
    assert_eq!(
        walk(&accounts, "acc_none", collection("account"), 2).await,
        Vec::<Vec<ExportValue>>::new()
    );
}

async fn rows_are_in_one_page_each_beside_writers(fixture: Fixture) {
    let (accounts, writer) = (fixture.open().await, fixture.open().await);
    let account = issue(&accounts, "example.com").await.account_id;
    entries(&accounts, &account, 0..20).await;
    let before: BTreeSet<String> = ids(walk(&accounts, &account, collection("entries"), 100).await)
        .into_iter()
        .collect();
    let (mut seen, mut after, mut turn): (Vec<String>, Option<Cursor>, u64) = (Vec::new(), None, 0);
    loop {
        let page = accounts
            .collection_page(&account, collection("entries"), after.as_ref(), 3)
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.cursor.clone());
        seen.extend(ids(page.into_iter().map(|row| row.cells).collect()));
        turn += 1;
        if turn < 10 {
            fixture.pass_ms(1);
            entries(&writer, &account, 100 + turn..101 + turn).await;
        }
    }
    let distinct: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(distinct.len(), seen.len(), "none twice");
    assert!(distinct.is_superset(&before), "none missed");
}

fn ids(rows: Vec<Vec<ExportValue>>) -> Vec<String> {
    let id = |row: Vec<ExportValue>| match &row[0] {
        ExportValue::Text(id) => id.clone(),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(id).collect()
}

async fn no_secret_is_exported(fixture: Fixture) {
    let accounts = fixture.open().await;
    let issued = issue(&accounts, "example.com").await;
    let mut everything = String::new();
    for collection in COLLECTIONS {
        everything += &format!("{:?}", walk(&accounts, &issued.account_id, collection, 100).await);
    }
    assert!(everything.contains(&issued.key_id), "{everything}");
    let hash: String = sqlx::Row::get(
        &sqlx::query("SELECT secret_hash FROM api_keys")
            .fetch_one(&fixture.raw().await)
            .await
            .unwrap(),
        0,
    );
    assert!(!everything.contains(&hash) && !everything.contains(issued.api_key.split('_').nth(2).unwrap()));
}

async fn the_trail_is_read_newest_first(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "example.com").await.account_id;
    let other = issue(&accounts, "example.org").await.account_id;
    for number in 0..5 {
        fixture.pass_ms(i64::try_from(number % 2).unwrap());
        entries(&accounts, &account, number..number + 1).await;
    }
    let whole = accounts.trail_page(&account, None, 100).await.unwrap();
    assert_eq!(whole.next, None);
    let order = |one: &TrailEntry| (one.at_ms, one.id.clone());
    assert!(whole.items.windows(2).all(|two| order(&two[0]) > order(&two[1])));
    let oldest = whole.items.last().unwrap();
    assert_eq!(
        (oldest.action.as_str(), oldest.actor.as_str(), oldest.at_ms),
        ("key.create", "operator", START_MS)
    );
    for items_max in [1, 2, 4] {
        let (mut all, mut after): (Vec<TrailEntry>, Option<Cursor>) = (Vec::new(), None);
        loop {
            let page = accounts.trail_page(&account, after.as_ref(), items_max).await.unwrap();
            assert!(page.items.len() <= items_max);
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, whole.items, "pages of {items_max}");
    }
    let foreign = accounts.trail_page(&other, None, 100).await.unwrap().items;
    assert!(foreign.iter().all(|one| !whole.items.contains(one)));
}
