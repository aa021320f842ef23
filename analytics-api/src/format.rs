//! Which media type an answer has: JSON, or CSV where the endpoint has a table (RFC 9110 section 12.5.1).

use http::{HeaderMap, header};
use service::problem::Kind;

use web::Failure;

/// What an answer can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `text/csv` (RFC 4180), with a header line.
    Csv,
}

impl Format {
    fn media(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application", "json"),
            Self::Csv => ("text", "csv"),
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

/// One media range; quality in thousandths.
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

/// A table as CSV: lines end in CRLF, cells with commas, quotes or line breaks are quoted.
#[derive(Debug)]
pub struct Csv {
    text: String,
}

impl Csv {
    /// With this header line.
    #[must_use]
    pub fn new(columns: &[&str]) -> Self {
        let mut csv = Self { text: String::new() };
        csv.row(columns);
        csv
    }

    /// Adds a line.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.cell(cell.as_ref());
        }
        self.text.push_str("\r\n");
    }

    /// Texts of strangers end up in spreadsheets: what a spreadsheet would run as a formula gets an apostrophe before it.
    fn cell(&mut self, cell: &str) {
        let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let quoted = formula || cell.contains([',', '"', '\r', '\n']);
        if !quoted {
            return self.text.push_str(cell);
        }
        self.text.push('"');
        if formula {
            self.text.push('\'');
        }
        self.text.push_str(&cell.replace('"', "\"\""));
        self.text.push('"');
    }

    /// The whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn accept_decides() {
        let both = [Format::Json, Format::Csv];
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
            ("text/html,application/xhtml+xml,*/*;q=0.8", Some(Format::Json)),
            ("image/png", None),
            ("application/json;q=0", None),
        ] {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(Format::of(&headers, &both).ok(), expected, "{accept}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, "text/csv".parse().unwrap());
        let refused = Format::of(&headers, &[Format::Json]).unwrap_err();
        assert_eq!(refused.0.kind, Kind::NotAcceptable);
        assert_eq!(refused.0.detail, "this address answers application/json");
    }

    #[test]
    fn cells_are_quoted_and_formulas_defused() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.row(&["plain", "with, comma and \"quotes\""]);
        csv.row(&["=1+1", "two\r\nlines"]);
        assert_eq!(
            csv.into_text(),
            "a,b\r\nplain,\"with, comma and \"\"quotes\"\"\"\r\n\"'=1+1\",\"two\r\nlines\"\r\n"
        );
    }
}
