//! Instants: milliseconds since the Unix epoch, and their RFC 3339 text in UTC with milliseconds.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Source of the time, in milliseconds since the Unix epoch.
pub(crate) type UnixClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// Largest difference between the clocks of two processes, or of one before and after a correction,
/// that isn't taken for a wrong clock.
pub const CLOCKS_APART_MS_MAX: i64 = 5_000;

/// Now, in milliseconds since the Unix epoch.
#[must_use]
pub fn now_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// `2026-07-01T12:00:00.000Z`. An instant outside years -9999 to 9999 becomes the nearest one
/// inside.
#[must_use]
pub fn rfc3339_ms(at_ms: i64) -> String {
    let nearest = if at_ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(nearest);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_three_decimals_and_z() {
        assert_eq!(rfc3339_ms(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339_ms(1_782_907_200_007), "2026-07-01T12:00:00.007Z");
        assert_eq!(rfc3339_ms(-1), "1969-12-31T23:59:59.999Z");
        assert!(rfc3339_ms(i64::MAX).starts_with("9999-12-30") || rfc3339_ms(i64::MAX).starts_with("9999-12-31"));
    }

    #[test]
    fn now_is_of_this_century() {
        assert!((1_700_000_000_000..4_200_000_000_000).contains(&now_ms()));
    }
}
