//! Instants and ranges of a query string.

use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use web::params::{InvalidQuery, Params, shortened};

/// An instant in milliseconds since the Unix epoch: RFC 3339, or a date, which is that day's first
/// instant in UTC.
pub(super) fn instant(params: &Params, name: &str) -> Result<Option<i64>, InvalidQuery> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let date = |text: &str| text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    let found = match text.len() {
        10 => date(text).map(|start| start.timestamp()),
        // An unescaped + arrives as a space.
        _ => text.replace(' ', "+").parse::<Timestamp>().ok(),
    };
    let invalid = || {
        let detail = format!("\"{}\" is no time as 2026-01-31T12:00:00Z, nor a date", shortened(text));
        InvalidQuery::new(name, detail)
    };
    found.map(Timestamp::as_millisecond).map(Some).ok_or_else(invalid)
}

/// From `from` to before `to`, either of which may be left out; `None` without both.
pub(super) fn range(params: &Params) -> Result<Option<Range<i64>>, InvalidQuery> {
    let (from, to) = (instant(params, "from")?, instant(params, "to")?);
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let range = from.unwrap_or(i64::MIN)..to.unwrap_or(i64::MAX);
    if range.is_empty() {
        return Err(InvalidQuery::new("to", "must be after from; to is exclusive"));
    }
    Ok(Some(range))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ranges_are_read() {
        let read = |query: &str| {
            let params = Params::parse(&format!("/x?{query}").parse().unwrap(), &["from", "to"]).unwrap();
            range(&params)
        };
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("from=1970-01-02").unwrap(), Some(86_400_000..i64::MAX));
        assert_eq!(read("to=1970-01-01T01:00:00%2B01:00").unwrap(), Some(i64::MIN..0));
        assert_eq!(read("to=1970-01-01T01:00:00+01:00").unwrap(), Some(i64::MIN..0));
        for (query, parameter) in [
            ("from=yesterday", "from"),
            ("from=2026-02-30", "from"),
            ("to=2026-02-01T00:00:00", "to"),
            ("from=2026-02-01&to=2026-02-01", "to"),
        ] {
            assert_eq!(read(query).unwrap_err().parameter, parameter, "{query}");
        }
    }
}
