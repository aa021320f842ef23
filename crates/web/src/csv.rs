//! Cells of CSV (RFC 4180) that spreadsheets show and don't run: their texts are strangers'.
//!
//! Quoting is a part of that: the `csv` crate leaves semicolons and tabs unquoted, behind which a
//! spreadsheet may begin another cell, and defusing would still be ours. The text can be had back
//! from its cell (docs/analytics.md, "Formats").

use std::borrow::Cow;

/// The byte order mark in UTF-8.
pub const BOM: &[u8] = "\u{feff}".as_bytes();

/// Characters that a spreadsheet takes for the beginning of a formula; the last four are the
/// full-width forms of the others.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
/// Separators behind which a spreadsheet that doesn't read quotes as RFC 4180 has them, or
/// separates by something else, begins a cell.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
/// White space at whose beginning a spreadsheet may begin a formula.
const LINES: [char; 3] = ['\t', '\r', '\n'];

/// Characters that a spreadsheet may pass over before a formula, those without a width too.
fn is_passed_over(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '"' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}')
}

/// Whether a terminal or an editor would act on a character: control characters but for those of
/// lines, and characters that override or isolate the direction of writing, or begin a line.
/// Joiners and marks of direction are letters of some scripts.
fn is_hidden(c: char) -> bool {
    (c.is_control() && !LINES.contains(&c))
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}')
}

/// Whether an apostrophe is put before `text`, where a cell could begin: it is a formula, with any
/// apostrophes before it.
fn begins_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA)
}

/// `text` as a cell: quoted where that is needed, hidden characters and backslashes as escapes, and
/// with an apostrophe before whatever could be run as a formula (OWASP, CSV injection), at the
/// beginning or behind a separator.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let is_plain = !text.contains(SEPARATORS)
        && !text.contains([',', '"', '\\'])
        && !text.contains(is_hidden)
        && !begins_formula(text.trim_start_matches(is_passed_over));
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut cell = String::with_capacity(text.len() + 8);
    cell.push('"');
    // Tabs and line ends begin formulas at a cell's very beginning too.
    let words = text.trim_start_matches('\'').trim_start_matches(is_passed_over);
    if words.starts_with(LINES) {
        cell.push('\'');
    }
    let mut fresh = true;
    for (at, char) in text.char_indices() {
        if fresh && begins_formula(&text[at..]) {
            cell.push('\'');
        }
        fresh = SEPARATORS.contains(&char) || fresh && is_passed_over(char);
        match char {
            '"' => cell.push_str("\"\""),
            '\\' => cell.push_str("\\\\"),
            _ if is_hidden(char) => cell.extend(char.escape_unicode()),
            _ => cell.push(char),
        }
    }
    cell.push('"');
    Cow::Owned(cell)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text of a cell, by the rules of docs/analytics.md.
    fn text_of(cell: &str) -> String {
        let quoted = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
        let cell = quoted.map_or_else(|| cell.to_owned(), |cell| cell.replace("\"\"", "\""));
        let words = cell.trim_start_matches('\'').trim_start_matches(is_passed_over);
        let mut rest = match cell.strip_prefix('\'') {
            Some(rest) if words.starts_with(LINES) => rest,
            _ => cell.as_str(),
        };
        let (mut text, mut fresh) = (String::new(), true);
        while let Some(char) = rest.chars().next() {
            if fresh && char == '\'' && begins_formula(rest) {
                fresh = false;
                rest = &rest[1..];
                continue;
            }
            fresh = SEPARATORS.contains(&char) || fresh && is_passed_over(char);
            let (char, length) = match rest.strip_prefix("\\u{").and_then(|hex| hex.split_once('}')) {
                Some((hex, _)) => {
                    let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                    (code.unwrap_or_default(), hex.len() + 4)
                }
                None if char == '\\' => ('\\', 2),
                None => (char, char.len_utf8()),
            };
            text.push(char);
            rest = &rest[length..];
        }
        text
    }

    proptest! {
        /// Else two texts would have one cell.
        #[test]
        fn a_text_can_be_had_back_from_its_cell(text in "([ '=+\\-;\t\r\n\"\\\\u{}0-9a\u{1}\u{200b}\u{202e}\u{feff}]|\\PC){0,12}") {
            prop_assert_eq!(text_of(&cell(&text)), text);
        }
    }

    #[test]
    fn joiners_and_marks_of_direction_are_letters() {
        for text in [
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94d}\u{200d}\u{937}",
            "\u{dc1}\u{dca}\u{200d}\u{dbb}\u{dd3}",
            "\u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{200f}!",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f466}",
            "a\u{200b}b\u{200e}c\u{2060}d\u{ad}e\u{61c}f",
        ] {
            assert_eq!(cell(text), text);
        }
    }

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
            ("a\\u{1b}\\b", "\"a\\\\u{1b}\\\\b\""),
            ("x\u{200c}\u{2066}\u{85}", "\"x\u{200c}\\u{2066}\\u{85}\""),
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
            ("\u{200e}=1", "\"\u{200e}'=1\""),
            ("'=1", "\"''=1\""),
            ("'tis", "'tis"),
            ("\u{ff1d}x", "\"'\u{ff1d}x\""),
            ("\tx", "\"'\tx\""),
            (" \rx", "\"' \rx\""),
            ("\nx", "\"'\nx\""),
            ("x;=1", "\"x;'=1\""),
            ("x; \u{ff0b}1", "\"x; '\u{ff0b}1\""),
            ("x;\"=1\"", "\"x;\"\"'=1\"\"\""),
            ("x\t-1", "\"x\t'-1\""),
            ("x\r\n@y\n=z", "\"x\r\n'@y\n'=z\""),
            ("x\r\n'=y", "\"x\r\n''=y\""),
            ("'\tx", "\"''\tx\""),
        ] {
            assert_eq!(cell(text), written, "{text:?}");
        }
    }
}
