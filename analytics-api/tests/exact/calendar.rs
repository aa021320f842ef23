//! Boundaries of buckets, found the slow way: by walking through a range in small steps and looking
//! at the local clock. It shares no line with `analytics_api::buckets`.

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

/// Changes of offset since 2012 happen at whole quarters of an hour, UTC.
const QUARTER_MS: i64 = 15 * 60_000;
const MINUTE_MS: i64 = 60_000;
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// An interval by its name in queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Every {
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

pub(crate) const EVERY: [(Every, &str); 5] = [
    (Every::Minute, "minute"),
    (Every::Hour, "hour"),
    (Every::Day, "day"),
    (Every::Week, "week"),
    (Every::Month, "month"),
];

/// Label that all instants of one bucket have in common.
type Label = (Date, i8, i8, i32);

fn label(every: Every, tz: &TimeZone, ms: i64) -> Label {
    let zoned = at(ms).to_zoned(tz.clone());
    let (date, offset) = (zoned.date(), zoned.offset().seconds());
    match every {
        Every::Minute => (date, zoned.hour(), zoned.minute(), offset),
        Every::Hour => (date, zoned.hour(), 0, offset),
        Every::Day => (date, 0, 0, 0),
        Every::Week => {
            let mut monday = date;
            while monday.weekday() != Weekday::Monday {
                monday = monday.yesterday().unwrap();
            }
            (monday, 0, 0, 0)
        }
        Every::Month => (Date::new(date.year(), date.month(), 1).unwrap(), 0, 0, 0),
    }
}

/// The starts of the buckets of `[from_ms, to_ms)`, at most one more than `most`.
pub(crate) fn starts(every: Every, tz: &TimeZone, from_ms: i64, to_ms: i64, most: usize) -> Vec<i64> {
    let step = if every == Every::Minute { MINUTE_MS } else { QUARTER_MS };
    let mut found = vec![from_ms];
    let mut current = label(every, tz, from_ms);
    let mut ms = (from_ms.div_euclid(step) + 1) * step;
    while ms < to_ms && found.len() <= most {
        let next = label(every, tz, ms);
        if next != current {
            found.push(ms);
            current = next;
        }
        ms += step;
    }
    found
}

/// The first instant that the zone's clock shows `date`.
pub(crate) fn first_instant(date: Date, tz: &TimeZone) -> i64 {
    let noon = date.at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
    let mut ms = noon.as_millisecond() - 36 * HOUR_MS;
    while at(ms).to_zoned(tz.clone()).date() != date {
        ms += QUARTER_MS;
    }
    ms
}

/// The period that `compare` names for `[from_ms, to_ms)`: the one before, or the same by the local
/// calendar of the year before.
pub(crate) fn compared_period(name: &str, from_ms: i64, to_ms: i64, tz: &TimeZone) -> (i64, i64) {
    if name == "previous" {
        return (before(from_ms, to_ms, tz), from_ms);
    }
    let a_year_before = |ms: i64| {
        let local = at(ms).to_zoned(tz.clone()).datetime();
        let date = local.date();
        let day = if (date.month(), date.day()) == (2, 29) {
            28
        } else {
            date.day()
        };
        let date = jiff::civil::date(date.year() - 1, date.month(), day);
        if first_instant(local.date(), tz) == ms {
            return first_instant(date, tz);
        }
        let zoned = date.to_datetime(local.time()).to_zoned(tz.clone()).unwrap();
        zoned.timestamp().as_millisecond()
    };
    let (start_ms, end_ms) = (a_year_before(from_ms), a_year_before(to_ms));
    (
        start_ms,
        if start_ms < end_ms {
            end_ms
        } else {
            start_ms + (to_ms - from_ms)
        },
    )
}

/// Begin of the period before `[from_ms, to_ms)`, which ends at `from_ms`: as many months
/// before if both are starts of months, as many days if they are starts of days, and else the same
/// time.
fn before(from_ms: i64, to_ms: i64, tz: &TimeZone) -> i64 {
    let begun = |ms: i64| {
        let date = at(ms).to_zoned(tz.clone()).date();
        (first_instant(date, tz) == ms).then_some(date)
    };
    let (Some(first), Some(end)) = (begun(from_ms), begun(to_ms)) else {
        return from_ms - (to_ms - from_ms);
    };
    let mut start = first;
    if first.day() == 1 && end.day() == 1 {
        let mut counted = first;
        while counted < end {
            counted = counted.last_of_month().tomorrow().unwrap();
            start = start.yesterday().unwrap().first_of_month();
        }
    } else {
        let mut counted = first;
        while counted < end {
            counted = counted.tomorrow().unwrap();
            start = start.yesterday().unwrap();
        }
    }
    first_instant(start, tz)
}

/// Instants at which the zone's offset changes, within the years 2024 to 2026.
pub(crate) fn changes(tz: &TimeZone) -> Vec<i64> {
    let (mut ms, end_ms) = (
        milliseconds("2024-01-01T00:00:00Z"),
        milliseconds("2027-01-01T00:00:00Z"),
    );
    let mut found = Vec::new();
    let mut current = tz.to_offset(at(ms));
    while ms < end_ms {
        let next = tz.to_offset(at(ms));
        if next != current {
            found.push(ms);
            current = next;
        }
        ms += QUARTER_MS;
    }
    found
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

pub(crate) fn milliseconds(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// RFC 3339 with milliseconds and `Z`.
pub(crate) fn utc_text(ms: i64) -> String {
    let local = at(ms).to_zoned(TimeZone::UTC).datetime();
    format!("{}Z", clock_text(local, ms))
}

/// RFC 3339 with milliseconds and the zone's offset.
pub(crate) fn local_text(ms: i64, tz: &TimeZone) -> String {
    let zoned = at(ms).to_zoned(tz.clone());
    let seconds = zoned.offset().seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    let clock = clock_text(zoned.datetime(), ms);
    format!("{clock}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn clock_text(local: jiff::civil::DateTime, ms: i64) -> String {
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second(),
        ms.rem_euclid(1_000)
    )
}
