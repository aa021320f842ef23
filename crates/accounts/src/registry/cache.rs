//! A bounded cache in front of the registry, shared by clones.
//!
//! A cached answer carries the version under which it was read, and counts only while that is the
//! present version. A lookup takes the version first and reads rows afterwards. So a change in
//! between can only make the cached answer look older than it is, never newer.

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::config::RegistryConfig;
use super::key_status::KeyStatus;
use super::observation::{Observation, Usable};
use super::operators::{ClientClaim, OperatorPeriod};
use super::versions::RegistryVersions;
use crate::{Accounts, AccountsError, ClientKey, Fingerprint};

/// Lookups that read the store at the same time. Others wait, so that a flood of unknown keys
/// leaves connections for everyone else.
const READS_MAX: usize = 4;

/// The most that the clocks of the processes that stamp arrivals are behind this one's, in
/// milliseconds.
const CLOCKS_BEHIND_MS_MAX: i64 = 60_000;

/// Why a lookup has no answer; the same lookup can succeed later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operators, client keys and entries can't be looked up: {reason}")]
pub struct RegistryUnavailable {
    /// The account store's error.
    pub reason: String,
}

/// The cache. Clones share it.
#[derive(Clone)]
pub struct RegistryCache(Arc<RegistryState>);

struct RegistryState {
    accounts: Accounts,
    config: RegistryConfig,
    observation: Mutex<Observation>,
    started: Instant,
    keys: Cache<ClientKey, Cached<KeyStatus>>,
    entries: Cache<Uuid, Cached<bool>>,
    operators: Cache<Fingerprint, Cached<Arc<[OperatorPeriod]>>>,
    claims: Cache<Uuid, Cached<Arc<[ClientClaim]>>>,
    publishers: Cache<Arc<str>, Cached<Option<i64>>>,
    reads: Semaphore,
    age: Gauge,
    key_lookups: Lookups,
    entry_lookups: Lookups,
    operator_lookups: Lookups,
    publisher_lookups: Lookups,
}

/// An answer, and the version before which it can't have been read.
#[derive(Clone)]
struct Cached<V> {
    version: i64,
    answer: V,
}

/// Counters of looked up keys or entries.
struct Lookups {
    cached: Counter,
    read: Counter,
    failed: Counter,
}

impl Lookups {
    fn new(subject: &'static str) -> Self {
        let counter = |outcome: &'static str| counter!("receipts_registry_lookups_total", "subject" => subject, "outcome" => outcome);
        Self {
            cached: counter("cached"),
            read: counter("read"),
            failed: counter("failed"),
        }
    }

    /// Counts the outcome of a lookup of `wanted` keys or entries, and returns its answers.
    fn count<K, V>(
        &self,
        wanted: usize,
        outcome: Result<RegistryLookup<K, V>, RegistryUnavailable>,
    ) -> Result<Vec<V>, RegistryUnavailable> {
        match outcome {
            Ok(lookup) => {
                let read = lookup.missing.len();
                self.read.increment(read as u64);
                self.cached.increment((wanted - read) as u64);
                Ok(lookup.answers.into_iter().flatten().collect())
            }
            Err(error) => {
                self.failed.increment(wanted as u64);
                Err(error)
            }
        }
    }
}

impl RegistryCache {
    /// Starts a cache in front of `accounts`. Until `shutdown`, a task reads the registry's
    /// versions every `refresh_ms`. Needs a tokio runtime.
    #[must_use]
    pub fn start(accounts: Accounts, config: RegistryConfig, shutdown: CancellationToken) -> Self {
        let entries_max = config.cache_entries_max.max(1);
        let shared = Arc::new(RegistryState {
            accounts,
            config,
            observation: Mutex::default(),
            started: Instant::now(),
            keys: Cache::new(entries_max),
            entries: Cache::new(entries_max),
            operators: Cache::new(entries_max),
            claims: Cache::new(entries_max),
            publishers: Cache::new(entries_max),
            reads: Semaphore::new(READS_MAX),
            age: gauge!("receipts_registry_age_seconds"),
            key_lookups: Lookups::new("clients"),
            entry_lookups: Lookups::new("entries"),
            operator_lookups: Lookups::new("operators"),
            publisher_lookups: Lookups::new("publishers"),
        });
        tokio::spawn(refresh(Arc::clone(&shared), shutdown));
        Self(shared)
    }

    /// Returns the status of each of `keys`, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`]: a key isn't cached and can't be read, or the cache is older than
    /// `stale_ms_max`.
    pub async fn client_keys(&self, keys: &[ClientKey]) -> Result<Vec<KeyStatus>, RegistryUnavailable> {
        let shared = &*self.0;
        let answering = async {
            let version = shared.versions().await?.clients;
            let mut lookup = RegistryLookup::begin(&shared.keys, version, keys);
            if !lookup.missing.is_empty() {
                let read = shared.accounts.client_key_statuses(&lookup.missing);
                let statuses = shared.read(read).await?;
                lookup.complete(&shared.keys, statuses);
            }
            Ok(lookup)
        };
        shared.key_lookups.count(keys.len(), answering.await)
    }

    /// Returns whether each of `ids` is an entry of any account, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`]: an ID isn't cached and can't be read, or the cache is older than
    /// `stale_ms_max`.
    pub async fn entries(&self, ids: &[Uuid]) -> Result<Vec<bool>, RegistryUnavailable> {
        let shared = &*self.0;
        let answering = async {
            let version = shared.versions().await?.entries;
            let mut lookup = RegistryLookup::begin(&shared.entries, version, ids);
            if !lookup.missing.is_empty() {
                let read = shared.accounts.existing_entries(&lookup.missing);
                let existing = shared.read(read).await?;
                let exist = lookup.missing.iter().map(|id| existing.contains_key(id)).collect();
                lookup.complete(&shared.entries, exist);
            }
            Ok(lookup)
        };
        shared.entry_lookups.count(ids.len(), answering.await)
    }

    /// Returns the periods in which each of `keys` was an operator's, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn operator_periods(
        &self,
        keys: &[Fingerprint],
    ) -> Result<Vec<Arc<[OperatorPeriod]>>, RegistryUnavailable> {
        let shared = &*self.0;
        let answering = async {
            let version = shared.versions().await?.operators;
            let mut lookup = RegistryLookup::begin(&shared.operators, version, keys);
            if !lookup.missing.is_empty() {
                let read = shared.accounts.operator_periods(&lookup.missing);
                let periods = shared.read(read).await?;
                lookup.complete(&shared.operators, periods);
            }
            Ok(lookup)
        };
        shared.operator_lookups.count(keys.len(), answering.await)
    }

    /// Returns the claims on each of these client IDs, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn client_claims(&self, ids: &[Uuid]) -> Result<Vec<Arc<[ClientClaim]>>, RegistryUnavailable> {
        let shared = &*self.0;
        let answering = async {
            let version = shared.versions().await?.operators;
            let mut lookup = RegistryLookup::begin(&shared.claims, version, ids);
            if !lookup.missing.is_empty() {
                let read = shared.accounts.client_claims(&lookup.missing);
                let claims = shared.read(read).await?;
                lookup.complete(&shared.claims, claims);
            }
            Ok(lookup)
        };
        shared.operator_lookups.count(ids.len(), answering.await)
    }

    /// Returns when each of these publishers' domains was verified first, in their order: in
    /// milliseconds since the Unix epoch, or `None` if it never was.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn first_verifications(&self, hosts: &[Arc<str>]) -> Result<Vec<Option<i64>>, RegistryUnavailable> {
        let shared = &*self.0;
        let answering = async {
            let version = shared.versions().await?.operators;
            let mut lookup = RegistryLookup::begin(&shared.publishers, version, hosts);
            if !lookup.missing.is_empty() {
                let read = shared.accounts.first_verifications(&lookup.missing);
                let first = shared.read(read).await?;
                lookup.complete(&shared.publishers, first);
            }
            Ok(lookup)
        };
        shared.publisher_lookups.count(hosts.len(), answering.await)
    }

    /// Makes further lookups see everything that was stored when a receipt arrived, at `arrived_ms`
    /// in milliseconds since the Unix epoch: reads the versions again if they may have been read
    /// before. While the store is unavailable, lookups continue with what is cached.
    pub async fn catch_up(&self, arrived_ms: i64) {
        let state = &*self.0;
        let (is_available, age) = {
            let observation = state.observation.lock();
            (observation.failure().is_none(), observation.age(Instant::now()))
        };
        let is_later = age.is_some_and(|age| {
            let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let read_ms = state.accounts.now_ms().saturating_sub(age_ms);
            read_ms > arrived_ms.saturating_add(CLOCKS_BEHIND_MS_MAX)
        });
        if is_available && !is_later {
            // A failure is recorded, and readiness reports it.
            let _ = state.observe().await;
        }
    }

    /// Reports for readiness whether the cache is current.
    ///
    /// # Errors
    /// A sentence for the operator: the registry hasn't been read yet, or its versions can't be
    /// read now.
    pub fn readiness(&self) -> Result<(), String> {
        let observation = self.0.observation.lock();
        let (failure, age) = (observation.failure(), observation.age(Instant::now()));
        let stale_s = self.0.config.stale_ms_max / 1_000;
        match (failure, age) {
            (None, Some(_)) => Ok(()),
            (None, None) => Err("client keys and entries haven't been read from the account store yet".to_owned()),
            (Some(failure), None) => Err(format!(
                "client keys and entries can't be read from the account store: {failure}"
            )),
            (Some(failure), Some(age)) => Err(format!(
                "client keys and entries can't be read from the account store: {failure}; cached ones are {} s old \
                 and are used up to {stale_s} s",
                age.as_secs()
            )),
        }
    }
}

/// Answers for some keys or entries while they are put together.
struct RegistryLookup<K, V> {
    version: i64,
    answers: Vec<Option<V>>,
    /// Keys without a cached answer, in their order.
    missing: Vec<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> RegistryLookup<K, V> {
    /// Takes cached answers of the version.
    fn begin(cache: &Cache<K, Cached<V>>, version: i64, wanted: &[K]) -> Self {
        let mut missing = Vec::new();
        let answers = wanted.iter().map(|key| {
            let cached = cache.get(key).filter(|cached| cached.version == version);
            if cached.is_none() {
                missing.push(key.clone());
            }
            cached.map(|cached| cached.answer)
        });
        Self {
            version,
            answers: answers.collect(),
            missing,
        }
    }

    /// Adds the answers for `missing`, in its order, that were read after the version.
    fn complete(&mut self, cache: &Cache<K, Cached<V>>, read: Vec<V>) {
        let unanswered = self.answers.iter_mut().filter(|answer| answer.is_none());
        for ((place, key), answer) in unanswered.zip(&self.missing).zip(read) {
            *place = Some(answer.clone());
            let version = self.version;
            cache.insert(key.clone(), Cached { version, answer });
        }
    }
}

impl RegistryState {
    /// The versions under which answers count, read now if there are none yet.
    async fn versions(&self) -> Result<RegistryVersions, RegistryUnavailable> {
        let stale_max = Duration::from_millis(self.config.stale_ms_max);
        let usable = self.observation.lock().usable(Instant::now(), stale_max);
        match usable {
            Usable::Cached(versions) => Ok(versions),
            Usable::Failed(reason) => Err(RegistryUnavailable { reason }),
            Usable::Nothing => self.observe().await.map_err(unavailable),
        }
    }

    /// Reads rows, unless the store is known to be unavailable.
    async fn read<T>(&self, rows: impl Future<Output = Result<T, AccountsError>>) -> Result<T, RegistryUnavailable> {
        if let Some(failure) = self.observation.lock().failure() {
            return Err(unavailable(failure.to_owned()));
        }
        let wait_ms_max = self.accounts.wait_ms_max();
        let permit = timeout(Duration::from_millis(wait_ms_max), self.reads.acquire()).await;
        let _permit = permit.map_err(|_| unavailable(AccountsError::TimedOut(wait_ms_max).to_string()))?;
        rows.await.map_err(|error| unavailable(error.to_string()))
    }

    /// Reads the versions and records the outcome.
    async fn observe(&self) -> Result<RegistryVersions, String> {
        let began = Instant::now();
        let read = self.accounts.registry_versions().await;
        let mut observation = self.observation.lock();
        let outcome = match read {
            Ok(versions) => {
                if observation.succeed(versions, began) {
                    tracing::warn!("the account store was set back to an older state; cached answers are dropped");
                    self.keys.clear();
                    self.entries.clear();
                    self.operators.clear();
                    self.claims.clear();
                    self.publishers.clear();
                }
                Ok(versions)
            }
            Err(error) => {
                if observation.fail(error.to_string(), began) {
                    tracing::warn!(%error, "the registry can't be read; cached answers are used while they may be");
                }
                Err(error.to_string())
            }
        };
        let now = Instant::now();
        let age = observation.age(now).unwrap_or_else(|| now - self.started);
        self.age.set(age.as_secs_f64());
        outcome
    }
}

fn unavailable(reason: String) -> RegistryUnavailable {
    RegistryUnavailable { reason }
}

/// Reads the versions again and again.
async fn refresh(shared: Arc<RegistryState>, shutdown: CancellationToken) {
    let mut ticks = interval(Duration::from_millis(shared.config.refresh_ms.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let refreshing = async {
        loop {
            ticks.tick().await;
            let _ = shared.observe().await;
        }
    };
    shutdown.run_until_cancelled(refreshing).await;
}
