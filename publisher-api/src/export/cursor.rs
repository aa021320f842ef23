//! A place in an export, as text to be handed back. It says where, never whose: that is the API
//! key's.

use accounts::Cursor;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use warehouse::{ReceiptCursor, RejectedCursor};

/// The longest text of a place, in bytes: a publisher's name is the most of it.
pub(crate) const CURSOR_BYTES_MAX: usize = 8_192;

/// A place: behind a row of a collection, or at its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) collection: usize,
    /// Pages of the collection before it.
    pub(crate) page: u64,
    pub(crate) after: After,
}

/// What stands before a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    Row(Cursor),
    Receipt(ReceiptCursor),
    Refusal(RejectedCursor),
}

/// Its text is this as JSON in base64url.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The collection's name: its number may be another one in a later version.
    c: String,
    n: u64,
    a: Behind,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum Behind {
    Start,
    Row(i64, String),
    /// Publisher, timestamp, entry, receipt, hash in hexadecimal.
    Receipt(String, i64, Uuid, Uuid, String),
    /// Publisher, time of arrival, position.
    Refusal(String, i64, String),
}

impl Place {
    /// The beginning of a collection.
    pub(crate) fn begin(collection: usize) -> Self {
        Self {
            collection,
            page: 0,
            after: After::Nothing,
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let behind = match &self.after {
            After::Nothing => Behind::Start,
            After::Row(row) => Behind::Row(row.created_at_ms, row.id.clone()),
            After::Receipt(key) => Behind::Receipt(
                key.publisher.clone(),
                key.timestamp_ms,
                key.entry_id,
                key.receipt_id,
                hex::encode(key.payload_hash),
            ),
            After::Refusal(key) => Behind::Refusal(key.publisher.clone(), key.received_at_ms, key.position.to_string()),
        };
        let text = Text {
            c: super::names()
                .get(self.collection)
                .copied()
                .unwrap_or_default()
                .to_owned(),
            n: self.page,
            a: behind,
        };
        URL_SAFE_NO_PAD.encode(serde_json::json!(text).to_string())
    }

    /// None for any text that isn't a place's.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if text.len() > CURSOR_BYTES_MAX {
            return None;
        }
        let text: Text = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let collection = super::names().iter().position(|name| *name == text.c)?;
        // The databases take no NUL in a text.
        let plain = |text: &str| !text.contains('\0');
        let after = match text.a {
            Behind::Start => After::Nothing,
            Behind::Row(created_at_ms, id) if plain(&id) => After::Row(Cursor { created_at_ms, id }),
            Behind::Receipt(publisher, timestamp_ms, entry_id, receipt_id, hash) if plain(&publisher) => {
                After::Receipt(ReceiptCursor {
                    publisher,
                    timestamp_ms: in_time(timestamp_ms)?,
                    entry_id,
                    receipt_id,
                    payload_hash: hex::decode(hash).ok()?.try_into().ok()?,
                })
            }
            Behind::Refusal(publisher, received_at_ms, position) if plain(&publisher) => {
                After::Refusal(RejectedCursor {
                    publisher,
                    received_at_ms: in_time(received_at_ms)?,
                    position: position.parse().ok()?,
                })
            }
            _ => return None,
        };
        // Of the kind that the collection's places are.
        let fits = match (&after, super::names().get(collection).copied()) {
            (After::Nothing, _) => true,
            (After::Receipt(_), Some(super::RECEIPTS)) | (After::Refusal(_), Some(super::REFUSALS)) => true,
            (After::Row(_), Some(name)) => name != super::RECEIPTS && name != super::REFUSALS,
            _ => false,
        };
        let page = text.n;
        let place = Self {
            collection,
            page,
            after,
        };
        (fits && page < u64::from(u32::MAX)).then_some(place)
    }
}

/// The years that the warehouse knows: 1900 to 2299.
fn in_time(ms: i64) -> Option<i64> {
    (-2_208_988_800_000..=10_413_791_999_999).contains(&ms).then_some(ms)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_and_back() {
        let row = Cursor {
            created_at_ms: i64::MAX,
            id: "90:example.com".to_owned(),
        };
        let receipt = ReceiptCursor {
            publisher: "example.com".to_owned(),
            timestamp_ms: 1_800_000_000_000,
            entry_id: Uuid::from_u128(1),
            receipt_id: Uuid::from_u128(2),
            payload_hash: [7; 32],
        };
        let refusal = RejectedCursor {
            publisher: "b\u{e9}\"\\".to_owned(),
            received_at_ms: 0,
            position: u128::MAX,
        };
        let names = super::super::names();
        let at = |name: &str| names.iter().position(|one| *one == name).unwrap();
        for (collection, after) in [
            (at("entries"), After::Nothing),
            (at("trail"), After::Row(row)),
            (at("receipts"), After::Receipt(receipt)),
            (at("refusals"), After::Refusal(refusal)),
        ] {
            let place = Place {
                collection,
                page: 9,
                after,
            };
            let text = place.to_text();
            assert!(
                text.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            );
            assert_eq!(Place::from_text(&text), Some(place));
        }
    }

    #[test]
    fn other_texts_are_no_places() {
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for text in [
            String::new(),
            "x".to_owned(),
            "%".repeat(9_000),
            encoded("{}"),
            encoded(r#"{"c":"nothing","n":0,"a":"start"}"#),
            encoded(r#"{"c":"entries","n":-1,"a":"start"}"#),
            encoded(r#"{"c":"entries","n":4294967295,"a":"start"}"#),
            encoded(r#"{"c":"entries","n":0,"a":"start","x":1}"#),
            encoded(r#"{"c":"receipts","n":0,"a":{"row":[0,"x"]}}"#),
            encoded(r#"{"c":"entries","n":0,"a":{"row":[0,"x\u0000"]}}"#),
            encoded(r#"{"c":"refusals","n":0,"a":{"refusal":["x",9223372036854775807,"0"]}}"#),
            encoded(r#"{"c":"refusals","n":0,"a":{"refusal":["x",0,"-1"]}}"#),
        ] {
            assert_eq!(Place::from_text(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_read_is_written_back(
            text in prop_oneof![
                "\\PC{0,60}".boxed(),
                r#"\{"c":"(entries|receipts|refusals|trail)","n":[0-9]{1,11},"a":("start"|\{"(row|refusal)":\["[a-z]{0,3}",?-?[0-9]{1,19},"[0-9]{1,40}"\]\})\}"#
                    .prop_map(|text| URL_SAFE_NO_PAD.encode(text))
                    .boxed(),
            ],
        ) {
            if let Some(place) = Place::from_text(&text) {
                prop_assert_eq!(Place::from_text(&place.to_text()), Some(place));
            }
        }
    }
}
