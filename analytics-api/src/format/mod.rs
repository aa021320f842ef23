//! Media types of answers (RFC 9110 section 12.5.1), and their encoding.
//!
//! - [`table`]: rows as CSV or as lines of JSON
//! - `etag`: tag of an answer, and whether the client has it
//! - `reply`: the whole answer of an endpoint

pub(crate) mod etag;
pub(crate) mod reply;
pub mod table;

use http::{HeaderMap, HeaderValue, header};
use service::problem::Kind;

use web::Failure;
use web::params::Params;

use crate::parameters::FORMAT;

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `text/csv` (RFC 4180), with a header line.
    Csv,
    /// `application/x-ndjson`: one JSON object a line.
    Ndjson,
}

/// Formats that every endpoint of numbers offers.
pub const ALL: [Format; 3] = [Format::Json, Format::Csv, Format::Ndjson];

impl Format {
    /// `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
        })
    }

    /// Name in the query string, and of a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    fn media(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application", "json"),
            Self::Csv => ("text", "csv"),
            Self::Ndjson => ("application", "x-ndjson"),
        }
    }

    /// The format that `format` of the query names, or else that `Accept` decides for, among all.
    ///
    /// # Errors
    /// 400 for another name; 406 if `Accept` has none of them.
    pub(crate) fn wanted(headers: &HeaderMap, params: &Params) -> Result<Self, Failure> {
        match params.choice(FORMAT.name, &ALL.map(|format| (format.name(), format)))? {
            Some(format) => Ok(format),
            None => Self::of(headers, &ALL),
        }
    }

    /// The one of `offered`, best first, that `Accept` likes most; the first without an `Accept`.
    ///
    /// # Errors
    /// 406 if it accepts none of them.
    pub fn of(headers: &HeaderMap, offered: &[Format]) -> Result<Self, Failure> {
        let ranges: Vec<Range> = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(ranges)
            .collect();
        if ranges.is_empty() {
            return offered.first().copied().ok_or_else(|| not_acceptable(offered));
        }
        let mut best = None;
        for format in offered {
            let quality = quality(&ranges, *format);
            if quality > best.map_or(0, |(q, _)| q) {
                best = Some((quality, *format));
            }
        }
        best.map(|(_, format)| format).ok_or_else(|| not_acceptable(offered))
    }
}

fn not_acceptable(offered: &[Format]) -> Failure {
    let names: Vec<String> = offered
        .iter()
        .map(|f| format!("{}/{}", f.media().0, f.media().1))
        .collect();
    Failure::new(
        Kind::NotAcceptable,
        format!("this address answers {}", names.join(" or ")),
    )
}

/// A media range; quality in thousandths.
struct Range {
    kind: String,
    subtype: String,
    quality: u32,
}

/// The quality of the most specific range that matches.
fn quality(ranges: &[Range], format: Format) -> u32 {
    let (kind, subtype) = format.media();
    let specificity = |range: &Range| match (range.kind.as_str(), range.subtype.as_str()) {
        (k, s) if k == kind && s == subtype => Some(2),
        (k, "*") if k == kind => Some(1),
        ("*", "*") => Some(0),
        _ => None,
    };
    ranges
        .iter()
        .filter_map(|range| specificity(range).map(|s| (s, range.quality)))
        .max_by_key(|(s, _)| *s)
        .map_or(0, |(_, quality)| quality)
}

/// The ranges of one header line; what isn't one is passed over.
fn ranges(line: &str) -> Vec<Range> {
    line.split(',').take(64).filter_map(range).collect()
}

fn range(text: &str) -> Option<Range> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let quality = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(Some(1_000), |(_, value)| thousandths(value.trim()))?;
    Some(Range {
        kind: kind.to_ascii_lowercase(),
        subtype: subtype.to_ascii_lowercase(),
        quality,
    })
}

/// `0.8` as 800 (RFC 9110 section 12.4.2: at most three decimals, at most 1).
fn thousandths(value: &str) -> Option<u32> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let whole: u32 = whole.parse().ok()?;
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths = whole
        .checked_mul(1_000)?
        .checked_add(format!("{fraction:0<3}").parse().ok()?)?;
    (thousandths <= 1_000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn accept_decides() {
        for (accept, expected) in [
            ("", Some(Format::Json)),
            ("*/*", Some(Format::Json)),
            ("application/json", Some(Format::Json)),
            ("text/csv", Some(Format::Csv)),
            ("Text/CSV; charset=utf-8", Some(Format::Csv)),
            ("text/*", Some(Format::Csv)),
            ("application/json;q=0.5, text/csv", Some(Format::Csv)),
            ("application/json;q=0.5, text/csv;q=0.4", Some(Format::Json)),
            ("text/csv;q=0, */*", Some(Format::Json)),
            ("application/json;q=0, */*;q=0.1", Some(Format::Csv)),
            ("application/x-ndjson", Some(Format::Ndjson)),
            ("application/x-ndjson, text/csv;q=0.9", Some(Format::Ndjson)),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Some(Format::Json)),
            ("image/png", None),
            ("application/json;q=0", None),
            ("application/ndjson", None),
        ] {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(Format::of(&headers, &ALL).ok(), expected, "{accept}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, "text/csv".parse().unwrap());
        let refused = Format::of(&headers, &[Format::Json]).unwrap_err();
        assert_eq!(refused.0.kind, Kind::NotAcceptable);
        assert_eq!(refused.0.detail, "this address answers application/json");
    }
}
