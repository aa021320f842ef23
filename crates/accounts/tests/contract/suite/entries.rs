//! Entries: listed once, rectified, erased, and read in pages while others write.

use std::collections::{HashMap, HashSet};

use accounts::{
    Accounts, Created, Cursor, ENTRY_LABELS_MAX, ENTRY_PAGE_MAX, Entry, EntryAuthors, EntryContent, EntryFilter,
    EntryTitle, EntryUrl, Erased, NewEntry, Rectification, Rectified, Revision,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sqlx::Row;
use uuid::Uuid;

use crate::{Fixture, START_MS, issue};

cases! {
    entries_are_created_once,
    a_repeated_bulk_changes_nothing,
    accounts_have_ids_of_their_own,
    entries_are_bounded,
    entries_are_rectified,
    entries_are_erased,
    changes_stand_in_the_trail_without_what_they_changed,
    lists_are_filtered,
    a_rare_word_is_searched_in_parts,
    pages_show_each_entry_once_whatever_is_written_between,
    pages_show_each_entry_once_beside_writers,
    labels_are_the_accounts_own,
    many_create_the_same_at_once,
    entries_exist_whatever_account_lists_them,
}

pub(super) const KEY: &str = "key:0123456789abcdef";
const MANY: u64 = 1_000_000;

pub(super) fn id(number: u64) -> Uuid {
    Uuid::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0000 | u128::from(number))
}

fn content(url: &str, title: &str, authors: &[&str]) -> EntryContent {
    EntryContent {
        url: EntryUrl::parse(url).unwrap(),
        title: EntryTitle::parse(title.to_owned()).unwrap(),
        authors: EntryAuthors::parse(authors.iter().map(|name| (*name).to_owned()).collect()).unwrap(),
    }
}

pub(super) fn new(number: u64) -> NewEntry {
    let url = format!("https://example.com/{number}");
    NewEntry {
        id: id(number),
        content: content(&url, &format!("Article {number}"), &["Ada"]),
    }
}

pub(super) async fn account(accounts: &Accounts, domain: &str) -> String {
    issue(accounts, domain).await.account_id
}

pub(super) async fn create(accounts: &Accounts, account: &str, entries: Vec<NewEntry>) -> Vec<Created> {
    accounts.create_entries(account, KEY, entries, MANY).await.unwrap()
}

async fn created(accounts: &Accounts, account: &str, entry: NewEntry) -> Entry {
    match create(accounts, account, vec![entry]).await.remove(0) {
        Created::New(entry) => entry,
        other => panic!("{other:?}"),
    }
}

/// Every page after the other.
async fn all(accounts: &Accounts, account: &str, filter: &EntryFilter, limit: u32) -> Vec<Entry> {
    let (mut entries, mut after): (Vec<Entry>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = accounts
            .entry_page(account, filter, after.as_ref(), limit)
            .await
            .unwrap();
        assert!(page.items.len() <= limit as usize);
        entries.extend(page.items);
        after = page.next;
        if after.is_none() {
            return entries;
        }
    }
}

async fn count(fixture: &Fixture, account: &str) -> i64 {
    let question = "SELECT entries FROM entry_counts WHERE account_id = $1";
    let row = sqlx::query(question)
        .bind(account)
        .fetch_optional(&fixture.raw().await)
        .await;
    row.unwrap().map_or(0, |row| row.get(0))
}

async fn entries_are_created_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let request = NewEntry {
        id: id(1),
        content: content(
            "HTTPS://www.Example.com/\u{e4}",
            "'); DROP TABLE entries; --",
            &["Ada \u{1f600}", "\"B\", C"],
        ),
    };
    let entry = created(&accounts, &account, request).await;
    assert_eq!((entry.id, entry.domain.as_str()), (id(1), "www.example.com"));
    assert_eq!(entry.url, "https://www.example.com/%C3%A4");
    assert_eq!(entry.title, "'); DROP TABLE entries; --");
    assert_eq!(entry.authors, ["Ada \u{1f600}", "\"B\", C"]);
    assert_eq!((entry.created_at_ms, entry.updated_at_ms), (START_MS, START_MS));
    assert_eq!(accounts.entry(&account, id(1)).await.unwrap(), Some(entry));
    assert_eq!(accounts.entry(&account, id(2)).await.unwrap(), None);
    let other = self::account(&accounts, "other.example").await;
    assert_eq!(
        accounts.entry(&other, id(1)).await.unwrap(),
        None,
        "another's is as none"
    );
}

async fn a_repeated_bulk_changes_nothing(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let bulk = || (0..600).map(new).collect::<Vec<_>>();
    let first = create(&accounts, &account, bulk()).await;
    assert!(first.iter().all(|outcome| matches!(outcome, Created::New(_))));
    fixture.pass_ms(1_000);
    let again = create(&accounts, &account, bulk()).await;
    for (first, again) in first.iter().zip(&again) {
        match (first, again) {
            (Created::New(first), Created::Unchanged(again)) => assert_eq!(first, again),
            other => panic!("{other:?}"),
        }
    }
    // Within one bulk too, and beside what is new.
    let other_title = NewEntry {
        content: content("https://example.com/700", "Another", &[]),
        ..new(700)
    };
    let mixed = vec![new(700), new(5), new(700), other_title, new(701)];
    let outcomes = create(&accounts, &account, mixed).await;
    assert!(
        matches!(
            outcomes[..],
            [
                Created::New(_),
                Created::Unchanged(_),
                Created::Unchanged(_),
                Created::Differs,
                Created::New(_)
            ]
        ),
        "{outcomes:?}"
    );
    assert_eq!(
        accounts.entry(&account, id(700)).await.unwrap().unwrap().title,
        "Article 700"
    );
    assert_eq!(count(&fixture, &account).await, 602);
    assert_eq!(
        all(&accounts, &account, &EntryFilter::default(), 1_000).await.len(),
        602
    );
}

async fn accounts_have_ids_of_their_own(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (first, second) = (
        account(&accounts, "example.com").await,
        account(&accounts, "other.example").await,
    );
    created(&accounts, &first, new(1)).await;
    // Who creates an id learns nothing of others who have it, and takes nothing from them.
    let outcomes = create(&accounts, &second, vec![new(1), new(2)]).await;
    assert!(
        matches!(outcomes[..], [Created::New(_), Created::New(_)]),
        "{outcomes:?}"
    );
    assert_eq!((count(&fixture, &first).await, count(&fixture, &second).await), (1, 2));
    let right = Rectification {
        title: Some(EntryTitle::parse("Mine".to_owned()).unwrap()),
        ..Rectification::default()
    };
    assert_eq!(
        accounts
            .rectify_entry(&second, KEY, id(3), right.clone(), None)
            .await
            .unwrap(),
        Rectified::Unknown
    );
    let rectified = accounts.rectify_entry(&second, KEY, id(1), right, None).await.unwrap();
    assert!(matches!(rectified, Rectified::Done(_)), "{rectified:?}");
    assert_eq!(accounts.entry(&first, id(1)).await.unwrap().unwrap().title, "Article 1");
    let erased = accounts.erase_entry(&second, KEY, id(1), None).await.unwrap();
    assert!(matches!(erased, Erased::Done), "{erased:?}");
    assert_eq!(accounts.entry(&first, id(1)).await.unwrap().unwrap().title, "Article 1");
}

async fn entries_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let outcomes = accounts
        .create_entries(&account, KEY, (0..5).map(new).collect(), 3)
        .await
        .unwrap();
    assert!(
        matches!(outcomes[2..], [Created::New(_), Created::TooMany, Created::TooMany]),
        "{outcomes:?}"
    );
    let again = accounts
        .create_entries(&account, KEY, vec![new(1), new(9)], 3)
        .await
        .unwrap();
    assert!(
        matches!(again[..], [Created::Unchanged(_), Created::TooMany]),
        "{again:?}"
    );
    assert_eq!(
        accounts.erase_entry(&account, KEY, id(1), None).await.unwrap(),
        Erased::Done
    );
    let again = accounts.create_entries(&account, KEY, vec![new(9)], 3).await.unwrap();
    assert!(matches!(again[..], [Created::New(_)]), "{again:?}");
    assert_eq!(count(&fixture, &account).await, 3);
}

async fn entries_are_rectified(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let before = created(&accounts, &account, new(1)).await;
    fixture.pass_ms(5);
    let right = Rectification {
        title: Some(EntryTitle::parse("Right".to_owned()).unwrap()),
        authors: Some(EntryAuthors::parse(Vec::new()).unwrap()),
        ..Rectification::default()
    };
    let Rectified::Done(after) = accounts
        .rectify_entry(&account, KEY, id(1), right.clone(), None)
        .await
        .unwrap()
    else {
        panic!("it is there");
    };
    let expected = Entry {
        title: "Right".to_owned(),
        authors: Vec::new(),
        updated_at_ms: START_MS + 5,
        revision: Revision {
            number: 2,
            ..before.revision
        },
        ..before.clone()
    };
    assert_eq!(after, expected);
    fixture.pass_ms(5);
    let again = accounts
        .rectify_entry(&account, KEY, id(1), right.clone(), None)
        .await
        .unwrap();
    assert_eq!(
        again,
        Rectified::Done(after.clone()),
        "what is right already isn't changed"
    );
    let moved = Rectification {
        url: Some(EntryUrl::parse("https://blog.example.com/1").unwrap()),
        ..Rectification::default()
    };
    let stale = [before.revision];
    let refused = accounts
        .rectify_entry(&account, KEY, id(1), moved.clone(), Some(&stale))
        .await
        .unwrap();
    assert_eq!(refused, Rectified::Otherwise(after.revision));
    let fresh = [before.revision, after.revision];
    let Rectified::Done(moved) = accounts
        .rectify_entry(&account, KEY, id(1), moved, Some(&fresh))
        .await
        .unwrap()
    else {
        panic!("it is in that state");
    };
    assert_eq!((moved.domain.as_str(), moved.revision.number), ("blog.example.com", 3));
    assert_eq!(accounts.entry(&account, id(1)).await.unwrap(), Some(moved));
    let text = |text: &str| EntryFilter {
        text: Some(text.to_owned()),
        ..EntryFilter::default()
    };
    assert_eq!(
        all(&accounts, &account, &text("article"), 10).await,
        [],
        "the old title isn't found any more"
    );
    assert_eq!(all(&accounts, &account, &text("right"), 10).await.len(), 1);
}

async fn entries_are_erased(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let first = created(&accounts, &account, new(1)).await;
    created(&accounts, &account, new(2)).await;
    let other = [Revision {
        number: 2,
        ..first.revision
    }];
    let refused = accounts.erase_entry(&account, KEY, id(1), Some(&other)).await.unwrap();
    assert_eq!(refused, Erased::Otherwise(first.revision));
    let done = accounts
        .erase_entry(&account, KEY, id(1), Some(&[first.revision]))
        .await
        .unwrap();
    assert_eq!(done, Erased::Done);
    assert_eq!(
        accounts.erase_entry(&account, KEY, id(1), None).await.unwrap(),
        Erased::Unknown
    );
    assert_eq!(accounts.entry(&account, id(1)).await.unwrap(), None);
    assert_eq!(all(&accounts, &account, &EntryFilter::default(), 10).await.len(), 1);
    assert_eq!(count(&fixture, &account).await, 1);
    fixture.pass_ms(1);
    let again = created(&accounts, &account, new(1)).await;
    assert_ne!(
        again.revision, first.revision,
        "whoever knew the first doesn't change the second unawares"
    );
}

async fn changes_stand_in_the_trail_without_what_they_changed(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let request = NewEntry {
        id: id(1),
        content: content("https://example.com/secret-path", "Hidden title", &["Hidden author"]),
    };
    created(&accounts, &account, request.clone()).await;
    create(&accounts, &account, vec![request]).await;
    fixture.pass_ms(1);
    let right = Rectification {
        title: Some(EntryTitle::parse("Another".to_owned()).unwrap()),
        authors: Some(EntryAuthors::parse(vec!["Other".to_owned()]).unwrap()),
        ..Rectification::default()
    };
    for _ in 0..2 {
        accounts
            .rectify_entry(&account, KEY, id(1), right.clone(), None)
            .await
            .unwrap();
    }
    fixture.pass_ms(1);
    for _ in 0..2 {
        accounts.erase_entry(&account, KEY, id(1), None).await.unwrap();
    }
    let question =
        "SELECT action, detail, actor, at_ms FROM trail WHERE subject = $1 AND account_id = $2 ORDER BY at_ms";
    let question = sqlx::query(question).bind(id(1).to_string()).bind(&account);
    let rows = question.fetch_all(&fixture.raw().await).await.unwrap();
    let lines: Vec<(String, String, String, i64)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let line =
        |action: &str, detail: &str, at: i64| (action.to_owned(), detail.to_owned(), KEY.to_owned(), START_MS + at);
    assert_eq!(
        lines,
        [
            line("entry.create", "", 0),
            line("entry.rectify", "title,authors", 1),
            line("entry.erase", "", 2),
        ]
    );
}

async fn lists_are_filtered(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let requests = [
        ("https://example.com/a", "100% \u{c4}rger_x"),
        ("https://www.example.com/b", "Plain"),
        ("https://myexample.com/c", "\u{3a3}igma\\tail"),
        ("https://example.org/Search-Me?q=1", "Plain too"),
    ];
    for (number, (url, title)) in (0..).zip(requests) {
        let request = NewEntry {
            id: id(number),
            content: content(url, title, &[]),
        };
        created(&accounts, &account, request).await;
        fixture.pass_ms(10);
    }
    let right = Rectification {
        authors: Some(EntryAuthors::parse(vec!["New".to_owned()]).unwrap()),
        ..Rectification::default()
    };
    accounts.rectify_entry(&account, KEY, id(0), right, None).await.unwrap();
    let found = async |filter: EntryFilter| -> Vec<u64> {
        let entries = all(&accounts, &account, &filter, 2).await;
        entries
            .iter()
            .map(|entry| u64::try_from(entry.id.as_u128() & 0xff).unwrap())
            .collect()
    };
    let none = EntryFilter::default();
    assert_eq!(found(none.clone()).await, [3, 2, 1, 0], "the newest first");
    for (text, ids) in [
        ("plain", vec![3, 1]),
        ("PLAIN TOO", vec![3]),
        ("search-me", vec![3]),
        ("\u{e4}RGER", vec![0]),
        ("\u{3c3}IGMA", vec![2]),
        ("%", vec![0]),
        ("r_x", vec![0]),
        ("a_l", vec![]),
        ("\\", vec![2]),
        ("'", vec![]),
        ("example", vec![3, 2, 1, 0]),
    ] {
        let text = Some(text.to_owned());
        assert_eq!(
            found(EntryFilter {
                text: text.clone(),
                ..none.clone()
            })
            .await,
            ids,
            "{text:?}"
        );
    }
    for (domain, ids) in [
        ("example.com", vec![1, 0]),
        ("www.example.com", vec![1]),
        ("com", vec![2, 1, 0]),
        ("ex_mple.com", vec![]),
    ] {
        let domain = Some(domain.to_owned());
        assert_eq!(
            found(EntryFilter {
                domain: domain.clone(),
                ..none.clone()
            })
            .await,
            ids,
            "{domain:?}"
        );
    }
    let times = EntryFilter {
        created_from_ms: Some(START_MS + 10),
        created_to_ms: Some(START_MS + 30),
        ..none.clone()
    };
    assert_eq!(found(times).await, [2, 1], "half-open");
    let updated = EntryFilter {
        updated_from_ms: Some(START_MS + 30),
        ..none
    };
    assert_eq!(found(updated).await, [3, 0]);
}

async fn a_rare_word_is_searched_in_parts(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    created(&accounts, &account, new(1)).await;
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40010)
        INSERT INTO entries (id, account_id, domain, url, url_id, title, authors, search, created_at_ms, updated_at_ms, revision)
        SELECT '00000000-0000-4000-8000-' || CAST(100000000000 + i AS TEXT), $1, 'example.com', 'https://example.com/', '', 't', '[]', 'x',
            $2 + i / 3, 0, 1 FROM n";
    let rows = sqlx::query(rows).bind(&account).bind(START_MS + 1);
    rows.execute(&fixture.raw().await).await.unwrap();
    let rare = EntryFilter {
        text: Some("article".to_owned()),
        ..EntryFilter::default()
    };
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let page = accounts.entry_page(&account, &rare, after.as_ref(), 10).await.unwrap();
        found.extend(page.items);
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), pages), (1, 3), "20,000 entries a page, and what is left");
    let everything = all(&accounts, &account, &EntryFilter::default(), ENTRY_PAGE_MAX).await;
    let ids: HashSet<Uuid> = everything.iter().map(|entry| entry.id).collect();
    assert_eq!((everything.len(), ids.len()), (40_011, 40_011));
}

/// Action between two pages.
#[derive(Debug, Clone)]
enum Step {
    Create(u64),
    Rectify(u64),
    Erase(u64),
    Pass(i64),
    NextPage(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..24_u64).prop_map(Step::Create),
        1 => (0..24_u64).prop_map(Step::Rectify),
        2 => (0..24_u64).prop_map(Step::Erase),
        1 => (0..3_i64).prop_map(Step::Pass),
        2 => (1..4_u32).prop_map(Step::NextPage),
    ];
    proptest::collection::vec(step, 10..40)
}

/// A model of what there is, beside the store: no entry twice, and none missed that was there from
/// the first page to the last.
async fn pages_show_each_entry_once_whatever_is_written_between(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mut runner = TestRunner::deterministic();
    for round in 0..12 {
        let account = account(&accounts, &format!("round-{round}.example")).await;
        let base = round * 1_000;
        // All there is, and whether it was there all the while since the first page.
        let mut there: HashMap<u64, bool> = HashMap::new();
        for number in 0..12 {
            created(&accounts, &account, new(base + number)).await;
            there.insert(number, true);
            fixture.pass_ms(i64::try_from(number % 2).unwrap());
        }
        let (mut seen, mut after, mut ended) = (Vec::new(), None::<Cursor>, false);
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let rest = std::iter::repeat_n(Step::NextPage(3), 30);
        for step in steps.into_iter().chain(rest) {
            match step {
                Step::Create(number) => {
                    let outcome = create(&accounts, &account, vec![new(base + number)]).await.remove(0);
                    let new = matches!(outcome, Created::New(_));
                    assert_eq!(new, !there.contains_key(&number), "{outcome:?}");
                    there.entry(number).or_insert(false);
                }
                Step::Rectify(number) => {
                    let title = format!("Rectified {}", seen.len());
                    let right = Rectification {
                        title: Some(EntryTitle::parse(title).unwrap()),
                        ..Rectification::default()
                    };
                    accounts
                        .rectify_entry(&account, KEY, id(base + number), right, None)
                        .await
                        .unwrap();
                    // Put back at once: creating it with its old content again finds it unchanged.
                    if there.contains_key(&number) {
                        let old = Rectification {
                            title: Some(EntryTitle::parse(format!("Article {}", base + number)).unwrap()),
                            ..Rectification::default()
                        };
                        accounts
                            .rectify_entry(&account, KEY, id(base + number), old, None)
                            .await
                            .unwrap();
                    }
                }
                Step::Erase(number) => {
                    let erased = accounts
                        .erase_entry(&account, KEY, id(base + number), None)
                        .await
                        .unwrap();
                    assert_eq!(erased == Erased::Done, there.remove(&number).is_some());
                }
                Step::Pass(ms) => fixture.pass_ms(ms),
                Step::NextPage(_) if ended => {}
                Step::NextPage(limit) => {
                    let filter = EntryFilter::default();
                    let page = accounts
                        .entry_page(&account, &filter, after.as_ref(), limit)
                        .await
                        .unwrap();
                    seen.extend(
                        page.items
                            .iter()
                            .map(|entry| u64::try_from(entry.id.as_u128() & 0xffff).unwrap() - base),
                    );
                    ended = page.next.is_none();
                    after = page.next;
                }
            }
        }
        assert!(ended, "every page was read");
        let once: HashSet<u64> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "round {round}: {seen:?}");
        for (number, _) in there.iter().filter(|(_, throughout)| **throughout) {
            assert!(once.contains(number), "round {round}: {number} is missing in {seen:?}");
        }
        assert_eq!(count(&fixture, &account).await, i64::try_from(there.len()).unwrap());
    }
}

async fn pages_show_each_entry_once_beside_writers(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let account = account(&stores[0], "example.com").await;
    let steady: Vec<u64> = (0..60).collect();
    for number in &steady {
        created(&stores[0], &account, new(*number)).await;
        fixture.pass_ms(1);
        created(&stores[0], &account, new(number + 1_000)).await;
    }
    let mut writers = tokio::task::JoinSet::new();
    for (writer, store) in (0_u64..).zip(stores.clone()) {
        let (account, fixture) = (account.clone(), fixture.clone());
        writers.spawn(async move {
            for turn in 0..30 {
                fixture.pass_ms(1);
                create(&store, &account, vec![new(2_000 + 100 * writer + turn)]).await;
                let old = id(1_000 + 2 * turn + writer);
                assert_eq!(store.erase_entry(&account, KEY, old, None).await.unwrap(), Erased::Done);
            }
        });
    }
    for limit in [1, 7, 50] {
        let seen = all(&stores[0], &account, &EntryFilter::default(), limit).await;
        let ids: HashSet<Uuid> = seen.iter().map(|entry| entry.id).collect();
        assert_eq!(ids.len(), seen.len(), "none twice");
        for number in &steady {
            assert!(ids.contains(&id(*number)), "{number} is missing");
        }
    }
    writers.join_all().await;
    assert_eq!(count(&fixture, &account).await, 120);
}

async fn labels_are_the_accounts_own(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (first, second) = (
        account(&accounts, "example.com").await,
        account(&accounts, "other.example").await,
    );
    created(&accounts, &first, new(1)).await;
    created(&accounts, &second, new(2)).await;
    let labels = accounts.entry_labels(&first, &[id(1), id(2), id(3)]).await.unwrap();
    assert_eq!(labels.len(), 1);
    assert_eq!(
        (labels[&id(1)].title.as_str(), labels[&id(1)].url.as_str()),
        ("Article 1", "https://example.com/1")
    );
    assert!(accounts.entry_labels(&first, &[]).await.unwrap().is_empty());
    let too_many = vec![id(1); ENTRY_LABELS_MAX + 1];
    assert!(accounts.entry_labels(&first, &too_many).await.is_err());
    assert_eq!(accounts.entry_labels(&first, &too_many[1..]).await.unwrap().len(), 1);
}

async fn many_create_the_same_at_once(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let own = account(&stores[0], "example.com").await;
    let rival = account(&stores[0], "other.example").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store = stores[number % 2].clone();
        let account = if number % 4 == 3 { rival.clone() } else { own.clone() };
        tasks.spawn(async move { create(&store, &account, (0..40).map(new).collect()).await });
    }
    let mut made = HashMap::<Uuid, u32>::new();
    for outcomes in tasks.join_all().await {
        assert_eq!(outcomes.len(), 40);
        for outcome in outcomes {
            match outcome {
                Created::New(entry) => *made.entry(entry.id).or_default() += 1,
                Created::Unchanged(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(
        (made.len(), made.values().max()),
        (40, Some(&2)),
        "each of them once for each account"
    );
    let counts = (count(&fixture, &own).await, count(&fixture, &rival).await);
    assert_eq!(counts, (40, 40));
}

/// Entries as a policy looks them up: each creation or deletion is a version.
async fn entries_exist_whatever_account_lists_them(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (first, second) = (
        account(&accounts, "example.com").await,
        account(&accounts, "other.example").await,
    );
    let version = async || accounts.registry_versions().await.unwrap().entries;
    let existing = async || {
        let existing = accounts.existing_entries(&[id(1), id(2), id(3), id(1)]).await.unwrap();
        let mut numbers: Vec<u64> = (1..=3).filter(|number| existing.contains_key(&id(*number))).collect();
        numbers.sort_unstable();
        (numbers, existing.len())
    };
    let mut versions = vec![version().await];
    assert_eq!(existing().await, (vec![], 0));
    create(&accounts, &first, vec![new(1), new(2)]).await;
    versions.push(version().await);
    create(&accounts, &first, vec![new(1), new(2)]).await;
    assert_eq!(version().await, versions[1], "nothing was changed");
    create(&accounts, &second, vec![new(1)]).await;
    versions.push(version().await);
    assert_eq!(existing().await, (vec![1, 2], 2));
    accounts.erase_entry(&first, KEY, id(1), None).await.unwrap();
    versions.push(version().await);
    assert_eq!(existing().await, (vec![1, 2], 2), "the second account still lists it");
    accounts.erase_entry(&second, KEY, id(1), None).await.unwrap();
    versions.push(version().await);
    assert_eq!(existing().await, (vec![2], 1));
    assert!(versions.is_sorted_by(|before, after| before < after), "{versions:?}");
    // More IDs than fit into one statement, and none.
    let many: Vec<Uuid> = (0..1_000).map(id).collect();
    let domains = HashMap::from([(id(2), vec!["example.com".to_owned()])]);
    assert_eq!(accounts.existing_entries(&many).await.unwrap(), domains);
    assert_eq!(accounts.existing_entries(&[]).await.unwrap(), HashMap::new());
}
