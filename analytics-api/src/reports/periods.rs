//! The last whole week, month and day (UTC) before an instant.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit, Zoned, ZonedRound};

use crate::range::Comparison;

pub(super) const HOUR_MS: i64 = 3_600_000;
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;

/// A period and the one that it is compared with, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReportPeriod {
    /// Begin of the period before, which ends where this one begins.
    pub(super) before_ms: i64,
    /// Inclusive.
    pub(super) from_ms: i64,
    /// Exclusive.
    pub(super) to_ms: i64,
}

/// Periods that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Periods {
    /// Monday to Sunday.
    pub(super) week: ReportPeriod,
    pub(super) month: ReportPeriod,
    pub(super) day: ReportPeriod,
}

impl Periods {
    /// The last ones that ended at an instant or before it; `None` outside of the calendar.
    pub(super) fn before(at_ms: i64) -> Option<Self> {
        let at = Timestamp::from_millisecond(at_ms).ok()?.to_zoned(TimeZone::UTC);
        let today = at
            .round(ZonedRound::new().smallest(Unit::Day).mode(jiff::RoundMode::Trunc))
            .ok()?;
        let since_monday = i64::from(today.weekday().to_monday_zero_offset());
        let monday = today.checked_sub(since_monday.days()).ok()?;
        let first = today.first_of_month().ok()?;
        Some(Self {
            week: ReportPeriod::of(monday.checked_sub(7.days()).ok()?, &monday)?,
            month: ReportPeriod::of(first.checked_sub(1.month()).ok()?, &first)?,
            day: ReportPeriod::of(today.checked_sub(1.day()).ok()?, &today)?,
        })
    }
}

impl ReportPeriod {
    /// With the period before as the dashboard compares.
    fn of(from: Zoned, to: &Zoned) -> Option<Self> {
        let period = Comparison::Previous.period(from.timestamp(), to.timestamp(), &TimeZone::UTC);
        let (before, _) = period.ok()?;
        Some(Self {
            before_ms: before.as_millisecond(),
            from_ms: from.timestamp().as_millisecond(),
            to_ms: to.timestamp().as_millisecond(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn period(days: [&str; 3]) -> ReportPeriod {
        let [before_ms, from_ms, to_ms] = days.map(|day| ms(&format!("{day}T00:00:00Z")));
        ReportPeriod {
            before_ms,
            from_ms,
            to_ms,
        }
    }

    #[test]
    fn periods_are_the_last_that_have_ended() {
        for (at, week, month, day) in [
            // A Sunday evening, and the Monday after it.
            (
                "2026-11-29T23:59:59.999Z",
                ["2026-11-09", "2026-11-16", "2026-11-23"],
                ["2026-09-01", "2026-10-01", "2026-11-01"],
                ["2026-11-27", "2026-11-28", "2026-11-29"],
            ),
            (
                "2026-11-30T00:00:00Z",
                ["2026-11-16", "2026-11-23", "2026-11-30"],
                ["2026-09-01", "2026-10-01", "2026-11-01"],
                ["2026-11-28", "2026-11-29", "2026-11-30"],
            ),
            // A month of 28 days after one of 31, and over a new year.
            (
                "2027-03-01T00:00:00.001Z",
                ["2027-02-15", "2027-02-22", "2027-03-01"],
                ["2027-01-01", "2027-02-01", "2027-03-01"],
                ["2027-02-27", "2027-02-28", "2027-03-01"],
            ),
            (
                "2027-01-01T12:00:00Z",
                ["2026-12-14", "2026-12-21", "2026-12-28"],
                ["2026-11-01", "2026-12-01", "2027-01-01"],
                ["2026-12-30", "2026-12-31", "2027-01-01"],
            ),
        ] {
            let [week, month, day] = [week, month, day].map(period);
            assert_eq!(Periods::before(ms(at)), Some(Periods { week, month, day }), "{at}");
        }
        assert_eq!(Periods::before(i64::MAX), None);
    }
}
