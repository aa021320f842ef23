#![allow(clippy::unwrap_used)]

use jiff::civil::date;
use proptest::prelude::*;

use super::*;

const MAX: usize = 10_000;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The lengths of all points, in minutes.
fn minutes(interval: Interval, tz: &str, from: &str, to: &str) -> Vec<i64> {
    let tz = zone(tz);
    let start = |text: &str| start_of(text.parse().unwrap(), &tz).unwrap();
    let found = boundaries(interval, &tz, start(from), start(to), MAX).unwrap();
    found
        .windows(2)
        .map(|pair| (pair[1].as_second() - pair[0].as_second()) / 60)
        .collect()
}

/// Local clock at each boundary.
fn clock(interval: Interval, tz: &str, from: &str, to: &str) -> Vec<String> {
    let tz = zone(tz);
    let found = boundaries(interval, &tz, at(from), at(to), MAX).unwrap();
    found
        .iter()
        .map(|b| b.to_zoned(tz.clone()).strftime("%d %H:%M%:z").to_string())
        .collect()
}

#[test]
fn days_are_as_long_as_the_clock_makes_them() {
    let h = 60;
    assert_eq!(
        minutes(Interval::Day, "Europe/Berlin", "2024-03-30", "2024-04-02"),
        [24 * h, 23 * h, 24 * h]
    );
    assert_eq!(
        minutes(Interval::Day, "Europe/Berlin", "2024-10-26", "2024-10-29"),
        [24 * h, 25 * h, 24 * h]
    );
    assert_eq!(
        minutes(Interval::Day, "America/New_York", "2024-03-09", "2024-03-12"),
        [24 * h, 23 * h, 24 * h]
    );
    assert_eq!(
        minutes(Interval::Day, "America/New_York", "2024-11-02", "2024-11-05"),
        [24 * h, 25 * h, 24 * h]
    );
    assert_eq!(
        minutes(Interval::Day, "Australia/Lord_Howe", "2024-04-06", "2024-04-08"),
        [24 * h, 24 * h + 30]
    );
    assert_eq!(
        minutes(Interval::Day, "Australia/Lord_Howe", "2024-10-05", "2024-10-07"),
        [24 * h, 23 * h + 30]
    );
    assert_eq!(
        minutes(Interval::Week, "Europe/Berlin", "2024-03-25", "2024-04-08"),
        [7 * 24 * h - h, 7 * 24 * h]
    );
}

#[test]
fn hours_around_a_change_of_offset() {
    // Forward: 02:00 does not exist. Back: 02:00 exists twice, as two points.
    assert_eq!(
        clock(
            Interval::Hour,
            "Europe/Berlin",
            "2024-03-31T00:00:00Z",
            "2024-03-31T02:00:00Z"
        ),
        ["31 01:00+01:00", "31 03:00+02:00", "31 04:00+02:00"]
    );
    assert_eq!(
        clock(
            Interval::Hour,
            "Europe/Berlin",
            "2024-10-26T23:00:00Z",
            "2024-10-27T02:00:00Z"
        ),
        ["27 01:00+02:00", "27 02:00+02:00", "27 02:00+01:00", "27 03:00+01:00"]
    );
    // By half an hour: the change itself is a boundary, so that no point is longer than an hour.
    assert_eq!(
        clock(
            Interval::Hour,
            "Australia/Lord_Howe",
            "2024-04-06T14:00:00Z",
            "2024-04-06T16:30:00Z"
        ),
        ["07 01:00+11:00", "07 01:30+10:30", "07 02:00+10:30", "07 03:00+10:30"]
    );
    assert_eq!(
        clock(
            Interval::Hour,
            "Australia/Lord_Howe",
            "2024-10-05T14:30:00Z",
            "2024-10-05T17:00:00Z"
        ),
        ["06 01:00+10:30", "06 02:30+11:00", "06 03:00+11:00", "06 04:00+11:00"]
    );
    assert_eq!(
        minutes(Interval::Hour, "America/New_York", "2024-03-10", "2024-03-11").len(),
        23
    );
    assert_eq!(
        minutes(Interval::Hour, "America/New_York", "2024-11-03", "2024-11-04").len(),
        25
    );
}

#[test]
fn hours_of_half_hour_zones_follow_the_local_clock() {
    assert_eq!(
        clock(
            Interval::Hour,
            "Asia/Kolkata",
            "2024-05-01T00:00:00Z",
            "2024-05-01T01:45:00Z"
        ),
        ["01 05:30+05:30", "01 06:00+05:30", "01 07:00+05:30", "01 07:15+05:30"]
    );
    assert_eq!(
        clock(
            Interval::Hour,
            "Asia/Kathmandu",
            "2024-05-01T00:00:00Z",
            "2024-05-01T01:15:00Z"
        ),
        ["01 05:45+05:45", "01 06:00+05:45", "01 07:00+05:45"]
    );
}

#[test]
fn months_and_leap_years() {
    let d = 24 * 60;
    assert_eq!(
        minutes(Interval::Month, "UTC", "2024-01-01", "2024-05-01"),
        [31 * d, 29 * d, 31 * d, 30 * d]
    );
    assert_eq!(minutes(Interval::Month, "UTC", "2023-02-01", "2023-03-01"), [28 * d]);
    // A range that starts on the 31st continues at the 1st, not on some other 31st.
    assert_eq!(
        minutes(Interval::Month, "UTC", "2024-01-31", "2024-03-02"),
        [d, 29 * d, d]
    );
    assert_eq!(
        minutes(Interval::Month, "Europe/Berlin", "2024-03-01", "2024-04-01"),
        [31 * d - 60]
    );
}

#[test]
fn weeks_start_on_monday() {
    // 2024-12-30 is the Monday of ISO week 1 of 2025; 2025-01-05 its Sunday.
    let tz = zone("America/New_York");
    let from = start_of(date(2024, 12, 27), &tz).unwrap();
    let to = start_of(date(2025, 1, 7), &tz).unwrap();
    let found = boundaries(Interval::Week, &tz, from, to, MAX).unwrap();
    let dates: Vec<_> = found.iter().map(|b| b.to_zoned(tz.clone()).date()).collect();
    assert_eq!(
        dates,
        [
            date(2024, 12, 27),
            date(2024, 12, 30),
            date(2025, 1, 6),
            date(2025, 1, 7)
        ]
    );
}

#[test]
fn strange_midnights() {
    // Samoa skipped 2011-12-30 whole.
    assert_eq!(
        minutes(Interval::Day, "Pacific/Apia", "2011-12-29", "2012-01-01"),
        [24 * 60, 24 * 60]
    );
    // Newfoundland put its clocks back at 00:01, to 23:01 of the day before: that hour stays with
    // the new day.
    let days = minutes(Interval::Day, "America/St_Johns", "2010-11-06", "2010-11-08");
    assert_eq!(days, [24 * 60, 25 * 60]);
    let inside = clock(
        Interval::Day,
        "America/St_Johns",
        "2010-11-07T03:00:00Z",
        "2010-11-08T03:30:00Z",
    );
    assert_eq!(
        inside.len(),
        2,
        "a range that starts in the repeated hour goes on: {inside:?}"
    );
    // Toronto went from 23:30 to 00:30: the first instant of the 31st is half past midnight.
    let half = 23 * 60 + 30;
    assert_eq!(
        minutes(Interval::Day, "America/Toronto", "1919-03-30", "1919-04-01"),
        [half, half]
    );
    // Lebanon starts summer at midnight.
    assert_eq!(
        minutes(Interval::Day, "Asia/Beirut", "2024-03-31", "2024-04-01"),
        [23 * 60]
    );
}

#[test]
fn a_change_within_an_hour_splits_it() {
    // Newfoundland, 00:01 back to 23:01: a minute of the 7th, the rest of the 6th once more, and
    // the 7th again.
    assert_eq!(
        clock(
            Interval::Hour,
            "America/St_Johns",
            "2010-11-07T01:30:00Z",
            "2010-11-07T04:30:00Z"
        ),
        [
            "06 23:00-02:30",
            "07 00:00-02:30",
            "06 23:01-03:30",
            "07 00:00-03:30",
            "07 01:00-03:30"
        ]
    );
}

#[test]
fn the_number_of_points_is_bounded() {
    let (from, to) = (at("2024-01-01T00:00:00Z"), at("2024-01-02T00:00:00Z"));
    assert_eq!(
        boundaries(Interval::Hour, &TimeZone::UTC, from, to, 24).unwrap().len(),
        25
    );
    assert_eq!(
        boundaries(Interval::Hour, &TimeZone::UTC, from, to, 23),
        Err(BucketError::TooMany { points_max: 23 })
    );
}

#[test]
fn recent_ranges_are_whole_intervals() {
    let now = at("2024-03-31T12:34:56Z");
    for interval in INTERVALS {
        for name in ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            let tz = zone(name);
            let points = interval.default_points();
            let (from, to) = recent(interval, &tz, now, points).unwrap();
            assert!(from < now && now < to);
            let found = boundaries(interval, &tz, from, to, MAX).unwrap();
            // Hours and minutes are counted back in real time, where a half-hour change makes a
            // point more.
            assert!(
                (points..=points + 1).contains(&(found.len() - 1)),
                "{name} {interval:?}: {}",
                found.len()
            );
        }
    }
    let (from, to) = recent(Interval::Month, &zone("Europe/Berlin"), now, 12).unwrap();
    assert_eq!((from, to), (at("2023-03-31T22:00:00Z"), at("2024-03-31T22:00:00Z")));
}

fn zones() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "America/St_Johns",
        "Pacific/Apia",
        "America/Havana",
        "America/Sao_Paulo",
        "Africa/Casablanca",
        "Asia/Beirut",
        "Antarctica/Troll",
    ])
}

proptest! {
    /// No gap, no overlap, ends exactly where asked, and every inner boundary is where the local
    /// clock or calendar turns, or its offset changes.
    #[test]
    fn boundaries_tile_the_range(
        name in zones(),
        interval in prop::sample::select(INTERVALS.to_vec()),
        from_ms in 0_i64..2_500_000_000_000,
        share in 0.001_f64..300.0,
        before_change_s in prop::option::of(0_i64..200_000),
    ) {
        let tz = zone(name);
        let mut from = Timestamp::from_millisecond(from_ms).unwrap();
        // Half of the ranges begin shortly before a change of offset, where the mistakes are.
        if let Some(before_s) = before_change_s
            && let Some(change) = tz.following(from).next()
        {
            from = change.timestamp().checked_sub(SignedDuration::from_secs(before_s)).unwrap();
        }
        let from_ms = from.as_millisecond();
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let length_ms = (interval.usual_seconds() as f64 * 1_000.0 * share) as i64;
        let to = Timestamp::from_millisecond(from_ms + length_ms.max(1)).unwrap();
        let found = boundaries(interval, &tz, from, to, MAX).unwrap();
        prop_assert_eq!(found[0], from);
        prop_assert_eq!(*found.last().unwrap(), to);
        for pair in found.windows(2) {
            prop_assert!(pair[0] < pair[1]);
        }
        for inner in &found[1..found.len() - 1] {
            let local = inner.to_zoned(tz.clone());
            let before = inner.checked_sub(SignedDuration::from_millis(1)).unwrap().to_zoned(tz.clone());
            match interval {
                Interval::Minute => prop_assert!(local.second() == 0 || local.offset() != before.offset()),
                Interval::Hour => prop_assert!(
                    (local.minute(), local.second()) == (0, 0) || local.offset() != before.offset()
                ),
                Interval::Day => prop_assert!(local.date() > before.date()),
                Interval::Week => {
                    prop_assert!(local.date() > before.date());
                    // A zone that skips its Monday starts the week on what comes next.
                    prop_assert!(local.weekday() == Weekday::Monday || name == "Pacific/Apia");
                }
                Interval::Month => {
                    prop_assert!(local.date() > before.date());
                    prop_assert_eq!(local.day(), 1);
                }
            }
        }
        if interval <= Interval::Hour {
            for pair in found.windows(2) {
                let last = pair[1].checked_sub(SignedDuration::from_millis(1)).unwrap();
                prop_assert_eq!(tz.to_offset(pair[0]), tz.to_offset(last));
            }
        }
        // No boundary is missing: no point holds two intervals.
        for pair in found.windows(2) {
            let length_s = pair[1].as_second() - pair[0].as_second();
            let longest_s = match interval {
                Interval::Minute | Interval::Hour => interval.usual_seconds(),
                Interval::Day | Interval::Week => interval.usual_seconds() + 3 * 3_600,
                Interval::Month => 31 * 86_400 + 3 * 3_600,
            };
            prop_assert!(length_s <= longest_s, "{} s", length_s);
        }
    }
}
