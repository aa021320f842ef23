//! Clients' keys: what counts as of each version of the registry, and stays so whatever comes later.

use std::collections::HashSet;

use accounts::{
    Accounts, AccountsError, ClientKey, ClientKeyState, ClientPolicy, Fingerprint, FirstSeen, KEYS_PER_CLIENT_MAX,
    KeyStanding, NewClientKey, Policy, Revoked,
};
use sqlx::Row;
use uuid::Uuid;

use crate::Place;

cases! {
    registered_keys_count_as_of_each_version,
    a_revoked_key_counts_for_what_came_before,
    the_first_key_seen_stays,
    many_verifiers_pin_one_key,
    an_operator_pins_and_unpins_as_of_a_version,
    a_key_pinned_late_changes_no_later_version,
    a_look_pins_nothing,
    the_registry_is_bounded_and_in_the_trail,
}

use ClientPolicy::{Pinned, Registered};
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
        clients: Registered,
        ..Policy::default()
    };
    accounts.present_terms(policy).await.unwrap().client_version
}

async fn standings(accounts: &Accounts, policy: ClientPolicy, version: i64, keys: &[ClientKey]) -> Vec<KeyStanding> {
    accounts
        .client_standings(policy, version, keys, FirstSeen::Pin)
        .await
        .unwrap()
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
        assert_eq!(
            standings(&accounts, Registered, version, &keys).await,
            expected,
            "{version}"
        );
    }
    let open = standings(&accounts, ClientPolicy::Open, 0, &keys).await;
    assert_eq!(open, [Trusted, Trusted, Trusted]);
    // More clients than fit into one statement.
    let many: Vec<ClientKey> = (0..1_000).map(|client| key(client, 1)).collect();
    let trusted = standings(&accounts, Registered, again, &many).await;
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
    // A pinned key is revoked as well, and nothing takes its place unasked.
    let first = standings(&accounts, Pinned, version(&accounts).await, &[key(2, 1)]).await;
    assert_eq!(first, [Trusted]);
    assert_eq!(revoke(key(2, 2), 8).await, Revoked::Unknown);
    assert_eq!(revoke(key(2, 1), 8).await, Revoked::Done);
    let now = version(&accounts).await;
    for policy in [Pinned, Registered] {
        let standings = standings(&accounts, policy, now, &[key(1, 1), key(2, 2), key(2, 1)]).await;
        assert_eq!(standings, [RevokedFrom(7), Untrusted, RevokedFrom(8)]);
    }
}

async fn the_first_key_seen_stays(place: Place) {
    let accounts = place.open().await;
    let now = version(&accounts).await;
    let ask = async |keys: &[ClientKey]| standings(&accounts, Pinned, now, keys).await;
    // The first in the order of the question, not of the clients or keys.
    let asked = [key(2, 9), key(1, 5), key(2, 1), key(1, 5), key(1, 6)];
    assert_eq!(ask(&asked).await, [Trusted, Trusted, Untrusted, Trusted, Untrusted]);
    assert_eq!(ask(&[key(1, 6), key(2, 1)]).await, [Untrusted, Untrusted]);
    assert_eq!(ask(&[key(1, 5), key(2, 9)]).await, [Trusted, Trusted]);
    // A registered key counts beside it; a client with registered keys has nothing pinned by being seen.
    let later = register(&accounts, key(1, 6)).await;
    assert_eq!(
        standings(&accounts, Pinned, later, &[key(1, 5), key(1, 6), key(1, 7)]).await,
        [Trusted, Trusted, Untrusted]
    );
    let later = register(&accounts, key(3, 1)).await;
    assert_eq!(
        standings(&accounts, Pinned, later, &[key(3, 2), key(3, 1)]).await,
        [Untrusted, Trusted]
    );
    assert_eq!(ask(&[key(1, 6)]).await, [Untrusted], "as of then");
}

/// Replicas with connections of their own, each with another key for each client.
async fn many_verifiers_pin_one_key(place: Place) {
    let replicas = [place.open().await, place.open().await, place.open().await];
    let now = version(&replicas[0]).await;
    let asking = (0..12_u8).map(|verifier| {
        let accounts = replicas[usize::from(verifier) % replicas.len()].clone();
        tokio::spawn(async move {
            // Each in an order of its own.
            let keys: Vec<ClientKey> = (0..40)
                .map(|client| key((client * 7 + u128::from(verifier)) % 40, verifier))
                .collect();
            let standings = standings(&accounts, Pinned, now, &keys).await;
            keys.into_iter().zip(standings).collect::<Vec<_>>()
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut trusted = Vec::new();
    for answers in asking {
        let answers = answers.await.unwrap();
        trusted.extend(answers.into_iter().filter(|(_, s)| *s == Trusted).map(|(key, _)| key));
    }
    let clients: HashSet<Uuid> = trusted.iter().map(|key| key.client_id).collect();
    assert_eq!(
        (trusted.len(), clients.len()),
        (40, 40),
        "each client has one key, and one verifier was told so"
    );
    for replica in &replicas {
        assert_eq!(standings(replica, Pinned, now, &trusted).await, [Trusted; 40]);
    }
}

async fn an_operator_pins_and_unpins_as_of_a_version(place: Place) {
    let accounts = place.open().await;
    let (a, b, c) = (key(1, 1), key(1, 2), key(1, 3));
    let before = version(&accounts).await;
    assert!(!accounts.unpin_client(a.client_id).await.unwrap());
    assert_eq!(
        standings(&accounts, Pinned, before, &[a, b]).await,
        [Trusted, Untrusted]
    );
    assert!(accounts.pin_client_key(&b).await.unwrap());
    assert!(!accounts.pin_client_key(&b).await.unwrap());
    let pinned = version(&accounts).await;
    assert!(accounts.unpin_client(a.client_id).await.unwrap());
    assert!(!accounts.unpin_client(a.client_id).await.unwrap());
    let unpinned = version(&accounts).await;
    let states: Vec<_> = accounts.client_keys(Some(a.client_id)).await.unwrap();
    assert_eq!(states, [], "what isn't pinned any more isn't listed");
    assert_eq!(
        standings(&accounts, Pinned, unpinned, &[c, a, b]).await,
        [Trusted, Untrusted, Untrusted]
    );
    assert_eq!(
        standings(&accounts, Pinned, pinned, &[c, a, b]).await,
        [Untrusted, Untrusted, Trusted]
    );
    assert_eq!(
        standings(&accounts, Pinned, before, &[c, a, b]).await,
        [Untrusted, Trusted, Untrusted]
    );
    let listed = accounts.client_keys(None).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|info| (info.key, info.state)).collect();
    assert_eq!(listed, [(c, ClientKeyState::PinnedFirstSeen)]);
}

/// A block that is judged as of an earlier version pins a key after a later version was asked: that one's answer stays.
async fn a_key_pinned_late_changes_no_later_version(place: Place) {
    let accounts = place.open().await;
    let (a, b) = (key(1, 1), key(1, 2));
    let earlier = version(&accounts).await;
    let later = register(&accounts, b).await;
    assert_eq!(standings(&accounts, Pinned, later, &[a]).await, [Untrusted]);
    assert_eq!(
        standings(&accounts, Pinned, earlier, &[a, b]).await,
        [Trusted, Untrusted]
    );
    assert_eq!(standings(&accounts, Pinned, later, &[a, b]).await, [Untrusted, Trusted]);
    // The same with a pin of the operator's, and with unpinning.
    let c = key(2, 1);
    assert!(accounts.pin_client_key(&key(2, 2)).await.unwrap());
    assert!(accounts.unpin_client(c.client_id).await.unwrap());
    let unpinned = version(&accounts).await;
    assert_eq!(standings(&accounts, Pinned, unpinned, &[key(2, 3)]).await, [Trusted]);
    assert_eq!(standings(&accounts, Pinned, earlier, &[c]).await, [Trusted]);
    assert_eq!(
        standings(&accounts, Pinned, unpinned, &[c, key(2, 3)]).await,
        [Untrusted, Trusted]
    );
}

async fn a_look_pins_nothing(place: Place) {
    let accounts = place.open().await;
    let now = version(&accounts).await;
    let keys = [key(1, 1), key(1, 2)];
    let look = accounts.client_standings(Pinned, now, &keys, FirstSeen::Look);
    assert_eq!(look.await.unwrap(), [Trusted, Untrusted]);
    assert_eq!(accounts.client_keys(None).await.unwrap(), []);
    assert_eq!(
        standings(&accounts, Pinned, now, &[key(1, 2), key(1, 1)]).await,
        [Trusted, Untrusted]
    );
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
    accounts.pin_client_key(&key(2, 1)).await.unwrap();
    accounts.unpin_client(key(2, 1).client_id).await.unwrap();
    let listed = accounts.client_keys(Some(key(1, 0).client_id)).await.unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|info| info.name == "Reader"));
    assert_eq!(listed[7].state, ClientKeyState::RevokedFrom(1_234));
    let question = "SELECT action, COUNT(*) FROM trail WHERE account_id = 'deployment' AND actor = 'operator' GROUP BY action ORDER BY action";
    let rows = sqlx::query(question).fetch_all(&place.raw().await).await.unwrap();
    let noted: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        ("client.pin", 1),
        ("client.register", KEYS_PER_CLIENT_MAX),
        ("client.revoke", 1),
        ("client.unpin", 1),
    ];
    assert_eq!(noted, expected.map(|(action, count)| (action.to_owned(), count)));
}
