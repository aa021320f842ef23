//! Operators, their keys in periods, the client IDs that they claim, and their key directories.

use accounts::{
    Accounts, COLLECTIONS, DirectoryState, Fingerprint, KeySource, NewOperatorKey, OPERATOR_CLIENTS_MAX,
    OPERATOR_KEYS_MAX, Operator, OperatorError,
};
use sqlx::Row;
use uuid::Uuid;

use crate::{Fixture, HOUR_MS, START_MS, YEAR_MS, domains, issue};

cases! {
    an_operator_needs_a_proven_domain,
    keys_are_operators_in_periods,
    a_key_belongs_to_one_operator_at_a_time,
    an_operator_without_its_domain_holds_no_key,
    trust_ends_with_the_proof_of_the_domain,
    client_ids_are_claimed_and_released,
    keys_and_claims_are_bounded,
    a_due_directory_is_taken_once,
    every_change_is_in_the_trail,
    an_operator_is_exported_and_erased_with_its_account,
}

const ACTOR: &str = "key:test";

/// The operator of a domain that a new account has proven.
async fn operator(accounts: &Accounts, domain: &str) -> Operator {
    let account = issue(accounts, domain).await.account_id;
    let created = accounts.create_operator(&account, ACTOR, &domains(domain)[0]).await;
    created.unwrap()
}

fn key(number: u8) -> NewOperatorKey {
    NewOperatorKey {
        fingerprint: Fingerprint([number; 32]),
        thumbprint: format!("thumbprint-{number}"),
        pem: "-----BEGIN PUBLIC KEY-----".to_owned(),
        algorithm: "Ed25519".to_owned(),
        source: KeySource::Directory,
    }
}

async fn add(accounts: &Accounts, operator: &Operator, number: u8) -> Result<bool, OperatorError> {
    accounts.add_operator_key(operator, ACTOR, &key(number)).await
}

async fn end(accounts: &Accounts, operator: &Operator, number: u8) -> bool {
    let ended = accounts.end_operator_key(operator, ACTOR, key(number).fingerprint);
    ended.await.unwrap()
}

/// The domain of the operator whose key this is for what arrives at `at_ms`.
async fn owner(accounts: &Accounts, number: u8, at_ms: i64) -> Option<String> {
    let periods = accounts.operator_periods(&[key(number).fingerprint]).await.unwrap();
    let found = periods[0].iter().find(|period| period.contains(at_ms));
    found.map(|period| period.domain.to_string())
}

async fn an_operator_needs_a_proven_domain(fixture: Fixture) {
    let accounts = fixture.open().await;
    let account = issue(&accounts, "lab.example").await.account_id;
    let other = issue(&accounts, "other.example").await.account_id;
    let lab = &domains("lab.example")[0];
    assert_eq!(accounts.domain_account(lab).await.unwrap(), Some(account.clone()));
    let refused = accounts.create_operator(&other, ACTOR, lab).await;
    assert!(matches!(refused, Err(OperatorError::DomainNotProven(domain)) if domain == *lab));
    assert!(accounts.operators(None).await.unwrap().is_empty());

    let created = accounts.create_operator(&account, ACTOR, lab).await.unwrap();
    assert!(created.is_domain_proven);
    assert_eq!(
        (created.domain.as_str(), created.account_id.as_str()),
        ("lab.example", account.as_str())
    );
    let again = accounts.create_operator(&account, ACTOR, lab).await.unwrap();
    assert_eq!(again, created, "there is one operator of an account and a domain");
    assert_eq!(
        accounts.operator(created.id, None).await.unwrap(),
        Some(created.clone())
    );
    assert_eq!(accounts.operator(created.id, Some(&other)).await.unwrap(), None);
    assert!(accounts.operators(Some(&other)).await.unwrap().is_empty());

    fixture.pass_ms(YEAR_MS);
    assert_eq!(accounts.domain_account(lab).await.unwrap(), None);
    let expired = accounts.operator(created.id, Some(&account)).await.unwrap().unwrap();
    assert!(!expired.is_domain_proven);
    let refused = accounts.create_operator(&account, ACTOR, lab).await;
    assert!(matches!(refused, Err(OperatorError::DomainNotProven(_))));
}

async fn keys_are_operators_in_periods(fixture: Fixture) {
    let accounts = fixture.open().await;
    let lab = operator(&accounts, "lab.example").await;
    assert_eq!(owner(&accounts, 1, START_MS).await, None);
    assert!(add(&accounts, &lab, 1).await.unwrap());
    assert!(!add(&accounts, &lab, 1).await.unwrap(), "it is there already");
    fixture.pass_ms(HOUR_MS);
    assert!(end(&accounts, &lab, 1).await);
    assert!(!end(&accounts, &lab, 1).await, "it has ended already");
    assert!(!end(&accounts, &lab, 2).await, "it never began");
    fixture.pass_ms(HOUR_MS);
    assert!(add(&accounts, &lab, 1).await.unwrap());

    let periods = accounts.operator_keys(&lab).await.unwrap();
    let times: Vec<_> = periods.iter().map(|period| (period.from_ms, period.until_ms)).collect();
    let second = START_MS + 2 * HOUR_MS;
    assert_eq!(times, [(second, None), (START_MS, Some(START_MS + HOUR_MS))]);
    assert!(periods.iter().all(|period| period.key == key(1)));
    for (at_ms, proven) in [
        (START_MS - 1, false),
        (START_MS, true),
        (START_MS + HOUR_MS - 1, true),
        (START_MS + HOUR_MS, false),
        (second - 1, false),
        (second, true),
        (second + YEAR_MS / 2, true),
    ] {
        assert_eq!(owner(&accounts, 1, at_ms).await.is_some(), proven, "{at_ms}");
    }
    // A period of no time, and the next one, are two rows of one key.
    assert!(end(&accounts, &lab, 1).await);
    assert!(add(&accounts, &lab, 1).await.unwrap());
    assert_eq!(accounts.operator_keys(&lab).await.unwrap().len(), 3);
    // Lookups of more keys than one statement has.
    let many: Vec<Fingerprint> = (0..=255).map(|number| key(number).fingerprint).collect();
    let found = accounts.operator_periods(&many).await.unwrap();
    let found: Vec<usize> = (0..many.len()).filter(|&number| !found[number].is_empty()).collect();
    assert_eq!(found, [1]);
}

async fn a_key_belongs_to_one_operator_at_a_time(fixture: Fixture) {
    let replicas = [fixture.open().await, fixture.open().await];
    let accounts = &replicas[0];
    let (lab, other) = (
        operator(accounts, "lab.example").await,
        operator(accounts, "other.example").await,
    );
    assert!(add(accounts, &lab, 1).await.unwrap());
    let refused = add(accounts, &other, 1).await;
    assert!(matches!(refused, Err(OperatorError::KeyHeldElsewhere)));
    assert!(!end(accounts, &other, 1).await, "nobody ends another's period");
    fixture.pass_ms(HOUR_MS);
    assert!(end(accounts, &lab, 1).await);
    assert!(add(accounts, &other, 1).await.unwrap());
    let (before, after) = (START_MS, START_MS + HOUR_MS + 1);
    assert_eq!(owner(accounts, 1, before).await.as_deref(), Some("lab.example"));
    assert_eq!(owner(accounts, 1, after).await.as_deref(), Some("other.example"));

    let racing: Vec<_> = (0..8)
        .map(|number| {
            let accounts = replicas[number % 2].clone();
            let operator = [&lab, &other][number / 2 % 2].clone();
            tokio::spawn(async move { add(&accounts, &operator, 2).await })
        })
        .collect();
    let mut began = 0;
    for one in racing {
        match one.await.unwrap() {
            Ok(added) => began += usize::from(added),
            Err(refused) => assert!(matches!(refused, OperatorError::KeyHeldElsewhere), "{refused}"),
        }
    }
    assert_eq!(began, 1, "one of them got the key, once");
}

async fn an_operator_without_its_domain_holds_no_key(fixture: Fixture) {
    let accounts = fixture.open().await;
    let lab = operator(&accounts, "lab.example").await;
    assert!(add(&accounts, &lab, 1).await.unwrap() && add(&accounts, &lab, 2).await.unwrap());
    fixture.pass_ms(HOUR_MS);
    // The domain goes to another account, whose directory has the same key.
    let name = &domains("lab.example")[0];
    let new_owner = issue(&accounts, "other.example").await.account_id;
    assert!(accounts.transfer_domain(name, &new_owner, "operator").await.unwrap());
    let new = accounts.create_operator(&new_owner, ACTOR, name).await.unwrap();
    assert!(add(&accounts, &new, 1).await.unwrap());
    assert!(!add(&accounts, &new, 1).await.unwrap(), "it has the key");
    let old = accounts.operator_keys(&lab).await.unwrap();
    let open: Vec<_> = old.iter().filter(|period| period.until_ms.is_none()).collect();
    assert_eq!(open.len(), 1, "only the key that the new owner has is ended");
    assert_eq!(
        owner(&accounts, 1, START_MS + 2 * HOUR_MS).await.as_deref(),
        Some("lab.example")
    );
}

async fn trust_ends_with_the_proof_of_the_domain(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (revoked, expiring) = (
        operator(&accounts, "revoked.example").await,
        operator(&accounts, "expiring.example").await,
    );
    for (operator, number) in [(&revoked, 1), (&expiring, 2)] {
        assert!(add(&accounts, operator, number).await.unwrap());
        let client = Uuid::from_u128(number.into());
        assert!(accounts.claim_client(operator, ACTOR, client).await.unwrap());
    }
    let ids = [Uuid::from_u128(1), Uuid::from_u128(2)];
    let claimed = async || claimants(&accounts, &ids).await;
    let (of_revoked, of_expiring) = ((ids[0], "revoked.example"), (ids[1], "expiring.example"));
    assert_eq!(claimed().await, pairs(&[of_revoked, of_expiring]));
    let version = accounts.registry_versions().await.unwrap().operators;
    fixture.pass_ms(HOUR_MS);
    let domain = &domains("revoked.example")[0];
    let given_back = accounts.revoke_verification(&revoked.account_id, ACTOR, domain);
    assert!(given_back.await.unwrap());
    assert_ne!(
        accounts.registry_versions().await.unwrap().operators,
        version,
        "caches read the periods again"
    );
    assert!(owner(&accounts, 1, START_MS + HOUR_MS - 1).await.is_some());
    assert_eq!(owner(&accounts, 1, START_MS + HOUR_MS).await, None);
    assert_eq!(claimed().await, pairs(&[of_expiring]));

    let end_ms = START_MS + YEAR_MS;
    assert!(owner(&accounts, 2, end_ms - 1).await.is_some());
    assert_eq!(owner(&accounts, 2, end_ms).await, None, "a verification ends by itself");
    fixture.pass_ms(YEAR_MS);
    assert!(claimed().await.is_empty());
}

/// The claims on these client IDs: ID and domain, in order.
async fn claimants(accounts: &Accounts, ids: &[Uuid]) -> Vec<(Uuid, String)> {
    let claims = accounts.client_claims(ids).await.unwrap();
    let claims = ids.iter().zip(&claims);
    claims
        .flat_map(|(id, claims)| claims.iter().map(|claim| (*id, claim.domain.to_string())))
        .collect()
}

fn pairs(claims: &[(Uuid, &str)]) -> Vec<(Uuid, String)> {
    claims.iter().map(|(id, domain)| (*id, (*domain).to_owned())).collect()
}

async fn client_ids_are_claimed_and_released(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (lab, other) = (
        operator(&accounts, "lab.example").await,
        operator(&accounts, "other.example").await,
    );
    let ids: Vec<Uuid> = (0..300).map(Uuid::from_u128).collect();
    let claimed = async || claimants(&accounts, &ids).await;
    assert!(accounts.claim_client(&lab, ACTOR, ids[7]).await.unwrap());
    assert!(!accounts.claim_client(&lab, ACTOR, ids[7]).await.unwrap());
    assert!(accounts.claim_client(&other, ACTOR, ids[7]).await.unwrap());
    assert!(accounts.claim_client(&lab, ACTOR, ids[299]).await.unwrap());
    assert_eq!(accounts.operator_clients(&lab).await.unwrap(), [ids[7], ids[299]]);
    let (of_lab, of_other, last) = (
        (ids[7], "lab.example"),
        (ids[7], "other.example"),
        (ids[299], "lab.example"),
    );
    assert_eq!(claimed().await, pairs(&[of_lab, of_other, last]));
    assert!(accounts.release_client(&lab, ACTOR, ids[7]).await.unwrap());
    assert!(!accounts.release_client(&lab, ACTOR, ids[7]).await.unwrap());
    assert_eq!(claimed().await, pairs(&[of_other, last]), "the other's claim stays");
    assert!(accounts.release_client(&other, ACTOR, ids[7]).await.unwrap());
    assert_eq!(claimed().await, pairs(&[last]));
}

async fn keys_and_claims_are_bounded(fixture: Fixture) {
    let accounts = fixture.open().await;
    let lab = operator(&accounts, "lab.example").await;
    for number in 0..OPERATOR_KEYS_MAX {
        assert!(add(&accounts, &lab, u8::try_from(number).unwrap()).await.unwrap());
    }
    let one_more = add(&accounts, &lab, 200).await;
    assert!(matches!(one_more, Err(OperatorError::TooManyKeys)));
    assert_eq!(owner(&accounts, 200, START_MS).await, None, "nothing was stored");
    assert!(end(&accounts, &lab, 0).await);
    assert!(
        add(&accounts, &lab, 200).await.unwrap(),
        "an ended period takes no fixture"
    );
    let long = NewOperatorKey {
        pem: "x".repeat(4_097),
        ..key(201)
    };
    let refused = accounts.add_operator_key(&lab, ACTOR, &long).await;
    assert!(matches!(refused, Err(OperatorError::KeyTooLong)));

    // Past the store, which is faster.
    let raw = fixture.raw().await;
    for number in 0..OPERATOR_CLIENTS_MAX {
        let client = Uuid::from_u128(u128::try_from(number).unwrap());
        let insert = "INSERT INTO operator_clients (client_id, operator_id, claimed_at_ms) VALUES ($1, $2, 0)";
        let insert = sqlx::query(insert).bind(client.to_string());
        insert.bind(lab.id.to_string()).execute(&raw).await.unwrap();
    }
    let one_more = accounts.claim_client(&lab, ACTOR, Uuid::max()).await;
    assert!(matches!(one_more, Err(OperatorError::TooManyClients)));
    assert_eq!(accounts.operator_clients(&lab).await.unwrap().len(), 1_000);
    raw.close().await;
}

async fn a_due_directory_is_taken_once(fixture: Fixture) {
    let accounts = fixture.open().await;
    let (lab, other) = (
        operator(&accounts, "lab.example").await,
        operator(&accounts, "other.example").await,
    );
    assert_eq!(lab.directory.fetched_at_ms, 0, "never fetched");
    let take = async |max: usize| {
        let mut taken = Vec::new();
        for operator in accounts.due_directories().await.unwrap().into_iter().take(max) {
            taken.extend(accounts.take_directory(operator).await.unwrap());
        }
        taken
    };
    let due = async |max: usize| {
        let taken = take(max).await;
        let domains: Vec<String> = taken.iter().map(|one| one.operator.domain.clone()).collect();
        domains
    };
    assert_eq!(due(1).await, ["lab.example"]);
    assert_eq!(due(9).await, ["other.example"], "the first one is another process's");
    assert!(due(9).await.is_empty());
    assert_eq!(
        accounts.take_directory(lab.clone()).await.unwrap(),
        None,
        "it was taken since"
    );
    // Who took them is gone: after a minute they are due again.
    fixture.pass_ms(60_000);
    let taken = take(9).await;
    assert_eq!((taken.len(), taken[0].etag.as_str()), (2, ""));

    let state = DirectoryState {
        fetched_at_ms: accounts.now_ms(),
        next_at_ms: accounts.now_ms() + HOUR_MS,
        failures: 0,
        failure: String::new(),
    };
    accounts.store_directory(&lab, &state, Some("\"1\"")).await.unwrap();
    assert_eq!(accounts.operator(lab.id, None).await.unwrap().unwrap().directory, state);
    let failed = DirectoryState {
        failures: 3,
        failure: "status 500".to_owned(),
        ..state.clone()
    };
    accounts.store_directory(&lab, &failed, None).await.unwrap();
    accounts.store_directory(&other, &state, None).await.unwrap();
    assert!(due(9).await.is_empty());
    fixture.pass_ms(HOUR_MS);
    let domain = &domains("other.example")[0];
    let given_back = accounts.revoke_verification(&other.account_id, ACTOR, domain);
    assert!(given_back.await.unwrap());
    let taken = take(9).await;
    assert_eq!(taken.len(), 1, "without a proven domain nothing is fetched");
    assert_eq!(taken[0].etag, "\"1\"", "a failure leaves the stored ETag");
    assert_eq!(taken[0].operator.directory.failures, 3);
    assert_eq!(taken[0].operator.directory.failure, "status 500");
}

async fn every_change_is_in_the_trail(fixture: Fixture) {
    let accounts = fixture.open().await;
    let lab = operator(&accounts, "lab.example").await;
    let client = Uuid::from_u128(7);
    for _ in 0..2 {
        add(&accounts, &lab, 1).await.unwrap();
        accounts.claim_client(&lab, ACTOR, client).await.unwrap();
    }
    for _ in 0..2 {
        accounts.release_client(&lab, ACTOR, client).await.unwrap();
        end(&accounts, &lab, 1).await;
    }
    let query = "SELECT action, account_id, actor, subject FROM trail WHERE action LIKE 'operator.%' ORDER BY id";
    let rows = sqlx::query(query).fetch_all(&fixture.raw().await).await.unwrap();
    let actions: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let expected = ["create", "key.add", "client.claim", "client.release", "key.end"];
    assert_eq!(actions, expected.map(|action| format!("operator.{action}")));
    for row in &rows {
        let noted: [String; 3] = [row.get(1), row.get(2), row.get(3)];
        assert_eq!(noted, [lab.account_id.clone(), ACTOR.to_owned(), lab.id.to_string()]);
    }
}

async fn an_operator_is_exported_and_erased_with_its_account(fixture: Fixture) {
    let accounts = fixture.open().await;
    let lab = operator(&accounts, "lab.example").await;
    let other = operator(&accounts, "other.example").await;
    for number in [1, 2] {
        add(&accounts, &lab, number).await.unwrap();
    }
    add(&accounts, &other, 3).await.unwrap();
    let client = Uuid::from_u128(7);
    accounts.claim_client(&lab, ACTOR, client).await.unwrap();
    let mut exported = Vec::new();
    for collection in COLLECTIONS.iter().filter(|one| one.name.starts_with("operator")) {
        let (account, mut after) = (&lab.account_id, None);
        loop {
            let page = accounts.collection_page(account, collection, after.as_ref(), 1).await;
            let Some(row) = page.unwrap().pop() else { break };
            exported.push(collection.name);
            after = Some(row.cursor.to_string().parse().unwrap());
        }
        let rows = accounts.collection_rows(account, collection).await.unwrap();
        let found = exported.iter().filter(|name| **name == collection.name).count();
        assert_eq!(rows, found as u64, "{}", collection.name);
    }
    assert_eq!(
        exported,
        ["operators", "operatorKeys", "operatorKeys", "operatorClients"]
    );

    let before = accounts.registry_versions().await.unwrap().operators;
    accounts.request_deletion(&lab.account_id, 0, ACTOR).await.unwrap();
    assert!(accounts.begin_account_erasure(&lab.account_id).await.unwrap());
    let erasure = accounts.open_erasures().await.unwrap().remove(0);
    while accounts.erase_some(&erasure.id).await.unwrap() {}
    assert!(accounts.registry_versions().await.unwrap().operators > before);
    assert!(accounts.operator(lab.id, None).await.unwrap().is_none());
    assert!(accounts.operator_clients(&lab).await.unwrap().is_empty());
    assert_eq!(owner(&accounts, 1, START_MS + HOUR_MS).await, None);
    // Its keys and its domain are free for others, whose own are untouched.
    assert_eq!(accounts.operator_keys(&other).await.unwrap().len(), 1);
    let heir = operator(&accounts, "lab.example").await;
    assert!(add(&accounts, &heir, 1).await.unwrap());
}
