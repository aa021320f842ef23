//! Clients' keys: what counts as of each version of the registry, and stays so whatever comes later.

use accounts::{
    Accounts, AccountsError, ClientKey, ClientKeyState, ClientPolicy, Fingerprint, KEYS_PER_CLIENT_MAX, KeyStanding,
    NewClientKey, Policy, Revoked,
};
use sqlx::Row;
use uuid::Uuid;

use crate::Place;

cases! {
    registered_keys_count_as_of_each_version,
    a_revoked_key_counts_for_what_came_before,
    the_registry_is_bounded_and_in_the_trail,
}

use KeyStanding::{RevokedFrom, Trusted, Untrusted};

fn key(client: u128, key: u8) -> ClientKey {
    ClientKey {
        client_id: Uuid::from_u128(0xc11e_0000_0000_4000_8000_0000_0000_0000 | client),
        fingerprint: Fingerprint([key; 32]),
    }
}

fn new(key: ClientKey) -> NewClientKey {
    NewClientKey {
        key,
        pem: "-----BEGIN PUBLIC KEY-----".to_owned(),
        name: "Reader".to_owned(),
    }
}

async fn register(accounts: &Accounts, key: ClientKey) -> i64 {
    assert!(accounts.register_client_key(&new(key)).await.unwrap());
    version(accounts).await
}

async fn version(accounts: &Accounts) -> i64 {
    let policy = Policy {
        clients: ClientPolicy::Registered,
        ..Policy::default()
    };
    accounts.present_terms(policy).await.unwrap().client_version
}

async fn standings(accounts: &Accounts, version: i64, keys: &[ClientKey]) -> Vec<KeyStanding> {
    accounts.client_standings(version, keys).await.unwrap()
}

async fn registered_keys_count_as_of_each_version(place: Place) {
    let accounts = place.open().await;
    let keys = [key(1, 1), key(1, 2), key(2, 1)];
    let empty = version(&accounts).await;
    let one = register(&accounts, keys[0]).await;
    let two = register(&accounts, keys[1]).await;
    assert!(!accounts.register_client_key(&new(keys[1])).await.unwrap());
    assert_eq!(version(&accounts).await, two, "nothing was changed");
    assert_eq!(
        accounts.revoke_client_key(&keys[0], 5_000).await.unwrap(),
        Revoked::Done
    );
    let revoked = version(&accounts).await;
    let again = register(&accounts, keys[0]).await;
    assert!(empty < one && one < two && two < revoked && revoked < again);
    // In any order, as often as one likes.
    for (version, expected) in [
        (again, [Trusted, Trusted, Untrusted]),
        (empty, [Untrusted, Untrusted, Untrusted]),
        (revoked, [RevokedFrom(5_000), Trusted, Untrusted]),
        (two, [Trusted, Trusted, Untrusted]),
        (one, [Trusted, Untrusted, Untrusted]),
    ] {
        assert_eq!(standings(&accounts, version, &keys).await, expected, "{version}");
    }
    // More clients than fit into one statement.
    let many: Vec<ClientKey> = (0..1_000).map(|client| key(client, 1)).collect();
    let trusted = standings(&accounts, again, &many).await;
    let trusted: Vec<usize> = (0..many.len()).filter(|&number| trusted[number] == Trusted).collect();
    assert_eq!(trusted, [1]);
}

async fn a_revoked_key_counts_for_what_came_before(place: Place) {
    let accounts = place.open().await;
    let revoke = async |key, from_ms| accounts.revoke_client_key(&key, from_ms).await.unwrap();
    assert_eq!(revoke(key(1, 1), 7).await, Revoked::Unknown);
    register(&accounts, key(1, 1)).await;
    assert_eq!(revoke(key(1, 2), 7).await, Revoked::Unknown);
    assert_eq!(revoke(key(1, 1), 7).await, Revoked::Done);
    assert_eq!(revoke(key(1, 1), 9).await, Revoked::Before(7));
    let now = version(&accounts).await;
    let standings = standings(&accounts, now, &[key(1, 1), key(1, 2), key(2, 1)]).await;
    assert_eq!(standings, [RevokedFrom(7), Untrusted, Untrusted]);
}

async fn the_registry_is_bounded_and_in_the_trail(place: Place) {
    let accounts = place.open().await;
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
    let rows = sqlx::query(question).fetch_all(&place.raw().await).await.unwrap();
    let noted: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("client.register", KEYS_PER_CLIENT_MAX), ("client.revoke", 1)];
    assert_eq!(noted, expected.map(|(action, count)| (action.to_owned(), count)));
}
