//! JSON in base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn to_text(value: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::json!(value).to_string())
}

/// Parses a text of at most so many bytes.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, bytes_max: usize) -> Option<T> {
    if text.len() > bytes_max {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}
