//! Times in answers.

use jiff::Timestamp;
pub use service::instant::rfc3339_ms;

/// RFC 3339 UTC with milliseconds, the form of every time in an answer.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}
