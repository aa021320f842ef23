//! Cells of CSV (RFC 4180) that spreadsheets show and don't run: their texts are strangers'.
//!
//! Quoting is a part of that: the `csv` crate leaves semicolons and tabs unquoted, behind which a
//! spreadsheet may begin another cell, and defusing would still be ours.

use std::borrow::Cow;

/// Characters that a spreadsheet takes for the beginning of a formula; the last four are the
/// full-width forms of the others.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
/// Separators behind which a spreadsheet that doesn't read quotes as RFC 4180 has them, or
/// separates by something else, begins a cell.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
/// Characters that a spreadsheet may pass over before a formula.
const PASSED_OVER: [char; 3] = [' ', '\u{a0}', '"'];

/// Whether a terminal or an editor would act on a character: control characters but for those of
/// lines, and marks that change the direction of writing.
fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\r' | '\n'))
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `text` as a cell: quoted where that is needed, hidden characters as escapes, and with an
/// apostrophe before whatever could be run as a formula (OWASP, CSV injection), at the beginning or
/// behind a separator.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let quoted = text.contains(SEPARATORS) || text.contains([',', '"']);
    let start = text.trim_start_matches(PASSED_OVER);
    if !quoted && !start.starts_with(FORMULA) && !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut cell = String::with_capacity(text.len() + 8);
    cell.push('"');
    // Tabs and line ends begin formulas at a cell's very beginning too.
    if start.starts_with(['\t', '\r', '\n']) {
        cell.push('\'');
    }
    let mut fresh = true;
    for char in text.chars() {
        if fresh && FORMULA.contains(&char) {
            cell.push('\'');
        }
        fresh = SEPARATORS.contains(&char) || fresh && PASSED_OVER.contains(&char);
        if char == '"' {
            cell.push('"');
        }
        if is_hidden(char) {
            cell.extend(char.escape_unicode());
        } else {
            cell.push(char);
        }
    }
    cell.push('"');
    Cow::Owned(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_needed() {
        for (text, written) in [
            ("", ""),
            ("plain", "plain"),
            ("a-b@c.example/?x=1+1", "a-b@c.example/?x=1+1"),
            ("a, b", "\"a, b\""),
            ("a;b", "\"a;b\""),
            ("say \"hi\"\r\n", "\"say \"\"hi\"\"\r\n\""),
            ("a\u{1b}[2J\u{202e}b", "\"a\\u{1b}[2J\\u{202e}b\""),
            ("\u{feff}=1", "\"\\u{feff}=1\""),
        ] {
            assert_eq!(cell(text), written);
        }
    }

    #[test]
    fn formulas_are_defused_wherever_a_cell_could_begin() {
        for (text, written) in [
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@sum", "\"'@sum\""),
            ("  \u{a0}@x", "\"  \u{a0}'@x\""),
            ("\u{ff1d}x", "\"'\u{ff1d}x\""),
            ("\tx", "\"'\tx\""),
            (" \rx", "\"' \rx\""),
            ("\nx", "\"'\nx\""),
            ("x;=1", "\"x;'=1\""),
            ("x; \u{ff0b}1", "\"x; '\u{ff0b}1\""),
            ("x;\"=1\"", "\"x;\"\"'=1\"\"\""),
            ("x\t-1", "\"x\t'-1\""),
            ("x\r\n@y\n=z", "\"x\r\n'@y\n'=z\""),
            ("x\r\n'=y", "\"x\r\n'=y\""),
        ] {
            assert_eq!(cell(text), written, "{text:?}");
        }
    }
}
