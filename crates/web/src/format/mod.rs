//! Formats of answers: media types (RFC 9110 section 12.5.1), and rows.
//!
//! - [`table`]: rows as CSV, lines of JSON or Parquet; [`column`]: their columns
//! - `parquet`: rows as a Parquet file

pub mod column;
mod parquet;
pub mod table;

use http::{HeaderMap, HeaderValue, header};
use service::problem::Kind;

use self::table::RowFormat;
use crate::Failure;
use crate::params::Params;

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `text/csv` (RFC 4180), with a header line.
    Csv,
    /// `application/x-ndjson`: one JSON object a line.
    Ndjson,
    /// `application/vnd.apache.parquet`.
    Parquet,
}

/// Formats that every endpoint of numbers offers.
pub const ALL: [Format; 4] = [Format::Json, Format::Csv, Format::Ndjson, Format::Parquet];

impl Format {
    /// `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            other => other.media(),
        })
    }

    /// Name in the query string, and of a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
        }
    }

    /// Media type, without parameters.
    #[must_use]
    pub fn media(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv",
            Self::Ndjson => "application/x-ndjson",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// Form of the rows, of which CSV may begin with a byte order mark; `None` for JSON, which has
    /// an object.
    #[must_use]
    pub fn rows(self, bom: bool) -> Option<RowFormat> {
        match self {
            Self::Json => None,
            Self::Csv => Some(RowFormat::Csv { bom }),
            Self::Ndjson => Some(RowFormat::Ndjson),
            Self::Parquet => Some(RowFormat::Parquet),
        }
    }

    /// `Content-Type`, and of rows `Content-Disposition`: a file with this name and the format's
    /// ending.
    #[must_use]
    pub fn file(self, name: &str) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, self.content_type())]);
        let disposition = format!("attachment; filename=\"{name}.{}\"", self.name());
        if self != Self::Json
            && let Ok(disposition) = HeaderValue::from_str(&disposition)
        {
            headers.insert(header::CONTENT_DISPOSITION, disposition);
        }
        headers
    }

    /// The format that `format` of the query names, or else that `Accept` decides for, among all.
    ///
    /// # Errors
    /// 400 for another name; 406 if `Accept` has none of them.
    pub fn wanted(headers: &HeaderMap, params: &Params) -> Result<Self, Failure> {
        match params.choice("format", &ALL.map(|format| (format.name(), format)))? {
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

/// Name of a file of rows, with the range as the query has it:
/// `content-from-2026-11-01-to-2026-12-01`.
#[must_use]
pub fn file_name(rows: &str, params: &Params) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let mut name: String = rows.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    for end in ["from", "to"] {
        let Some(instant) = params.get(end) else { continue };
        // As 2026-11-01T000000+0100: file systems have other uses for colons.
        let instant = instant.chars().filter(|c| is_plain(*c) || "-+. ".contains(*c));
        name.extend(["-", end, "-"]);
        name.extend(instant.map(|c| if c == ' ' { '+' } else { c }));
    }
    name
}

fn not_acceptable(offered: &[Format]) -> Failure {
    let names: Vec<&str> = offered.iter().map(|format| format.media()).collect();
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
    let (kind, subtype) = format.media().split_once('/').unwrap_or_default();
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
            ("application/vnd.apache.parquet", Some(Format::Parquet)),
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

    #[test]
    fn files_are_named_by_rows_and_range() {
        for (rows, query, expected) in [
            ("dashboard", "", "dashboard"),
            (
                "content/a-1",
                "from=2026-11-01&to=2026-12-01",
                "content-a-1-from-2026-11-01-to-2026-12-01",
            ),
            (
                "clients",
                "to=2026-12-01T00:00:00%2B01:00",
                "clients-to-2026-12-01T000000+0100",
            ),
            (
                "clients",
                "from=2026-12-01T00:00:00.5+01:00",
                "clients-from-2026-12-01T000000.5+0100",
            ),
            ("\"\r\n", "from=%22%0D%0A%2F..%5C", "----from-.."),
        ] {
            let uri = format!("/x?{query}").parse().unwrap();
            let params = Params::parse(&uri, &["from", "to"]).unwrap();
            assert_eq!(file_name(rows, &params), expected);
        }
    }
}
