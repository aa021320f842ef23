//! JSON strings: escapes undone, compared by UTF-16 code units, and written canonically.
//!
//! Everything here takes the text between the quotes of a string that the scanner has accepted.

use std::cmp::Ordering;

/// A piece of a string: literal text or one decoded escape.
enum StringPiece<'a> {
    Literal(&'a str),
    Escape(char),
}

/// The pieces of an accepted string.
struct StringPieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for StringPieces<'a> {
    type Item = StringPiece<'a>;

    fn next(&mut self) -> Option<StringPiece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match memchr::memchr(b'\\', self.rest.as_bytes()) {
            Some(0) => {
                let (c, length) = escape(self.rest);
                self.rest = &self.rest[length..];
                Some(StringPiece::Escape(c))
            }
            found => {
                let (literal, rest) = self.rest.split_at(found.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(StringPiece::Literal(literal))
            }
        }
    }
}

/// The character that the escape at the start of `text` represents, and the escape's length.
fn escape(text: &str) -> (char, usize) {
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'u') => {
            let high = hex4(bytes.get(2..6)).unwrap_or(0xFFFD);
            if (0xD800..0xDC00).contains(&high) {
                // The scanner has seen the other half follow.
                let low = hex4(bytes.get(8..12)).unwrap_or(0xDC00);
                let code = 0x10000 + ((u32::from(high) - 0xD800) << 10) + (u32::from(low).wrapping_sub(0xDC00) & 0x3FF);
                (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
            } else {
                (
                    char::from_u32(u32::from(high)).unwrap_or(char::REPLACEMENT_CHARACTER),
                    6,
                )
            }
        }
        Some(&other) => (char::from(other), 2),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

/// Four hexadecimal digits.
pub(crate) fn hex4(digits: Option<&[u8]>) -> Option<u16> {
    let digits: &[u8; 4] = digits?.try_into().ok()?;
    digits
        .iter()
        .try_fold(0_u16, |value, &digit| Some(value << 4 | u16::from(hex_digit(digit)?)))
}

/// Value of a hexadecimal digit.
pub(crate) const fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The string that an accepted string's text represents.
pub(crate) fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    unescape_onto(&mut out, inner);
    out
}

/// Appends what [`unescape`] returns.
pub(crate) fn unescape_onto(out: &mut String, inner: &str) {
    for piece in (StringPieces { rest: inner }) {
        match piece {
            StringPiece::Literal(text) => out.push_str(text),
            StringPiece::Escape(c) => out.push(c),
        }
    }
}

/// Number of bytes that [`unescape`] would make.
pub(crate) fn unescaped_len(inner: &str) -> usize {
    StringPieces { rest: inner }
        .map(|piece| match piece {
            StringPiece::Literal(text) => text.len(),
            StringPiece::Escape(c) => c.len_utf8(),
        })
        .sum()
}

/// Two decoded strings by UTF-16 code units.
///
/// UTF-8 compares like code points. UTF-16 differs from that in one thing: what is beyond U+FFFF
/// (lead bytes F0 to F4) is written with surrogates, and so comes before U+E000 to U+FFFF (lead
/// bytes EE and EF).
pub(crate) fn compare_utf16(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| match byte {
        0xEE | 0xEF => byte + 5,
        0xF0..=0xF4 => byte - 2,
        _ => byte,
    };
    let differ = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    differ.map_or_else(|| a.len().cmp(&b.len()), |(a, b)| rank(a).cmp(&rank(b)))
}

/// Whether the escape at the start of `bytes` is the one that RFC 8785 section 3.2.2.2 writes.
pub(crate) fn escape_is_canonical(bytes: &[u8]) -> bool {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => true,
        Some(b'u') => match bytes.get(2..6) {
            Some(&[b'0', b'0', sixteens @ (b'0' | b'1'), ones @ (b'0'..=b'9' | b'a'..=b'f')]) => {
                sixteens == b'1' || !matches!(ones, b'8' | b'9' | b'a' | b'c' | b'd')
            }
            _ => false,
        },
        _ => false,
    }
}

/// Appends the canonical form of an accepted string's text, quotes included.
pub(crate) fn write_canonical(out: &mut Vec<u8>, inner: &str) {
    out.push(b'"');
    for piece in (StringPieces { rest: inner }) {
        match piece {
            StringPiece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            StringPiece::Escape(c) => write_char(out, c),
        }
    }
    out.push(b'"');
}

/// Appends any string canonically, quotes included (RFC 8785 section 3.2.2.2).
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        write_char(out, c);
    }
    out.push(b'"');
}

fn write_char(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b'"',
        '\\' => b'\\',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\0'..='\u{1f}' => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let code = c as usize;
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[code >> 4], DIGITS[code & 15]]);
            return;
        }
        c => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::compare_utf16;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn compares_like_code_units(
            a in "[a\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{f8ff}\u{ffff}\u{10000}\u{1f600}\u{40000}\u{10ffff}]{0,3}",
            b in "[a\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{f8ff}\u{ffff}\u{10000}\u{1f600}\u{40000}\u{10ffff}]{0,3}",
        ) {
            prop_assert_eq!(compare_utf16(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
        }
    }
}
