//! Entries by URL: what anybody may look up, and whose entry it is.

use accounts::{
    Accounts, Domain, EntryAuthors, EntryContent, EntryTitle, EntryUrl, ListedEntry, NewEntry, NewKey, PublicEntry,
    Rectification, Rectified,
};
use receipt::{CanonicalUrl, canonical_url};
use uuid::Uuid;

use super::entries::{KEY, account, create, id};
use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, new_key, owned};

cases! {
    urls_are_found_in_any_form,
    only_accounts_that_speak_for_a_host_list_its_urls,
    the_nearest_verified_domain_decides,
    the_oldest_entry_of_an_account_is_found,
    a_rectified_url_moves_its_entry,
    many_urls_are_resolved_together,
    a_url_with_many_entries_is_found,
}

fn urls(texts: &[&str]) -> Vec<CanonicalUrl> {
    texts.iter().map(|text| canonical_url(text).unwrap()).collect()
}

fn entry(number: u64, url: &str) -> NewEntry {
    NewEntry {
        id: id(number),
        content: EntryContent {
            url: EntryUrl::parse(url).unwrap(),
            title: EntryTitle::parse(format!("Article {number}")).unwrap(),
            authors: EntryAuthors::parse(vec!["Ada".to_owned()]).unwrap(),
        },
    }
}

fn listed(publisher: &str, number: u64) -> ListedEntry {
    ListedEntry {
        publisher: Some(publisher.to_owned()),
        entry: Some(PublicEntry {
            id: id(number),
            title: format!("Article {number}"),
        }),
    }
}

fn unlisted(publisher: Option<&str>) -> ListedEntry {
    ListedEntry {
        publisher: publisher.map(str::to_owned),
        entry: None,
    }
}

async fn look_up(accounts: &Accounts, url: &str) -> ListedEntry {
    accounts.entries_by_url(&urls(&[url])).await.unwrap().remove(0)
}

async fn include_subdomains(fixture: &Fixture, domain: &str, are_included: bool) {
    let statement = "UPDATE domains SET include_subdomains = $1 WHERE domain = $2";
    let update = sqlx::query(statement).bind(i64::from(are_included)).bind(domain);
    update.execute(&fixture.raw().await).await.unwrap();
}

async fn urls_are_found_in_any_form(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "xn--bcher-kva.example").await;
    let url = "https://b\u{fc}cher.example/\u{e4}/'x'?q=\u{20ac}#part";
    create(&accounts, &account, vec![entry(1, url)]).await;
    for form in [
        url,
        "HTTPS://B\u{dc}CHER.example:443/%C3%A4/'x'?q=%E2%82%AC",
        "https://xn--bcher-kva.example./%C3%A4/%27x%27?q=%E2%82%AC#other",
    ] {
        assert_eq!(
            look_up(&accounts, form).await,
            listed("xn--bcher-kva.example", 1),
            "{form}"
        );
    }
    for other in [
        "http://xn--bcher-kva.example/%C3%A4/'x'?q=%E2%82%AC",
        "https://xn--bcher-kva.example:8443/%C3%A4/'x'?q=%E2%82%AC",
        "https://xn--bcher-kva.example/%c3%a4/'x'?q=%E2%82%AC",
        "https://xn--bcher-kva.example/%C3%A4/'x'",
        "https://xn--bcher-kva.example/%C3%A4/'X'?q=%E2%82%AC",
        "https://xn--bcher-kva.example/",
    ] {
        assert_eq!(
            look_up(&accounts, other).await,
            unlisted(Some("xn--bcher-kva.example")),
            "{other}"
        );
    }
    assert_eq!(accounts.entries_by_url(&[]).await.unwrap(), []);
}

async fn only_accounts_that_speak_for_a_host_list_its_urls(fixture: Fixture) {
    let accounts = fixture.open().await;
    let first = account(&accounts, "example.com").await;
    let url = "https://example.com/a";
    create(
        &accounts,
        &first,
        vec![entry(1, url), entry(2, "https://other.example/a")],
    )
    .await;
    assert_eq!(look_up(&accounts, url).await, listed("example.com", 1));
    assert_eq!(look_up(&accounts, "https://other.example/a").await, unlisted(None));
    let www = "https://www.example.com/a";
    assert_eq!(look_up(&accounts, www).await, unlisted(Some("example.com")));
    include_subdomains(&fixture, "example.com", false).await;
    assert_eq!(look_up(&accounts, www).await, unlisted(None));

    // While the verification has ended, nobody lists it. Afterwards the new owner does.
    fixture.pass_ms(YEAR_MS + HOUR_MS);
    assert_eq!(look_up(&accounts, url).await, unlisted(None));
    let transferred = NewKey {
        expires_at_ms: START_MS + 3 * YEAR_MS,
        ..new_key("second.example")
    };
    let second = accounts
        .create_publisher_key(transferred)
        .await
        .unwrap()
        .issued
        .account_id;
    let domain: Domain = "example.com".parse().unwrap();
    assert!(
        accounts
            .transfer_domain(&domain, &second, "operator:test")
            .await
            .unwrap()
    );
    assert_eq!(look_up(&accounts, url).await, unlisted(Some("example.com")));
    create(&accounts, &second, vec![entry(3, url)]).await;
    assert_eq!(look_up(&accounts, url).await, listed("example.com", 3));
}

async fn the_nearest_verified_domain_decides(fixture: Fixture) {
    let accounts = fixture.open().await;
    let parent = account(&accounts, "example.com").await;
    let url = "https://blog.example.com/a";
    let below = "https://x.blog.example.com/a";
    create(&accounts, &parent, vec![entry(1, url), entry(2, below)]).await;
    assert_eq!(look_up(&accounts, url).await, listed("example.com", 1));

    // Another account verifies the subdomain alone: nobody speaks for what is below it.
    let child = account(&accounts, "blog.example.com").await;
    include_subdomains(&fixture, "blog.example.com", false).await;
    assert_eq!(look_up(&accounts, url).await, unlisted(Some("blog.example.com")));
    assert_eq!(look_up(&accounts, below).await, unlisted(None));
    create(&accounts, &child, vec![entry(3, url)]).await;
    assert_eq!(look_up(&accounts, url).await, listed("blog.example.com", 3));

    // A domain of the same account hides nothing of its parent's.
    let new = owned(&accounts, new_key("example.com,shop.example.com")).await;
    accounts.create_publisher_key(new).await.unwrap();
    include_subdomains(&fixture, "shop.example.com", false).await;
    let shop = "https://x.shop.example.com/a";
    create(&accounts, &parent, vec![entry(4, shop)]).await;
    assert_eq!(look_up(&accounts, shop).await, listed("example.com", 4));
    assert_eq!(
        look_up(&accounts, "https://shop.example.com/").await,
        unlisted(Some("shop.example.com"))
    );

    // Subdomains of a public suffix belong to different people.
    let suffix = account(&accounts, "github.io").await;
    create(&accounts, &suffix, vec![entry(5, "https://someone.github.io/a")]).await;
    assert_eq!(look_up(&accounts, "https://someone.github.io/a").await, unlisted(None));
    include_subdomains(&fixture, "github.io", true).await;
    assert_eq!(look_up(&accounts, "https://someone.github.io/a").await, unlisted(None));
}

async fn the_oldest_entry_of_an_account_is_found(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let url = "https://example.com/a";
    create(&accounts, &account, vec![entry(2, url)]).await;
    fixture.pass_ms(1);
    create(&accounts, &account, vec![entry(1, "https://example.com/a#part")]).await;
    assert_eq!(look_up(&accounts, url).await, listed("example.com", 2));
    accounts.erase_entry(&account, KEY, id(2), None).await.unwrap();
    assert_eq!(look_up(&accounts, url).await, listed("example.com", 1));
    accounts.erase_entry(&account, KEY, id(1), None).await.unwrap();
    assert_eq!(look_up(&accounts, url).await, unlisted(Some("example.com")));
}

async fn a_rectified_url_moves_its_entry(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    create(&accounts, &account, vec![entry(1, "https://example.com/a")]).await;
    for (url, title, old) in [
        (Some("https://example.com/b"), None, "https://example.com/a"),
        (None, Some("Article 1 "), "https://example.com/a"),
        (
            Some("https://example.com/c"),
            Some("Article 1"),
            "https://example.com/b",
        ),
    ] {
        let right = Rectification {
            url: url.map(|url| EntryUrl::parse(url).unwrap()),
            title: title.map(|title: &str| EntryTitle::parse(title.to_owned()).unwrap()),
            authors: None,
        };
        let done = accounts.rectify_entry(&account, KEY, id(1), right, None).await.unwrap();
        let Rectified::Done(entry) = done else {
            panic!("{done:?}")
        };
        assert_eq!(look_up(&accounts, old).await, unlisted(Some("example.com")));
        let found = look_up(&accounts, &entry.url).await.entry.unwrap();
        assert_eq!((found.id, found.title), (id(1), entry.title));
    }
}

async fn many_urls_are_resolved_together(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (first, second) = (
        account(&accounts, "example.com").await,
        account(&accounts, "example.org").await,
    );
    let of_domain = |domain: &str, numbers: std::ops::Range<u64>| {
        let url = |number| entry(number, &format!("https://{domain}/{number}"));
        numbers.map(url).collect::<Vec<_>>()
    };
    create(&accounts, &first, of_domain("example.com", 0..700)).await;
    create(&accounts, &second, of_domain("example.org", 0..700)).await;
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for number in (0..1_000).rev() {
        let domain = if number % 3 == 0 { "example.org" } else { "example.com" };
        asked.push(canonical_url(&format!("https://{domain}/{number}")).unwrap());
        expected.push(if number < 700 {
            listed(domain, number)
        } else {
            unlisted(Some(domain))
        });
        // One that comes again.
        if number % 100 == 0 {
            asked.push(asked.last().unwrap().clone());
            expected.push(expected.last().unwrap().clone());
        }
    }
    // Hosts with as many parents as there can be.
    for number in 0..20 {
        let host = format!("{}x{number}.test", "a.".repeat(120));
        asked.push(canonical_url(&format!("https://{host}/")).unwrap());
        expected.push(unlisted(None));
    }
    assert_eq!(accounts.entries_by_url(&asked).await.unwrap(), expected);
}

async fn a_url_with_many_entries_is_found(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = account(&accounts, "example.com").await;
    let url = canonical_url("https://example.com/a").unwrap();
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40010)
        INSERT INTO entries (id, account_id, domain, url, url_id, title, authors, search, created_at_ms, updated_at_ms, revision)
        SELECT '00000000-0000-4000-8000-' || CAST(100000000000 + i AS TEXT), $1, 'example.com', $2, $3, 't', '[]', 'x', $4 - i, 0, 1
        FROM n";
    let rows = sqlx::query(rows).bind(&account).bind(url.as_str());
    let rows = rows.bind(url.entry_id().to_string()).bind(START_MS);
    rows.execute(&fixture.raw().await).await.unwrap();
    let found = accounts.entries_by_url(&vec![url; 1_000]).await.unwrap();
    let oldest: Uuid = "00000000-0000-4000-8000-100000040010".parse().unwrap();
    assert_eq!(found.len(), 1_000);
    for one in found {
        assert_eq!(one.entry.map(|entry| entry.id), Some(oldest));
    }
}
