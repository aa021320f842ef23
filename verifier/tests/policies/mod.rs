//! The deployment's policy: what is refused and why, and that a block which is judged again comes out the same, whatever was
//! registered, revoked, created or configured in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use accounts::{
    Accounts, AccountsConfig, ClientKey, ClientPolicy, EntryAuthors, EntryContent, EntryPolicy, EntryTitle, EntryUrl,
    Fingerprint, NewClientKey, NewEntry, Policy, Revoked, Scope,
};
use receipt::{Algorithm, Limits, PublicKey, SigningKey};
use receipt_log::{Record, RecordKind};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use verifier::PolicyBook;

use crate::world::{Fault, Faulty, Published, World, record, unsigned};

const OPEN: Policy = policy(ClientPolicy::Open, EntryPolicy::Counted);
const REGISTERED: Policy = policy(ClientPolicy::Registered, EntryPolicy::Counted);
const REQUIRED: Policy = policy(ClientPolicy::Open, EntryPolicy::Required);
const BOTH: Policy = policy(ClientPolicy::Registered, EntryPolicy::Required);

const fn policy(clients: ClientPolicy, entries: EntryPolicy) -> Policy {
    Policy { clients, entries }
}

pub(crate) async fn all(directory: &Path) {
    only_registered_keys_count(Case::new(directory, "p_registered", REGISTERED).await).await;
    what_came_before_a_revocation_counts(Case::new(directory, "p_revoked", REGISTERED).await).await;
    entries_must_exist(Case::new(directory, "p_entries", REQUIRED).await).await;
    the_entry_is_checked_first(Case::new(directory, "p_both", BOTH).await).await;
    a_change_between_two_judgements_changes_nothing(Case::new(directory, "p_crash", REGISTERED).await).await;
    a_change_of_policy_between_two_judgements_changes_nothing(Case::new(directory, "p_switch", REGISTERED).await).await;
    what_was_written_without_a_policy_stands(Case::new(directory, "p_adopted", OPEN).await).await;
    a_frozen_verifier_agrees_with_its_successor(Case::new(directory, "p_zombie", REGISTERED).await).await;
    lost_rows_are_rebuilt_as_they_were(Case::new(directory, "p_rebuilt", REGISTERED).await, directory).await;
    a_store_that_is_away_is_waited_for(directory).await;
    marks_without_a_store_are_told(Case::new(directory, "p_forgotten", REGISTERED).await).await;
    any_order_of_changes_and_crashes_stays_exact(Case::new(directory, "p_schedule", OPEN).await).await;
}

/// A world with a policy and an account store.
struct Case {
    world: World,
    accounts: Accounts,
    account: String,
}

impl Case {
    async fn new(directory: &Path, name: &str, policy: Policy) -> Self {
        let data = directory.join(format!("{name}_accounts"));
        std::fs::create_dir_all(&data).unwrap();
        let accounts = Accounts::open(&AccountsConfig::default(), &data).await.unwrap();
        let wish = accounts::NewKey {
            domains: vec!["example.com".parse().unwrap()],
            tier: None,
            name: "test".to_owned(),
            scopes: vec![Scope::Write],
            expires_at_ms: i64::MAX,
        };
        let issued = accounts.create_publisher_key(wish).await.unwrap();
        let mut case = Self {
            world: World::new(directory, name).await,
            account: issued.issued.account_id,
            accounts,
        };
        case.demand(policy);
        case
    }

    fn demand(&mut self, policy: Policy) {
        self.world.policy = Some(PolicyBook::new(self.accounts.clone(), policy, 100));
    }

    async fn register(&self, client: u128, key: &SigningKey) {
        let new = NewClientKey {
            key: client_key(client, key),
            pem: key.public_key_pem().to_owned(),
            name: String::new(),
        };
        self.accounts.register_client_key(&new).await.unwrap();
    }

    async fn revoke(&self, client: u128, key: &SigningKey, from_ms: i64) {
        let key = client_key(client, key);
        let revoked = self.accounts.revoke_client_key(&key, from_ms).await;
        assert_eq!(revoked.unwrap(), Revoked::Done);
    }

    async fn create_entry(&self, number: usize) {
        let entry = NewEntry {
            id: entry(number),
            content: EntryContent {
                url: EntryUrl::parse("https://example.com/a").unwrap(),
                title: EntryTitle::parse("A".to_owned()).unwrap(),
                authors: EntryAuthors::parse(Vec::new()).unwrap(),
            },
        };
        let created = self
            .accounts
            .create_entries(&self.account, "key:test", vec![entry], 1_000);
        created.await.unwrap();
    }

    async fn append(&self, client: u128, key: &SigningKey, number: usize) {
        self.world.append(record(&signed(client, key, number), Some(key))).await;
    }

    /// How many are accepted, and the others by reason; the books are right.
    async fn outcomes(&self) -> (u64, BTreeMap<String, u64>) {
        let totals = self.world.warehouse.totals().await.unwrap();
        let rejected: BTreeMap<String, u64> = totals.rejected_by_reason.iter().cloned().collect();
        self.world.assert_audit(totals.occurrences + totals.rejected).await;
        (totals.occurrences, rejected)
    }

    async fn expect(&self, accepted: u64, rejected: &[(&str, u64)]) {
        let rejected = rejected.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
        assert_eq!(self.outcomes().await, (accepted, rejected.collect()));
    }

    async fn run(&self) {
        self.world.run_until_caught_up().await;
    }
}

fn generate() -> SigningKey {
    SigningKey::generate(Algorithm::Ed25519).unwrap()
}

fn client(number: u128) -> Uuid {
    Uuid::from_u128(0xc11e_0000_0000_4000_8000_0000_0000_0000 | number)
}

fn client_key(client_number: u128, key: &SigningKey) -> ClientKey {
    let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
    ClientKey {
        client_id: client(client_number),
        fingerprint: Fingerprint(*public.fingerprint()),
    }
}

fn entry(number: usize) -> Uuid {
    Uuid::from_u128(0x1234_0000_0000_4000_8000_0000_0000_0000 + number as u128)
}

fn signed(client_number: u128, key: &SigningKey, number: usize) -> Vec<u8> {
    let (of_number, of_client) = (entry(number), client(client_number));
    let json = unsigned(key, number).replace(
        &format!(r#""client":{{"id":"{of_number}""#),
        &format!(r#""client":{{"id":"{of_client}""#),
    );
    assert!(json.contains(&of_client.to_string()));
    receipt::sign_receipt(json.as_bytes(), key, &Limits::default()).unwrap()
}

fn batch(client_number: u128, key: &SigningKey, numbers: std::ops::Range<usize>) -> Record {
    let receipts: Vec<String> = numbers
        .map(|number| String::from_utf8(signed(client_number, key, number)).unwrap())
        .collect();
    let json = format!(
        r#"{{"version":"1.0.0","batchId":"batch_1","receipts":[{}]}}"#,
        receipts.join(",")
    );
    let body = receipt::sign_batch(json.as_bytes(), key, &Limits::default()).unwrap();
    Record {
        kind: RecordKind::Batch,
        ..record(&body, None)
    }
}

async fn only_registered_keys_count(mut case: Case) {
    let published = Published::failing(&case.world.warehouse, 0);
    case.world.dead_letters = Some(published.clone());
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.append(1, &a, 1).await;
    case.append(1, &b, 2).await; // a stranger's key under the client's id
    case.append(2, &a, 3).await; // the client's key under another id
    case.world.append(batch(1, &a, 10..14)).await;
    case.world.append(batch(1, &b, 14..17)).await;
    let mut forged = batch(1, &b, 20..22);
    forged.body = String::from_utf8(forged.body.to_vec())
        .unwrap()
        .replace("batch_", "BATCH_")
        .into();
    case.world.append(forged).await; // a receipt's own faults come first
    case.run().await;
    case.expect(5, &[("bad_batch_signature", 2), ("client_key_unknown", 5)])
        .await;
    let letters = published.letters.lock().unwrap();
    let unknown: Vec<_> = letters
        .iter()
        .filter(|(letter, _)| letter.reason == "client_key_unknown")
        .collect();
    assert_eq!(unknown.len(), 5, "each is a dead letter too");
    let of_batch = unknown.iter().filter(|(letter, _)| letter.origin == "signed_batch");
    assert_eq!(of_batch.count(), 3, "each stands for itself and can be judged alone");
    assert!(
        unknown
            .iter()
            .all(|(letter, _)| letter.body.starts_with(b"{") && letter.receipt_id.is_some())
    );
}

async fn what_came_before_a_revocation_counts(case: Case) {
    let key = generate();
    case.register(1, &key).await;
    let now = service::instant::now_ms();
    case.revoke(1, &key, now - 1_000).await;
    for (number, received_at_ms) in [(1, now - 2_000), (2, now - 1_001), (3, now - 1_000), (4, now)] {
        let arrival = record(&signed(1, &key, number), Some(&key));
        case.world
            .append(Record {
                received_at_ms,
                ..arrival
            })
            .await;
    }
    case.run().await;
    case.expect(2, &[("client_key_revoked", 2)]).await;
    case.register(1, &key).await;
    case.append(1, &key, 5).await;
    case.run().await;
    case.expect(3, &[("client_key_revoked", 2)]).await;
}

async fn entries_must_exist(case: Case) {
    let key = generate();
    case.create_entry(1).await;
    case.append(1, &key, 1).await;
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(1, &[("entry_unknown", 1)]).await;
    case.create_entry(2).await;
    let erased = case.accounts.erase_entry(&case.account, "key:test", entry(1), None);
    erased.await.unwrap();
    case.append(1, &key, 1).await;
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(2, &[("entry_unknown", 2)]).await;
}

async fn the_entry_is_checked_first(case: Case) {
    let (a, b) = (generate(), generate());
    case.register(1, &b).await;
    case.create_entry(2).await;
    case.append(1, &a, 1).await; // neither its key nor its entry
    case.append(1, &b, 2).await;
    case.append(1, &a, 2).await;
    case.append(1, &b, 1).await;
    case.run().await;
    case.expect(1, &[("client_key_unknown", 1), ("entry_unknown", 2)]).await;
}

async fn a_change_between_two_judgements_changes_nothing(mut case: Case) {
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.world.append(batch(1, &a, 0..10)).await;
    case.world.append(batch(1, &b, 10..15)).await;
    // The rows are written, and the process "dies" before the commit.
    case.world.run_faulty(Fault::HangBeforeCommit).await;
    case.revoke(1, &a, 0).await;
    case.register(1, &b).await;
    case.world.append(batch(1, &a, 20..23)).await;
    case.world.append(batch(1, &b, 23..25)).await;
    // Another verifier, with nothing in memory.
    case.demand(REGISTERED);
    case.run().await;
    case.expect(12, &[("client_key_revoked", 3), ("client_key_unknown", 5)])
        .await;
    // Between the commit and the ledger's row as well.
    case.world.append(batch(1, &b, 30..33)).await;
    case.world.run_faulty(Fault::HangAfterCommit).await;
    case.revoke(1, &b, 0).await;
    case.demand(REGISTERED);
    case.append(1, &b, 40).await;
    case.run().await;
    case.expect(15, &[("client_key_revoked", 4), ("client_key_unknown", 5)])
        .await;
}

async fn a_change_of_policy_between_two_judgements_changes_nothing(mut case: Case) {
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    let (mut accepted, mut unknown) = (0, 0);
    // What the next verifier is to demand, and how many of two strangers' receipts it accepts itself.
    for (next, of_two) in [(OPEN, 2), (REGISTERED, 0), (OPEN, 2), (REGISTERED, 0)] {
        let number = 10 * usize::try_from(accepted + unknown).unwrap();
        let before = case.world.policy.as_ref().unwrap().policy;
        case.world.append(batch(1, &a, number..number + 3)).await;
        case.world.append(batch(1, &b, number + 3..number + 5)).await;
        case.world.run_faulty(Fault::HangBeforeCommit).await;
        let (_, written) = {
            let totals = case.world.warehouse.totals().await.unwrap();
            (totals.occurrences, totals.rejected)
        };
        case.demand(next);
        case.run().await;
        let of_before = if before.is_open() { 2 } else { 0 };
        accepted += 3 + of_before;
        unknown += 2 - of_before;
        let (now_accepted, rejected) = case.outcomes().await;
        assert_eq!(
            (now_accepted, rejected.values().sum::<u64>()),
            (accepted, unknown),
            "{before:?} {next:?}"
        );
        assert_eq!(unknown, written, "what was refused stays refused");
        // And from here on the new one holds.
        case.world.append(batch(1, &b, number + 5..number + 7)).await;
        case.run().await;
        accepted += of_two;
        unknown += 2 - of_two;
        let (now_accepted, rejected) = case.outcomes().await;
        assert_eq!(
            (now_accepted, rejected.values().sum::<u64>()),
            (accepted, unknown),
            "{next:?}"
        );
    }
}

/// The policy is adopted, given up before anything was committed, and adopted again.
async fn what_was_written_without_a_policy_stands(mut case: Case) {
    let key = generate();
    case.append(1, &key, 1).await;
    case.world.run_faulty(Fault::HangBeforeCommit).await;
    case.append(1, &key, 2).await;
    case.demand(REGISTERED);
    case.run().await;
    case.expect(1, &[("client_key_unknown", 1)]).await;
    case.append(1, &key, 3).await;
    case.demand(OPEN);
    case.world.run_faulty(Fault::HangBeforeCommit).await;
    case.append(1, &key, 4).await;
    case.append(1, &key, 5).await;
    case.demand(REGISTERED);
    case.run().await;
    case.expect(2, &[("client_key_unknown", 3)]).await;
}

async fn a_frozen_verifier_agrees_with_its_successor(mut case: Case) {
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.world.append(batch(1, &a, 0..5)).await;
    case.world.append(batch(1, &b, 5..8)).await;
    let (consumer, resume) = Faulty::pausing(case.world.consumer());
    let stop = CancellationToken::new();
    let zombie = case.world.spawn(Box::new(consumer), stop.clone());
    resume.reached().await;
    // It goes on polling what comes, and marks and writes some of it, while another takes over.
    case.revoke(1, &a, 0).await;
    case.register(1, &b).await;
    case.world.append(batch(1, &a, 10..14)).await;
    case.world.append(batch(1, &b, 14..16)).await;
    case.demand(REGISTERED);
    case.run().await;
    resume.go_on();
    stop.cancel();
    zombie.await.unwrap().unwrap();
    case.expect(7, &[("client_key_revoked", 4), ("client_key_unknown", 3)])
        .await;
}

async fn lost_rows_are_rebuilt_as_they_were(mut case: Case, directory: &Path) {
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.world.append(batch(1, &a, 0..6)).await;
    case.world.append(batch(1, &b, 6..10)).await;
    case.run().await;
    case.expect(6, &[("client_key_unknown", 4)]).await;
    case.register(1, &b).await;
    case.revoke(1, &a, 0).await;
    case.world.lose_all_rows(directory).await;
    for _ in 0..2 {
        let World {
            log,
            warehouse,
            cpu,
            judge,
            policy,
            ..
        } = &case.world;
        let repaired = verifier::repair::repair(log, warehouse, cpu, judge, policy.as_ref(), |_, _| {}).await;
        let repaired = repaired.unwrap();
        assert_eq!((repaired.accepted, repaired.rejected), (6, 4));
        case.expect(6, &[("client_key_unknown", 4)]).await;
    }
}

async fn a_store_that_is_away_is_waited_for(directory: &Path) {
    let mut case = Case::new(directory, "p_away", REGISTERED).await;
    let key = generate();
    case.register(1, &key).await;
    case.append(1, &key, 1).await;
    case.append(2, &key, 2).await;
    // A server where none listens, until there is one: here the store that was there before.
    let nowhere = AccountsConfig {
        url: Some("postgres://nobody@127.0.0.1:1/none".to_owned()),
        wait_ms_max: 200,
        ..AccountsConfig::default()
    };
    let away = Accounts::open(&nowhere, directory).await.unwrap();
    case.world.policy = Some(PolicyBook::new(away.clone(), REGISTERED, 100));
    let stop = CancellationToken::new();
    let verifier = case.world.spawn(Box::new(case.world.consumer()), stop.clone());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !reason(&case.world).contains("policy") {
        assert!(
            std::time::Instant::now() < deadline,
            "readiness says what is waited for"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let totals = case.world.warehouse.totals().await.unwrap();
    assert_eq!(
        (totals.occurrences, totals.rejected, case.world.committed().await),
        (0, 0, 0)
    );
    stop.cancel();
    verifier.await.unwrap().unwrap();
    // The open policy can do without.
    case.world.policy = Some(PolicyBook::new(away, OPEN, 100));
    case.append(2, &key, 3).await;
    case.run().await;
    case.expect(3, &[]).await;
    case.demand(REGISTERED);
    case.append(2, &key, 4).await;
    case.run().await;
    case.expect(3, &[("client_key_unknown", 1)]).await;
}

/// Why the verifier isn't ready.
fn reason(world: &World) -> String {
    let snapshot = world.health.snapshot();
    let verifier = snapshot.components.get("verifier");
    verifier
        .and_then(|verifier| verifier.reason.clone())
        .unwrap_or_default()
}

async fn marks_without_a_store_are_told(mut case: Case) {
    let key = generate();
    case.append(1, &key, 1).await;
    case.world.run_faulty(Fault::HangBeforeCommit).await;
    let book = case.world.policy.take();
    let ended = case
        .world
        .spawn(Box::new(case.world.consumer()), CancellationToken::new());
    let error = ended.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("[accounts]"), "{error}");
    case.world.policy = book;
    case.run().await;
    case.expect(0, &[("client_key_unknown", 1)]).await;
    // With nothing left undone it isn't asked for any more.
    case.world.policy = None;
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(1, &[("client_key_unknown", 1)]).await;
}

async fn any_order_of_changes_and_crashes_stays_exact(mut case: Case) {
    let keys: Arc<[SigningKey]> = (0..3).map(|_| generate()).collect();
    let mut sent = 0;
    for _ in 0..16 {
        for _ in 0..rand::random_range(1..4) {
            let (client, key) = (rand::random_range(0..3), &keys[rand::random_range(0..3)]);
            case.world.append(batch(client, key, sent..sent + 2)).await;
            sent += 2;
        }
        match rand::random_range(0..3) {
            0 => case.world.run_faulty(Fault::HangBeforeCommit).await,
            1 => case.world.run_faulty(Fault::HangAfterCommit).await,
            _ => case.run().await,
        }
        let (client, key) = (rand::random_range(0..3), &keys[rand::random_range(0..3)]);
        match rand::random_range(0..3) {
            0 => case.register(client, key).await,
            1 => drop(
                case.accounts
                    .revoke_client_key(&client_key(client, key), 0)
                    .await
                    .unwrap(),
            ),
            _ => case.create_entry(rand::random_range(0..sent)).await,
        }
        let policies = [OPEN, REGISTERED, REQUIRED, BOTH];
        case.demand(policies[rand::random_range(0..policies.len())]);
    }
    // So that the last commit's ledger row is written, whatever happened to it.
    case.world.append(batch(0, &keys[0], sent..sent + 2)).await;
    sent += 2;
    case.run().await;
    let (accepted, rejected) = case.outcomes().await;
    assert_eq!(accepted + rejected.values().sum::<u64>(), sent as u64);
}
