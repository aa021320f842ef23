//! `X-Request-Id`: the client's own if it is harmless, else a UUIDv7.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// The header, in requests and in every response.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id taken from a client, in bytes.
pub const BYTES_MAX: usize = 64;

/// The id of one request: 1 to 64 visible ASCII characters without quotes or backslash, so that it can stand in
/// log lines, JSON and headers as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The request's own id, or a new one if it has none or none that can be taken.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        match headers.get(HEADER) {
            Some(value) if is_harmless(value.as_bytes()) => Self(value.clone()),
            _ => Self::new(),
        }
    }

    /// A new one: a UUIDv7, which sorts by time.
    #[must_use]
    pub fn new() -> Self {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = Uuid::now_v7().hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none")))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// As the value of [`HEADER`].
    #[must_use]
    pub fn header_value(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

fn is_harmless(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn of(value: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
        RequestId::of(&headers)
    }

    #[test]
    fn a_harmless_id_is_kept() {
        let longest = "x".repeat(64);
        for id in ["a", "req-1/2:3", longest.as_str(), "<b>&{}"] {
            assert_eq!(of(id.as_bytes()).as_str(), id);
        }
    }

    #[test]
    fn anything_else_is_replaced() {
        let too_long = "x".repeat(65);
        for id in [
            "",
            "two words",
            "tab\there",
            "quo\"te",
            "quo'te",
            "back\\slash",
            "gr\u{fc}n",
            too_long.as_str(),
        ] {
            let replaced = of(id.as_bytes());
            assert_eq!(Uuid::parse_str(replaced.as_str()).unwrap().get_version_num(), 7, "{id}");
        }
        assert_ne!(RequestId::of(&HeaderMap::new()), RequestId::of(&HeaderMap::new()));
    }
}
