//! Timestamps: RFC 3339 with up to nine fractional digits, read at fixed positions.

/// The most digits of a fraction: nanoseconds.
const FRACTION_DIGITS_MAX: usize = 9;

/// Unix milliseconds of `YYYY-MM-DDTHH:MM:SS`, up to nine digits of a fraction behind a dot, and
/// `Z` or `+HH:MM` or `-HH:MM`. What is smaller than a millisecond is cut off.
///
/// Stricter than RFC 3339 section 5.6: `T` and `Z` in capitals, no leap second. `None` for anything
/// else, days that a month doesn't have included.
pub fn timestamp_millis(text: &str) -> Option<i64> {
    let (head, rest) = text.as_bytes().split_first_chunk::<19>()?;
    let (milli, zone) = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=FRACTION_DIGITS_MAX).contains(&digits) {
                return None;
            }
            let (fraction, zone) = rest.split_at(digits);
            let milli = (0..3).try_fold(0, |sum, index| {
                Some(sum * 10 + digit(*fraction.get(index).unwrap_or(&b'0'))?)
            });
            (milli?, zone)
        }
        zone => (0, zone),
    };
    let offset_minutes = match *zone {
        [b'Z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = hours * 60 + minutes;
            if sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        o1,
        o2,
        b'-',
        d1,
        d2,
        b'T',
        h1,
        h2,
        b':',
        m1,
        m2,
        b':',
        s1,
        s2,
    ] = *head
    else {
        return None;
    };
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let (month, day) = (two(o1, o2)?, two(d1, d2)?);
    let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let minutes = days_since_epoch(year, month, day) * 1_440 + hour * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1_000 + milli)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`,
/// years from 0).
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::timestamp_millis;
    use proptest::prelude::*;

    #[test]
    fn reads_instants() {
        assert_eq!(timestamp_millis("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(timestamp_millis("2024-02-29T23:59:59.999Z"), Some(1_709_251_199_999));
        assert_eq!(
            timestamp_millis("2024-03-01T01:29:59.999+01:30"),
            Some(1_709_251_199_999)
        );
        assert_eq!(
            timestamp_millis("2024-02-29T18:59:59.999-05:00"),
            Some(1_709_251_199_999)
        );
        assert_eq!(timestamp_millis("1969-12-31T23:59:59.999-00:00"), Some(-1));
        // Go, Python and Java write as many digits as there are.
        for (fraction, milli) in [
            ("", 0),
            (".5", 500),
            (".25", 250),
            (".1239", 123),
            (".123456", 123),
            (".999999999", 999),
            (".000000001", 0),
        ] {
            let text = format!("2024-03-01T01:29:59{fraction}+01:30");
            assert_eq!(timestamp_millis(&text), Some(1_709_251_199_000 + milli), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.+00:00",
            "2024-01-01T00:00:00.0000000000Z",
            "2024-01-01T00:00:00.000",
            "2024-01-01T00:00Z",
            "2024-01-01T00:00:00.000z",
            "2024-01-01t00:00:00.000Z",
            "2024-01-01 00:00:00.000Z",
            "2024-01-01T00:00:00,000Z",
            "2024-01-01T00:00:00.000+0100",
            "2024-01-01T00:00:00.000+24:00",
            "2024-01-01T00:00:00.000+01:60",
            "2024-01-01T00:00:00.000Z ",
            " 2024-01-01T00:00:00.000Z",
            "2024-00-01T00:00:00.000Z",
            "2024-13-01T00:00:00.000Z",
            "2024-01-00T00:00:00.000Z",
            "2024-01-32T00:00:00.000Z",
            "2024-04-31T00:00:00.000Z",
            "2023-02-29T00:00:00.000Z",
            "1900-02-29T00:00:00.000Z",
            "2024-01-01T24:00:00.000Z",
            "2024-01-01T00:60:00.000Z",
            "2016-12-31T23:59:60.000Z",
            "+024-01-01T00:00:00.000Z",
            "2024-01-01T00:00:00.00\u{663}Z",
        ] {
            assert_eq!(timestamp_millis(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_jiff(
            year in 0_i16..=9999, month in 0_i8..=13, day in 0_i8..=32, hour in 0_i8..=24, minute in 0_i8..=60,
            second in 0_i8..=59, nano in 0_i32..=999_999_999, digits in 1_usize..=9, offset in -1439_i32..=1439,
        ) {
            let fraction = &format!("{nano:09}")[..digits];
            let (sign, o) = (if offset < 0 { '-' } else { '+' }, offset.abs());
            let text = format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction}{sign}{:02}:{:02}", o / 60, o % 60
            );
            let ours = timestamp_millis(&text);
            let milli = format!("{fraction:0<3}")[..3].parse::<i64>().unwrap();
            let civil = jiff::civil::DateTime::new(year, month, day, hour, minute, second, 0);
            let theirs = civil.ok().map(|civil| {
                let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_millisecond() + milli;
                utc - i64::from(offset) * 60_000
            });
            prop_assert_eq!(ours, theirs, "{}", text);
            if let (Some(ours), Ok(theirs)) = (ours, text.parse::<jiff::Timestamp>()) {
                prop_assert_eq!(i128::from(ours), theirs.as_nanosecond().div_euclid(1_000_000));
            }
        }
    }
}
