//! Kept sums of several units as one, in memory: questions are mostly of the days that others were of before.

use std::sync::Arc;

use foldhash::fast::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::kept::{Sums, Unit, Weighed};
use super::sums::{Sum, joined};
use crate::WarehouseError;
use crate::threads::elsewhere;

/// Fewer sums are added up as they are.
const SUMS_MIN: usize = 8_000;
/// Few, and large.
const SHARDS: usize = 1;

/// A publisher and units.
type Place = (Arc<str>, Arc<[Unit]>);

/// By place.
#[derive(Debug)]
pub(super) struct Joined<S>(Cache<Place, Sums<S>, ByBytes, RandomState>);

#[derive(Debug, Clone)]
struct ByBytes;

impl<S: Weighed> Weighter<Place, Sums<S>> for ByBytes {
    fn weight(&self, (publisher, units): &Place, sums: &Sums<S>) -> u64 {
        let key = 128 + publisher.len() + size_of_val::<[_]>(units);
        (key + sums.iter().map(Weighed::bytes).sum::<usize>()) as u64
    }
}

impl<S: Weighed> Joined<S> {
    pub(super) fn of(bytes_max: u64) -> Self {
        let mut options = OptionsBuilder::new();
        options
            .shards(SHARDS)
            .estimated_items_capacity(1_000)
            .weight_capacity(bytes_max);
        let hasher = RandomState::default();
        Self(match options.build() {
            Ok(options) => Cache::with_options(options, ByBytes, hasher, DefaultLifecycle::default()),
            Err(_) => Cache::with(1_000, bytes_max, ByBytes, hasher, DefaultLifecycle::default()),
        })
    }

    pub(super) fn get(&self, publisher: &Arc<str>, units: &Arc<[Unit]>) -> Option<Sums<S>> {
        self.0.get(&(Arc::clone(publisher), Arc::clone(units)))
    }
}

impl<S: Sum> Joined<S> {
    /// One of the sums of some units, all of which are given.
    pub(super) async fn of_all(
        &self,
        publisher: &Arc<str>,
        units: &Arc<[Unit]>,
        all: Vec<Sums<S>>,
    ) -> Result<Vec<Sums<S>>, WarehouseError> {
        let many = all.iter().map(|sums| sums.len()).sum();
        // One that can't be kept would be made by every question.
        let largest = all
            .iter()
            .map(|sums| sums.iter().map(Weighed::bytes).sum::<usize>())
            .max();
        if many < SUMS_MIN || largest.unwrap_or(0) as u64 > self.0.capacity() / 2 {
            return Ok(all);
        }
        let key = (Arc::clone(publisher), Arc::clone(units));
        // Questions that come together don't do it twice.
        match self.0.get_value_or_guard_async(&key).await {
            Ok(known) => Ok(vec![known]),
            Err(guard) => {
                let one = elsewhere(many, move || joined(&all)).await?;
                // In the way of a new one: it is whoever asked's all the same.
                let _ = guard.insert(Arc::clone(&one));
                Ok(vec![one])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use uuid::Uuid;

    use super::{Arc, Joined, SUMS_MIN, Sums, Unit};
    use crate::rollup::sums::EntrySum;

    fn day(entries: usize, receipts: u64, last_ms: i64) -> Sums<EntrySum> {
        let of = |entry: usize| EntrySum {
            entry: Uuid::from_u128(entry as u128),
            receipts,
            last_ms,
        };
        (0..entries).map(of).collect()
    }

    #[tokio::test]
    async fn many_sums_become_one_of_each_key_once_and_few_stay() {
        let joined = Joined::<EntrySum>::of(4 << 20);
        let publisher: Arc<str> = "a.example".into();
        let units: Arc<[Unit]> = [Unit::Day(1), Unit::Day(2)].into();
        let few = vec![day(3, 1, 5), day(3, 2, 4)];
        assert_eq!(joined.of_all(&publisher, &units, few).await.unwrap().len(), 2);
        assert!(joined.get(&publisher, &units).is_none());
        let many = vec![day(SUMS_MIN, 1, 5), day(SUMS_MIN / 2, 2, 7)];
        let one = joined.of_all(&publisher, &units, many).await.unwrap();
        assert_eq!((one.len(), one[0].len()), (1, SUMS_MIN));
        for (place, sum) in one[0].iter().enumerate() {
            let expected = if place < SUMS_MIN / 2 { (3, 7) } else { (1, 5) };
            assert_eq!((sum.receipts, sum.last_ms), expected);
        }
        assert!(Arc::ptr_eq(&joined.get(&publisher, &units).unwrap(), &one[0]));
        let other: Arc<[Unit]> = [Unit::Hour(1), Unit::Hour(2)].into();
        assert!(joined.get(&publisher, &other).is_none());
        assert!(joined.get(&"b.example".into(), &units).is_none());
    }
}
