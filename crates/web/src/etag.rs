//! Entity tags (RFC 9110 section 8.8.3): whether a client already has an answer.

use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

/// The strong tag of an answer of these bytes.
#[must_use]
pub fn strong(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    format!("\"{}\"", hex::encode(&hash[..16]))
}

/// Whether `If-None-Match` names `tag`, by weak comparison (RFC 9110 section 13.1.2).
#[must_use]
pub fn is_current(headers: &HeaderMap, tag: &str) -> bool {
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
    fn strong_tags_follow_the_bytes() {
        assert_eq!(strong(b"a"), strong(b"a"));
        assert_ne!(strong(b"a"), strong(b"b"));
        assert_eq!((strong(b"a").len(), strong(b"a").starts_with('"')), (34, true));
    }

    #[test]
    fn known_tags_are_compared_weakly() {
        let ours = "W/\"0f\"";
        let current = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_NONE_MATCH, value.parse().unwrap());
            }
            is_current(&headers, ours)
        };
        for yes in [
            &["\"0f\""][..],
            &["W/\"0f\""],
            &["\"a\", W/\"0f\""],
            &["\"a\"", " \"0f\" "],
            &["*"],
        ] {
            assert!(current(yes), "{yes:?}");
        }
        for no in [&[][..], &["\"0e\""], &["0f"], &["w/\"0f\""], &[""]] {
            assert!(!current(no), "{no:?}");
        }
    }
}
