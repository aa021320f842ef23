//! Entity tags (RFC 9110 section 8.8.3): whether a client that asks again has what it would get.
//!
//! A tag is over the numbers, not over `completeThrough`, which moves all the time. CSV and lines
//! of JSON have that in a header only, so their tags are strong; JSON has it among its members, so
//! its tags are weak: what they distinguish is the numbers, not each byte.

use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

use super::Format;

/// The tag of an answer whose bytes, but for `completeThrough`, are these.
pub(crate) fn tag(format: Format, incomplete: bool, bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    hash.update([u8::from(incomplete)]);
    hash.update(bytes);
    let mut tag = match format {
        Format::Json => "W/\"".to_owned(),
        Format::Csv | Format::Ndjson => "\"".to_owned(),
    };
    for byte in hash.finalize().iter().take(16) {
        // Writing into a String can't fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

/// Whether `If-None-Match` names `tag`, by weak comparison (RFC 9110 section 13.1.2).
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let wanted = opaque(tag);
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value: &HeaderValue| value.to_str().ok())
        .flat_map(|value| value.split(','))
        // Our tags have no comma in them, so one that is cut at a comma is none of ours.
        .any(|one| one.trim() == "*" || opaque(one) == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tags_follow_the_bytes() {
        let one = tag(Format::Csv, false, b"a");
        assert_eq!(one, tag(Format::Csv, false, b"a"));
        assert_eq!((one.len(), one.starts_with('"')), (34, true));
        assert_ne!(one, tag(Format::Csv, false, b"b"));
        assert_ne!(one, tag(Format::Csv, true, b"a"));
        assert!(tag(Format::Json, false, b"a").starts_with("W/\""));
    }

    #[test]
    fn known_tags_are_compared_weakly() {
        let ours = "W/\"0f\"";
        let known = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_NONE_MATCH, value.parse().unwrap());
            }
            is_known(&headers, ours)
        };
        for yes in [
            &["\"0f\""][..],
            &["W/\"0f\""],
            &["\"a\", W/\"0f\""],
            &["\"a\"", " \"0f\" "],
            &["*"],
        ] {
            assert!(known(yes), "{yes:?}");
        }
        for no in [&[][..], &["\"0e\""], &["0f"], &["w/\"0f\""], &[""]] {
            assert!(!known(no), "{no:?}");
        }
    }
}
