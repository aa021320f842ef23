//! Positions in the analytics API's lists: receipts, rejections, payloads and rankings.

use uuid::Uuid;

use crate::{in_time, json, payload_hash};

/// The longest cursor of a list, in bytes. A client's in a ranking by name needs 800.
pub const LIST_CURSOR_BYTES_MAX: usize = 1_024;

/// A receipt's position in a list of receipts, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptListPosition {
    /// `timestamp`, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
}

impl ReceiptListPosition {
    /// Formats the position.
    #[must_use]
    pub fn to_text(&self) -> String {
        json::to_text(&(self.timestamp_ms, self.receipt_id, hex::encode(self.payload_hash)))
    }

    /// Parses a position; `None` for any text that isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (timestamp_ms, receipt_id, hash): (i64, Uuid, String) = json::parse(text, LIST_CURSOR_BYTES_MAX)?;
        Some(Self {
            timestamp_ms: in_time(timestamp_ms)?,
            receipt_id,
            payload_hash: payload_hash(&hash)?,
        })
    }
}

/// A rejected receipt's position in a list of them, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionPosition {
    /// Arrival at the gateway, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// Position in the log `receipts`.
    pub position: u128,
}

impl RejectionPosition {
    /// Formats the position.
    #[must_use]
    pub fn to_text(&self) -> String {
        json::to_text(&(self.received_at_ms, self.position.to_string()))
    }

    /// Parses a position; `None` for any text that isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (received_at_ms, position): (i64, String) = json::parse(text, LIST_CURSOR_BYTES_MAX)?;
        Some(Self {
            received_at_ms: in_time(received_at_ms)?,
            position: position.parse().ok()?,
        })
    }
}

/// A payload's position in the list of the payloads of a receipt's ID, proven ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadPosition {
    /// Whether the payload is unproven.
    pub is_unproven: bool,
    /// The payload's first position in the log `receipts`.
    pub first_position: u128,
}

impl PayloadPosition {
    /// Formats the position.
    #[must_use]
    pub fn to_text(&self) -> String {
        json::to_text(&(self.is_unproven, self.first_position.to_string()))
    }

    /// Parses a position; `None` for any text that isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_unproven, position): (bool, String) = json::parse(text, LIST_CURSOR_BYTES_MAX)?;
        Some(Self {
            is_unproven,
            first_position: position.parse().ok()?,
        })
    }
}

/// A row's position in a ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankingListPosition {
    /// The order of the ranking, as the API calls it.
    pub sort: String,
    /// The number that is sorted by.
    pub value: i64,
    /// The text that orders rows with one number, in hexadecimal.
    pub tie: String,
}

impl RankingListPosition {
    /// Formats the position.
    #[must_use]
    pub fn to_text(&self) -> String {
        json::to_text(&(&self.sort, self.value, &self.tie))
    }

    /// Parses a position; `None` for any text that isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sort, value, tie): (String, i64, String) = json::parse(text, LIST_CURSOR_BYTES_MAX)?;
        let is_name = sort.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        let is_hexadecimal = tie.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_name && is_hexadecimal).then_some(Self { sort, value, tie })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn positions_are_parsed_as_they_were_formatted() {
        let receipt = ReceiptListPosition {
            timestamp_ms: 1_800_000_000_000,
            receipt_id: Uuid::from_u128(2),
            payload_hash: [7; 32],
        };
        assert_eq!(ReceiptListPosition::parse(&receipt.to_text()), Some(receipt));
        let rejection = RejectionPosition {
            received_at_ms: -1,
            position: u128::MAX,
        };
        assert_eq!(RejectionPosition::parse(&rejection.to_text()), Some(rejection));
        assert_eq!(ReceiptListPosition::parse(&rejection.to_text()), None);
        let payload = PayloadPosition {
            is_unproven: true,
            first_position: u128::MAX,
        };
        assert_eq!(PayloadPosition::parse(&payload.to_text()), Some(payload));
        assert_eq!(PayloadPosition::parse(&rejection.to_text()), None);
        let ranking = RankingListPosition {
            sort: "-receiptCount".to_owned(),
            value: i64::MIN,
            tie: "00ff".to_owned(),
        };
        assert_eq!(RankingListPosition::parse(&ranking.to_text()), Some(ranking.clone()));
        assert_eq!(PayloadPosition::parse(&ranking.to_text()), None);
        assert_eq!(RankingListPosition::parse(&receipt.to_text()), None);
    }

    #[test]
    fn other_texts_are_no_positions() {
        let (id, hash) = (Uuid::nil(), "00".repeat(32));
        for text in [
            "nonsense".to_owned(),
            "W10".to_owned(),
            "a".repeat(LIST_CURSOR_BYTES_MAX + 1),
            json::to_text(&json!([i64::MAX, id, hash])),
            json::to_text(&json!([1, id, hash, 1])),
            json::to_text(&json!([1, id, "00"])),
            json::to_text(&json!([1, "-1"])),
            json::to_text(&json!([1, 1])),
            json::to_text(&json!([true, "-1"])),
            json::to_text(&json!(["name", 0, "0F"])),
            json::to_text(&json!(["\"", 0, "0f"])),
            json::to_text(&json!(["name", 0.5, "0f"])),
        ] {
            assert_eq!(ReceiptListPosition::parse(&text), None, "{text}");
            assert_eq!(RejectionPosition::parse(&text), None, "{text}");
            assert_eq!(PayloadPosition::parse(&text), None, "{text}");
            assert_eq!(RankingListPosition::parse(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_harm(
            text in "\\PC{0,60}",
            members in "\\[-?[0-9]{1,19},\"[-0-9a-f]{36}\",\"[0-9a-f]{62,66}\"\\]",
        ) {
            for text in [text, base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, members)] {
                if let Some(position) = ReceiptListPosition::parse(&text) {
                    prop_assert_eq!(ReceiptListPosition::parse(&position.to_text()), Some(position));
                }
            }
        }
    }
}
