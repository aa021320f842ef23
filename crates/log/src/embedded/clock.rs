//! The log's one clock.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since the Unix epoch that never fall, not even when the system's clock is set back
/// or the log is opened again. Append times and watermarks come from the same clock, so they
/// compare.
#[derive(Debug)]
pub(super) struct LogClock {
    latest_ms: AtomicI64,
}

impl LogClock {
    /// A clock that starts no earlier than `floor_ms`.
    pub(super) fn new(floor_ms: i64) -> Self {
        Self {
            latest_ms: AtomicI64::new(floor_ms),
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        let now_ms = system_ms();
        self.latest_ms.fetch_max(now_ms, Ordering::SeqCst).max(now_ms)
    }
}

fn system_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_falls_behind_its_floor() {
        let ahead_ms = system_ms() + 3_600_000;
        let clock = LogClock::new(ahead_ms);
        assert_eq!(clock.now_ms(), ahead_ms);
        assert!(LogClock::new(0).now_ms() < ahead_ms);
    }
}
