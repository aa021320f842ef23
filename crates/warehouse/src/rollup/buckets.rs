//! Which roll made each hour of a scope's publishers: asked once after each roll that made rows, and kept.

use std::ops::Range;
use std::sync::Arc;

use clickhouse::Row;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;

use super::hours::Hours;
use super::view::RollupView;
use crate::client::Call;
use crate::{Scope, Warehouse, WarehouseError};

/// Hours that are kept, of all scopes: 32 MB.
const KEPT_HOURS_MAX: u64 = 4_000_000;
/// Scopes that are kept, about.
const KEPT_MAX: usize = 1_000;
/// Publishers of a scope beyond which a question asks the tables itself.
const PUBLISHERS_MAX: usize = 4;
const DAY: u32 = 24;

/// A publisher's hours that have receipts, in rising order, with the rolls that made them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Buckets(Vec<(u32, u32)>);

/// Those of each publisher of a scope that has any; `None` for too many.
pub(crate) type OfScope = Option<Vec<(String, Buckets)>>;

/// Which rows of a publisher are meant, as numbers that tell a time and the roll: `time << 32 | version`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meant {
    /// Whole days, since the Unix epoch in UTC, all of whose hours one roll made.
    pub(crate) days: Vec<u64>,
    /// Hours of other days.
    pub(crate) hours: Vec<u64>,
}

impl Meant {
    /// The roll that made an hour of these.
    pub(crate) fn made_by(&self, hour: u32) -> Option<u32> {
        let of = |all: &[u64], time: u32| {
            let found = all.iter().find(|one| **one >> 32 == u64::from(time));
            found.and_then(|one| u32::try_from(one & u64::from(u32::MAX)).ok())
        };
        of(&self.days, hour / DAY).or_else(|| of(&self.hours, hour))
    }
}

impl Buckets {
    /// The rows of some hours; days only of `whole`, which are among them. An hour outside `window` has none: retention may have let go of
    /// its receipts since these were read.
    pub(crate) fn meant(&self, hours: &Hours, whole: &Hours, window: &Range<u32>) -> Meant {
        let packed = |time: u32, version: u32| u64::from(time) << 32 | u64::from(version);
        let mut meant = Meant::default();
        for of_day in self.0.chunk_by(|one, next| one.0 / DAY == next.0 / DAY) {
            let Some(&(first, version)) = of_day.first() else {
                continue;
            };
            let day = first / DAY;
            let is_whole = whole.holds(day * DAY..(day + 1) * DAY);
            // An hour without a row here has none in the rolled tables either.
            let of_one_roll = |(hour, other): &(u32, u32)| *other == version && window.contains(hour);
            if is_whole && of_day.iter().all(of_one_roll) {
                meant.days.push(packed(day, version));
                continue;
            }
            let ours = of_day
                .iter()
                .filter(|(hour, _)| hours.contains(*hour) && window.contains(hour));
            meant.hours.extend(ours.map(|&(hour, version)| packed(hour, version)));
        }
        meant
    }
}

/// By scope and the last roll that made rows, or on a cluster the state; clones of a [`Warehouse`] share it. Hours that are rolled without any rows have none here
/// either, so a window that has grown since asks for nothing more.
#[derive(Debug, Clone)]
pub(crate) struct KnownBuckets(Arc<Cache<(Scope, u32), Arc<OfScope>, ByHours>>);

#[derive(Debug, Clone)]
struct ByHours;

impl Weighter<(Scope, u32), Arc<OfScope>> for ByHours {
    fn weight(&self, (scope, _): &(Scope, u32), found: &Arc<OfScope>) -> u64 {
        let hours = found
            .iter()
            .flatten()
            .map(|(_, buckets)| buckets.0.len())
            .sum::<usize>();
        let names = scope.publishers.len() + scope.below.iter().map(|below| 1 + below.except.len()).sum::<usize>();
        // A name is some ten hours' worth.
        (hours + 10 * (names + PUBLISHERS_MAX)) as u64
    }
}

impl Default for KnownBuckets {
    fn default() -> Self {
        Self(Arc::new(Cache::with_weighter(KEPT_MAX, KEPT_HOURS_MAX, ByHours)))
    }
}

#[derive(Row, Deserialize)]
struct BucketRow {
    publisher: String,
    hour: u32,
    made_by: u32,
}

impl Warehouse {
    /// The hours of a scope in a view's window. Of those who ask at once for the same, one asks the tables.
    pub(crate) async fn buckets(&self, view: &RollupView, scope: &Scope) -> Result<Arc<OfScope>, WarehouseError> {
        // A replica that is behind may not tell all of it: that is believed until the next state.
        let known_by = if self.cluster().is_some() {
            view.version()
        } else {
            view.made()
        };
        let (Some(window), Some(known_by)) = (view.window(), known_by) else {
            return Ok(Arc::new(Some(Vec::new())));
        };
        if scope.publishers.len() > PUBLISHERS_MAX {
            return Ok(Arc::new(None));
        }
        let asking = async {
            // One publisher more than are wanted tells that there are too many.
            let condition = format!(
                "{} AND hour >= {} AND hour < {} AND {}",
                scope.condition(),
                window.start,
                window.end,
                view.versions_condition()
            );
            let sql = format!(
                "SELECT publisher, hour, max(version) AS made_by FROM rollup_buckets
                 WHERE {condition} AND publisher IN
                    (SELECT DISTINCT publisher FROM rollup_buckets WHERE {condition} LIMIT {})
                 GROUP BY publisher, hour ORDER BY publisher, hour",
                PUBLISHERS_MAX + 1
            );
            let rows: Vec<BucketRow> = self.rows("rollup_buckets", scope.bind(Call::new(sql))).await?;
            let mut found: Vec<(String, Buckets)> = Vec::new();
            for row in rows {
                match found.last_mut() {
                    Some((publisher, buckets)) if *publisher == row.publisher => {
                        buckets.0.push((row.hour, row.made_by))
                    }
                    _ => found.push((row.publisher, Buckets(vec![(row.hour, row.made_by)]))),
                }
            }
            Ok(Arc::new((found.len() <= PUBLISHERS_MAX).then_some(found)))
        };
        self.buckets_known()
            .0
            .get_or_insert_async(&(scope.clone(), known_by), asking)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::{Buckets, Hours, Meant};

    #[test]
    fn days_are_whole_where_one_roll_made_all_their_hours() {
        let day = |day: u32, version: u32| (day * 24..day * 24 + 24).map(move |hour| (hour, version));
        let mut hours: Vec<(u32, u32)> = day(10, 3).chain(day(11, 4)).chain(day(12, 5)).collect();
        hours[30].1 = 7;
        // An hour without receipts has no roll.
        hours.remove(50);
        let buckets = Buckets(hours);
        let at = |time: u64, version: u64| time << 32 | version;
        let all = Hours::of(0..1_000);
        let whole = buckets.meant(&all, &all, &(0..1_000));
        assert_eq!(whole.days, [at(10, 3), at(12, 5)]);
        assert_eq!(whole.hours.len(), 24);
        assert_eq!(
            (whole.hours[5], whole.hours[6], whole.hours[7]),
            (at(269, 4), at(270, 7), at(271, 4))
        );
        let some = Hours::of_all([(240, 264), (265, 267)]);
        let cut = buckets.meant(&some, &some.within(241..267), &(0..1_000));
        assert!(cut.days.is_empty());
        assert_eq!(cut.hours.len(), 26);
        let none = Hours::default();
        assert_eq!(buckets.meant(&none, &none, &(0..1_000)), Meant::default());
        let within = buckets.meant(&all, &all, &(242..1_000));
        assert_eq!(within.days, [at(12, 5)]);
        assert_eq!((within.hours.len(), within.hours[0]), (22 + 24, at(242, 3)));
    }
}
