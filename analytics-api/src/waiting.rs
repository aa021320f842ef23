//! Requests that wait for the outcome of a receipt: `Prefer: wait=N` (RFC 7240).
//!
//! A request that waits queries again only after the writers have published new progress. That is
//! read once for all requests (`watermark`), so waiting costs at most one query a second.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use warehouse::StreamPosition;
use web::shares::{FairPermit, FairSemaphore};

use crate::watermark::Watermark;

/// The longest wait, in seconds; a longer preference is shortened to it.
pub(crate) const WAIT_S_MAX: u32 = 30;

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The preference that an answer follows.
pub(crate) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Pauses between two looks at the writers' progress: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The preferred wait in seconds, at most [`WAIT_S_MAX`]. Preferences that can't be read are
/// ignored (RFC 7240 section 2).
pub(crate) fn preferred_wait_s(headers: &HeaderMap) -> Option<u32> {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split(','));
    preferences.find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let is_wait = name.trim().eq_ignore_ascii_case("wait");
        let wait_s: u32 = value.trim().trim_matches('"').parse().ok().filter(|_| is_wait)?;
        Some(wait_s.min(WAIT_S_MAX))
    })
}

/// Places of requests that wait.
pub(crate) struct WaitingRequests {
    permits: FairSemaphore,
    closing: CancellationToken,
}

/// Permission to wait until the deadline.
pub(crate) struct Wait<'a> {
    wait_s: u32,
    deadline: Instant,
    pause: Duration,
    closing: &'a CancellationToken,
    _permit: FairPermit<'a>,
}

impl WaitingRequests {
    /// At most `waiting_max` requests wait, and none any more after `closing`.
    pub(crate) fn new(waiting_max: usize, closing: CancellationToken) -> Self {
        Self {
            permits: FairSemaphore::new(waiting_max),
            closing,
        }
    }

    /// The wait that a request of an account, or of a part of it, prefers; `None` without a
    /// preference, and where no permit is free: a preference may be ignored.
    pub(crate) fn begin(&self, path: &[&str], headers: &HeaderMap) -> Option<Wait<'_>> {
        let wait_s = preferred_wait_s(headers)?;
        let permit = self.permits.take(path).ok()?;
        Some(Wait {
            wait_s,
            deadline: Instant::now() + Duration::from_secs(u64::from(wait_s)),
            pause: PAUSE_MIN,
            closing: &self.closing,
            _permit: permit,
        })
    }
}

impl Wait<'_> {
    /// `Preference-Applied`.
    pub(crate) fn applied(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&format!("wait={}", self.wait_s)).ok()
    }

    /// Waits until the writers have published more than the progress `before`; `false` once the
    /// wait is over.
    pub(crate) async fn for_progress(&mut self, watermark: &Watermark, before: &StreamPosition) -> bool {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.closing.is_cancelled() {
                return false;
            }
            tokio::select! {
                () = sleep(self.pause.min(left)) => {}
                () = self.closing.cancelled() => {}
            }
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            match watermark.read().await {
                Ok(reading) if StreamPosition::new(&reading.shards) == *before => {}
                Ok(_) => return true,
                // The answer before was true when it was made.
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn preferred(values: &[&str]) -> Option<u32> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, value.parse().unwrap());
        }
        preferred_wait_s(&headers)
    }

    #[test]
    fn preferences_are_those_of_rfc_7240() {
        for (values, wait_s) in [
            (&[][..], None),
            (&["wait=5"], Some(5)),
            (&["Wait = \"7\"; strict"], Some(7)),
            (&["respond-async, wait=10"], Some(10)),
            (&["handling=lenient", "wait=0"], Some(0)),
            (&["wait=31"], Some(30)),
            (&["wait=4294967295"], Some(30)),
            (&["wait"], None),
            (&["wait=soon"], None),
            (&["wait=-1"], None),
            (&["awaits=3"], None),
        ] {
            assert_eq!(preferred(values), wait_s, "{values:?}");
        }
    }

    /// Keys cost nothing, and an address can have many.
    #[test]
    fn an_address_with_many_keys_leaves_permits_to_others() {
        let waiting = WaitingRequests::new(64, CancellationToken::new());
        let mut headers = HeaderMap::new();
        headers.insert(PREFER, "wait=30".parse().unwrap());
        let begin = |path: &[&str]| waiting.begin(path, &headers);
        let keys: Vec<String> = (0..200).map(|key| format!("key {key}")).collect();
        let held: Vec<_> = (0..2_000)
            .filter_map(|nth| begin(&["senders", "address 1", &keys[nth % keys.len()]]))
            .collect();
        assert_eq!(held.len(), 16);
        assert!(begin(&["senders", "address 2", "unknown"]).is_some());
        assert!(begin(&["account"]).is_some());
        drop(held);
        let unknown: Vec<_> = (0..200)
            .filter_map(|_| begin(&["senders", "address 1", "unknown"]))
            .collect();
        assert_eq!(unknown.len(), 8);
        assert!(begin(&["senders", "address 1", "key 1"]).is_some());
    }
}
