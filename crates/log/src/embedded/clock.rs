//! The log's one clock.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Largest step back of the system's clock that is hidden: NTP corrects by less.
const HIDDEN_STEP_MS_MAX: i64 = 5_000;

/// Milliseconds since the Unix epoch. Append times and watermarks come from the same clock, so they
/// compare.
///
/// The clock stops while the system's clock is set back by up to [`HIDDEN_STEP_MS_MAX`], also
/// between two lives of the log. A larger step shows that the clock was wrong before: it is
/// followed, because stopping would stamp records with that wrong time until it comes.
#[derive(Debug)]
pub(super) struct LogClock {
    latest_ms: AtomicI64,
}

impl LogClock {
    /// A clock that continues behind `newest_ms`, the newest record's.
    pub(super) fn new(newest_ms: i64) -> Self {
        let clock = Self {
            latest_ms: AtomicI64::new(newest_ms),
        };
        let ahead_ms = newest_ms - system_ms();
        if ahead_ms > HIDDEN_STEP_MS_MAX {
            tracing::warn!(
                ahead_ms,
                "the log's newest record is later than the clock: it was stored by a clock that was ahead, or this one \
                 is behind; check NTP"
            );
        }
        clock
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.at(system_ms())
    }

    fn at(&self, system_ms: i64) -> i64 {
        let next_ms = |latest_ms: i64| match latest_ms - system_ms {
            0..=HIDDEN_STEP_MS_MAX => latest_ms,
            _ => system_ms,
        };
        let advance = |latest_ms| Some(next_ms(latest_ms));
        let before = self.latest_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance);
        before.map_or(system_ms, next_ms)
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
    fn a_small_step_back_stops_the_clock_and_a_large_one_is_followed() {
        let clock = LogClock::new(0);
        let times = [10_000, 9_000, 5_000, 10_001, 86_410_000, 10_002, 10_001];
        let shown = times.map(|system_ms| clock.at(system_ms));
        assert_eq!(shown, [10_000, 10_000, 10_000, 10_001, 86_410_000, 10_002, 10_002]);
    }

    #[test]
    fn a_log_opened_again_follows_the_clock_unless_the_step_is_small() {
        let newest_ms = 1_000_000;
        assert_eq!(LogClock::new(newest_ms).at(newest_ms - HIDDEN_STEP_MS_MAX), newest_ms);
        let later = newest_ms - HIDDEN_STEP_MS_MAX - 1;
        assert_eq!(LogClock::new(newest_ms).at(later), later);
    }
}
