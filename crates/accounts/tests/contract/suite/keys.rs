//! Accounts, their domains and keys.

use accounts::{
    AccountInfo, Accounts, AccountsError, AuthError, ChallengeRequest, Lifetime, NewKey, Revocation, Scope, Tier,
    TrailActor, VerificationMethod,
};
use sqlx::Row;

use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, domains, issue, new_key, owned};

cases! {
    a_key_speaks_for_its_accounts_domains,
    only_a_hash_is_stored,
    wrong_keys_are_distinguished,
    a_key_expires,
    a_revocation_holds_here_at_once_and_elsewhere_after_the_cache,
    a_verification_ends_after_a_year_and_is_renewed,
    a_domain_belongs_to_one_account,
    a_key_for_an_owned_domain_names_its_account,
    a_proof_is_never_replaced_by_the_operators_word,
    a_domain_that_was_someone_elses_brings_no_key_to_them,
    the_tier_is_the_accounts,
    accounts_are_listed_newest_first,
    requests_that_cant_be_met_store_nothing,
    keys_are_bounded_by_the_tier,
    keys_are_listed_newest_first,
    many_at_once_make_one_account,
    many_open_an_empty_store_at_once,
    a_checked_key_is_retained_for_its_time_only,
    everything_is_there_after_reopening,
    newer_tables_are_refused,
    changed_tables_are_refused,
    tables_of_another_program_are_refused_and_left_alone,
}

async fn a_key_speaks_for_its_accounts_domains(fixture: Fixture) {
    let accounts = fixture.open().await;
    accounts.ping().await.unwrap();
    let new = NewKey {
        scopes: vec![Scope::Write, Scope::Read, Scope::Write],
        expires_at_ms: "30d".parse::<Lifetime>().unwrap().end_ms(START_MS),
        ..new_key("News.Example.com,example.org,news.example.com.")
    };
    let made = accounts.create_publisher_key(new).await.unwrap();
    let issued = made.issued;
    assert_eq!(made.domains, ["example.org", "news.example.com"]);
    assert_eq!(issued.expires_at_ms, START_MS + 30 * 24 * HOUR_MS);
    assert!(issued.api_key.starts_with(&format!("rcpt_{}_", issued.key_id)));
    let principal = accounts.authenticate(&issued.api_key).await.unwrap();
    assert_eq!(principal.account_id, issued.account_id);
    assert_eq!(principal.actor, TrailActor::Key(issued.key_id.clone()));
    assert_eq!(principal.tier, Tier::Free);
    assert_eq!(principal.scopes, [Scope::Read, Scope::Write]);
    assert_eq!(principal.domains, ["example.org", "news.example.com"]);
    let reader = issue(&accounts, "example.com").await;
    let principal = accounts.authenticate(&reader.api_key).await.unwrap();
    assert!(principal.can(Scope::Read) && !principal.can(Scope::Write));
    assert_eq!(principal.domains, ["example.com"]);
}

async fn only_a_hash_is_stored(fixture: Fixture) {
    let accounts = fixture.open().await;
    let issued = issue(&accounts, "example.com").await;
    let parts: Vec<&str> = issued.api_key.split('_').collect();
    let row = sqlx::query("SELECT id, secret_hash FROM api_keys")
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap();
    assert_eq!(row.get::<String, _>(0), parts[1]);
    let stored: String = row.get(1);
    assert_eq!(stored.len(), 64);
    assert_ne!(stored, parts[2]);
    if fixture.url.is_none() {
        let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
        let files: Vec<Vec<u8>> = std::fs::read_dir(&fixture.data).unwrap().map(read).collect();
        let holds = |needle: &str| {
            files
                .iter()
                .any(|file| file.windows(needle.len()).any(|w| w == needle.as_bytes()))
        };
        assert!(holds(&stored) && !holds(parts[2]));
    }
}

async fn wrong_keys_are_distinguished(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mine = issue(&accounts, "example.com").await.api_key;
    let gone = Fixture::new(tempfile::tempdir().unwrap().path(), None);
    // Of another store: well made, and unknown here.
    let foreign = issue(&gone.open().await, "example.com").await.api_key;
    std::fs::remove_dir_all(&gone.data).unwrap();
    for malformed in [
        "",
        "x",
        &mine[1..],
        &mine[..mine.len() - 1],
        &mine.to_uppercase(),
        &format!("{mine} "),
    ] {
        assert!(
            matches!(accounts.authenticate(malformed).await, Err(AuthError::Malformed)),
            "{malformed}"
        );
    }
    assert!(matches!(accounts.authenticate(&foreign).await, Err(AuthError::Unknown)));
    // The id of mine with the other's secret and a right checksum: unknown too, before and after
    // mine is in the cache.
    let (mine_parts, foreign_parts): (Vec<_>, Vec<_>) = (mine.split('_').collect(), foreign.split('_').collect());
    let covered = format!("rcpt_{}_{}", mine_parts[1], foreign_parts[2]);
    let crossed = format!("{covered}_{:08x}", crc32c::crc32c(covered.as_bytes()));
    assert!(accounts::ApiKey::parse(&crossed).is_some());
    for _ in 0..2 {
        assert!(matches!(accounts.authenticate(&crossed).await, Err(AuthError::Unknown)));
        accounts.authenticate(&mine).await.unwrap();
    }
}

async fn a_key_expires(fixture: Fixture) {
    let accounts = fixture.open().await;
    let new = NewKey {
        expires_at_ms: START_MS + HOUR_MS,
        ..new_key("example.com")
    };
    let key = accounts.create_publisher_key(new).await.unwrap().issued.api_key;
    fixture.pass_ms(HOUR_MS - 1);
    accounts.authenticate(&key).await.unwrap();
    fixture.pass_ms(1);
    assert!(
        matches!(accounts.authenticate(&key).await, Err(AuthError::Expired)),
        "from the cache"
    );
    fixture.pass_ms(HOUR_MS);
    assert!(
        matches!(accounts.authenticate(&key).await, Err(AuthError::Expired)),
        "from the table"
    );
}

async fn a_revocation_holds_here_at_once_and_elsewhere_after_the_cache(fixture: Fixture) {
    let (here, elsewhere) = (fixture.open().await, fixture.open().await);
    let issued = issue(&here, "example.com").await;
    for accounts in [&here, &elsewhere] {
        accounts.authenticate(&issued.api_key).await.unwrap();
    }
    let revoke = async |key_id: &str| here.revoke_key(None, key_id, "operator").await.unwrap();
    assert_eq!(revoke(&issued.key_id).await, Revocation::Done);
    assert_eq!(revoke(&issued.key_id).await, Revocation::Before, "it is revoked once");
    assert_eq!(revoke("0011223344556677").await, Revocation::Unknown);
    assert!(matches!(
        here.authenticate(&issued.api_key).await,
        Err(AuthError::Revoked)
    ));
    fixture.pass_ms(i64::try_from(fixture.config().cache_ms_max).unwrap());
    assert!(matches!(
        elsewhere.authenticate(&issued.api_key).await,
        Err(AuthError::Revoked)
    ));
}

async fn a_verification_ends_after_a_year_and_is_renewed(fixture: Fixture) {
    let accounts = fixture.open().await;
    let new = NewKey {
        expires_at_ms: START_MS + 3 * YEAR_MS,
        ..new_key("example.com,example.org")
    };
    let key = accounts.create_publisher_key(new).await.unwrap().issued.api_key;
    fixture.pass_ms(YEAR_MS - 1);
    assert_eq!(accounts.authenticate(&key).await.unwrap().domains.len(), 2);
    fixture.pass_ms(1);
    assert_eq!(
        accounts.authenticate(&key).await.unwrap().domains,
        [""; 0],
        "also what is cached ends in time"
    );
    let renewing = NewKey {
        expires_at_ms: START_MS + 2 * YEAR_MS,
        ..new_key("example.com")
    };
    accounts
        .create_publisher_key(owned(&accounts, renewing).await)
        .await
        .unwrap();
    fixture.pass_ms(HOUR_MS);
    assert_eq!(accounts.authenticate(&key).await.unwrap().domains, ["example.com"]);
}

async fn a_domain_belongs_to_one_account(fixture: Fixture) {
    let accounts = fixture.open().await;
    let first = issue(&accounts, "example.com").await;
    let again = issue(&accounts, "example.com").await;
    assert_eq!(first.account_id, again.account_id);
    assert_ne!(first.key_id, again.key_id);
    let wider = issue(&accounts, "example.org,example.com").await;
    assert_eq!(wider.account_id, first.account_id);
    let other = issue(&accounts, "example.net").await;
    assert_ne!(other.account_id, first.account_id);
    let both = accounts
        .create_publisher_key(new_key("example.com,example.net,new.example"))
        .await;
    assert!(matches!(both, Err(AccountsError::DifferentAccounts(_))), "{both:?}");
    assert_eq!(
        accounts.account_of(&domains("example.org")[0]).await.unwrap(),
        Some(first.account_id)
    );
    assert_eq!(
        accounts.account_of(&domains("new.example")[0]).await.unwrap(),
        None,
        "nothing of it was stored"
    );
    let left = sqlx::query("SELECT COUNT(*) FROM accounts")
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap();
    assert_eq!(left.get::<i64, _>(0), 2, "no account without a domain is left behind");
}

async fn a_key_for_an_owned_domain_names_its_account(fixture: Fixture) {
    let accounts = fixture.open().await;
    let first = issue(&accounts, "example.com").await;
    let unnamed = accounts.create_publisher_key(new_key("new.example,example.com")).await;
    let reported = unnamed.unwrap_err().to_string();
    let (flag, name) = (format!("--account {}", first.account_id), "example.com belongs to");
    assert!(reported.contains(&flag) && reported.contains(name), "{reported}");
    let named = |names: &str, account_id: &str| NewKey {
        account_id: Some(account_id.to_owned()),
        ..new_key(names)
    };
    let other = issue(&accounts, "other.example").await;
    let wrong = accounts
        .create_publisher_key(named("example.com", &other.account_id))
        .await;
    assert!(
        wrong.unwrap_err().to_string().contains(&flag),
        "the account that owns it"
    );
    let unknown = accounts.create_publisher_key(named("new.example", "acc_nobody")).await;
    assert!(matches!(unknown, Err(AccountsError::UnknownAccount(_))), "{unknown:?}");
    assert_eq!(accounts.account_of(&domains("new.example")[0]).await.unwrap(), None);
    assert_eq!(accounts.list_keys().await.unwrap().len(), 2, "nothing is stored");
    // A domain that nobody owns becomes the named account's.
    let made = accounts
        .create_publisher_key(named("new.example,example.com", &first.account_id))
        .await;
    assert_eq!(made.unwrap().issued.account_id, first.account_id);
    assert_eq!(
        accounts.account_of(&domains("new.example")[0]).await.unwrap(),
        Some(first.account_id)
    );
}

async fn a_proof_is_never_replaced_by_the_operators_word(fixture: Fixture) {
    let accounts = fixture.open().await;
    let mine = issue(&accounts, "mine.test").await.account_id;
    let names = domains("example.com");
    let request_of = ChallengeRequest {
        account_id: &mine,
        actor: "key:test",
        domains: &names,
        method: VerificationMethod::Dns,
        include_subdomains: Some(true),
    };
    let issued = accounts.create_challenges(&request_of).await.unwrap();
    let proven = accounts.verify("key:test", &issued[0].challenge).await.unwrap();
    fixture.pass_ms(HOUR_MS);
    let unnamed = accounts.create_publisher_key(new_key("example.com")).await;
    assert!(matches!(unnamed, Err(AccountsError::DomainOwned { .. })), "{unnamed:?}");
    let again = issue(&accounts, "example.com,mine.test").await;
    assert_eq!(again.account_id, mine);
    let now = accounts.verification(&mine, &names[0]).await.unwrap();
    assert_eq!(now, Some(proven), "the proof, its end and its subdomains stay");
    let own_word = accounts
        .verification(&mine, &domains("mine.test")[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        own_word.expires_at_ms,
        START_MS + HOUR_MS + YEAR_MS,
        "the operator's own word is renewed"
    );
}

async fn a_domain_that_was_someone_elses_brings_no_key_to_them(fixture: Fixture) {
    let accounts = fixture.open().await;
    let theirs = issue(&accounts, "theirs.test").await.account_id;
    for name in ["expired.example", "revoked.example"] {
        let names = domains(name);
        let request = ChallengeRequest {
            account_id: &theirs,
            actor: "key:test",
            domains: &names,
            method: VerificationMethod::Dns,
            include_subdomains: Some(false),
        };
        let issued = accounts.create_challenges(&request).await.unwrap();
        accounts.verify("key:test", &issued[0].challenge).await.unwrap();
    }
    let key = issue(&accounts, "expired.example").await;
    assert_eq!(key.account_id, theirs, "while it holds");
    let revoked = &domains("revoked.example")[0];
    assert!(
        accounts
            .revoke_verification(&theirs, "key:test", revoked)
            .await
            .unwrap()
    );
    let made = accounts.create_publisher_key(new_key("revoked.example")).await.unwrap();
    let mine = made.issued.account_id;
    assert_ne!(mine, theirs);
    fixture.pass_ms(YEAR_MS);
    let new = NewKey {
        expires_at_ms: START_MS + 2 * YEAR_MS,
        ..new_key("expired.example")
    };
    let made = accounts.create_publisher_key(new).await.unwrap().issued;
    assert!(made.account_id != theirs && made.account_id != mine);
    let principal = accounts.authenticate(&made.api_key).await.unwrap();
    assert_eq!(principal.domains, ["expired.example"]);
    assert_eq!(principal.inherited.len(), 1, "whatever the owner before chose");
    let left = accounts.verifications(&theirs).await.unwrap();
    let left: Vec<&str> = left.iter().map(|one| one.domain.as_str()).collect();
    assert_eq!(left, ["theirs.test"]);
}

async fn the_tier_is_the_accounts(fixture: Fixture) {
    let (here, elsewhere) = (fixture.open().await, fixture.open().await);
    let first = here.create_publisher_key(new_key("example.com")).await.unwrap();
    assert_eq!(first.tier, Tier::Free);
    let account_id = &first.issued.account_id;
    let tier = async |accounts: &Accounts| accounts.authenticate(&first.issued.api_key).await.unwrap().tier;
    assert_eq!((tier(&here).await, tier(&elsewhere).await), (Tier::Free, Tier::Free));
    let before = here.set_tier(account_id, Tier::Enterprise, "operator").await.unwrap();
    assert_eq!(before, Some(Tier::Free));
    assert_eq!(tier(&here).await, Tier::Enterprise, "at once where it was set");
    fixture.pass_ms(i64::try_from(fixture.config().cache_ms_max).unwrap() - 1);
    assert_eq!(tier(&elsewhere).await, Tier::Free, "from the cache");
    fixture.pass_ms(1);
    assert_eq!(
        tier(&elsewhere).await,
        Tier::Enterprise,
        "once the cache's time is over"
    );
    let again = owned(&elsewhere, new_key("example.com")).await;
    let again = elsewhere.create_publisher_key(again).await.unwrap();
    assert_eq!(again.tier, Tier::Enterprise, "a new key leaves the tier as it is");
    let before = here.set_tier(account_id, Tier::Enterprise, "operator").await.unwrap();
    assert_eq!(before, Some(Tier::Enterprise));
    assert_eq!(here.set_tier("acc_none", Tier::Pro, "operator").await.unwrap(), None);
    let trail = here.trail_page(account_id, None, 10).await.unwrap().items;
    let changes: Vec<_> = trail.iter().filter(|one| one.action == "account.set-tier").collect();
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(
        (change.actor.as_str(), change.detail.as_str()),
        ("operator", "free to enterprise")
    );
}

async fn accounts_are_listed_newest_first(fixture: Fixture) {
    let accounts = fixture.open().await;
    let first = issue(&accounts, "example.com,example.org").await;
    fixture.pass_ms(1);
    let second = issue(&accounts, "example.net").await.account_id;
    let other = issue(&accounts, "example.com").await;
    accounts.revoke_key(None, &other.key_id, "operator").await.unwrap();
    let given_back = &domains("example.org")[0];
    assert!(
        accounts
            .revoke_verification(&first.account_id, "operator", given_back)
            .await
            .unwrap()
    );
    accounts.set_tier(&second, Tier::Pro, "operator").await.unwrap();
    let listed = accounts.list_accounts().await.unwrap();
    let ids: Vec<_> = listed.iter().map(|one| one.account_id.as_str()).collect();
    assert_eq!(ids, [second.as_str(), first.account_id.as_str()]);
    assert_eq!((listed[0].tier, listed[1].tier), (Tier::Pro, Tier::Free));
    let shown = accounts.account(&first.account_id).await.unwrap().unwrap();
    assert_eq!(shown, listed[1]);
    let expected = AccountInfo {
        quota: None,
        account_id: first.account_id,
        name: "example.com".to_owned(),
        tier: Tier::Free,
        created_at_ms: START_MS,
        deletion: None,
        verified_domains: 1,
        active_keys: 1,
    };
    assert_eq!(shown, expected);
    assert_eq!(accounts.account("acc_none").await.unwrap(), None);
}

async fn requests_that_cant_be_met_store_nothing(fixture: Fixture) {
    let accounts = fixture.open().await;
    let wrong = [
        NewKey {
            domains: Vec::new(),
            ..new_key("example.com")
        },
        NewKey {
            scopes: Vec::new(),
            ..new_key("example.com")
        },
        NewKey {
            expires_at_ms: START_MS,
            ..new_key("example.com")
        },
        NewKey {
            name: " ".to_owned(),
            ..new_key("example.com")
        },
        NewKey {
            name: "a\nb".to_owned(),
            ..new_key("example.com")
        },
        NewKey {
            name: "\u{e9}".repeat(101),
            ..new_key("example.com")
        },
    ];
    for new in wrong {
        let shown = format!("{new:?}");
        assert!(accounts.create_publisher_key(new).await.is_err(), "{shown}");
    }
    assert_eq!(accounts.list_keys().await.unwrap(), []);
    let longest = NewKey {
        name: "\u{e9}'; DROP TABLE domains; --".repeat(3),
        ..new_key("example.com")
    };
    accounts.create_publisher_key(longest.clone()).await.unwrap();
    assert_eq!(accounts.list_keys().await.unwrap()[0].name, longest.name);
}

async fn keys_are_bounded_by_the_tier(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account_id = issue(&accounts, "example.com").await.account_id;
    let full = async |tier: Tier, max: u32| {
        let another = owned(&accounts, new_key("example.com")).await;
        let refused = accounts.create_publisher_key(another).await;
        let is_reported = |error: &AccountsError| matches!(error, AccountsError::TooManyKeys { tier: reported, max: most } if (*reported, *most) == (tier, max));
        assert!(refused.as_ref().is_err_and(is_reported), "{refused:?}");
    };
    // Those of another account don't count.
    issue(&accounts, "example.org").await;
    let mut keys = Vec::new();
    for _ in 1..5 {
        keys.push(issue(&accounts, "example.com").await);
    }
    full(Tier::Free, 5).await;
    // The tier is set with the key, or not at all.
    let pro = NewKey {
        tier: Some(Tier::Pro),
        ..owned(&accounts, new_key("example.com")).await
    };
    let nameless = NewKey {
        name: String::new(),
        ..pro.clone()
    };
    assert!(accounts.create_publisher_key(nameless).await.is_err());
    full(Tier::Free, 5).await;
    assert_eq!(accounts.create_publisher_key(pro).await.unwrap().tier, Tier::Pro);
    for _ in 6..25 {
        issue(&accounts, "example.com").await;
    }
    full(Tier::Pro, 25).await;
    accounts
        .set_tier(&account_id, Tier::Enterprise, "operator")
        .await
        .unwrap();
    issue(&accounts, "example.com").await;
    // A lower tier ends no key.
    accounts.set_tier(&account_id, Tier::Pro, "operator").await.unwrap();
    accounts.authenticate(&keys[0].api_key).await.unwrap();
    full(Tier::Pro, 25).await;
    for key in &keys[..2] {
        let revoked = accounts.revoke_key(None, &key.key_id, "operator").await.unwrap();
        assert_eq!(revoked, Revocation::Done);
    }
    let new = NewKey {
        expires_at_ms: START_MS + HOUR_MS,
        ..new_key("example.com")
    };
    let new = owned(&accounts, new).await;
    accounts.create_publisher_key(new).await.unwrap();
    full(Tier::Pro, 25).await;
    // What has expired doesn't count.
    fixture.pass_ms(HOUR_MS);
    issue(&accounts, "example.com").await;
    full(Tier::Pro, 25).await;
}

async fn keys_are_listed_newest_first(fixture: Fixture) {
    let accounts = fixture.open().await;
    let first = issue(&accounts, "example.com").await;
    fixture.pass_ms(1);
    let second = issue(&accounts, "example.org").await;
    fixture.pass_ms(1);
    let third = issue(&accounts, "example.com").await;
    accounts.revoke_key(None, &first.key_id, "operator").await.unwrap();
    let ids = |keys: &[accounts::KeyInfo]| keys.iter().map(|key| key.key_id.clone()).collect::<Vec<_>>();
    let all = accounts.list_keys().await.unwrap();
    assert_eq!(ids(&all), [third.key_id.clone(), second.key_id, first.key_id.clone()]);
    let own = accounts.keys_page(&first.account_id, None, 10).await.unwrap().items;
    assert_eq!(ids(&own), [third.key_id, first.key_id]);
    assert_eq!((own[0].revoked_at_ms, own[1].revoked_at_ms), (None, Some(START_MS + 2)));
    assert_eq!(
        (own[1].created_at_ms, own[1].expires_at_ms),
        (START_MS, START_MS + YEAR_MS)
    );
    assert_eq!(
        (own[1].name.as_str(), own[1].scopes.as_slice()),
        ("test", [Scope::Read].as_slice())
    );
}

async fn many_at_once_make_one_account(fixture: Fixture) {
    let stores = [fixture.open_with_keys(16).await, fixture.open_with_keys(16).await];
    let mut tasks = Vec::new();
    // The first makes the account; the others get its ID in the error, and name it.
    let make = async |store: &Accounts, names: &str| match store.create_publisher_key(new_key(names)).await {
        Err(AccountsError::DomainOwned { account_id, .. }) => {
            let named = NewKey {
                account_id: Some(account_id),
                ..new_key(names)
            };
            store.create_publisher_key(named).await.unwrap().issued
        }
        made => made.unwrap().issued,
    };
    for number in 0..16 {
        let store: Accounts = stores[number % 2].clone();
        let names = if number % 3 == 0 {
            "b.example,a.example"
        } else {
            "a.example,b.example"
        };
        tasks.push(tokio::spawn(async move { make(&store, names).await }));
    }
    let mut owners = std::collections::HashSet::new();
    for task in tasks {
        let issued = task.await.unwrap();
        stores[0].authenticate(&issued.api_key).await.unwrap();
        owners.insert(issued.account_id);
    }
    assert_eq!(owners.len(), 1);
    assert_eq!(stores[0].list_keys().await.unwrap().len(), 16);
}

async fn many_open_an_empty_store_at_once(fixture: Fixture) {
    let tasks: Vec<_> = (0..8)
        .map(|_| fixture.clone())
        .map(|fixture| tokio::spawn(async move { fixture.open().await }))
        .collect();
    let mut last = None;
    for task in tasks {
        last = Some(task.await.unwrap());
    }
    issue(&last.unwrap(), "example.com").await;
    let versions = sqlx::query("SELECT COUNT(*), MAX(version) FROM _sqlx_migrations")
        .fetch_one(&fixture.raw().await)
        .await
        .unwrap();
    assert_eq!(versions.get::<i64, _>(0), versions.get::<i64, _>(1), "each once");
}

async fn a_checked_key_is_retained_for_its_time_only(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (asked, other) = (
        issue(&accounts, "example.com").await,
        issue(&accounts, "example.org").await,
    );
    accounts.authenticate(&asked.api_key).await.unwrap();
    accounts.close().await;
    assert_eq!(
        accounts.authenticate(&asked.api_key).await.unwrap().actor,
        TrailActor::Key(asked.key_id.clone())
    );
    assert!(matches!(
        accounts.authenticate(&other.api_key).await,
        Err(AuthError::Unavailable(_))
    ));
    fixture.pass_ms(i64::try_from(fixture.config().cache_ms_max).unwrap());
    assert!(matches!(
        accounts.authenticate(&asked.api_key).await,
        Err(AuthError::Unavailable(_))
    ));
    assert!(accounts.ping().await.is_err());
}

async fn everything_is_there_after_reopening(fixture: Fixture) {
    let accounts = fixture.open().await;
    let issued = issue(&accounts, "example.com").await;
    accounts.close().await;
    let again = fixture.open().await;
    assert_eq!(
        again.authenticate(&issued.api_key).await.unwrap().account_id,
        issued.account_id
    );
    assert_eq!(again.list_keys().await.unwrap().len(), 1);
}

async fn changed_tables_are_refused(fixture: Fixture) {
    fixture.open().await.close().await;
    let change = "UPDATE _sqlx_migrations SET checksum = (SELECT checksum || checksum FROM _sqlx_migrations)";
    sqlx::query(change).execute(&fixture.raw().await).await.unwrap();
    let error = fixture.try_open().await.unwrap_err();
    assert!(
        matches!(&error, AccountsError::Schema(what) if what.contains("version 1")),
        "{error}"
    );
}

async fn tables_of_another_program_are_refused_and_left_alone(fixture: Fixture) {
    let raw = fixture.raw().await;
    for statement in [
        "CREATE TABLE erasures (note TEXT)",
        "INSERT INTO erasures (note) VALUES ('mine')",
    ] {
        sqlx::query(statement).execute(&raw).await.unwrap();
    }
    for _ in 0..2 {
        let error = fixture.try_open().await.unwrap_err();
        assert!(
            matches!(&error, AccountsError::Schema(what) if what.contains("name an empty database")),
            "{error}"
        );
    }
    let note: (String,) = sqlx::query_as("SELECT note FROM erasures")
        .fetch_one(&raw)
        .await
        .unwrap();
    assert_eq!(note.0, "mine");
    let accounts = sqlx::query("SELECT id FROM accounts").fetch_all(&raw).await;
    assert!(accounts.is_err(), "nothing was created");
}

async fn newer_tables_are_refused(fixture: Fixture) {
    fixture.open().await.close().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        SELECT 99, description, success, checksum, execution_time FROM _sqlx_migrations";
    sqlx::query(newer).execute(&fixture.raw().await).await.unwrap();
    let error = fixture.try_open().await.unwrap_err();
    assert!(
        matches!(&error, AccountsError::Schema(what) if what.contains("version 99")),
        "{error}"
    );
}
