//! State that all connections share.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use accounts::RegistryCache;
use receipt::{Algorithm, Judge, Limits};
use receipt_log::LogWriter;
use service::cpu::{CpuError, CpuPool};
use service::health::Health;
use tokio::sync::Semaphore;

use crate::Deps;
use crate::acknowledgement::{AcknowledgementKeyError, AcknowledgementKeys, StoredRecord};
use crate::body::Bounds;
use crate::budget::FairBudget;
use crate::checked_receipt::{CheckedReceipt, ReceiptCheck};
use crate::clock::ArrivalClock;
use crate::config::GatewayConfig;
use crate::documents::Documents;
use crate::entry_book::EntryBook;
use crate::gatherer::Gatherer;
use crate::meters::Meters;
use crate::rate::{Exceeded, Rate, Standing};
use crate::route::{Route, Routes};

/// Parsed public keys that are retained.
const KEYS_CACHED_MAX: usize = 4_096;

/// The most receipts that are checked together. They are answered together, so the first one waits
/// for the last: with RSA and Ed25519 half a millisecond.
const CHECKED_TOGETHER_MAX: usize = 16;

/// The most records that are acknowledged in place: with their one signature, they cost as much as
/// the check of a receipt.
const ACKNOWLEDGED_IN_PLACE_MAX: usize = 8;

/// The most records that are acknowledged together.
const ACKNOWLEDGED_TOGETHER_MAX: usize = 64;

/// The engines, limits and counters of one gateway.
pub(crate) struct Shared {
    pub(crate) config: GatewayConfig,
    pub(crate) limits: Limits,
    pub(crate) log: Arc<dyn LogWriter>,
    pub(crate) cpu: CpuPool,
    pub(crate) health: Health,
    pub(crate) routes: Routes,
    /// Asked by the webhook, if entries are required.
    pub(crate) entries: Option<Arc<dyn EntryBook>>,
    /// Registered client keys, if only those may sign.
    pub(crate) registry: Option<RegistryCache>,
    pub(crate) acknowledgement_keys: Arc<AcknowledgementKeys>,
    pub(crate) receipt_checks: Arc<Gatherer<ReceiptCheck, Result<CheckedReceipt, CpuError>>>,
    pub(crate) acknowledgements: Arc<Gatherer<StoredRecord, Result<Vec<u8>, AcknowledgementKeyError>>>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) budget: Arc<FairBudget>,
    /// Signature verifications by address.
    pub(crate) address_rate: Option<Rate>,
    /// Decoded bytes by address.
    pub(crate) address_bytes_rate: Option<Rate>,
    /// Receipts by key.
    pub(crate) key_rate: Option<Rate>,
    pub(crate) meters: Meters,
    pub(crate) clock: ArrivalClock,
    documents: OnceLock<Documents>,
    /// Requests in progress.
    pub(crate) requests: AtomicUsize,
    /// Explanations in progress: they take the same CPU that receipts need, so few run at a time.
    pub(crate) explaining: Semaphore,
}

impl Shared {
    /// `entries` are those to ask, if entries are required.
    pub(crate) fn new(config: GatewayConfig, deps: Deps, entries: Option<Arc<dyn EntryBook>>) -> Self {
        let Deps {
            limits,
            log,
            cpu,
            health,
            routes,
            entries: _,
            registry,
            acknowledgement_keys,
        } = deps;
        let rate = |what, per_s| Rate::new(what, per_s, config.rate_burst_s, config.rate_keys_max);
        let keys = Arc::clone(&acknowledgement_keys);
        let acknowledge = move |records: Vec<StoredRecord>| match keys.queued(&records) {
            Ok(bodies) => bodies.into_iter().map(Ok).collect(),
            Err(error) => records.iter().map(|_| Err(error.clone())).collect(),
        };
        let judge = Arc::new(Judge::new(limits.clone(), KEYS_CACHED_MAX));
        let (checking, pool) = (Arc::clone(&judge), cpu.clone());
        let check = move |group| ReceiptCheck::check(&checking, &pool, group);
        Self {
            receipt_checks: Gatherer::new(cpu.clone(), 1, CHECKED_TOGETHER_MAX, check),
            acknowledgements: Gatherer::new(
                cpu.clone(),
                ACKNOWLEDGED_IN_PLACE_MAX,
                ACKNOWLEDGED_TOGETHER_MAX,
                acknowledge,
            ),
            judge,
            budget: Arc::new(FairBudget::new(&config)),
            address_rate: rate(
                "signatures to verify from this address",
                config.rate_address_verifications_per_s,
            ),
            address_bytes_rate: rate("decoded bytes from this address", config.rate_address_bytes_per_s),
            key_rate: rate("receipts signed with this key", config.rate_key_receipts_per_s),
            meters: Meters::new(),
            clock: ArrivalClock::new(),
            documents: OnceLock::new(),
            requests: AtomicUsize::new(0),
            explaining: Semaphore::new((cpu.threads() / 2).max(1)),
            config,
            limits,
            log,
            cpu,
            health,
            routes,
            entries,
            registry,
            acknowledgement_keys,
        }
    }

    /// Documents for people and tools.
    pub(crate) fn documents(&self) -> &Documents {
        self.documents.get_or_init(|| Documents::new(&self.limits))
    }

    /// Charges an address with verifications of signatures, in units of Ed25519's, beside `before`
    /// that the same request was charged already.
    pub(crate) fn charge_verifications(
        &self,
        address: u128,
        units: u32,
        before: u32,
    ) -> Result<Option<Standing>, Exceeded> {
        let rate = self.address_rate.as_ref().filter(|_| units > 0);
        rate.map(|rate| rate.charge(address, units, before)).transpose()
    }

    /// Charges an address with what a request costs beyond what it was charged before its body was
    /// read. `batched` are the receipts of a batch, 0 for a single receipt.
    pub(crate) fn charge_algorithm(
        &self,
        address: u128,
        route: Route,
        algorithm: Algorithm,
        batched: u32,
    ) -> Result<Option<Standing>, Exceeded> {
        let before = route.verifications();
        let verifications = batched
            .saturating_mul(route.verifications_per_batched())
            .saturating_add(before);
        let units = verifications.saturating_mul(algorithm.verification_cost());
        self.charge_verifications(address, units.saturating_sub(before), before)
    }

    /// Limits of a body of up to `bytes_max`.
    pub(crate) fn bounds(&self, bytes_max: usize) -> Bounds {
        Bounds {
            bytes_max,
            wait_max: self.config.body_wait(),
            bytes_per_s_min: self.config.body_rate_bytes_per_s_min,
        }
    }

    /// Bytes of a refused body that are read and thrown away: enough for the longest batch of a
    /// client that looks for an answer only after it has sent everything.
    pub(crate) fn leftover(&self) -> Bounds {
        self.bounds(self.limits.batch_bytes_max.saturating_mul(2))
    }
}
