//! The local day that totals are of.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::buckets::{BucketError, start_of};

/// A local day, however many hours it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDay {
    #[error("outside the calendar")]
    Calendar(#[from] jiff::Error),
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

impl Day {
    /// The one that this instant lies in.
    pub(super) fn of(at_ms: i64, tz: &TimeZone) -> Result<Self, NoDay> {
        let date = Timestamp::from_millisecond(at_ms)?.to_zoned(tz.clone()).date();
        Ok(Self {
            from: start_of(date, tz)?,
            to: start_of(date.tomorrow()?, tz)?,
        })
    }

    /// Whether any of this hour since the epoch is in it.
    pub(super) fn has_some_of(self, hour: u32) -> bool {
        let start_s = i64::from(hour) * 3_600;
        start_s < self.to.as_second() && start_s + 3_600 > self.from.as_second()
    }
}
