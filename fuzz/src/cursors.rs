//! Cursors of the HTTP APIs on any text. A parsed cursor is formatted and parsed again: it must be
//! the same. Most texts aren't base64url, so each text is tried in base64url too.

use std::fmt::Debug;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cursors::{
    EXPORT_CURSOR_BYTES_MAX, EventId, ExportPosition, LIST_CURSOR_BYTES_MAX, LOG_PARTITIONS_MAX, LogPositions,
    PayloadPosition, RankingListPosition, ReceiptListPosition, RejectionPosition, STREAM_OFFSET_MAX,
};

fn check<T: Debug + PartialEq>(text: &str, parse: fn(&str) -> Option<T>, format: fn(&T) -> String) -> Option<String> {
    let cursor = parse(text)?;
    let formatted = format(&cursor);
    assert_eq!(parse(&formatted).as_ref(), Some(&cursor), "{text}");
    Some(formatted)
}

fn all(text: &str) {
    for formatted in [
        check(text, ReceiptListPosition::parse, ReceiptListPosition::to_text),
        check(text, RejectionPosition::parse, RejectionPosition::to_text),
        check(text, RankingListPosition::parse, RankingListPosition::to_text),
        check(text, PayloadPosition::parse, PayloadPosition::to_text),
    ] {
        assert!(formatted.is_none_or(|text| text.len() <= LIST_CURSOR_BYTES_MAX));
    }
    // Escapes can make an export's text longer than the one that was read, up to the limit.
    if let Some(position) = ExportPosition::parse(text) {
        let formatted = position.to_text();
        if formatted.len() <= EXPORT_CURSOR_BYTES_MAX {
            assert_eq!(ExportPosition::parse(&formatted), Some(position), "{text}");
        }
    }
    if let Some(positions) = LogPositions::parse(text) {
        assert!(positions.0.len() <= LOG_PARTITIONS_MAX);
        assert_eq!(LogPositions::parse(&positions.to_text()), Some(positions), "{text}");
    }
    if let EventId::Positions(positions) = EventId::parse(text) {
        assert!(positions.0.values().all(|(_, offset)| *offset <= STREAM_OFFSET_MAX));
        assert_eq!(
            EventId::parse(&positions.to_text()),
            EventId::Positions(positions),
            "{text}"
        );
    }
}

/// Checks one input.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        all(text);
    }
    all(&URL_SAFE_NO_PAD.encode(data));
}
