//! Consistency check: whether `usage` agrees with itself and with `receipts`.
//!
//! Sums of all grains come from one statement over one table, so an insert is in all of them or in
//! none: a difference is one. `receipts` is read by another statement, and a writer inserts into it
//! first: such a difference counts only if it is found repeatedly, against counts of before and
//! after.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;
use warehouse::{FINAL_SETTINGS, SqlStatement, WarehouseError};

use crate::calendar::{DAY_S, day_of};
use crate::rebuild::bind_day;
use crate::{Grain, Usage};

/// Readings that must all find a difference from `receipts`, and the pause between two of them. A
/// batch is counted within the pause.
const READINGS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);

/// Kind of a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MismatchKind {
    /// The sum of this grain, compared with that of the grain `entry`.
    Grain(Grain),
    /// Counted keys of all publishers, compared with the sum of the grain `entry`.
    CountedKeys,
    /// Keys that are counted another number of times than once.
    RepeatedKeys,
    /// The sum of the grain `entry`, compared with the receipts.
    Receipts,
}

/// A publisher's day on which `usage` is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mismatch {
    /// The UTC day, as seconds since the Unix epoch.
    pub day: u32,
    /// The publisher; empty for counted keys, which have none.
    pub publisher: String,
    /// The sums that disagree.
    pub kind: MismatchKind,
    /// Receipts or keys that are too many; negative if some are missing.
    pub more: i64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { publisher, more, .. } = self;
        match self.kind {
            MismatchKind::Grain(grain) => {
                let grain = grain.name();
                write!(
                    f,
                    "{publisher}: the grain `{grain}` has {more:+} receipts compared with `entry`"
                )
            }
            MismatchKind::CountedKeys => write!(f, "there are {more:+} counted keys compared with the aggregates"),
            MismatchKind::RepeatedKeys => write!(f, "{more} keys aren't counted exactly once"),
            MismatchKind::Receipts => {
                write!(
                    f,
                    "{publisher}: the aggregates have {more:+} receipts compared with the table `receipts`"
                )
            }
        }
    }
}

/// The sum of a publisher's rows of one grain.
#[derive(Debug, Row, Deserialize)]
struct GrainSum {
    publisher: String,
    grain: String,
    receipts: i64,
}

/// Receipts by publisher.
type PublisherCounts = BTreeMap<String, i64>;

impl Usage {
    /// Compares the aggregates of a UTC day with each other and with `receipts`. Takes some seconds
    /// longer where they differ from `receipts`: a writer may be inserting.
    pub async fn check_day(&self, day: u32) -> Result<Vec<Mismatch>, WarehouseError> {
        let mut receipts = self.receipts_of(day).await?;
        let sums = self.sums_of(day).await?;
        let mut found = disagreements(day, &sums);
        let repeated = self.repeated_keys(day).await?;
        if repeated > 0 {
            found.push(Mismatch {
                day,
                publisher: String::new(),
                kind: MismatchKind::RepeatedKeys,
                more: repeated,
            });
        }
        let mut entries = counts_of(Grain::Entry, &sums);
        let mut differing = differing(&receipts, &entries, &receipts);
        for _ in 1..READINGS {
            if differing.is_empty() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            entries = counts_of(Grain::Entry, &self.sums_of(day).await?);
            let after = self.receipts_of(day).await?;
            let still = self::differing(&receipts, &entries, &after);
            differing.retain(|publisher| still.contains(publisher));
            receipts = after;
        }
        found.extend(differing.into_iter().map(|publisher| Mismatch {
            day,
            kind: MismatchKind::Receipts,
            more: count(&entries, &publisher) - count(&receipts, &publisher),
            publisher,
        }));
        Ok(found)
    }

    /// UTC days between two instants (in milliseconds) with rows in `usage` or `receipts`, newest
    /// first.
    pub async fn days(&self, from_ms: i64, to_ms: i64) -> Result<Vec<u32>, WarehouseError> {
        let second = |ms: i64| u32::try_from(ms.div_euclid(1_000).clamp(0, i64::from(u32::MAX))).unwrap_or(0);
        let from = second(from_ms).max(self.oldest_day());
        let call = SqlStatement::new(format!(
            "SELECT day FROM (
                SELECT DISTINCT toUInt32(time - time % {DAY_S}) AS day FROM usage
                WHERE grain = 'purpose' AND time >= {{from:UInt32}} AND time < {{to:UInt32}}
                UNION DISTINCT
                SELECT DISTINCT toUInt32(toUnixTimestamp(timestamp) - toUnixTimestamp(timestamp) % {DAY_S}) AS day
                FROM receipts WHERE timestamp >= toDateTime64({{from:UInt32}}, 3, 'UTC')
                    AND timestamp < toDateTime64({{to:UInt32}}, 3, 'UTC'))
             ORDER BY day DESC"
        ))
        .with("from", day_of(from))
        .with("to", second(to_ms.saturating_add(999)));
        self.warehouse.rows("usage_days", call.slow()).await
    }

    async fn sums_of(&self, day: u32) -> Result<Vec<GrainSum>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT publisher, toString(grain) AS grain, sum(receipts) AS receipts
             FROM usage WHERE time >= {day:UInt32} AND time < {end:UInt32}
             GROUP BY publisher, grain",
        );
        self.warehouse.rows("usage_check_sums", bind_day(call, day)).await
    }

    async fn repeated_keys(&self, day: u32) -> Result<i64, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT toInt64(count()) FROM (
                SELECT time, key FROM usage
                WHERE grain = 'counted' AND reverse(publisher) = '' AND time >= {day:UInt32} AND time < {end:UInt32}
                GROUP BY time, key HAVING sum(receipts) NOT IN (0, 1))
             SETTINGS optimize_aggregation_in_order = 1",
        );
        self.warehouse.one("usage_check_keys", bind_day(call, day)).await
    }

    async fn receipts_of(&self, day: u32) -> Result<PublisherCounts, WarehouseError> {
        let call = SqlStatement::new(format!(
            "SELECT publisher, toInt64(count()) FROM receipts FINAL
             WHERE timestamp >= toDateTime64({{day:UInt32}}, 3, 'UTC')
                AND timestamp < toDateTime64({{end:UInt32}}, 3, 'UTC')
             GROUP BY publisher {FINAL_SETTINGS}"
        ));
        let rows: Vec<(String, i64)> = self.warehouse.rows("usage_check_receipts", bind_day(call, day)).await?;
        Ok(rows.into_iter().collect())
    }
}

/// Grains that differ, and counted keys that have no contributions or the other way round.
fn disagreements(day: u32, sums: &[GrainSum]) -> Vec<Mismatch> {
    let entries = counts_of(Grain::Entry, sums);
    let mut found = Vec::new();
    for grain in Grain::AGGREGATES {
        let counts = counts_of(grain, sums);
        let publishers: BTreeSet<&String> = counts.keys().chain(entries.keys()).collect();
        found.extend(publishers.into_iter().map(|publisher| Mismatch {
            day,
            publisher: publisher.clone(),
            kind: MismatchKind::Grain(grain),
            more: count(&counts, publisher) - count(&entries, publisher),
        }));
    }
    let total = |grain| counts_of(grain, sums).values().sum::<i64>();
    found.push(Mismatch {
        day,
        publisher: String::new(),
        kind: MismatchKind::CountedKeys,
        more: total(Grain::Counted) - total(Grain::Entry),
    });
    found.retain(|one| one.more != 0);
    found
}

fn counts_of(grain: Grain, sums: &[GrainSum]) -> PublisherCounts {
    let sums = sums.iter().filter(|sum| sum.grain == grain.name());
    sums.map(|sum| (sum.publisher.clone(), sum.receipts)).collect()
}

fn count(counts: &PublisherCounts, publisher: &str) -> i64 {
    counts.get(publisher).copied().unwrap_or(0)
}

/// Publishers with fewer entries than receipts before, or more than receipts after.
fn differing(before: &PublisherCounts, entries: &PublisherCounts, after: &PublisherCounts) -> BTreeSet<String> {
    let publishers: BTreeSet<&String> = before.keys().chain(entries.keys()).collect();
    let differs = |publisher: &&&String| {
        let entries = count(entries, publisher);
        entries < count(before, publisher) || entries > count(after, publisher)
    };
    publishers
        .iter()
        .filter(differs)
        .map(|&publisher| publisher.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: i64) -> PublisherCounts {
        PublisherCounts::from([("a.example".to_owned(), count)])
    }

    #[test]
    fn receipts_that_arrive_between_two_readings_are_no_difference() {
        assert!(differing(&of(3), &of(3), &of(5)).is_empty());
        assert!(differing(&of(3), &of(4), &of(5)).is_empty());
        assert_eq!(
            differing(&of(3), &of(2), &of(5)).len(),
            1,
            "one was there and isn't counted"
        );
        assert_eq!(
            differing(&of(3), &of(6), &of(5)).len(),
            1,
            "one is counted that isn't there"
        );
        assert_eq!(differing(&of(1), &PublisherCounts::new(), &of(1)).len(), 1);
        assert_eq!(
            differing(&PublisherCounts::new(), &of(1), &PublisherCounts::new()).len(),
            1
        );
    }

    #[test]
    fn grains_and_keys_are_compared_with_entries() {
        let sum = |publisher: &str, grain: Grain, receipts| GrainSum {
            publisher: publisher.to_owned(),
            grain: grain.name().to_owned(),
            receipts,
        };
        let good = || {
            let aggregates = Grain::AGGREGATES.map(|grain| [sum("a", grain, 2), sum("b", grain, 3)]);
            let mut sums: Vec<GrainSum> = aggregates.into_iter().flatten().collect();
            sums.push(sum("", Grain::Counted, 5));
            sums
        };
        assert_eq!(disagreements(0, &good()), []);
        for grain in Grain::AGGREGATES.into_iter().filter(|grain| *grain != Grain::Entry) {
            for (wrong, more) in [(Some(4), 1), (None, -3)] {
                let mut sums = good();
                let is_wrong = |of: &GrainSum| of.publisher == "b" && of.grain == grain.name();
                sums.retain(|of| !is_wrong(of));
                sums.extend(wrong.map(|receipts| sum("b", grain, receipts)));
                let found = disagreements(0, &sums);
                assert_eq!(
                    (found.len(), found[0].kind, found[0].more),
                    (1, MismatchKind::Grain(grain), more)
                );
            }
        }
        let mut sums = good();
        if let Some(counted) = sums.last_mut() {
            counted.receipts += 1;
        }
        let found = disagreements(0, &sums);
        let found: Vec<_> = found.into_iter().map(|one| (one.kind, one.more)).collect();
        assert_eq!(found, [(MismatchKind::CountedKeys, 1)]);
    }
}
