//! `X-Request-Id`: the client's own if it is harmless, else a UUIDv7.

use std::cell::Cell;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::{Builder, Uuid};

use crate::instant::now_ms;

/// The header, in requests and in every response.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id taken from a client, in bytes.
pub const BYTES_MAX: usize = 64;

/// The id of one request: 1 to 64 visible ASCII characters without quotes or backslash, so that it
/// can be in log lines, JSON and headers as it is.
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

    /// A new one: a UUIDv7, which sorts by time to the millisecond.
    #[must_use]
    pub fn new() -> Self {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let now_ms = u64::try_from(now_ms()).unwrap_or(0);
        let id = Builder::from_unix_timestamp_millis(now_ms, &random_bytes()).into_uuid();
        let text = id.hyphenated().encode_lower(&mut text);
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

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Ids have to differ, not to be unguessable: a generator for each thread, seeded by the system
/// once, spares every request a system call.
fn random_bytes() -> [u8; 10] {
    let mut bytes = [0; 10];
    let mut state = STATE.get().unwrap_or_else(|| {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        high.rotate_left(32) ^ low
    });
    for part in bytes.chunks_mut(8) {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        part.copy_from_slice(&mixed.to_le_bytes()[..part.len()]);
    }
    STATE.set(Some(state));
    bytes
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
    fn a_harmless_id_is_retained() {
        let longest = "x".repeat(64);
        for id in ["a", "req-1/2:3", longest.as_str(), "<b>&{}"] {
            assert_eq!(of(id.as_bytes()).as_str(), id);
        }
    }

    #[test]
    fn new_ids_differ_on_one_thread_and_on_many() {
        let some = || {
            (0..1_000)
                .map(|_| RequestId::new().as_str().to_owned())
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let mut all = some();
        all.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 5_000);
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
