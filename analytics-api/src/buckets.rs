//! Boundaries of a time series' points, in a time zone.
//!
//! The boundaries tile `[from, to)` with no gap and no overlap, so the points of a series of
//! receipts add up to the total of its range. Days, weeks and months follow the local calendar (a
//! day of 23, 24.5 or 25 hours is one day; weeks start on Monday, ISO 8601). Minutes and hours
//! follow the local clock, and a change of offset is always a boundary too: no hour is counted into
//! another of the same name.

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp};

/// Length of a point of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interval {
    /// A minute of the local clock.
    Minute,
    /// An hour of the local clock.
    Hour,
    /// A local day.
    Day,
    /// A local week, from Monday.
    Week,
    /// A local calendar month.
    Month,
}

/// Finest first.
pub(crate) const INTERVALS: [Interval; 5] = [
    Interval::Minute,
    Interval::Hour,
    Interval::Day,
    Interval::Week,
    Interval::Month,
];

impl Interval {
    /// The name in queries and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Number of points of a series when the query names no range: the last hour, two days, 30
    /// days, 26 weeks, 12 months, each with the bucket that now is in as its last.
    pub(crate) fn default_points(self) -> usize {
        match self {
            Self::Minute => 60,
            Self::Hour => 48,
            Self::Day => 30,
            Self::Week => 26,
            Self::Month => 12,
        }
    }

    /// The usual length, for estimates only.
    pub(crate) fn usual_seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
        }
    }
}

/// Why there are no boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// The range has more points than allowed.
    #[error("more than {points_max} points")]
    TooMany {
        /// The most allowed.
        points_max: usize,
    },
    /// An instant outside what the calendar can express.
    #[error("outside the calendar")]
    OutOfCalendar,
}

impl From<jiff::Error> for BucketError {
    fn from(_: jiff::Error) -> Self {
        Self::OutOfCalendar
    }
}

/// The boundaries of `[from, to)`: first `from`, then every start of an interval inside, last `to`.
/// Point `i` is `[b[i], b[i + 1])`; so a range that begins or ends inside an interval has a shorter
/// first or last point. `from` must be before `to`.
///
/// # Errors
/// [`BucketError::TooMany`] as soon as there would be more than `points_max` points: the work done
/// is bounded by it.
pub fn boundaries(
    interval: Interval,
    tz: &TimeZone,
    from: Timestamp,
    to: Timestamp,
    points_max: usize,
) -> Result<Vec<Timestamp>, BucketError> {
    let mut starts = Starts::new(interval, tz.clone());
    let mut found = vec![from];
    let mut at = from;
    while at < to {
        if found.len() > points_max {
            return Err(BucketError::TooMany { points_max });
        }
        at = starts.after(at)?.min(to);
        found.push(at);
    }
    Ok(found)
}

/// The range of the last `points` whole intervals, the last of them the one that `now` is in.
///
/// # Errors
/// [`BucketError::OutOfCalendar`] where the calendar ends.
pub fn recent(
    interval: Interval,
    tz: &TimeZone,
    now: Timestamp,
    points: usize,
) -> Result<(Timestamp, Timestamp), BucketError> {
    let to = Starts::new(interval, tz.clone()).after(now)?;
    Ok((back(interval, tz, to, points)?, to))
}

/// The start of the `points`-th interval before `to`, counting one that `to` cuts.
///
/// # Errors
/// [`BucketError::OutOfCalendar`] where the calendar ends.
pub fn back(interval: Interval, tz: &TimeZone, to: Timestamp, points: usize) -> Result<Timestamp, BucketError> {
    let steps = i64::try_from(points.saturating_sub(1)).unwrap_or(i64::MAX);
    // The last instant that the range still holds.
    let last = to.checked_sub(SignedDuration::from_millis(1))?;
    let local = last.to_zoned(tz.clone()).date();
    match interval {
        Interval::Minute | Interval::Hour => {
            let unit_s = interval.usual_seconds();
            let earlier = last.checked_sub(SignedDuration::from_secs(steps.saturating_mul(unit_s)))?;
            let offset = i64::from(tz.to_offset(earlier).seconds());
            let local_s = earlier.as_second() + offset;
            Ok(Timestamp::from_second(local_s.div_euclid(unit_s) * unit_s - offset)?)
        }
        Interval::Day => start_of(local.checked_sub(Span::new().try_days(steps)?)?, tz),
        Interval::Week => start_of(monday(local)?.checked_sub(Span::new().try_weeks(steps)?)?, tz),
        Interval::Month => start_of(local.first_of_month().checked_sub(Span::new().try_months(steps)?)?, tz),
    }
}

/// Finds the next start of an interval, remembering the zone's next change of offset.
struct Starts {
    interval: Interval,
    tz: TimeZone,
    /// The first change of offset after `valid_from`, good until it is reached.
    change: Option<OffsetChange>,
}

struct OffsetChange {
    valid_from: Timestamp,
    at: Option<Timestamp>,
}

impl Starts {
    fn new(interval: Interval, tz: TimeZone) -> Self {
        Self {
            interval,
            tz,
            change: None,
        }
    }

    /// The first start of an interval after `at`.
    fn after(&mut self, at: Timestamp) -> Result<Timestamp, BucketError> {
        let date = || at.to_zoned(self.tz.clone()).date();
        let (next, step) = match self.interval {
            Interval::Minute | Interval::Hour => return self.after_by_clock(at),
            Interval::Day => (date().tomorrow()?, Span::new().days(1)),
            Interval::Week => (monday(date())?.checked_add(Span::new().weeks(1))?, Span::new().weeks(1)),
            Interval::Month => (
                date().first_of_month().checked_add(Span::new().months(1))?,
                Span::new().months(1),
            ),
        };
        self.after_by_calendar(at, next, step)
    }

    fn after_by_clock(&mut self, at: Timestamp) -> Result<Timestamp, BucketError> {
        let unit_s = self.interval.usual_seconds();
        let offset = i64::from(self.tz.to_offset(at).seconds());
        let local_s = at.as_second() + offset;
        let next = Timestamp::from_second((local_s.div_euclid(unit_s) + 1) * unit_s - offset)?;
        Ok(match self.change_after(at) {
            Some(change) => next.min(change),
            None => next,
        })
    }

    /// `next` is a later date than that of `at`, yet may have begun before it: a clock put back
    /// over midnight (America/St_Johns until 2011) shows the old date once more after the new one
    /// began.
    fn after_by_calendar(&self, at: Timestamp, mut next: Date, step: Span) -> Result<Timestamp, BucketError> {
        loop {
            let start = start_of(next, &self.tz)?;
            if start > at {
                return Ok(start);
            }
            next = next.checked_add(step)?;
        }
    }

    fn change_after(&mut self, at: Timestamp) -> Option<Timestamp> {
        if let Some(existing) = &self.change
            && existing.valid_from <= at
            && existing.at.is_none_or(|change| change > at)
        {
            return existing.at;
        }
        let offset = self.tz.to_offset(at);
        // Some transitions change only the name or the DST flag. The bound keeps a strange zone
        // from looping.
        let change = self
            .tz
            .following(at)
            .take(64)
            .find(|t| t.offset() != offset)
            .map(|t| t.timestamp());
        self.change = Some(OffsetChange {
            valid_from: at,
            at: change,
        });
        change
    }
}

fn monday(date: Date) -> Result<Date, BucketError> {
    let days = date.weekday().since(Weekday::Monday);
    Ok(date.checked_sub(Span::new().days(i64::from(days)))?)
}

/// The first instant of a local date, also where midnight happens twice (the first) or not at all
/// (the end of the gap).
pub(crate) fn start_of(date: Date, tz: &TimeZone) -> Result<Timestamp, BucketError> {
    let midnight = tz.to_ambiguous_timestamp(date.at(0, 0, 0, 0));
    let gap = matches!(midnight.offset(), AmbiguousOffset::Gap { .. });
    let start = midnight.compatible()?;
    if !gap {
        return Ok(start);
    }
    // "Compatible" continues by the gap's length from midnight, which is too far where the gap
    // began before midnight.
    let after = start.checked_add(SignedDuration::from_nanos(1))?;
    Ok(tz.preceding(after).next().map_or(start, |change| change.timestamp()))
}

#[cfg(test)]
mod tests;
