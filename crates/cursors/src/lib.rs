//! Cursors of the HTTP APIs: positions as texts in base64url, which clients hand back.
//!
//! A cursor says where a list continues. The API key or signature decides what is listed, so a
//! cursor needs no signature of its own: an invented one lists the same rows from another position
//! on. Parsers accept any text without a panic, and formatting a parsed cursor gives an equal one.
//! The fuzz target `cursors` checks both.

mod export;
mod json;
mod list;
mod log;
mod stream;

pub use export::{EXPORT_CURSOR_BYTES_MAX, ExportPosition, PrecedingRow};
pub use list::{LIST_CURSOR_BYTES_MAX, PayloadPosition, RankingListPosition, ReceiptListPosition, RejectionPosition};
pub use log::{LOG_CURSOR_BYTES_MAX, LOG_PARTITIONS_MAX, LogPositions};
pub use stream::{EventId, STREAM_OFFSET_MAX, StreamPositions};

/// Instants that the warehouse can hold: 1900 to 2299, in milliseconds since the Unix epoch.
fn in_time(at_ms: i64) -> Option<i64> {
    (-2_208_988_800_000..=10_413_791_999_999)
        .contains(&at_ms)
        .then_some(at_ms)
}

fn payload_hash(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}
