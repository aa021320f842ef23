//! Clients' keys: registering and revoking them.

use accounts::{
    Accounts, AccountsError, ClientKey, ClientKeyState, Fingerprint, KEYS_PER_CLIENT_MAX, KeyStatus, NewClientKey,
    Revoked,
};
use sqlx::Row;
use uuid::Uuid;

use crate::Fixture;

cases! {
    keys_are_registered_and_revoked,
    concurrent_registrations_store_one_row,
    the_registry_is_bounded_and_in_the_trail,
}

use KeyStatus::{Registered, RevokedFrom, Unregistered};

pub(super) fn key(client: u128, key: u8) -> ClientKey {
    ClientKey {
        client_id: Uuid::from_u128(0xc11e_0000_0000_4000_8000_0000_0000_0000 | client),
        fingerprint: Fingerprint([key; 32]),
    }
}

pub(super) fn new(key: ClientKey) -> NewClientKey {
    NewClientKey {
        key,
        pem: "-----BEGIN PUBLIC KEY-----".to_owned(),
        name: "Reader".to_owned(),
    }
}

async fn version(accounts: &Accounts) -> i64 {
    accounts.registry_versions().await.unwrap().clients
}

/// Registers a key and returns the version of that change.
async fn register(accounts: &Accounts, key: ClientKey) -> i64 {
    assert!(accounts.register_client_key(&new(key)).await.unwrap());
    version(accounts).await
}

async fn keys_are_registered_and_revoked(fixture: Fixture) {
    let accounts = fixture.open().await;
    let keys = [key(1, 1), key(1, 2), key(2, 1), key(1, 1)];
    let statuses = async || accounts.client_key_statuses(&keys).await.unwrap();
    let empty = version(&accounts).await;
    assert_eq!(statuses().await, [Unregistered; 4]);
    let one = register(&accounts, keys[0]).await;
    assert_eq!(statuses().await, [Registered, Unregistered, Unregistered, Registered]);
    let two = register(&accounts, keys[1]).await;
    assert!(!accounts.register_client_key(&new(keys[1])).await.unwrap());
    let revoke = async |key, from_ms| accounts.revoke_client_key(&key, from_ms).await.unwrap();
    assert_eq!(revoke(keys[2], 7).await, Revoked::Unknown);
    assert_eq!(version(&accounts).await, two, "nothing was changed");
    assert_eq!(revoke(keys[0], 7).await, Revoked::Done);
    let revoked = version(&accounts).await;
    assert_eq!(revoke(keys[0], 9).await, Revoked::Before(7));
    assert_eq!(
        statuses().await,
        [RevokedFrom(7), Registered, Unregistered, RevokedFrom(7)]
    );
    let again = register(&accounts, keys[0]).await;
    assert_eq!(statuses().await, [Registered, Registered, Unregistered, Registered]);
    let versions = [empty, one, two, revoked, again];
    assert!(versions.is_sorted_by(|before, after| before < after), "{versions:?}");
    // More keys than fit into one statement, and none.
    let many: Vec<ClientKey> = (0..1_000).map(|client| key(client, 1)).collect();
    let found = accounts.client_key_statuses(&many).await.unwrap();
    let found: Vec<usize> = (0..many.len()).filter(|&number| found[number] == Registered).collect();
    assert_eq!(found, [1]);
    assert_eq!(accounts.client_key_statuses(&[]).await.unwrap(), []);
}

async fn concurrent_registrations_store_one_row(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let before = version(&replicas[0]).await;
    let registering: Vec<_> = (0..8)
        .map(|number| {
            let accounts = replicas[number % replicas.len()].clone();
            tokio::spawn(async move { accounts.register_client_key(&new(key(1, 1))).await.unwrap() })
        })
        .collect();
    let mut done = 0;
    for one in registering {
        done += usize::from(one.await.unwrap());
    }
    assert_eq!((done, version(&replicas[0]).await), (1, before + 1));
    assert_eq!(replicas[1].client_keys(None).await.unwrap().len(), 1);
}

async fn the_registry_is_bounded_and_in_the_trail(fixture: Fixture) {
    let accounts = fixture.open().await;
    let long = NewClientKey {
        pem: "x".repeat(5_000),
        ..new(key(1, 0))
    };
    assert!(matches!(
        accounts.register_client_key(&long).await,
        Err(AccountsError::ClientKeyTooLong)
    ));
    let named = NewClientKey {
        name: "a\nb".to_owned(),
        ..new(key(1, 0))
    };
    assert!(matches!(
        accounts.register_client_key(&named).await,
        Err(AccountsError::Name)
    ));
    for number in 0..KEYS_PER_CLIENT_MAX {
        register(&accounts, key(1, u8::try_from(number).unwrap())).await;
    }
    let full = version(&accounts).await;
    let one_more = accounts.register_client_key(&new(key(1, 200))).await;
    assert!(matches!(one_more, Err(AccountsError::TooManyClientKeys)));
    assert_eq!(version(&accounts).await, full, "what failed took no version");
    accounts.revoke_client_key(&key(1, 7), 1_234).await.unwrap();
    let listed = accounts.client_keys(Some(key(1, 0).client_id)).await.unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|info| info.name == "Reader"));
    assert_eq!(listed[7].state, ClientKeyState::RevokedFrom(1_234));
    let question = "SELECT action, COUNT(*) FROM trail WHERE account_id = 'deployment' AND actor = 'operator' GROUP BY action ORDER BY action";
    let rows = sqlx::query(question).fetch_all(&fixture.raw().await).await.unwrap();
    let noted: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("client.register", KEYS_PER_CLIENT_MAX), ("client.revoke", 1)];
    assert_eq!(noted, expected.map(|(action, count)| (action.to_owned(), count)));
}
