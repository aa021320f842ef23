//! The shard map: entries are appended, checked, and confirmed by verifiers.

use std::collections::BTreeMap;

use accounts::{Accounts, AccountsError, NewShardMapEntry, ShardMap, ShardMapCache};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Fixture;

cases! {
    entries_are_appended_with_a_day_of_notice,
    of_two_registrations_at_once_one_is_refused_or_second,
    a_cache_knows_what_another_verifier_has_used,
}

const DAY_MS: i64 = 86_400_000;

fn today(accounts: &Accounts) -> i64 {
    accounts.now_ms().div_euclid(DAY_MS)
}

fn entry(from_day: i64, shards: u32) -> NewShardMapEntry {
    NewShardMapEntry {
        from_day,
        shards,
        splits: BTreeMap::new(),
    }
}

fn refusal(result: Result<accounts::ShardMapEntry, AccountsError>) -> String {
    match result {
        Err(AccountsError::ShardMap(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

async fn entries_are_appended_with_a_day_of_notice(fixture: Fixture) {
    let accounts = fixture.open().await;
    assert_eq!(accounts.shard_map().await.unwrap(), ShardMap::default());
    let today = today(&accounts);
    for day in [today - 1, today, today + 1] {
        // Tomorrow begins in less than 24 hours, unless it is midnight exactly.
        if day * DAY_MS < accounts.now_ms() + DAY_MS {
            let reason = refusal(accounts.add_shard_map_entry(&entry(day, 2)).await);
            assert!(reason.contains("24 hours after its registration"), "{reason}");
        }
    }
    let mut split = entry(today + 5, 3);
    split.splits.insert("large.example".parse().unwrap(), 3);
    let first = accounts.add_shard_map_entry(&entry(today + 2, 2)).await.unwrap();
    let second = accounts.add_shard_map_entry(&split).await.unwrap();
    assert_eq!((first.version, second.version), (1, 2));
    let overlap = refusal(accounts.add_shard_map_entry(&entry(today + 5, 4)).await);
    assert!(overlap.contains("overlap") && overlap.contains("entry 3"), "{overlap}");
    let none = refusal(accounts.add_shard_map_entry(&entry(today + 9, 0)).await);
    assert!(none.contains("1 to 256 shards"), "{none}");
    let map = fixture.open().await.shard_map().await.unwrap();
    assert_eq!(map.entries(), [first, second]);
    assert_eq!((map.version(), map.shards()), (2, 3));
    assert_eq!(map.shard("large.example", 0, Uuid::nil()), 0);
    let registered = accounts.shard_map_entries().await.unwrap();
    assert!(registered.iter().all(|one| one.registered_at_ms <= accounts.now_ms()));
    let trail = accounts.trail_page("deployment", None, 10).await.unwrap();
    let actions: Vec<&str> = trail.items.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["shard_map.add", "shard_map.add"]);
}

async fn of_two_registrations_at_once_one_is_refused_or_second(fixture: Fixture) {
    let (one, other) = (fixture.open().await, fixture.open().await);
    let today = today(&one);
    let (first, second) = (entry(today + 2, 2), entry(today + 3, 3));
    let (first, second) = tokio::join!(one.add_shard_map_entry(&first), other.add_shard_map_entry(&second));
    assert!(first.is_ok() || second.is_ok());
    let map = one.shard_map().await.unwrap();
    let added = usize::from(first.is_ok()) + usize::from(second.is_ok());
    assert_eq!(map.entries().len(), added, "{first:?} {second:?}");
}

async fn a_cache_knows_what_another_verifier_has_used(fixture: Fixture) {
    let accounts = fixture.open().await;
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let cache = ShardMapCache::start(accounts.clone(), stop);
    assert_eq!(cache.at_least(0).await.unwrap().version(), 0);
    accounts
        .add_shard_map_entry(&entry(today(&accounts) + 2, 2))
        .await
        .unwrap();
    assert_eq!(
        cache.at_least(0).await.unwrap().version(),
        0,
        "the next read is in a minute"
    );
    assert_eq!(cache.at_least(1).await.unwrap().shards(), 2);
    assert_eq!(cache.last().unwrap().version(), 1);
    let missing = cache.at_least(2).await.unwrap_err().to_string();
    assert!(
        missing.contains("entry 2") && missing.contains("has 1 entries"),
        "{missing}"
    );
}
