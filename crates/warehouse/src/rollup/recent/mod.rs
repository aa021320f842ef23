//! Receipts of hours that aren't rolled, in memory: of publishers that are asked for. Read once, and then what comes in.
//!
//! The present hour and what late receipts touched is read by every question, and again for every moment. Reading it from `receipts FINAL`
//! costs what the hour has, which for a large publisher at the end of an hour is more than all else together; what comes in costs what came
//! in.
//!
//! **Why nothing is missing.** A row is in the tables before its record is committed, and a view's commits are read before anything
//! is read for it. So what a reading for a view didn't find has no place below its commits: the next reading asks for rows with
//! one at or above them. What is found twice, or came in twice, is told by a hash of a receipt's key, with keys of this process.
//! An hour is registered before it is read: what comes in meanwhile waits for it.
//!
//! **Which rows are looked at.** Only those of parts with a block above the newest that there was before the last reading: a merge has
//! the greatest of what it is made of. Numbers are given when a part becomes visible; a few below are looked at as well.
//!
//! **Sums.** Receipts are held in parts that don't change any more, an hour's each at least twice as large as the next; each keeps its sums
//! once somebody asked for them. So a question adds up sums of parts, and goes through receipts only of parts that its range cuts.
//!
//! **URLs** are read with what comes in, not with hours that are read as a whole: the most used entries of such an hour are soon used again.
//! A publisher's are begun anew when they are too many.
//!
//! **What ends it.** Rolls that begin anew, another life of the log, and any erasure that wasn't known: then everything is read anew. While an
//! erasure is under way, nothing of its publishers is held. On a cluster, where blocks are numbered by shard, nothing is.

mod found;
mod hour;
mod part;
mod placed;
mod read;
mod store;
mod used;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use uuid::Uuid;

pub(crate) use self::found::Recent;
pub(crate) use self::part::PlacedSum;
use self::store::{Store, Wanted, Wants};
pub(crate) use self::used::Use;
use super::tails::Tails;
use super::turns::Turns;
use super::view::RollupView;
use crate::threads::elsewhere;
use crate::{CommittedOffset, Hours, Scope, Warehouse, WarehouseError};

/// Publishers of a scope; of more the warehouse reads.
const PUBLISHERS_MAX: usize = 4;
/// Behind the last hour that a `DateTime` holds.
const HOURS_END: u32 = u32::MAX / 3_600;
/// Partitions of the log.
const PARTITIONS_MAX: u32 = 4_096;
/// Readings of hours at a time: one may take some 300 MB while it lasts.
const READINGS_MAX: usize = 2;
/// For how long the warehouse reads for a publisher that has too many, and for one whose reading failed.
const LARGE_FOR: Duration = Duration::from_secs(600);
const FAILED_FOR: Duration = Duration::from_secs(30);
/// What was used so lately makes no room for others.
const SPARED: Duration = Duration::from_secs(60);

/// What a view rests on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The commits that were read before.
    pub(crate) committed: Vec<CommittedOffset>,
    /// The roll that began anew.
    pub(crate) since: u32,
    /// Erasures that are known, in order.
    pub(crate) erasures: Vec<Uuid>,
    /// The first hour whose receipts retention surely leaves.
    pub(crate) floor: u32,
}

impl Basis {
    /// The log's epoch; `None` where there isn't one.
    fn epoch(&self) -> Option<u32> {
        let epoch = self.committed.first()?.epoch;
        let usable = |one: &CommittedOffset| one.epoch == epoch && one.partition < PARTITIONS_MAX;
        self.committed.iter().all(usable).then_some(epoch)
    }

    /// Whether what was read for this one holds for another, with what has come in since.
    fn goes_on(&self, other: &Self) -> bool {
        self.epoch().is_some()
            && self.epoch() == other.epoch()
            && (self.since, &self.erasures) == (other.since, &other.erasures)
    }

    /// Whether all that is committed here is committed there.
    fn is_within(&self, other: &Self) -> bool {
        let low = other.low();
        let known = |one: &CommittedOffset| low.get(usize::try_from(one.partition).unwrap_or(usize::MAX)).copied();
        let all = &mut self.committed.iter();
        all.all(|one| one.next_offset <= known(one).unwrap_or(0))
    }

    /// Offsets by partition.
    fn low(&self) -> Vec<u64> {
        let mut low = Vec::new();
        for one in &self.committed {
            let place = usize::try_from(one.partition).unwrap_or(usize::MAX);
            if low.len() <= place {
                low.resize(place + 1, 0);
            }
            low[place] = one.next_offset;
        }
        low
    }
}

/// Clones of a [`Warehouse`] share it.
#[derive(Debug, Clone)]
pub(crate) struct KnownRecent(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    store: Mutex<Store>,
    /// Whoever reads what has come in.
    coming: tokio::sync::Mutex<()>,
    /// Whoever reads hours, by publisher.
    reading: Turns,
    /// Of them, those who are at it.
    places: Semaphore,
    large: Cache<Arc<str>, Instant>,
    /// What keys are hashed with: nobody else can make two that are equal.
    secret: (u64, u64),
}

impl Parts {
    /// Whether the warehouse is to be asked about a publisher.
    fn is_large(&self, publisher: &str) -> bool {
        self.large.get(publisher).is_some_and(|until| Instant::now() < until)
    }
}

impl Default for KnownRecent {
    fn default() -> Self {
        let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Self(Arc::new(Parts {
            store: Mutex::default(),
            coming: tokio::sync::Mutex::default(),
            reading: Turns::default(),
            places: Semaphore::new(READINGS_MAX),
            large: Cache::new(1_000),
            secret: (random(), random()),
        }))
    }
}

impl Warehouse {
    /// How many receipts that aren't rolled are held in memory.
    #[must_use]
    pub fn recent_receipts(&self) -> usize {
        self.recent_known().0.store.lock().receipts()
    }

    /// The receipts of a scope in some hours, by publisher: at least those below the view's commits. `None` where the warehouse is to be
    /// asked.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub(crate) async fn recent(
        &self,
        view: &RollupView,
        scope: &Scope,
        hours: &Hours,
    ) -> Result<Option<Vec<Recent>>, WarehouseError> {
        let Some((basis, tails)) = self.can_be_recent(view, scope, hours) else {
            return Ok(None);
        };
        if !*tails.came.get_or_init(|| self.read_what_came(basis)).await {
            return Ok(None);
        }
        let mut all = Vec::new();
        for publisher in scope.publishers.iter().collect::<BTreeSet<_>>() {
            match self.recent_of(basis, publisher, hours).await? {
                Some(recent) => all.push(recent),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// The same, if a question of this view found them: nothing is read.
    pub(crate) fn recent_held(&self, view: &RollupView, scope: &Scope, hours: &Hours) -> Option<Vec<Recent>> {
        let (basis, tails) = self.can_be_recent(view, scope, hours)?;
        tails.came.get().filter(|came| **came)?;
        let mut store = self.recent_known().0.store.lock();
        let publishers = scope.publishers.iter().collect::<BTreeSet<_>>();
        publishers
            .into_iter()
            .map(|publisher| store.recent(basis, publisher, hours))
            .collect()
    }

    /// What a view rests on, if receipts of a scope and some hours may be held for it.
    fn can_be_recent<'a>(&self, view: &'a RollupView, scope: &Scope, hours: &Hours) -> Option<(&'a Basis, &'a Tails)> {
        let (basis, tails) = view.basis().zip(view.tails())?;
        let held = |hours: Range<u32>| hours.start >= basis.floor && hours.end <= HOURS_END;
        let can = scope.below.is_empty()
            && scope.publishers.len() <= PUBLISHERS_MAX
            && hours.ranges().all(held)
            && self.cluster().is_none()
            && !view.is_erasing(scope)
            && basis.epoch().is_some();
        can.then_some((basis, tails))
    }

    /// Lets go of what doesn't hold for a new view, or of everything.
    pub(super) fn tidy_recent(&self, basis: Option<&Basis>) {
        self.recent_known().0.store.lock().tidy(basis, Instant::now());
    }

    /// Reads what has come in up to a view's commits, at least; false where the warehouse is to be asked.
    async fn read_what_came(&self, basis: &Basis) -> bool {
        let known = &self.recent_known().0;
        let _one = known.coming.lock().await;
        let wants = known.store.lock().want(basis, Instant::now());
        let read = match wants {
            Wants::Nothing => return true,
            Wants::Begin => self.newest_block().await.map(|block| known.store.lock().begin(block)),
            Wants::Read(wanted) => self.read_wanted(basis, wanted).await,
        };
        if let Err(error) = &read {
            tracing::debug!(%error, "what has come in can't be read; the warehouse adds up");
        }
        read.is_ok() && known.store.lock().is_begun()
    }

    async fn read_wanted(&self, basis: &Basis, wanted: Wanted) -> Result<(), WarehouseError> {
        let known = Arc::clone(&self.recent_known().0);
        // Before the rows: what is newer is looked at again.
        let block = self.newest_block().await?;
        // One that fell: the server began anew without some of its rows.
        let groups = if block >= wanted.block {
            self.came(basis, &wanted, known.secret).await?
        } else {
            None
        };
        let Some(groups) = groups else {
            // Less than reading it all.
            known.store.lock().clear();
            return Ok(());
        };
        let many = groups.iter().map(|group| group.receipts.len()).sum();
        let basis = basis.clone();
        let put = move || known.store.lock().came(&basis, &wanted, block, groups);
        elsewhere(many, put).await
    }

    async fn recent_of(&self, basis: &Basis, publisher: &str, hours: &Hours) -> Result<Option<Recent>, WarehouseError> {
        let known = &self.recent_known().0;
        let found = known.store.lock().recent(basis, publisher, hours);
        if found.is_some() {
            return Ok(found);
        }
        if known.is_large(publisher) {
            return Ok(None);
        }
        // To its end, whoever still waits for it: it would never be read if each who begins gave up too early.
        let (this, basis, publisher, hours) = (self.clone(), basis.clone(), publisher.to_owned(), hours.clone());
        let reading = tokio::spawn(async move { this.read_recent(&basis, &publisher, &hours).await });
        let read = reading.await;
        read.map_err(|error| WarehouseError::Unavailable(format!("reading into memory: {error}")))
    }

    async fn read_recent(&self, basis: &Basis, publisher: &str, hours: &Hours) -> Option<Recent> {
        let known = &self.recent_known().0;
        let _turn = (known.reading.of(publisher).await, known.places.acquire().await);
        if known.is_large(publisher) {
            return None;
        }
        let missing = known.store.lock().register(basis, publisher, hours)?;
        let avoid_for = match self.read_hours(publisher, &missing).await {
            Ok(true) => None,
            Ok(false) => Some(LARGE_FOR),
            Err(error) => {
                tracing::debug!(%error, publisher, "receipts can't be read into memory; the warehouse adds up");
                Some(FAILED_FOR)
            }
        };
        let mut store = known.store.lock();
        let found = store.recent(basis, publisher, hours);
        let has_room = store.make_room(Instant::now().checked_sub(SPARED).unwrap_or_else(Instant::now));
        let avoid_for = avoid_for.or((!has_room).then_some(LARGE_FOR));
        if let Some(avoid_for) = avoid_for
            && store.drop_hours(publisher, &missing)
        {
            known.large.insert(publisher.into(), Instant::now() + avoid_for);
        }
        found
    }

    /// Reads hours that are registered; false if they have too many receipts.
    async fn read_hours(&self, publisher: &str, hours: &[u32]) -> Result<bool, WarehouseError> {
        if hours.is_empty() {
            return Ok(true);
        }
        let known = &self.recent_known().0;
        let Some(groups) = self.receipts_of(publisher, hours, known.secret).await? else {
            return Ok(false);
        };
        let (uses, receipts): (Vec<Use>, Vec<_>) = groups.into_iter().map(|group| (group.of, group.receipts)).unzip();
        let places = known.store.lock().places(publisher, uses);
        let Some(places) = places else {
            return Ok(false);
        };
        let read = read::built(hours, places, receipts).await?;
        known.store.lock().fill(publisher, read);
        Ok(true)
    }
}
