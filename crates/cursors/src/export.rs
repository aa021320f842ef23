//! Positions in an export of an account's data.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{in_time, json, payload_hash};

/// The longest cursor of an export, in bytes: most of it is a publisher's name.
pub const EXPORT_CURSOR_BYTES_MAX: usize = 8_192;

/// A position behind a row of a collection, or at its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPosition {
    /// Name of the collection: its number can be another one in a later version.
    pub collection: String,
    /// The row before the position.
    pub after: PrecedingRow,
}

/// The row before a position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum PrecedingRow {
    /// No row: the beginning of the collection.
    Start,
    /// A row of the account store: its creation in milliseconds since the Unix epoch, and its ID.
    Row(i64, String),
    /// A receipt: publisher, timestamp in milliseconds, entry, receipt, payload hash.
    Receipt(String, i64, Uuid, Uuid, #[serde(with = "hexadecimal")] [u8; 32]),
    /// A rejected receipt: publisher, arrival in milliseconds, position in the log.
    Refusal(String, i64, #[serde(with = "decimal")] u128),
}

/// The text as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    c: String,
    a: PrecedingRow,
}

impl ExportPosition {
    /// Formats the position.
    #[must_use]
    pub fn to_text(&self) -> String {
        json::to_text(&Text {
            c: self.collection.clone(),
            a: self.after.clone(),
        })
    }

    /// Parses a position; `None` for any text that isn't one. The databases accept no NUL in a
    /// text, so a position has none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Text { c, a } = json::parse(text, EXPORT_CURSOR_BYTES_MAX)?;
        let is_plain = |text: &str| !text.contains('\0');
        let fits = match &a {
            PrecedingRow::Start => true,
            PrecedingRow::Row(_, id) => is_plain(id),
            PrecedingRow::Receipt(publisher, at_ms, ..) | PrecedingRow::Refusal(publisher, at_ms, _) => {
                is_plain(publisher) && in_time(*at_ms).is_some()
            }
        };
        fits.then_some(Self {
            collection: c,
            after: a,
        })
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        super::payload_hash(&text).ok_or_else(|| D::Error::custom("not a SHA-256 in hexadecimal"))
    }
}

mod decimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&number.to_string())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_are_parsed_as_they_were_formatted() {
        for after in [
            PrecedingRow::Start,
            PrecedingRow::Row(i64::MAX, "90:example.com".to_owned()),
            PrecedingRow::Receipt(
                "example.com".to_owned(),
                1_800_000_000_000,
                Uuid::from_u128(1),
                Uuid::from_u128(2),
                [7; 32],
            ),
            PrecedingRow::Refusal("b\u{e9}\"\\".to_owned(), 0, u128::MAX),
        ] {
            let position = ExportPosition {
                collection: "receipts".to_owned(),
                after,
            };
            let text = position.to_text();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            assert!(text.bytes().all(is_plain), "{text}");
            assert_eq!(ExportPosition::parse(&text), Some(position));
        }
    }

    #[test]
    fn other_texts_are_no_positions() {
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for text in [
            String::new(),
            "x".to_owned(),
            "%".repeat(9_000),
            encoded("{}"),
            encoded(r#"{"c":"entries"}"#),
            encoded(r#"{"c":"entries","a":"start","x":1}"#),
            encoded(r#"{"c":"entries","a":{"row":[0,"x\u0000"]}}"#),
            encoded(r#"{"c":"refusals","a":{"refusal":["x",9223372036854775807,"0"]}}"#),
            encoded(r#"{"c":"refusals","a":{"refusal":["x",0,"-1"]}}"#),
            encoded(r#"{"c":"refusals","a":{"refusal":["x",0,1]}}"#),
        ] {
            assert_eq!(ExportPosition::parse(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_harm(
            text in prop_oneof![
                "\\PC{0,60}".boxed(),
                r#"\{"c":"(entries|receipts|refusals|trail)","a":("start"|\{"(row|refusal)":\["[a-z]{0,3}",?-?[0-9]{1,19},"[0-9]{1,40}"\]\})\}"#
                    .prop_map(|text| URL_SAFE_NO_PAD.encode(text))
                    .boxed(),
            ],
        ) {
            if let Some(position) = ExportPosition::parse(&text) {
                prop_assert_eq!(ExportPosition::parse(&position.to_text()), Some(position));
            }
        }
    }
}
