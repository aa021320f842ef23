//! Requests that took long say so in the log, with where the time went.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Milliseconds; the whole process has one, as it has one log. 0 logs none.
static SLOW_MS: AtomicU64 = AtomicU64::new(1_000);

/// From when on a request is slow.
pub(super) fn set(slow_ms: u64) {
    SLOW_MS.store(slow_ms, Ordering::Relaxed);
}

/// Whether a request that took so long is to say where the time went.
#[must_use]
pub fn is_slow(took: Duration) -> bool {
    let slow_ms = SLOW_MS.load(Ordering::Relaxed);
    slow_ms > 0 && took >= Duration::from_millis(slow_ms)
}
