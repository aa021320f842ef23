//! Accounts, their domains and keys.

use accounts::{
    Accounts, AccountsError, AuthError, ChallengeWish, KEYS_MAX, Lifetime, NewKey, Revocation, Scope, Tier,
    VerificationMethod,
};
use sqlx::Row;

use crate::{HOUR_MS, Place, START_MS, YEAR_MS, domains, issue, wish};

cases! {
    a_key_speaks_for_its_accounts_domains,
    only_a_hash_is_stored,
    wrong_keys_are_told_apart,
    a_key_expires,
    a_revocation_holds_here_at_once_and_elsewhere_after_the_cache,
    a_verification_ends_after_a_year_and_is_renewed,
    a_domain_belongs_to_one_account,
    a_domain_that_was_someone_elses_brings_no_key_to_them,
    the_tier_is_the_accounts,
    wishes_that_cant_be_met_store_nothing,
    keys_are_bounded,
    keys_are_listed_newest_first,
    many_at_once_make_one_account,
    many_open_an_empty_store_at_once,
    a_checked_key_is_kept_for_its_time_only,
    everything_is_there_after_reopening,
    newer_tables_are_refused,
}

async fn a_key_speaks_for_its_accounts_domains(place: Place) {
    let accounts = place.open().await;
    accounts.ping().await.unwrap();
    let new = NewKey {
        scopes: vec![Scope::Write, Scope::Read, Scope::Write],
        tier: Some(Tier::Pro),
        expires_at_ms: "30d".parse::<Lifetime>().unwrap().end_ms(START_MS),
        ..wish("News.Example.com,example.org,news.example.com.")
    };
    let made = accounts.create_publisher_key(new).await.unwrap();
    let issued = made.issued;
    assert_eq!(made.domains, ["example.org", "news.example.com"]);
    assert_eq!(issued.expires_at_ms, START_MS + 30 * 24 * HOUR_MS);
    assert!(issued.api_key.starts_with(&format!("rcpt_{}_", issued.key_id)));
    let principal = accounts.authenticate(&issued.api_key).await.unwrap();
    assert_eq!(principal.account_id, issued.account_id);
    assert_eq!(principal.key_id, issued.key_id);
    assert_eq!(principal.tier, Tier::Pro);
    assert_eq!(principal.scopes, [Scope::Read, Scope::Write]);
    assert_eq!(principal.domains, ["example.org", "news.example.com"]);
    let reader = issue(&accounts, "example.com").await;
    let principal = accounts.authenticate(&reader.api_key).await.unwrap();
    assert!(principal.can(Scope::Read) && !principal.can(Scope::Write));
    assert_eq!(principal.domains, ["example.com"]);
}

async fn only_a_hash_is_stored(place: Place) {
    let accounts = place.open().await;
    let issued = issue(&accounts, "example.com").await;
    let parts: Vec<&str> = issued.api_key.split('_').collect();
    let row = sqlx::query("SELECT id, secret_hash FROM api_keys")
        .fetch_one(&place.raw().await)
        .await
        .unwrap();
    assert_eq!(row.get::<String, _>(0), parts[1]);
    let stored: String = row.get(1);
    assert_eq!(stored.len(), 64);
    assert_ne!(stored, parts[2]);
    if place.url.is_none() {
        let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
        let files: Vec<Vec<u8>> = std::fs::read_dir(&place.data).unwrap().map(read).collect();
        let holds = |needle: &str| {
            files
                .iter()
                .any(|file| file.windows(needle.len()).any(|w| w == needle.as_bytes()))
        };
        assert!(holds(&stored) && !holds(parts[2]));
    }
}

async fn wrong_keys_are_told_apart(place: Place) {
    let accounts = place.open().await;
    let mine = issue(&accounts, "example.com").await.api_key;
    let gone = Place::new(tempfile::tempdir().unwrap().path(), None);
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
    // The id of mine with the other's secret and a right checksum: unknown too, before and after mine is in the cache.
    let (mine_parts, foreign_parts): (Vec<_>, Vec<_>) = (mine.split('_').collect(), foreign.split('_').collect());
    let covered = format!("rcpt_{}_{}", mine_parts[1], foreign_parts[2]);
    let crossed = format!("{covered}_{:08x}", crc32c::crc32c(covered.as_bytes()));
    assert!(accounts::ApiKey::parse(&crossed).is_some());
    for _ in 0..2 {
        assert!(matches!(accounts.authenticate(&crossed).await, Err(AuthError::Unknown)));
        accounts.authenticate(&mine).await.unwrap();
    }
}

async fn a_key_expires(place: Place) {
    let accounts = place.open().await;
    let new = NewKey {
        expires_at_ms: START_MS + HOUR_MS,
        ..wish("example.com")
    };
    let key = accounts.create_publisher_key(new).await.unwrap().issued.api_key;
    place.pass_ms(HOUR_MS - 1);
    accounts.authenticate(&key).await.unwrap();
    place.pass_ms(1);
    assert!(
        matches!(accounts.authenticate(&key).await, Err(AuthError::Expired)),
        "from the cache"
    );
    place.pass_ms(HOUR_MS);
    assert!(
        matches!(accounts.authenticate(&key).await, Err(AuthError::Expired)),
        "from the table"
    );
}

async fn a_revocation_holds_here_at_once_and_elsewhere_after_the_cache(place: Place) {
    let (here, elsewhere) = (place.open().await, place.open().await);
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
    place.pass_ms(i64::try_from(place.config().cache_ms_max).unwrap());
    assert!(matches!(
        elsewhere.authenticate(&issued.api_key).await,
        Err(AuthError::Revoked)
    ));
}

async fn a_verification_ends_after_a_year_and_is_renewed(place: Place) {
    let accounts = place.open().await;
    let new = NewKey {
        expires_at_ms: START_MS + 3 * YEAR_MS,
        ..wish("example.com,example.org")
    };
    let key = accounts.create_publisher_key(new).await.unwrap().issued.api_key;
    place.pass_ms(YEAR_MS - 1);
    assert_eq!(accounts.authenticate(&key).await.unwrap().domains.len(), 2);
    place.pass_ms(1);
    assert_eq!(
        accounts.authenticate(&key).await.unwrap().domains,
        [""; 0],
        "also what is cached ends in time"
    );
    let renewing = NewKey {
        expires_at_ms: START_MS + 2 * YEAR_MS,
        ..wish("example.com")
    };
    accounts.create_publisher_key(renewing).await.unwrap();
    place.pass_ms(HOUR_MS);
    assert_eq!(accounts.authenticate(&key).await.unwrap().domains, ["example.com"]);
}

async fn a_domain_belongs_to_one_account(place: Place) {
    let accounts = place.open().await;
    let first = issue(&accounts, "example.com").await;
    let again = issue(&accounts, "example.com").await;
    assert_eq!(first.account_id, again.account_id);
    assert_ne!(first.key_id, again.key_id);
    let wider = issue(&accounts, "example.org,example.com").await;
    assert_eq!(wider.account_id, first.account_id);
    let other = issue(&accounts, "example.net").await;
    assert_ne!(other.account_id, first.account_id);
    let both = accounts
        .create_publisher_key(wish("example.com,example.net,new.example"))
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
        .fetch_one(&place.raw().await)
        .await
        .unwrap();
    assert_eq!(left.get::<i64, _>(0), 2, "no account without a domain is left behind");
}

async fn a_domain_that_was_someone_elses_brings_no_key_to_them(place: Place) {
    let accounts = place.open().await;
    let theirs = issue(&accounts, "theirs.test").await.account_id;
    for name in ["expired.example", "revoked.example"] {
        let names = domains(name);
        let wish = ChallengeWish {
            account_id: &theirs,
            actor: "key:test",
            domains: &names,
            method: VerificationMethod::Dns,
            include_subdomains: true,
        };
        let issued = accounts.create_challenges(&wish).await.unwrap();
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
    let mine = issue(&accounts, "revoked.example").await.account_id;
    assert_ne!(mine, theirs);
    place.pass_ms(YEAR_MS);
    let new = NewKey {
        expires_at_ms: START_MS + 2 * YEAR_MS,
        ..wish("expired.example")
    };
    let made = accounts.create_publisher_key(new).await.unwrap().issued;
    assert!(made.account_id != theirs && made.account_id != mine);
    let principal = accounts.authenticate(&made.api_key).await.unwrap();
    assert_eq!(principal.domains, ["expired.example"]);
    assert!(principal.inherited.is_empty(), "nobody asked for subdomains");
    let left = accounts.verifications(&theirs).await.unwrap();
    let left: Vec<&str> = left.iter().map(|one| one.domain.as_str()).collect();
    assert_eq!(left, ["theirs.test"]);
}

async fn the_tier_is_the_accounts(place: Place) {
    let accounts = place.open().await;
    let first = accounts.create_publisher_key(wish("example.com")).await.unwrap();
    assert_eq!(first.tier, Tier::Free);
    let raised = NewKey {
        tier: Some(Tier::Enterprise),
        ..wish("example.com")
    };
    assert_eq!(
        accounts.create_publisher_key(raised).await.unwrap().tier,
        Tier::Enterprise
    );
    let again = accounts.create_publisher_key(wish("example.com")).await.unwrap();
    assert_eq!(again.tier, Tier::Enterprise);
    assert_eq!(
        accounts.authenticate(&first.issued.api_key).await.unwrap().tier,
        Tier::Enterprise
    );
}

async fn wishes_that_cant_be_met_store_nothing(place: Place) {
    let accounts = place.open().await;
    let wrong = [
        NewKey {
            domains: Vec::new(),
            ..wish("example.com")
        },
        NewKey {
            scopes: Vec::new(),
            ..wish("example.com")
        },
        NewKey {
            expires_at_ms: START_MS,
            ..wish("example.com")
        },
        NewKey {
            name: " ".to_owned(),
            ..wish("example.com")
        },
        NewKey {
            name: "a\nb".to_owned(),
            ..wish("example.com")
        },
        NewKey {
            name: "\u{e9}".repeat(101),
            ..wish("example.com")
        },
    ];
    for new in wrong {
        let shown = format!("{new:?}");
        assert!(accounts.create_publisher_key(new).await.is_err(), "{shown}");
    }
    assert_eq!(accounts.list_keys().await.unwrap(), []);
    let longest = NewKey {
        name: "\u{e9}'; DROP TABLE domains; --".repeat(3),
        ..wish("example.com")
    };
    accounts.create_publisher_key(longest.clone()).await.unwrap();
    assert_eq!(accounts.list_keys().await.unwrap()[0].name, longest.name);
}

async fn keys_are_bounded(place: Place) {
    let accounts = place.open().await;
    let first = issue(&accounts, "example.com").await;
    let mut others = place.raw().await.begin().await.unwrap();
    for number in 1..KEYS_MAX {
        let insert = "INSERT INTO api_keys (id, account_id, name, secret_hash, scopes, created_at_ms, expires_at_ms)
            VALUES ($1, $2, 'other', '', 'read', $3, $4)";
        let insert = sqlx::query(insert)
            .bind(format!("other-{number}"))
            .bind(&first.account_id)
            .bind(START_MS)
            .bind(START_MS + HOUR_MS);
        insert.execute(&mut *others).await.unwrap();
    }
    others.commit().await.unwrap();
    let refused = accounts.create_publisher_key(wish("example.com")).await;
    assert!(matches!(refused, Err(AccountsError::TooManyKeys)), "{refused:?}");
    issue(&accounts, "example.org").await;
    let revoked = accounts.revoke_key(None, "other-1", "operator").await.unwrap();
    assert_eq!(revoked, Revocation::Done);
    issue(&accounts, "example.com").await;
    let refused = accounts.create_publisher_key(wish("example.com")).await;
    assert!(matches!(refused, Err(AccountsError::TooManyKeys)), "{refused:?}");
    // What has expired doesn't count.
    place.pass_ms(HOUR_MS);
    issue(&accounts, "example.com").await;
}

async fn keys_are_listed_newest_first(place: Place) {
    let accounts = place.open().await;
    let first = issue(&accounts, "example.com").await;
    place.pass_ms(1);
    let second = issue(&accounts, "example.org").await;
    place.pass_ms(1);
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

async fn many_at_once_make_one_account(place: Place) {
    let stores = [place.open().await, place.open().await];
    let mut tasks = Vec::new();
    for number in 0..16 {
        let store: Accounts = stores[number % 2].clone();
        let names = if number % 3 == 0 {
            "b.example,a.example"
        } else {
            "a.example,b.example"
        };
        tasks.push(tokio::spawn(async move { issue(&store, names).await }));
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

async fn many_open_an_empty_store_at_once(place: Place) {
    let tasks: Vec<_> = (0..8)
        .map(|_| place.clone())
        .map(|place| tokio::spawn(async move { place.open().await }))
        .collect();
    let mut last = None;
    for task in tasks {
        last = Some(task.await.unwrap());
    }
    issue(&last.unwrap(), "example.com").await;
    let versions = sqlx::query("SELECT COUNT(*), MAX(version) FROM accounts_schema")
        .fetch_one(&place.raw().await)
        .await
        .unwrap();
    assert_eq!(versions.get::<i64, _>(0), versions.get::<i64, _>(1), "each once");
}

async fn a_checked_key_is_kept_for_its_time_only(place: Place) {
    let accounts = place.open().await;
    let (asked, other) = (
        issue(&accounts, "example.com").await,
        issue(&accounts, "example.org").await,
    );
    accounts.authenticate(&asked.api_key).await.unwrap();
    accounts.close().await;
    assert_eq!(
        accounts.authenticate(&asked.api_key).await.unwrap().key_id,
        asked.key_id
    );
    assert!(matches!(
        accounts.authenticate(&other.api_key).await,
        Err(AuthError::Unavailable(_))
    ));
    place.pass_ms(i64::try_from(place.config().cache_ms_max).unwrap());
    assert!(matches!(
        accounts.authenticate(&asked.api_key).await,
        Err(AuthError::Unavailable(_))
    ));
    assert!(accounts.ping().await.is_err());
}

async fn everything_is_there_after_reopening(place: Place) {
    let accounts = place.open().await;
    let issued = issue(&accounts, "example.com").await;
    accounts.close().await;
    let again = place.open().await;
    assert_eq!(
        again.authenticate(&issued.api_key).await.unwrap().account_id,
        issued.account_id
    );
    assert_eq!(again.list_keys().await.unwrap().len(), 1);
}

async fn newer_tables_are_refused(place: Place) {
    place.open().await.close().await;
    let newer = "INSERT INTO accounts_schema (version, name, checksum, applied_at_ms) VALUES (99, 'later', '', 0)";
    sqlx::query(newer).execute(&place.raw().await).await.unwrap();
    let error = place.try_open().await.unwrap_err();
    assert!(
        matches!(&error, AccountsError::Schema(what) if what.contains("version 99")),
        "{error}"
    );
}
