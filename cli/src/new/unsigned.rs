//! A receipt without a signature, its members in the order of docs/receipt-format.md.

use receipt::{Algorithm, CanonicalUrl, Fault, Limits, SigningKey, check_receipt, sign_receipt};
use serde::Serialize;
use service::instant::now_ms;
use uuid::Uuid;

use crate::failure::CommandFailure;

/// A receipt to be signed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnsignedReceipt {
    pub(crate) version: &'static str,
    pub(crate) receipt_id: Uuid,
    pub(crate) timestamp: String,
    pub(crate) content: ContentMembers,
    pub(crate) client: ClientMembers,
    pub(crate) usage: UsageMembers,
}

/// The member `content`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentMembers {
    pub(crate) entry_id: Uuid,
    pub(crate) url: String,
    pub(crate) content_hash: String,
    pub(crate) publisher: String,
}

/// The member `client`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientMembers {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) organization: String,
    /// Signing adds the key if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_key: Option<String>,
}

/// The member `usage`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageMembers {
    pub(crate) purpose: &'static str,
    pub(crate) context: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) study_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) researcher_id: Option<String>,
}

impl Default for UnsignedReceipt {
    fn default() -> Self {
        Self {
            version: "1.0.0",
            receipt_id: Uuid::nil(),
            timestamp: String::new(),
            content: ContentMembers::default(),
            client: ClientMembers::default(),
            usage: UsageMembers::default(),
        }
    }
}

/// Namespace of the IDs that this command gives to clients.
const CLIENTS: Uuid = Uuid::from_u128(0xfa69c94358ac4c2bb2b3af7a8df4bcd9);

/// Members with the options that set them.
const OPTIONS: &[(&str, &str)] = &[
    ("/receiptId", "--receipt-id"),
    ("/timestamp", "--timestamp"),
    ("/content/entryId", "--entry-id"),
    ("/content/url", "URL"),
    ("/content/contentHash", "--content-hash"),
    ("/content/publisher", "--publisher"),
    ("/client/id", "--client-id"),
    ("/client/name", "--client-name"),
    ("/client/version", "--client-version"),
    ("/client/organization", "--organization"),
    ("/usage/context", "--context"),
    ("/usage/datasetId", "--dataset"),
    ("/usage/modelId", "--model"),
    ("/usage/queryId", "--query"),
    ("/usage/sessionId", "--session"),
    ("/usage/studyId", "--study"),
    ("/usage/researcherId", "--researcher"),
];

impl UnsignedReceipt {
    /// The receipt in one line.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, CommandFailure> {
        serde_json::to_vec(self).map_err(CommandFailure::input)
    }

    /// The receipt in many lines.
    pub(crate) fn to_indented_json(&self) -> Result<Vec<u8>, CommandFailure> {
        serde_json::to_vec_pretty(self).map_err(CommandFailure::input)
    }

    /// The receipt with a signature, in one line.
    ///
    /// # Errors
    /// The key can't sign.
    pub(crate) fn signed(&self, key: &SigningKey) -> Result<Vec<u8>, CommandFailure> {
        sign_receipt(&self.to_json()?, key, &Limits::default()).map_err(CommandFailure::input)
    }

    /// Checks the receipt as the gateway will once it is signed.
    ///
    /// # Errors
    /// Every fault, with the option to change.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        let limits = Limits::default();
        // A key is part of the format, so a receipt without one gets a key for the check.
        let key = SigningKey::generate(Algorithm::Ed25519).map_err(CommandFailure::input)?;
        let mut receipt = self.clone();
        receipt.client.public_key = Some(key.public_key_pem().to_owned());
        let signed = receipt.signed(&key)?;
        let Err(error) = check_receipt(&signed, now_ms(), &limits) else {
            return Ok(());
        };
        let mut text = "the receipt would be refused:".to_owned();
        for fault in &error.faults {
            text += &format!("\n  {}", explain(fault));
        }
        Err(CommandFailure::Input(text))
    }
}

/// A fault by the option that it comes from.
fn explain(fault: &Fault) -> String {
    let option = OPTIONS.iter().find(|(pointer, _)| *pointer == fault.pointer);
    match option {
        Some((pointer, option)) => format!("{option}: {} ({} at {pointer})", fault.detail, fault.code),
        None => format!("{}: {} ({})", fault.pointer, fault.detail, fault.code),
    }
}

/// The canonical form of a URL: its host is the publisher unless another domain is given, and its
/// UUIDv5 (RFC 9562, section 5.5) the entry unless the publisher lists it.
///
/// # Errors
/// The URL has no canonical form.
pub(crate) fn canonical(url: &str) -> Result<CanonicalUrl, CommandFailure> {
    let advice = "write it as https://news.example/lead";
    receipt::canonical_url(url).map_err(|error| CommandFailure::Input(format!("{url}: {error}; {advice}")))
}

/// An ID for a client that has none yet, the same for each of its receipts.
pub(crate) fn client_id(organization: &str, name: &str) -> Uuid {
    Uuid::new_v5(&CLIENTS, format!("{organization}\n{name}").as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn an_entry_id_is_the_documented_one() {
        // docs/receipt-format.md and examples/ have this URL and ID.
        let id = |url: &str| canonical(url).unwrap().entry_id().to_string();
        let documented = "69f09ffd-d89e-5092-b485-1da5d197cce5";
        assert_eq!(id("https://news.example/2026/11/lead"), documented);
        assert_eq!(id("https://news.example/2026/11/lead#top"), documented);
        assert_ne!(id("https://news.example/2026/11/lead?page=2"), documented);
    }

    #[test]
    fn the_publisher_of_a_url_is_its_canonical_host() {
        for (url, host) in [
            ("https://News.Example:8443/a#b", "news.example"),
            ("https://bücher.example./ä", "xn--bcher-kva.example"),
        ] {
            assert_eq!(canonical(url).unwrap().host(), host);
        }
        for bad in ["news.example/lead", "ftp://news.example", "https://localhost/"] {
            let error = canonical(bad).unwrap_err().to_string();
            assert!(
                error.contains(bad) && error.contains("https://news.example/lead"),
                "{error}"
            );
        }
    }
}
