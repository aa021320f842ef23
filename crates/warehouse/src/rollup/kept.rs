//! Sums of rolled hours and days that were read, in memory: what a roll made of a publisher's hour never changes, so each is read once.
//!
//! Long ranges are mostly days that nothing touches any more. Questions about them read only the newest hours, of which a roll made
//! other rows meanwhile, and add up.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::Row;
use foldhash::fast::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use serde::Deserialize;
use uuid::Uuid;

use super::joined::Joined;
use super::sums::{ClientSum, EntrySum, ModelSum, SlotSum, Sum, TailSum, UseSum};
use super::turns::Turns;
use crate::client::Call;
use crate::queries::Cube;
use crate::threads::elsewhere;
use crate::{Warehouse, WarehouseError};

/// Units that one statement asks for: a question that is given up has kept what came before, and each statement costs as much as the
/// rows of a few units.
const UNITS_MAX: usize = 32;
/// Units of which a statement isn't tried with half of them where it brought too many rows.
const UNITS_MIN: usize = 16;
/// Rows that one statement brings.
const ROWS_MAX: usize = 800_000;
/// Rows of one question's days, and of its hours.
const SUMS_MAX: usize = 2 * ROWS_MAX;
/// Entries times units of one question for clients.
const PLACES_MAX: usize = 100_000;
/// For how long a question of so many units is asked in SQL that had too many rows.
const LARGE_FOR: Duration = Duration::from_secs(600);
const SHARDS: usize = 4;

/// A time of a publisher as one roll made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// `days since the Unix epoch in UTC << 32 | version`: a day all of whose hours one roll made.
    Day(u64),
    /// The same of an hour.
    Hour(u64),
}

impl Unit {
    fn number(&self) -> u64 {
        let (Self::Day(number) | Self::Hour(number)) = self;
        *number
    }
}

/// The sums of one unit.
pub(crate) type Sums<S> = Arc<[S]>;

/// By publisher and unit.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    sums: Cache<(Arc<str>, Unit), Sums<S>, ByBytes, RandomState>,
    /// How many units of a publisher were too many rows, by whether days were among them, and until when that is believed.
    large: Cache<(Arc<str>, bool), (usize, Instant)>,
    rows_max: usize,
    sums_max: usize,
    asking: Turns,
    joined: Joined<S>,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl<S: Weighed> Weighter<(Arc<str>, Unit), Sums<S>> for ByBytes {
    fn weight(&self, (publisher, _): &(Arc<str>, Unit), sums: &Sums<S>) -> u64 {
        // With the cache's own.
        (128 + publisher.len() + sums.iter().map(Weighed::bytes).sum::<usize>()) as u64
    }
}

/// What can be kept.
pub(crate) trait Weighed: Clone + Send + Sync + 'static {
    /// What it takes in memory besides what it refers to.
    const BYTES: usize = size_of::<Self>();

    /// What it takes in memory at most.
    fn bytes(&self) -> usize {
        Self::BYTES
    }
}

impl Weighed for Uuid {}

/// All of them; clones of a [`Warehouse`] share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownSums(pub(super) Arc<Kinds>);

#[derive(Debug)]
pub(crate) struct Kinds {
    pub(super) clients: Kept<ClientSum>,
    pub(super) models: Kept<ModelSum>,
    pub(super) entries: Kept<EntrySum>,
    pub(super) slots: Kept<SlotSum>,
    /// Hours: clients, models and slots are made of them.
    pub(super) uses: Kept<UseSum>,
    /// Distinct clients, by publisher and entry.
    of_entries: Kept<Uuid>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self {
            clients: Kept::of(12 << 20, 6 << 20),
            models: Kept::of(12 << 20, 4 << 20),
            entries: Kept::of(96 << 20, 32 << 20),
            slots: Kept::of(6 << 20, 2 << 20),
            uses: Kept::of(64 << 20, 0),
            of_entries: Kept::of(16 << 20, 0),
        }
    }
}

impl<S: Weighed> Kept<S> {
    /// So many bytes of units, and of what is joined.
    fn of(bytes_max: u64, joined_max: u64) -> Self {
        let joined = Joined::of(joined_max);
        let mut options = OptionsBuilder::new();
        options
            .shards(SHARDS)
            .estimated_items_capacity(20_000)
            .weight_capacity(bytes_max);
        let hasher = RandomState::default();
        let sums = match options.build() {
            Ok(options) => Cache::with_options(options, ByBytes, hasher, DefaultLifecycle::default()),
            Err(_) => Cache::with(20_000, bytes_max, ByBytes, hasher, DefaultLifecycle::default()),
        };
        let held_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / S::BYTES;
        Self {
            sums,
            large: Cache::new(1_000),
            // Half of what it holds, so that a question's units don't drive each other out.
            rows_max: ROWS_MAX.min(held_max / 2),
            sums_max: SUMS_MAX.min(held_max),
            asking: Turns::default(),
            joined,
        }
    }

    /// What is there of some units, and which aren't.
    fn look(&self, publisher: &Arc<str>, units: &[Unit]) -> (Vec<Sums<S>>, Vec<Unit>) {
        let mut found = Vec::with_capacity(units.len());
        let mut missing = Vec::new();
        for unit in units {
            match self.sums.get(&(Arc::clone(publisher), *unit)) {
                Some(sums) => found.push(sums),
                None => missing.push(*unit),
            }
        }
        (found, missing)
    }

    /// Whether so many units of a publisher are too many rows.
    fn is_large(&self, publisher: &Arc<str>, units: &[Unit]) -> bool {
        let known = self.large.get(&(Arc::clone(publisher), has_days(units)));
        known.is_some_and(|(too_many, until)| units.len() >= too_many && Instant::now() < until)
    }

    fn set_large(&self, publisher: &Arc<str>, units: &[Unit]) {
        let place = (Arc::clone(publisher), has_days(units));
        self.large.insert(place, (units.len(), Instant::now() + LARGE_FOR));
    }

    /// The sums of some units, those that aren't there by `ask`: all units of one sort that it is given, or `None` where they have too
    /// many rows.
    async fn sums<A>(&self, publisher: &Arc<str>, units: &[Unit], ask: impl Fn(Vec<Unit>) -> A) -> Found<S>
    where
        A: Future<Output = Result<Option<Vec<(Unit, Sums<S>)>>, WarehouseError>>,
    {
        if self.is_large(publisher, units) {
            return Ok(None);
        }
        let (found, missing) = self.look(publisher, units);
        if missing.is_empty() {
            return Ok(self.fits(&found).then_some(found));
        }
        let _turn = self.asking.of(publisher).await;
        if self.is_large(publisher, units) {
            return Ok(None);
        }
        let (mut found, missing) = self.look(publisher, units);
        let mut statements = in_statements(missing);
        while let Some(some) = statements.pop() {
            let asked = if self.fits(&found) {
                ask(some.clone()).await?
            } else {
                None
            };
            let Some(asked) = asked else {
                if self.fits(&found)
                    && let Some(halves) = halves(some)
                {
                    statements.extend(halves);
                    continue;
                }
                self.set_large(publisher, units);
                return Ok(None);
            };
            for (unit, sums) in asked {
                self.sums.insert((Arc::clone(publisher), unit), Arc::clone(&sums));
                found.push(sums);
            }
        }
        Ok(self.fits(&found).then_some(found))
    }

    /// Whether one question may be of so much.
    fn fits(&self, found: &[Sums<S>]) -> bool {
        found.iter().map(|sums| sums.len()).sum::<usize>() <= self.sums_max
    }
}

type Found<S> = Result<Option<Vec<Sums<S>>>, WarehouseError>;

/// What each statement asks for, the last one first: units of one sort, not too many, days before hours.
fn in_statements(units: impl IntoIterator<Item = Unit>) -> Vec<Vec<Unit>> {
    let (days, hours): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| matches!(unit, Unit::Day(_)));
    let some = days.chunks(UNITS_MAX).chain(hours.chunks(UNITS_MAX));
    some.rev().map(<[Unit]>::to_vec).collect()
}

/// A statement that brought too many rows as two, the last one first; `None` if it isn't tried with fewer units.
fn halves(mut some: Vec<Unit>) -> Option<[Vec<Unit>; 2]> {
    if some.len() <= UNITS_MIN {
        return None;
    }
    let last = some.split_off(some.len() / 2);
    Some([last, some])
}

fn has_days(units: &[Unit]) -> bool {
    units.iter().any(|unit| matches!(unit, Unit::Day(_)))
}

/// Also those without rows.
fn by_unit<S>(units: &[Unit], rows: Vec<(u64, S)>) -> Vec<(Unit, Sums<S>)> {
    let mut of_each: HashMap<u64, Vec<S>, RandomState> = HashMap::default();
    for (unit, sum) in rows {
        of_each.entry(unit).or_default().push(sum);
    }
    let of = |unit: &Unit| (*unit, of_each.remove(&unit.number()).unwrap_or_default().into());
    units.iter().map(of).collect()
}

/// Clients by entry, those of each unit.
pub(crate) type ClientsOf = Vec<(Uuid, Vec<Sums<Uuid>>)>;

#[derive(Row, Deserialize)]
struct ClientRow {
    unit: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
}

impl Warehouse {
    /// The distinct clients of some entries of a publisher in some units; `None` where they are too many to keep.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub(crate) async fn clients_of(
        &self,
        publisher: &str,
        entries: &[Uuid],
        units: &[Unit],
    ) -> Result<Option<ClientsOf>, WarehouseError> {
        let kept = &self.sums_known().0.of_entries;
        let large: Arc<str> = publisher.into();
        if entries.len() * units.len() > PLACES_MAX || kept.is_large(&large, units) {
            return Ok(None);
        }
        let mut all = ClientsOf::new();
        let mut wanting = Vec::new();
        let mut missing = BTreeSet::new();
        for entry in entries {
            let (found, not) = kept.look(&of_entry(publisher, *entry), units);
            if !not.is_empty() {
                wanting.push(*entry);
                missing.extend(not);
            }
            all.push((*entry, found));
        }
        let mut statements = in_statements(missing);
        while let Some(some) = statements.pop() {
            let call = clients_of(publisher, &wanting, &some, kept.rows_max);
            let Some(rows) = self.some_rows::<ClientRow>("rolled_sums", kept.rows_max, call).await? else {
                if let Some(halves) = halves(some) {
                    statements.extend(halves);
                    continue;
                }
                kept.set_large(&large, units);
                return Ok(None);
            };
            let mut of_each: HashMap<Uuid, Vec<(u64, Uuid)>, RandomState> = HashMap::default();
            for row in rows {
                of_each.entry(row.entry).or_default().push((row.unit, row.client));
            }
            for (entry, found) in all.iter_mut().filter(|(entry, _)| wanting.contains(entry)) {
                let name = of_entry(publisher, *entry);
                for (unit, clients) in by_unit(&some, of_each.remove(entry).unwrap_or_default()) {
                    kept.sums.insert((Arc::clone(&name), unit), Arc::clone(&clients));
                    // Distinct ones are counted, so that it may be there twice.
                    found.push(clients);
                }
            }
        }
        Ok(Some(all))
    }

    /// The sums of some units of a publisher, some of them as one; `None` where they are too many to keep.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub(crate) async fn sums<S: Sum>(&self, publisher: &str, units: &[Unit]) -> Found<S> {
        let kept = S::kept(self.sums_known());
        let publisher: Arc<str> = publisher.into();
        // Days change more rarely.
        let (days, hours): (Vec<Unit>, Vec<Unit>) = units.iter().partition(|unit| matches!(unit, Unit::Day(_)));
        let mut all = Vec::new();
        for (units, are_days) in [(days, true), (hours, false)] {
            let units: Arc<[Unit]> = units.into();
            if let Some(one) = kept.joined.get(&publisher, &units) {
                all.push(one);
                continue;
            }
            let found = if are_days {
                self.days::<S>(&publisher, &units).await?
            } else {
                self.hours::<S>(&publisher, &units).await?
            };
            let Some(found) = found else {
                return Ok(None);
            };
            all.extend(kept.joined.of_all(&publisher, &units, found).await?);
        }
        Ok(Some(all))
    }

    async fn days<S: Sum>(&self, publisher: &Arc<str>, units: &[Unit]) -> Found<S> {
        let kept = S::kept(self.sums_known());
        let ask = async |units: Vec<Unit>| {
            let (cube, key) = (<S::Tail as TailSum>::CUBE, S::ROLLED_KEY);
            let call = rolled(cube, S::ROLLED, key, publisher, &units, kept.rows_max);
            let rows = self.some_rows::<S::Asked>("rolled_sums", kept.rows_max, call).await?;
            in_units(&units, rows, S::of_all).await
        };
        kept.sums(publisher, units, ask).await
    }

    /// Made of what several kinds have in common: that much more of an hour's rows are to be read for them costs less than another
    /// statement for each kind.
    async fn hours<S: Sum>(&self, publisher: &Arc<str>, units: &[Unit]) -> Found<S> {
        let kept = <S::Tail as TailSum>::kept(self.sums_known());
        let ask = async |units: Vec<Unit>| {
            let (cube, key) = (<S::Tail as TailSum>::CUBE, <S::Tail as TailSum>::ROLLED_BY);
            let selected = <S::Tail as TailSum>::ROLLED;
            let call = rolled(cube, selected, key, publisher, &units, kept.rows_max);
            let rows = self
                .some_rows::<<S::Tail as TailSum>::Asked>("rolled_sums", kept.rows_max, call)
                .await?;
            in_units(&units, rows, <S::Tail as TailSum>::of_all).await
        };
        let Some(found) = kept.sums(publisher, units, ask).await? else {
            return Ok(None);
        };
        let many = found.iter().map(|sums| sums.len()).sum();
        elsewhere(many, move || S::of_tails(found)).await.map(Some)
    }
}

/// What a statement said of some units, of each of them.
async fn in_units<A: Send + 'static, S: Weighed>(
    units: &[Unit],
    rows: Option<Vec<A>>,
    of_all: fn(Vec<A>) -> Vec<(u64, S)>,
) -> Result<Option<Vec<(Unit, Sums<S>)>>, WarehouseError> {
    let Some(rows) = rows else {
        return Ok(None);
    };
    let (many, units) = (rows.len(), units.to_vec());
    elsewhere(many, move || by_unit(&units, of_all(rows))).await.map(Some)
}

fn of_entry(publisher: &str, entry: Uuid) -> Arc<str> {
    format!("{publisher} {entry}").into()
}

fn clients_of(publisher: &str, entries: &[Uuid], units: &[Unit], rows_max: usize) -> Call {
    let sql = format!(
        "SELECT DISTINCT {} AS unit, entry_id AS entry, client_id AS client FROM usage_by_entry
         WHERE {} AND entry_id IN {{entries:Array(UUID)}} LIMIT {}",
        number(units),
        condition(units),
        rows_max + 1
    );
    let entries: Vec<String> = entries.iter().map(Uuid::to_string).collect();
    bound(Call::new(sql), publisher, units).with("entries", entries)
}

/// What asks for units of one sort; projections have the sums of days, and of entries, almost ready (see [`super::tables`]).
fn rolled(cube: Cube, selected: &str, key: &str, publisher: &str, units: &[Unit], rows_max: usize) -> Call {
    let grouped = match key {
        "" => String::new(),
        key => format!("GROUP BY {}, version, {key}", time(units)),
    };
    let sql = format!(
        "SELECT {} AS unit, {selected} FROM {} WHERE {} {grouped} LIMIT {}",
        number(units),
        cube.table(),
        condition(units),
        rows_max + 1
    );
    bound(Call::new(sql), publisher, units)
}

/// A row's time in units of these's sort.
fn time(units: &[Unit]) -> &'static str {
    match units.first() {
        Some(Unit::Day(_)) => "intDiv(hour, 24)",
        _ => "hour",
    }
}

/// A row's unit as its number.
fn number(units: &[Unit]) -> String {
    format!("bitShiftLeft(toUInt64({}), 32) + version", time(units))
}

/// Which rows are of these units.
fn condition(units: &[Unit]) -> String {
    let times = || units.iter().map(|unit| unit.number() >> 32);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let time = time(units);
    format!(
        "publisher = {{publisher:String}} AND {time} >= {first} AND {time} <= {last} AND {} IN {{units:Array(UInt64)}}",
        number(units)
    )
}

fn bound(call: Call, publisher: &str, units: &[Unit]) -> Call {
    let units: Vec<u64> = units.iter().map(Unit::number).collect();
    call.with("publisher", publisher.to_owned()).with("units", units)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::RefCell;

    use uuid::Uuid;

    use super::{EntrySum, Kept, UNITS_MAX, UNITS_MIN, Unit, by_unit};

    fn entry(count: u64) -> EntrySum {
        EntrySum {
            entry: Uuid::from_u128(7),
            receipts: count,
            last_ms: 1,
        }
    }

    #[tokio::test]
    async fn each_unit_is_asked_for_once_and_days_are_not_hours() {
        let kept = Kept::<EntrySum>::of(1 << 20, 0);
        let asked = RefCell::new(Vec::new());
        let ask = async |units: Vec<Unit>| {
            asked.borrow_mut().push(units.clone());
            // Nothing of unit 3.
            let some = units.iter().map(Unit::number).filter(|number| *number != 3);
            Ok(Some(by_unit(
                &units,
                some.map(|number| (number, entry(number))).collect(),
            )))
        };
        let first = [Unit::Day(1), Unit::Hour(1), Unit::Hour(3)];
        let found = kept.sums(&"a.example".into(), &first, ask).await.unwrap().unwrap();
        assert_eq!(found.iter().map(|sums| sums.len()).sum::<usize>(), 2);
        let found = kept
            .sums(&"a.example".into(), &[Unit::Hour(2), Unit::Hour(3), Unit::Day(1)], ask)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            found
                .iter()
                .flat_map(|sums| sums.iter())
                .map(|sum| sum.receipts)
                .sum::<u64>(),
            3
        );
        kept.sums(&"b.example".into(), &[Unit::Day(1)], ask)
            .await
            .unwrap()
            .unwrap();
        let of_days = |units: &[Unit]| units.to_vec();
        assert_eq!(
            *asked.borrow(),
            [
                of_days(&first[..1]),
                of_days(&first[1..]),
                vec![Unit::Hour(2)],
                vec![Unit::Day(1)]
            ]
        );
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_asked_for_again_and_a_failure_keeps_nothing() {
        let kept = Kept::<EntrySum>::of(1 << 20, 0);
        let times = RefCell::new(0);
        let too_many = async |_: Vec<Unit>| {
            *times.borrow_mut() += 1;
            Ok(None)
        };
        for _ in 0..3 {
            assert!(
                kept.sums(&"a.example".into(), &[Unit::Day(1)], too_many)
                    .await
                    .unwrap()
                    .is_none()
            );
        }
        assert_eq!(*times.borrow(), 1);
        let failing = async |_: Vec<Unit>| Err(crate::WarehouseError::Config("away".to_owned()));
        assert!(kept.sums(&"b.example".into(), &[Unit::Day(1)], failing).await.is_err());
        let ask = async |units: Vec<Unit>| Ok(Some(by_unit(&units, vec![(1, entry(5))])));
        let found = kept
            .sums(&"b.example".into(), &[Unit::Day(1)], ask)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found[0][0].receipts, 5);
    }

    #[tokio::test]
    async fn what_came_before_a_failure_is_kept_and_fewer_units_may_be_few_enough() {
        let kept = Kept::<EntrySum>::of(1 << 20, 0);
        let units: Vec<Unit> = (0..3 * UNITS_MAX as u64).map(Unit::Day).collect();
        let asked = RefCell::new(0);
        let failing = async |units: Vec<Unit>| {
            *asked.borrow_mut() += 1;
            if *asked.borrow() >= 3 {
                return Ok(None);
            }
            let rows = units.iter().map(|unit| (unit.number(), entry(1))).collect();
            Ok(Some(by_unit(&units, rows)))
        };
        assert!(kept.sums(&"a.example".into(), &units, failing).await.unwrap().is_none());
        assert_eq!(*asked.borrow(), 4, "and half of the third");
        assert!(kept.sums(&"a.example".into(), &units, failing).await.unwrap().is_none());
        assert_eq!(*asked.borrow(), 4, "so many are believed to be too many");
        let fewer = kept
            .sums(&"a.example".into(), &units[..2 * UNITS_MAX], failing)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((fewer.len(), *asked.borrow()), (2 * UNITS_MAX, 4));
    }

    #[tokio::test]
    async fn units_of_too_many_rows_are_asked_for_in_two_statements() {
        let kept = Kept::<EntrySum>::of(1 << 20, 0);
        let units: Vec<Unit> = (0..UNITS_MAX as u64).map(Unit::Hour).collect();
        let asked = RefCell::new(Vec::new());
        let ask = async |units: Vec<Unit>| {
            asked.borrow_mut().push(units.clone());
            if units.len() > UNITS_MIN {
                return Ok(None);
            }
            let rows = units.iter().map(|unit| (unit.number(), entry(1))).collect();
            Ok(Some(by_unit(&units, rows)))
        };
        let found = kept.sums(&"a.example".into(), &units, ask).await.unwrap().unwrap();
        assert_eq!(found.len(), UNITS_MAX);
        let (first, second) = units.split_at(UNITS_MAX / 2);
        assert_eq!(*asked.borrow(), [units.clone(), first.to_vec(), second.to_vec()]);
    }

    #[tokio::test]
    async fn what_does_not_fit_goes() {
        let kept = Kept::<EntrySum>::of(64 << 10, 0);
        let ask = async |units: Vec<Unit>| {
            let rows = units.iter().map(Unit::number);
            let rows = rows.flat_map(|unit| (0..30).map(move |_| (unit, entry(1)))).collect();
            Ok(Some(by_unit(&units, rows)))
        };
        for day in 0..200 {
            let found = kept
                .sums(&"a.example".into(), &[Unit::Day(day)], ask)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(found[0].len(), 30, "kept or not");
        }
        assert!(kept.sums.weight() <= 64 << 10);
        assert!(kept.sums.len() > 10);
    }
}
