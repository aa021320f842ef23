//! A place in a list, as text to be handed back. It says where, never whose: that is the API key's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use warehouse::{NewestCursor, RefusalCursor};
use web::params::{InvalidQuery, Params};

use crate::parameters::CURSOR_BYTES_MAX;

/// The years that the warehouse knows: 1900 to 2299, in milliseconds since the Unix epoch.
const TIMES_MS: std::ops::RangeInclusive<i64> = -2_208_988_800_000..=10_413_791_999_999;

/// A place that can be written down.
pub(crate) trait Place: Sized {
    /// What is written.
    type Text: Serialize + DeserializeOwned;

    /// As it is written.
    fn text(&self) -> Self::Text;

    /// What was written; nothing if it can't be a place.
    fn of(text: Self::Text) -> Option<Self>;

    /// The text of this place: JSON in base64url.
    fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::json!(self.text()).to_string())
    }

    /// The place that the parameter `cursor` names.
    ///
    /// # Errors
    /// Any text that isn't a place's.
    fn read(params: &Params) -> Result<Option<Self>, InvalidQuery> {
        let Some(text) = params.get("cursor") else {
            return Ok(None);
        };
        let read = |text: &str| {
            if text.len() > CURSOR_BYTES_MAX {
                return None;
            }
            Self::of(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?)
        };
        match read(text) {
            Some(place) => Ok(Some(place)),
            None => Err(InvalidQuery::new(
                "cursor",
                "not a cursor of this list: hand back one that came with it",
            )),
        }
    }
}

/// Timestamp, receipt, hash in hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReceiptText(i64, Uuid, String);

impl Place for NewestCursor {
    type Text = ReceiptText;

    fn text(&self) -> ReceiptText {
        ReceiptText(self.timestamp_ms, self.receipt_id, hex::encode(self.payload_hash))
    }

    fn of(text: ReceiptText) -> Option<Self> {
        let ReceiptText(timestamp_ms, receipt_id, hash) = text;
        Some(Self {
            timestamp_ms: Some(timestamp_ms).filter(|ms| TIMES_MS.contains(ms))?,
            receipt_id,
            payload_hash: hex::decode(hash).ok()?.try_into().ok()?,
        })
    }
}

/// Time of arrival, position.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefusalText(i64, String);

impl Place for RefusalCursor {
    type Text = RefusalText;

    fn text(&self) -> RefusalText {
        RefusalText(self.received_at_ms, self.position.to_string())
    }

    fn of(text: RefusalText) -> Option<Self> {
        let RefusalText(received_at_ms, position) = text;
        Some(Self {
            received_at_ms: Some(received_at_ms).filter(|ms| TIMES_MS.contains(ms))?,
            position: position.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn read(cursor: &str) -> Result<Option<NewestCursor>, InvalidQuery> {
        let uri = format!("/x?cursor={cursor}").parse().unwrap();
        NewestCursor::read(&Params::parse(&uri, &["cursor"])?)
    }

    #[test]
    fn text_and_back() {
        let place = NewestCursor {
            timestamp_ms: 1_800_000_000_000,
            receipt_id: Uuid::from_u128(2),
            payload_hash: [7; 32],
        };
        assert_eq!(read(&place.to_text()), Ok(Some(place)));
    }

    #[test]
    fn anything_else_is_no_place() {
        let id = Uuid::nil();
        let hash = "00".repeat(32);
        let texts = [
            "nonsense".to_owned(),
            "W10".to_owned(),
            "a".repeat(CURSOR_BYTES_MAX + 1),
            URL_SAFE_NO_PAD.encode(serde_json::json!([i64::MAX, id, hash]).to_string()),
            URL_SAFE_NO_PAD.encode(serde_json::json!([1, id, hash, 1]).to_string()),
            URL_SAFE_NO_PAD.encode(serde_json::json!([1, id, "00"]).to_string()),
        ];
        for text in texts {
            assert_eq!(read(&text).unwrap_err().parameter, "cursor", "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_read_is_written_back(
            text in prop_oneof!["\\PC{0,60}", encoded("\\[-?[0-9]{1,19},\"[-0-9a-f]{36}\",\"[0-9a-f]{62,66}\"\\]")],
        ) {
            if let Ok(Some(place)) = read(&percent_encoded(&text)) {
                prop_assert_eq!(read(&place.to_text()), Ok(Some(place)));
            }
        }
    }

    /// Texts of this form in base64url.
    fn encoded(form: &'static str) -> impl Strategy<Value = String> {
        form.prop_map(|text| URL_SAFE_NO_PAD.encode(text))
    }

    fn percent_encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }
}
