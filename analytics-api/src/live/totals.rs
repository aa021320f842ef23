//! Totals of a local day.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio::time::Instant;
use usage::DashboardStats;
use warehouse::Filter;

use super::follower::Changes;
use crate::answers::{PurposeCounts, TotalsByTrust};
use crate::buckets::{BucketError, start_of};
use crate::completeness::Completeness;

/// Age of totals without changes: an erasure changes them too.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A local day, however many hours it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Day {
    from: Timestamp,
    to: Timestamp,
}

/// Error of an instant that has no day.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDay {
    #[error("outside the calendar")]
    Calendar(#[from] jiff::Error),
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

impl Day {
    /// The day of an instant.
    pub(super) fn new(instant_ms: i64, tz: &TimeZone) -> Result<Self, NoDay> {
        let date = Timestamp::from_millisecond(instant_ms)?.to_zoned(tz.clone()).date();
        Ok(Self {
            from: start_of(date, tz)?,
            to: start_of(date.tomorrow()?, tz)?,
        })
    }

    /// Whether the day contains a part of this hour since the Unix epoch.
    fn overlaps(self, hour: u32) -> bool {
        let start_s = i64::from(hour) * 3_600;
        start_s < self.to.as_second() && start_s + 3_600 > self.from.as_second()
    }

    /// The receipts of the day, where these operators are trusted.
    pub(super) fn filter(self, trusted: &[String]) -> Filter {
        Filter {
            trusted: trusted.to_vec(),
            from_ms: self.from.as_millisecond(),
            to_ms: self.to.as_millisecond(),
            ..Filter::default()
        }
    }
}

/// A day's totals.
pub(super) struct DayTotals {
    day: Day,
    stats: DashboardStats,
    /// An instant before the query.
    queried: Instant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    total_receipts: u64,
    unique_clients: u64,
    usage_by_purpose: PurposeCounts,
    by_trust: TotalsByTrust,
    from: String,
    to: String,
    #[serde(flatten)]
    completeness: Completeness,
}

impl DayTotals {
    pub(super) fn new(day: Day, stats: DashboardStats, queried: Instant) -> Self {
        Self { day, stats, queried }
    }

    /// Whether these are still the totals of `day` after `changes`.
    pub(super) fn are_current(&self, day: Day, changes: &Changes) -> bool {
        self.day == day
            && self.queried.elapsed() < AGE_MAX
            && !changes.are_unknown
            && !changes.hours.iter().any(|hour| day.overlaps(*hour))
    }

    /// The data of an event.
    pub(super) fn json(&self, completeness: Completeness) -> serde_json::Result<String> {
        serde_json::to_string(&Json {
            total_receipts: self.stats.total_receipts,
            unique_clients: self.stats.unique_clients,
            usage_by_purpose: self.stats.usage_by_purpose.into(),
            by_trust: TotalsByTrust::new(self.stats.proven, self.stats.unproven),
            from: web::rfc3339(self.day.from),
            to: web::rfc3339(self.day.to),
            completeness,
        })
    }
}
