//! Clients that send receipts, and send some of them again, with a model of what they sent and of
//! the registry of keys.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use accounts::{ClientKey, ClientPolicy, Fingerprint, NewClientKey, Revoked};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rand::RngExt;
use receipt::{Algorithm, Limits, PublicKey, SigningKey};
use receipt_log::{LogWriter, Record, RecordKind};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::installation::Installation;

/// The publisher that is split over shards.
pub(crate) const LARGE: &str = "large.example";
const PUBLISHERS: usize = 12;
const DAY_MS: i64 = 86_400_000;
/// Receipts of a batch.
const BATCH: usize = 20;
/// Client IDs that the receipts of each key name.
const CLIENTS: u128 = 5;
/// Every verifier knows a revocation after this time: it waits if its registry is older than
/// [`crate::installation::REGISTRY_STALE_MS_MAX`].
const REVOCATION_NOTICE_MS: i64 = 3_000;

/// Receipts that were acknowledged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// Receipts by publisher and day.
    pub(crate) receipts: BTreeMap<(String, i64), u64>,
    /// Occurrences, those of duplicates included.
    pub(crate) occurrences: u64,
    /// Distinct receipts.
    pub(crate) distinct: u64,
    /// Rejected receipts, those of duplicates included.
    pub(crate) rejected: u64,
    /// Rejected receipts by their key.
    pub(crate) of_revoked_key: u64,
    pub(crate) of_unknown_key: u64,
    /// Distinct receipts by publisher.
    ids: HashSet<Uuid>,
}

/// A record that was acknowledged, and its receipts.
#[derive(Clone)]
struct Sent {
    signer: Signer,
    record: Record,
    receipts: Vec<(Uuid, String, i64)>,
}

/// Signer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signer {
    Registered,
    /// Registered, and revoked in the course of the test.
    Revoked,
    Unknown,
}

struct Keys {
    registered: SigningKey,
    revoked: SigningKey,
    unknown: SigningKey,
}

impl Keys {
    fn generate() -> Self {
        let generate = || SigningKey::generate(Algorithm::Ed25519).unwrap();
        Self {
            registered: generate(),
            revoked: generate(),
            unknown: generate(),
        }
    }

    fn of(&self, signer: Signer) -> &SigningKey {
        match signer {
            Signer::Registered => &self.registered,
            Signer::Revoked => &self.revoked,
            Signer::Unknown => &self.unknown,
        }
    }
}

struct State {
    model: Model,
    policy: ClientPolicy,
    /// Receipts of [`Signer::Revoked`] don't count if they arrived at or after this instant.
    revoked_from_ms: i64,
    sent: Vec<Sent>,
    days: Range<i64>,
    is_pausing: bool,
    is_stopping: bool,
}

/// A running load.
pub(crate) struct Load {
    state: Arc<Mutex<State>>,
    keys: Arc<Keys>,
    sending: Sending,
    task: JoinHandle<()>,
}

/// Locked while a batch is sent.
type Sending = Arc<tokio::sync::Mutex<()>>;

impl Load {
    /// Sends receipts of these days, counted from today.
    pub(crate) async fn start(installation: &Installation, days: Range<i64>) -> Self {
        let keys = Arc::new(Keys::generate());
        for key in [&keys.registered, &keys.revoked] {
            for client in 1..=CLIENTS {
                let new = NewClientKey {
                    key: client_key(client, key),
                    pem: key.public_key_pem().to_owned(),
                    name: String::new(),
                };
                installation.accounts.register_client_key(&new).await.unwrap();
            }
        }
        let state = Arc::new(Mutex::new(State {
            model: Model::default(),
            policy: installation.policy.clients,
            revoked_from_ms: i64::MAX,
            sent: Vec::new(),
            days,
            is_pausing: false,
            is_stopping: false,
        }));
        let writer = installation.receipts.writer().unwrap();
        let sending = Sending::default();
        let run = run(Arc::clone(&state), Arc::clone(&keys), Arc::clone(&sending), writer);
        Self {
            state,
            keys,
            sending,
            task: tokio::spawn(run),
        }
    }

    /// Revokes a key from an instant that every verifier learns in time.
    pub(crate) async fn revoke_key(&self, installation: &Installation) {
        let from_ms = service::instant::now_ms() + REVOCATION_NOTICE_MS;
        self.state.lock().revoked_from_ms = from_ms;
        for client in 1..=CLIENTS {
            let key = client_key(client, &self.keys.revoked);
            let revoked = installation.accounts.revoke_client_key(&key, from_ms).await.unwrap();
            assert_eq!(revoked, Revoked::Done);
        }
    }

    /// Waits until so many further receipts were acknowledged.
    pub(crate) async fn receipts(&self, more: u64) {
        let until = self.state.lock().model.occurrences + more;
        while self.state.lock().model.occurrences < until {
            assert!(!self.task.is_finished());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets timestamps be on days before this one, counted from today.
    pub(crate) async fn may_reach(&self, day: i64) {
        self.state.lock().days.end = day;
    }

    /// Sends nothing more for now. Returns what was acknowledged.
    pub(crate) async fn pause(&self) -> Model {
        // Held while a batch is sent.
        let _none_is_sent = self.sending.lock().await;
        let mut state = self.state.lock();
        state.is_pausing = true;
        state.model.clone()
    }

    /// Sends on, to verifiers with this policy.
    pub(crate) fn resume(&self, policy: ClientPolicy) {
        let mut state = self.state.lock();
        state.policy = policy;
        state.is_pausing = false;
    }

    /// Stops, and returns what was acknowledged.
    pub(crate) async fn stop(self) -> Model {
        self.state.lock().is_stopping = true;
        self.task.await.unwrap();
        std::mem::take(&mut self.state.lock().model)
    }
}

fn client_key(client: u128, key: &SigningKey) -> ClientKey {
    let public = PublicKey::from_pem(key.public_key_pem()).unwrap();
    ClientKey {
        client_id: Uuid::from_u128(client),
        fingerprint: Fingerprint(*public.fingerprint()),
    }
}

async fn run(state: Arc<Mutex<State>>, keys: Arc<Keys>, sending: Sending, log: Arc<dyn LogWriter>) {
    loop {
        {
            let _sending = sending.lock().await;
            let next = {
                let state = state.lock();
                if state.is_stopping {
                    return;
                }
                (!state.is_pausing).then(|| next(&state, &keys))
            };
            if let Some(next) = next
                && log.append(next.record.clone()).await.is_ok()
            {
                state.lock().acknowledge(next);
            }
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// A new batch, one that was sent before, or one that isn't a receipt.
fn next(state: &State, keys: &Keys) -> Sent {
    let mut rng = rand::rng();
    match rng.random_range(0..10) {
        0..3 if !state.sent.is_empty() => state.sent[rng.random_range(0..state.sent.len())].clone(),
        3 => Sent {
            signer: Signer::Unknown,
            record: record(b"{\"not\": \"a receipt\"}".to_vec(), RecordKind::Receipt, None),
            receipts: Vec::new(),
        },
        4 => batch(Signer::Revoked, keys, &state.days),
        5 => batch(Signer::Unknown, keys, &state.days),
        _ => batch(Signer::Registered, keys, &state.days),
    }
}

fn batch(signer: Signer, keys: &Keys, days: &Range<i64>) -> Sent {
    let key = keys.of(signer);
    let mut rng = rand::rng();
    let today = service::instant::now_ms().div_euclid(DAY_MS);
    let receipts: Vec<(Uuid, String, i64)> = (0..BATCH)
        .map(|_| {
            let day = today + rng.random_range(days.clone());
            let timestamp = day * DAY_MS + rng.random_range(0..DAY_MS);
            let publisher = match rng.random_range(0..PUBLISHERS) {
                0..4 => LARGE.to_owned(),
                number => format!("p{number}.example"),
            };
            // The present day isn't over.
            (Uuid::new_v4(), publisher, timestamp.min(service::instant::now_ms()))
        })
        .collect();
    let signed = receipts.iter().map(|(id, publisher, timestamp_ms)| {
        let text = receipt_of(key, *id, publisher, *timestamp_ms);
        let signed = receipt::sign_receipt(text.as_bytes(), key, &Limits::default()).unwrap();
        String::from_utf8(signed).unwrap()
    });
    let signed = signed.collect::<Vec<_>>().join(",");
    let json = format!(r#"{{"version":"1.0.0","batchId":"batch_1","receipts":[{signed}]}}"#);
    let body = receipt::sign_batch(json.as_bytes(), key, &Limits::default()).unwrap();
    let signature = STANDARD.encode(key.sign(&body).unwrap());
    Sent {
        signer,
        record: record(body, RecordKind::Batch, Some(signature)),
        receipts,
    }
}

fn receipt_of(key: &SigningKey, id: Uuid, publisher: &str, timestamp_ms: i64) -> String {
    let timestamp = service::instant::rfc3339_ms(timestamp_ms);
    let pem = serde_json::to_string(key.public_key_pem()).unwrap();
    let (entry, client) = (Uuid::from_u128(7), Uuid::from_u128(1 + id.as_u128() % CLIENTS));
    format!(
        r#"{{"version":"1.0.0","receiptId":"{id}","timestamp":"{timestamp}","content":{{"entryId":"{entry}","url":"https://{publisher}/a","contentHash":"sha256:{:064x}","publisher":"{publisher}"}},"client":{{"id":"{client}","name":"Reader","version":"1","organization":"Org","publicKey":{pem}}},"usage":{{"purpose":"training","context":"a context"}}}}"#,
        7
    )
}

fn record(body: Vec<u8>, kind: RecordKind, request_signature: Option<String>) -> Record {
    Record {
        kind,
        body: body.into(),
        request_signature,
        request_id: "request".to_owned(),
        received_at_ms: service::instant::now_ms(),
        client_address: Some("192.0.2.1".parse().unwrap()),
        trace: None,
    }
}

impl State {
    fn acknowledge(&mut self, sent: Sent) {
        let count = sent.receipts.len() as u64;
        let model = &mut self.model;
        let is_counted = match sent.signer {
            Signer::Registered => true,
            _ if self.policy == ClientPolicy::Open => true,
            Signer::Revoked => sent.record.received_at_ms < self.revoked_from_ms,
            Signer::Unknown => false,
        };
        if count == 0 {
            model.rejected += 1;
            return;
        }
        if !is_counted {
            model.rejected += count;
            match sent.signer {
                Signer::Revoked => model.of_revoked_key += count,
                _ => model.of_unknown_key += count,
            }
            self.sent.push(sent);
            return;
        }
        model.occurrences += count;
        for (id, publisher, timestamp_ms) in &sent.receipts {
            if model.ids.insert(*id) {
                model.distinct += 1;
                let day = timestamp_ms.div_euclid(DAY_MS);
                *model.receipts.entry((publisher.clone(), day)).or_default() += 1;
            }
        }
        self.sent.push(sent);
    }
}
