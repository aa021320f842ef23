//! Bytes of strangers as text for a terminal: nothing in them may move the cursor, change colours
//! or turn the text around.

use std::fmt::Write as _;

use crate::terminal::{is_hidden, visible};

/// Text shown of one body, in bytes.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// A body for reading: JSON indented, other text as it is, other bytes escaped; only the beginning
/// of a long one.
#[must_use]
pub fn body(bytes: &[u8]) -> String {
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    let mut text = match std::str::from_utf8(bytes) {
        Ok(text) if is_json => indented(text),
        Ok(text) => text.lines().map(visible).collect::<Vec<_>>().join("\n"),
        Err(_) => bytes
            .iter()
            .take(SHOWN_BYTES_MAX + 1)
            .copied()
            .flat_map(std::ascii::escape_default)
            .map(char::from)
            .collect(),
    };
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or_default());
        text.push_str("\n... cut here; --raw writes all of it");
    }
    text
}

/// JSON with its members and numbers as they stand, only the white space between them rewritten.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    let mut tokens = json.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = tokens.next() {
        if in_string {
            if is_hidden(c) {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            } else {
                out.push(c);
            }
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            _ if c.is_ascii_whitespace() => {}
            '{' | '[' => {
                out.push(c);
                while tokens.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(close) = tokens.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}

/// `1 thing`, `2 things`.
#[must_use]
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_otherwise_left_alone() {
        let text = r#"{"z":1.50,"a":[ ],"b":{"c":"x,{\"\\"} , "d":[1e2,null]}"#;
        let shown = body(text.as_bytes());
        let expected = r#"{
  "z": 1.50,
  "a": [],
  "b": {
    "c": "x,{\"\\"
  },
  "d": [
    1e2,
    null
  ]
}"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn nothing_reaches_the_terminal_that_could_move_it() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\n"), "a\\u{1b}[2J\\u{202e}b\\u{a}");
        assert_eq!(body("\"\u{202e}\u{9b}x\"".as_bytes()), "\"\\u202e\\u009bx\"");
        assert_eq!(body(b"not json \x1b[31m\nsecond"), "not json \\u{1b}[31m\nsecond");
        assert_eq!(body(b"\xff\x00\x1b"), "\\xff\\x00\\x1b");
    }

    #[test]
    fn a_long_body_is_cut() {
        for long in [vec![0xff; 1 << 20], "ä".repeat(1 << 19).into_bytes()] {
            let shown = body(&long);
            assert!(shown.len() < SHOWN_BYTES_MAX + 100 && shown.ends_with("--raw writes all of it"));
        }
    }
}
