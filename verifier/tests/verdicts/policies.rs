//! The deployment's policy: what is rejected and why, once and for all when the verdict is
//! appended.

use accounts::{
    Accounts, AccountsConfig, ClientKey, ClientPolicy, EntryAuthors, EntryContent, EntryPolicy, EntryTitle, EntryUrl,
    Fingerprint, NewClientKey, NewEntry, Policy, RegistryCache, RegistryConfig, Revoked, Scope,
};
use receipt::{PublicKey, SigningKey};
use receipt_log::Record;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use verifier::Policies;

use crate::receipts::{batch_of, generate, id, record, signed, tampered, unsigned};
use crate::world::{Fault, Faulty, World, wait_until};

const OPEN: Policy = policy(ClientPolicy::Open, EntryPolicy::Counted);
const REGISTERED: Policy = policy(ClientPolicy::Registered, EntryPolicy::Counted);
const REQUIRED: Policy = policy(ClientPolicy::Open, EntryPolicy::Required);
const BOTH: Policy = policy(ClientPolicy::Registered, EntryPolicy::Required);

const fn policy(clients: ClientPolicy, entries: EntryPolicy) -> Policy {
    Policy { clients, entries }
}

/// Both logs, an account store and a policy.
struct Case {
    world: World,
    accounts: Accounts,
    account: String,
    _data: tempfile::TempDir,
    _shutdown: tokio_util::sync::DropGuard,
    shutdown: CancellationToken,
}

impl Case {
    async fn new(policy: Policy) -> Self {
        let data = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(&AccountsConfig::default(), data.path()).await.unwrap();
        let request = accounts::NewKey {
            domains: vec!["example.com".parse().unwrap()],
            account_id: None,
            tier: None,
            is_limited: false,
            name: "test".to_owned(),
            scopes: vec![Scope::Write],
            expires_at_ms: i64::MAX,
        };
        let issued = accounts.create_publisher_key(request).await.unwrap();
        let shutdown = CancellationToken::new();
        let mut case = Self {
            world: World::new(),
            account: issued.issued.account_id,
            accounts,
            _data: data,
            _shutdown: shutdown.clone().drop_guard(),
            shutdown,
        };
        case.demand(policy);
        case
    }

    /// The policy of the verifiers that start from now on, with nothing cached.
    fn demand(&mut self, policy: Policy) {
        self.world.policies = Some(policies(&self.accounts, policy, &self.shutdown));
    }

    /// As [`demand`](Self::demand), with a cache that is never refreshed by itself.
    fn demand_unrefreshed(&mut self, policy: Policy) {
        let config = RegistryConfig {
            refresh_ms: 3_600_000,
            stale_ms_max: 3_600_000,
            ..RegistryConfig::default()
        };
        self.world.policies = Some(Policies {
            policy,
            registry: RegistryCache::start(self.accounts.clone(), config, self.shutdown.clone()),
        });
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
        let revoked = self.accounts.revoke_client_key(&client_key(client, key), from_ms).await;
        assert_eq!(revoked.unwrap(), Revoked::Done);
    }

    async fn create_entry(&self, number: usize) {
        let entry = NewEntry {
            id: id(number),
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
        self.world.append(of_client(client, key, number)).await;
    }

    async fn run(&mut self) {
        let policy = self.world.policies.as_ref().unwrap().policy;
        self.demand(policy);
        self.world.run_until_caught_up().await;
    }

    async fn expect(&self, accepted: u64, rejected: &[(&str, u64)]) {
        self.world.contiguous().await.assert_outcomes(accepted, rejected);
    }
}

fn policies(accounts: &Accounts, policy: Policy, shutdown: &CancellationToken) -> Policies {
    let config = RegistryConfig {
        refresh_ms: 20,
        stale_ms_max: 200,
        ..RegistryConfig::default()
    };
    Policies {
        policy,
        registry: RegistryCache::start(accounts.clone(), config, shutdown.clone()),
    }
}

fn client(number: u128) -> Uuid {
    Uuid::from_u128(0xc11e_0000_0000_4000_8000_0000_0000_0000 | number)
}

fn client_key(number: u128, key: &SigningKey) -> ClientKey {
    let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
    ClientKey {
        client_id: client(number),
        fingerprint: Fingerprint(*public.fingerprint()),
    }
}

fn of_client(number: u128, key: &SigningKey, receipt: usize) -> Record {
    record(&signed(key, receipt, client(number)), Some(key))
}

fn batch_of_client(number: u128, key: &SigningKey, receipts: std::ops::Range<usize>) -> Record {
    let text = |receipt| String::from_utf8(signed(key, receipt, client(number))).unwrap();
    batch_of(key, &receipts.map(text).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_registered_keys_count() {
    let mut case = Case::new(REGISTERED).await;
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.append(1, &a, 1).await;
    case.append(1, &b, 2).await; // a stranger's key under the client's ID
    case.append(2, &a, 3).await; // the client's key under another ID
    case.world.append(batch_of_client(1, &a, 10..14)).await;
    case.world.append(batch_of_client(1, &b, 14..17)).await;
    // The batch's signature comes first, and all of it is one rejection.
    case.world
        .append(tampered(batch_of_client(1, &b, 20..22), "batch_", "BATCH_"))
        .await;
    case.run().await;
    case.expect(5, &[("bad_batch_signature", 1), ("client_key_unknown", 5)])
        .await;
    // Rejected receipts have their own bytes, and the members that they state.
    for block in case.world.contiguous().await.blocks {
        let columns = block.columns();
        for row in 0..usize::try_from(block.header.block.received).unwrap() {
            if columns.reason.value(row) == "client_key_unknown" {
                assert!(columns.raw.value(row).starts_with(b"{\"") && columns.receipt_id.value(row) != [0; 16]);
                assert_eq!(columns.publisher.value(row), "example.com");
                assert!(columns.detail.value(row).contains("isn't registered"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_arrived_before_a_revocation_count() {
    let mut case = Case::new(REGISTERED).await;
    let key = generate();
    case.register(1, &key).await;
    let now = service::instant::now_ms();
    case.revoke(1, &key, now - 1_000).await;
    for (number, received_at_ms) in [(1, now - 2_000), (2, now - 1_001), (3, now - 1_000), (4, now)] {
        let arrival = of_client(1, &key, number);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_must_exist_when_a_receipt_is_judged() {
    let mut case = Case::new(REQUIRED).await;
    let key = generate();
    case.create_entry(1).await;
    case.append(1, &key, 1).await;
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(1, &[("entry_unknown", 1)]).await;
    case.create_entry(2).await;
    let erased = case.accounts.erase_entry(&case.account, "key:test", id(1), None);
    erased.await.unwrap();
    case.append(1, &key, 1).await;
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(2, &[("entry_unknown", 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_entry_is_the_reason_before_a_missing_key() {
    let mut case = Case::new(BOTH).await;
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.create_entry(2).await;
    case.append(1, &a, 1).await;
    case.append(1, &b, 1).await;
    case.append(1, &b, 2).await;
    case.append(1, &a, 2).await;
    case.run().await;
    case.expect(1, &[("client_key_unknown", 1), ("entry_unknown", 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_verifier_sees_at_once_what_is_registered() {
    let mut case = Case::new(BOTH).await;
    case.demand_unrefreshed(BOTH);
    let key = generate();
    let verifier = case.world.spawn();
    for (rejected, accepted) in [("entry_unknown", 0), ("client_key_unknown", 0), ("", 1)] {
        case.append(1, &key, 1).await;
        case.world.caught_up().await;
        let found = case.world.contiguous().await;
        assert_eq!(found.accepted, accepted);
        assert!(
            rejected.is_empty() || found.rejected[rejected] == 1,
            "{:?}",
            found.rejected
        );
        match rejected {
            "entry_unknown" => case.create_entry(1).await,
            "client_key_unknown" => case.register(1, &key).await,
            _ => {}
        }
    }
    verifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_that_are_appended_stand_whatever_changes() {
    let mut case = Case::new(REGISTERED).await;
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.world.append(batch_of_client(1, &a, 0..10)).await;
    case.world.append(batch_of_client(1, &b, 10..15)).await;
    case.run().await;
    // The position is lost, the registry is another one, and so is the policy.
    case.revoke(1, &a, 0).await;
    case.register(1, &b).await;
    let remove = |directory: &std::path::Path| std::fs::remove_dir_all(directory.join("log/positions")).unwrap();
    for next in [REGISTERED, OPEN, BOTH] {
        case.world.reopen(remove).await;
        case.demand(next);
        case.run().await;
        case.expect(10, &[("client_key_unknown", 5)]).await;
    }
    case.demand(REGISTERED);
    case.world.append(batch_of_client(1, &a, 20..23)).await;
    case.world.append(batch_of_client(1, &b, 23..25)).await;
    case.run().await;
    case.expect(12, &[("client_key_revoked", 3), ("client_key_unknown", 5)])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_was_not_appended_is_judged_under_the_next_policy() {
    let mut case = Case::new(REGISTERED).await;
    let key = generate();
    case.append(1, &key, 1).await;
    let (processor, signal) = Faulty::new(case.world.processor(), Fault::HangBefore);
    let verifier = case.world.spawn_with(processor);
    signal.reached().await;
    verifier.crash().await;
    case.demand(OPEN);
    case.run().await;
    case.expect(1, &[]).await;
    case.demand(REGISTERED);
    case.append(1, &key, 2).await;
    case.run().await;
    case.expect(1, &[("client_key_unknown", 1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_verifier_and_its_successor_decide_once() {
    let mut case = Case::new(REGISTERED).await;
    let (a, b) = (generate(), generate());
    case.register(1, &a).await;
    case.world.append(batch_of_client(1, &a, 0..5)).await;
    case.world.append(batch_of_client(1, &b, 5..8)).await;
    let (processor, signal) = Faulty::new(case.world.processor(), Fault::Pause);
    let older = case.world.spawn_with(processor);
    signal.reached().await;
    case.revoke(1, &a, 0).await;
    case.register(1, &b).await;
    case.run().await;
    signal.release();
    older.stop().await;
    case.expect(3, &[("client_key_revoked", 5)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_is_waited_for() {
    let mut case = Case::new(REGISTERED).await;
    let key = generate();
    case.register(1, &key).await;
    case.append(1, &key, 1).await;
    case.append(2, &key, 2).await;
    // A server that doesn't exist.
    let nowhere = AccountsConfig {
        url: Some("postgres://nobody@127.0.0.1:1/none".into()),
        wait_ms_max: 200,
        ..AccountsConfig::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let away = Accounts::open(&nowhere, directory.path()).await.unwrap();
    case.world.policies = Some(policies(&away, REGISTERED, &case.shutdown));
    let verifier = case.world.spawn();
    wait_until("readiness says what is waited for", || {
        verifier.reason().contains("policy")
    })
    .await;
    assert_eq!(
        (
            case.world.contiguous_to(0).await.blocks.len(),
            case.world.committed().await
        ),
        (0, 0)
    );
    verifier.stop().await;
    assert_eq!(
        case.world.contiguous_to(0).await.blocks.len(),
        0,
        "stopping appends nothing without a verdict"
    );
    // An open policy waits, too: stamps need the operators.
    case.world.policies = Some(policies(&away, OPEN, &case.shutdown));
    let verifier = case.world.spawn();
    wait_until("readiness says what is waited for", || {
        verifier.reason().contains("policy")
    })
    .await;
    verifier.stop().await;
    assert_eq!(case.world.contiguous_to(0).await.blocks.len(), 0);
    case.demand(OPEN);
    case.run().await;
    case.expect(2, &[]).await;
    case.demand(REGISTERED);
    case.append(2, &key, 4).await;
    case.run().await;
    case.expect(2, &[("client_key_unknown", 1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_of_changes_and_crashes_gives_each_receipt_one_verdict() {
    let mut case = Case::new(OPEN).await;
    let keys = [generate(), generate(), generate()];
    let mut sent = 0;
    for _ in 0..16 {
        for _ in 0..rand::random_range(1..4) {
            let (client, key) = (rand::random_range(0..3), &keys[rand::random_range(0..3)]);
            case.world.append(batch_of_client(client, key, sent..sent + 2)).await;
            sent += 2;
        }
        let fault = [Some(Fault::HangBefore), Some(Fault::HangAfter), None][rand::random_range(0..3)];
        if let Some(fault) = fault {
            let (processor, signal) = Faulty::new(case.world.processor(), fault);
            let verifier = case.world.spawn_with(processor);
            signal.reached().await;
            verifier.crash().await;
        } else {
            case.run().await;
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
        case.demand([OPEN, REGISTERED, REQUIRED, BOTH][rand::random_range(0..4)]);
    }
    case.run().await;
    let found = case.world.contiguous().await;
    assert_eq!(found.accepted + found.rejected.values().sum::<u64>(), sent as u64);
}

/// Receipts of a publisher, and whether it was verified when they arrived, in log order.
async fn stamps(case: &Case) -> Vec<(String, bool)> {
    let verdicts = case.world.contiguous().await;
    let mut stamps = Vec::new();
    for block in &verdicts.blocks {
        let accepted = block.accepted();
        let columns = blocks::Columns::new(&accepted).unwrap();
        for row in 0..accepted.num_rows() {
            let publisher = columns.publisher.value(row).to_owned();
            stamps.push((publisher, columns.publisher_verified.value(row)));
        }
    }
    stamps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_before_a_publishers_first_verification_is_marked() {
    let mut case = Case::new(OPEN).await;
    let key = generate();
    let first = case
        .accounts
        .first_verifications(&["example.com".into()])
        .await
        .unwrap();
    let verified_at_ms = first[0].unwrap();
    let of = |publisher: &str, number, received_at_ms| {
        let unsigned = unsigned(&key, number, client(1)).replace("example.com", publisher);
        let signed = receipt::sign_receipt(unsigned.as_bytes(), &key, &receipt::Limits::default()).unwrap();
        Record {
            received_at_ms,
            ..record(&signed, Some(&key))
        }
    };
    for (number, (publisher, at_ms)) in [
        ("example.com", verified_at_ms - 1),
        ("example.com", verified_at_ms),
        ("shop.example", verified_at_ms),
        ("www.example.com", verified_at_ms),
    ]
    .into_iter()
    .enumerate()
    {
        case.world.append(of(publisher, number, at_ms)).await;
    }
    case.run().await;
    let mut expected = vec![
        ("example.com".to_owned(), false),
        ("example.com".to_owned(), true),
        ("shop.example".to_owned(), false),
        ("www.example.com".to_owned(), true),
    ];
    assert_eq!(stamps(&case).await, expected);

    // A verifier that has read that nobody verified the domain judges what arrives later by it.
    case.demand_unrefreshed(OPEN);
    let verifier = case.world.spawn();
    let mut number = expected.len();
    for is_verified in [false, true] {
        case.world
            .append(of("shop.example", number, service::instant::now_ms()))
            .await;
        number += 1;
        case.world.caught_up().await;
        expected.push(("shop.example".to_owned(), is_verified));
        assert_eq!(stamps(&case).await, expected);
        let request = accounts::NewKey {
            domains: vec!["shop.example".parse().unwrap()],
            account_id: None,
            tier: None,
            is_limited: false,
            name: "test".to_owned(),
            scopes: vec![Scope::Read],
            expires_at_ms: i64::MAX,
        };
        if !is_verified {
            case.accounts.create_publisher_key(request).await.unwrap();
        }
    }
    verifier.stop().await;

    // Without an account store nobody is unverified.
    case.world.policies = None;
    case.world
        .append(of("other.example", number, service::instant::now_ms()))
        .await;
    case.world.run_until_caught_up().await;
    assert_eq!(stamps(&case).await.last(), Some(&("other.example".to_owned(), true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_is_of_its_urls_host() {
    let case = Case::new(OPEN).await;
    let key = generate();
    for (number, url) in ["https://Www.Example.com/a", "http://example.com:8080/a"]
        .into_iter()
        .enumerate()
    {
        let unsigned = unsigned(&key, number, client(1)).replace("https://example.com/a", url);
        let signed = receipt::sign_receipt(unsigned.as_bytes(), &key, &receipt::Limits::default()).unwrap();
        case.world.append(record(&signed, Some(&key))).await;
    }
    case.world.run_until_caught_up().await;
    let hosts = ["www.example.com", "example.com"].map(|host| (host.to_owned(), true));
    assert_eq!(stamps(&case).await, hosts);
}
