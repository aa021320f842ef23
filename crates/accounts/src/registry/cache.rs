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
use super::versions::{RegistrySection, RegistryVersions};
use crate::{Accounts, AccountsError, ClientKey, Fingerprint};

/// Lookups that read the store at the same time. Others wait, so that a flood of unknown keys
/// leaves connections for everyone else.
const READS_MAX: usize = 4;

/// The most that the clocks of the processes that stamp arrivals are behind this one's, in
/// milliseconds.
const CLOCKS_BEHIND_MS_MAX: i64 = 60_000;

/// Why a lookup has no answer; the same lookup can succeed later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operators, client keys and entries can't be read: {reason}")]
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
    keys: CachedAnswers<ClientKey, KeyStatus>,
    entries: CachedAnswers<Uuid, bool>,
    operators: CachedAnswers<Fingerprint, Arc<[OperatorPeriod]>>,
    claims: CachedAnswers<Uuid, Arc<[ClientClaim]>>,
    publishers: CachedAnswers<Arc<str>, Option<i64>>,
    reads: Semaphore,
    age: Gauge,
}

/// Answers of one kind, each with the version before which it can't have been read.
struct CachedAnswers<K, V> {
    section: RegistrySection,
    answers: Cache<K, (i64, V)>,
    cached: Counter,
    read: Counter,
    failed: Counter,
}

impl<K: Eq + Hash, V: Clone> CachedAnswers<K, V> {
    /// At most `entries_max` answers that change with `section`. `subject` names their lookups in
    /// metrics.
    fn new(section: RegistrySection, subject: &'static str, entries_max: usize) -> Self {
        let counter = |outcome: &'static str| counter!("receipts_registry_lookups_total", "subject" => subject, "outcome" => outcome);
        Self {
            section,
            answers: Cache::new(entries_max.max(1)),
            cached: counter("cached"),
            read: counter("read"),
            failed: counter("failed"),
        }
    }
}

impl RegistryCache {
    /// Starts a cache in front of `accounts`. Until `shutdown`, a task reads the registry's
    /// versions every `refresh_ms`. Needs a tokio runtime.
    #[must_use]
    pub fn start(accounts: Accounts, config: RegistryConfig, shutdown: CancellationToken) -> Self {
        let entries_max = config.cache_entries_max;
        let shared = Arc::new(RegistryState {
            accounts,
            config,
            observation: Mutex::default(),
            started: Instant::now(),
            keys: CachedAnswers::new(RegistrySection::Clients, "clients", entries_max),
            entries: CachedAnswers::new(RegistrySection::Entries, "entries", entries_max),
            operators: CachedAnswers::new(RegistrySection::Operators, "operators", entries_max),
            claims: CachedAnswers::new(RegistrySection::Operators, "operators", entries_max),
            publishers: CachedAnswers::new(RegistrySection::Operators, "publishers", entries_max),
            reads: Semaphore::new(READS_MAX),
            age: gauge!("receipts_registry_age_seconds"),
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
        let state = &*self.0;
        let read = |missing: Vec<_>| async move { state.accounts.client_key_statuses(&missing).await };
        state.look_up(&state.keys, keys, read).await
    }

    /// Returns whether each of `ids` is an entry of any account, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`]: an ID isn't cached and can't be read, or the cache is older than
    /// `stale_ms_max`.
    pub async fn entries(&self, ids: &[Uuid]) -> Result<Vec<bool>, RegistryUnavailable> {
        let state = &*self.0;
        let read = |missing: Vec<Uuid>| async move {
            let existing = state.accounts.existing_entries(&missing).await?;
            Ok(missing.iter().map(|id| existing.contains_key(id)).collect())
        };
        state.look_up(&state.entries, ids, read).await
    }

    /// Returns the periods in which each of `keys` was an operator's, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn operator_periods(
        &self,
        keys: &[Fingerprint],
    ) -> Result<Vec<Arc<[OperatorPeriod]>>, RegistryUnavailable> {
        let state = &*self.0;
        let read = |missing: Vec<_>| async move { state.accounts.operator_periods(&missing).await };
        state.look_up(&state.operators, keys, read).await
    }

    /// Returns the claims on each of these client IDs, in their order.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn client_claims(&self, ids: &[Uuid]) -> Result<Vec<Arc<[ClientClaim]>>, RegistryUnavailable> {
        let state = &*self.0;
        let read = |missing: Vec<_>| async move { state.accounts.client_claims(&missing).await };
        state.look_up(&state.claims, ids, read).await
    }

    /// Returns when each of these publishers' domains was verified first, in their order: in
    /// milliseconds since the Unix epoch, or `None` if it never was.
    ///
    /// # Errors
    /// [`RegistryUnavailable`], as for [`client_keys`](Self::client_keys).
    pub async fn first_verifications(&self, hosts: &[Arc<str>]) -> Result<Vec<Option<i64>>, RegistryUnavailable> {
        let state = &*self.0;
        let read = |missing: Vec<_>| async move { state.accounts.first_verifications(&missing).await };
        state.look_up(&state.publishers, hosts, read).await
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

impl RegistryState {
    /// Returns the answer for each of `wanted`, in their order. `read` reads those that aren't
    /// cached.
    async fn look_up<K: Clone + Eq + Hash, V: Clone, F: Future<Output = Result<Vec<V>, AccountsError>>>(
        &self,
        cache: &CachedAnswers<K, V>,
        wanted: &[K],
        read: impl FnOnce(Vec<K>) -> F,
    ) -> Result<Vec<V>, RegistryUnavailable> {
        let answering = async {
            let version = self.versions().await?.of(cache.section);
            let present = |key| {
                let cached = cache.answers.get(key).filter(|(cached, _)| *cached == version);
                cached.map(|(_, answer)| answer)
            };
            let mut answers: Vec<Option<V>> = wanted.iter().map(present).collect();
            let missing = wanted.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
            let missing: Vec<K> = missing.map(|(key, _)| key.clone()).collect();
            if !missing.is_empty() {
                let read = self.read(read(missing.clone())).await?;
                let unanswered = answers.iter_mut().filter(|answer| answer.is_none());
                for ((slot, key), answer) in unanswered.zip(&missing).zip(read) {
                    *slot = Some(answer.clone());
                    cache.answers.insert(key.clone(), (version, answer));
                }
            }
            cache.read.increment(missing.len() as u64);
            cache.cached.increment((wanted.len() - missing.len()) as u64);
            Ok(answers.into_iter().flatten().collect())
        };
        let answered = answering.await;
        if answered.is_err() {
            cache.failed.increment(wanted.len() as u64);
        }
        answered
    }

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
                    self.keys.answers.clear();
                    self.entries.answers.clear();
                    self.operators.answers.clear();
                    self.claims.answers.clear();
                    self.publishers.answers.clear();
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
