//! Times in answers.

use jiff::Timestamp;

/// RFC 3339 UTC with milliseconds, the form of every time in an answer.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// [`rfc3339`] of milliseconds since the Unix epoch, as the engines speak; a number outside the calendar is answered as the
/// epoch.
#[must_use]
pub fn rfc3339_ms(at_ms: i64) -> String {
    rfc3339(Timestamp::from_millisecond(at_ms).unwrap_or_default())
}
