//! The registry's cache: answers follow changes, and only changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use accounts::{Accounts, ClientKey, KeyStatus, RegistryCache, RegistryConfig};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{clients, entries};
use crate::Fixture;

cases! {
    answers_follow_changes_of_another_process,
    answers_are_cached_until_a_change,
    changes_during_lookups_are_never_lost,
    the_cache_is_bounded,
}

use KeyStatus::{Registered, RevokedFrom, Unregistered};

/// Time in which a cache must have seen a change, far beyond `refresh_ms`.
const DEADLINE: Duration = Duration::from_secs(300);

/// A cache that is refreshed until the guard is dropped.
fn cache(accounts: &Accounts, config: RegistryConfig) -> (RegistryCache, DropGuard) {
    let shutdown = CancellationToken::new();
    let cache = RegistryCache::start(accounts.clone(), config, shutdown.clone());
    (cache, shutdown.drop_guard())
}

fn config(refresh_ms: u64) -> RegistryConfig {
    RegistryConfig {
        refresh_ms,
        ..RegistryConfig::default()
    }
}

/// Looks `keys` up until they have these statuses.
async fn wait_for(cache: &RegistryCache, keys: &[ClientKey], expected: &[KeyStatus]) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let statuses = cache.client_keys(keys).await.unwrap();
        if statuses == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{statuses:?} isn't {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Looks entries 1 and 2 up until they exist or not as expected.
async fn wait_for_entries(cache: &RegistryCache, expected: [bool; 2]) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let existing = cache.entries(&[entries::id(1), entries::id(2)]).await.unwrap();
        if existing == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{existing:?} isn't {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn answers_follow_changes_of_another_process(fixture: Fixture) {
    let (accounts, other) = (fixture.open().await, fixture.open().await);
    let (cache, _guard) = cache(&accounts, config(10));
    let keys = [clients::key(1, 1), clients::key(1, 2), clients::key(1, 1)];
    assert_eq!(cache.client_keys(&keys).await.unwrap(), [Unregistered; 3]);
    assert_eq!(cache.client_keys(&[]).await.unwrap(), []);
    other.register_client_key(&clients::new(keys[0])).await.unwrap();
    wait_for(&cache, &keys, &[Registered, Unregistered, Registered]).await;
    other.revoke_client_key(&keys[0], 1_234).await.unwrap();
    wait_for(&cache, &keys, &[RevokedFrom(1_234), Unregistered, RevokedFrom(1_234)]).await;
    other.register_client_key(&clients::new(keys[0])).await.unwrap();
    wait_for(&cache, &keys, &[Registered, Unregistered, Registered]).await;

    let (first, second) = (
        entries::account(&other, "example.com").await,
        entries::account(&other, "other.example").await,
    );
    wait_for_entries(&cache, [false, false]).await;
    entries::create(&other, &first, vec![entries::new(1), entries::new(2)]).await;
    wait_for_entries(&cache, [true, true]).await;
    entries::create(&other, &second, vec![entries::new(2)]).await;
    for (account, number) in [(&first, 1), (&first, 2)] {
        let erase = other.erase_entry(account, entries::KEY, entries::id(number), None);
        erase.await.unwrap();
    }
    wait_for_entries(&cache, [false, true]).await;
    assert_eq!(cache.readiness(), Ok(()));
}

/// Rows are changed past the store, so that only a new version can make the cache read them again.
async fn answers_are_cached_until_a_change(fixture: Fixture) {
    let accounts = fixture.open().await;
    let key = clients::key(1, 1);
    accounts.register_client_key(&clients::new(key)).await.unwrap();
    let (cache, _guard) = cache(&accounts, config(10));
    assert_eq!(cache.client_keys(&[key]).await.unwrap(), [Registered]);
    assert_eq!(cache.entries(&[entries::id(1)]).await.unwrap(), [false]);
    let raw = fixture.raw().await;
    let revoke = sqlx::query("UPDATE client_keys SET revoked_from_ms = 5");
    assert_eq!(revoke.execute(&raw).await.unwrap().rows_affected(), 1);
    for _ in 0..20 {
        assert_eq!(cache.client_keys(&[key]).await.unwrap(), [Registered]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A change of entries doesn't invalidate keys; one of another key does.
    let account = entries::account(&accounts, "example.com").await;
    entries::create(&accounts, &account, vec![entries::new(1), entries::new(2)]).await;
    wait_for_entries(&cache, [true, true]).await;
    assert_eq!(cache.client_keys(&[key]).await.unwrap(), [Registered]);
    let other = clients::key(2, 2);
    accounts.register_client_key(&clients::new(other)).await.unwrap();
    wait_for(&cache, &[key, other], &[RevokedFrom(5), Registered]).await;
    // As after a restored backup: the version that `other` was cached under occurs again, and means
    // another state.
    let set_back = async |by: i64, from_ms: i64| {
        let version = sqlx::query("UPDATE registry_versions SET number = number + $1 WHERE subject = 'clients'");
        let revoke = sqlx::query("UPDATE client_keys SET revoked_from_ms = $1");
        revoke.bind(from_ms).execute(&raw).await.unwrap();
        version.bind(by).execute(&raw).await.unwrap();
        wait_for(&cache, &[key], &[RevokedFrom(from_ms)]).await;
    };
    set_back(-1, 6).await;
    set_back(1, 7).await;
    assert_eq!(cache.client_keys(&[other]).await.unwrap(), [RevokedFrom(7)]);
    raw.close().await;
}

/// Lookups all the time, of the key that changes and of others that make reads slow: each change is
/// seen by the end, so no old answer was cached under a new version.
async fn changes_during_lookups_are_never_lost(fixture: Fixture) {
    let (accounts, other) = (fixture.open().await, fixture.open().await);
    let (cache, _guard) = cache(&accounts, config(10));
    let key = clients::key(0, 1);
    let stopped = Arc::new(AtomicBool::new(false));
    let looking: Vec<_> = (1..5_u8)
        .map(|number| {
            let (cache, stopped) = (cache.clone(), Arc::clone(&stopped));
            tokio::spawn(async move {
                let keys: Vec<ClientKey> = (0..50).map(|client| clients::key(client, number.min(2))).collect();
                while !stopped.load(Ordering::Relaxed) {
                    cache.client_keys(&keys).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for round in 0..25 {
        other.register_client_key(&clients::new(key)).await.unwrap();
        wait_for(&cache, &[key], &[Registered]).await;
        other.revoke_client_key(&key, round).await.unwrap();
        wait_for(&cache, &[key], &[RevokedFrom(round)]).await;
    }
    stopped.store(true, Ordering::Relaxed);
    for one in looking {
        one.await.unwrap();
    }
}

async fn the_cache_is_bounded(fixture: Fixture) {
    const ENTRIES_MAX: usize = 50;
    let accounts = fixture.open().await;
    let config = RegistryConfig {
        cache_entries_max: ENTRIES_MAX,
        ..RegistryConfig::default()
    };
    let (cache, _guard) = cache(&accounts, config);
    let keys: Vec<ClientKey> = (0..1_000).map(|client| clients::key(client, 1)).collect();
    assert_eq!(cache.client_keys(&keys).await.unwrap(), [Unregistered; 1_000]);
    // Past the store: what isn't cached is read now, what is cached stays as it was.
    let raw = fixture.raw().await;
    for key in &keys {
        let insert =
            "INSERT INTO client_keys (client_id, fingerprint, pem, name, changed_at_ms) VALUES ($1, $2, '', '', 0)";
        let insert = sqlx::query(insert).bind(key.client_id.to_string());
        insert.bind(key.fingerprint.to_string()).execute(&raw).await.unwrap();
    }
    let statuses = cache.client_keys(&keys).await.unwrap();
    let cached = statuses.iter().filter(|status| **status == Unregistered).count();
    assert!((1..=ENTRIES_MAX).contains(&cached), "{cached} were cached");
    raw.close().await;
}
