//! A use of content, and the receipt it becomes.

use std::fmt;

use receipt::FormatError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Use of a piece of content, as JSON with the members of conformance/README.md.
///
/// `publisher` is the host of `url` in ASCII form unless given, `entryId` the UUIDv5 of the
/// canonical form of `url` (RFC 9562, section 5.5), `receiptId` a new UUIDv7, and `timestamp` now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Use {
    /// Address of the content.
    pub url: String,
    /// Purpose, one of [`receipt::Purpose`].
    pub purpose: String,
    /// The use case in a few words.
    pub context: String,
    /// Text whose UTF-8 bytes were used. Either this or `contentHash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// `sha256:` and 64 hexadecimal digits, as [`content_hash`] writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// Domain of the publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// UUID of the publisher's entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<String>,
    /// UUID of the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// RFC 3339 with a zone; stored with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Data set that the content became part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset_id: Option<String>,
    /// Model that used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Query that it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// Session of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Study.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study_id: Option<String>,
    /// Researcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub researcher_id: Option<String>,
}

/// Returns the `contentHash` of bytes.
#[must_use]
pub fn content_hash(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

/// A fault of a use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseFault {
    /// Member of the use, or of the client with `client.` before it.
    pub member: String,
    /// Stable code: the gateway's for a receipt with this fault.
    pub code: String,
    /// Advice: what to change.
    pub detail: String,
}

/// Why a use can't become a receipt. Never without a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseError {
    /// The faults.
    pub faults: Vec<UseFault>,
}

impl fmt::Display for UseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{}: {}", fault.member, fault.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for UseError {}

impl UseError {
    pub(crate) fn one(member: &str, code: &str, detail: impl Into<String>) -> Self {
        Self {
            faults: vec![UseFault {
                member: member.to_owned(),
                code: code.to_owned(),
                detail: detail.into(),
            }],
        }
    }
}

impl From<FormatError> for UseError {
    /// Members of a receipt have the names of the use's, in `content`, `usage` and at the top.
    fn from(error: FormatError) -> Self {
        let member = |pointer: &str| match pointer.strip_prefix("/client/") {
            Some(name) => format!("client.{name}"),
            None => pointer.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        let faults = error.faults.into_iter().map(|fault| UseFault {
            member: member(&fault.pointer),
            code: fault.code.as_str().to_owned(),
            detail: fault.detail,
        });
        Self {
            faults: faults.collect(),
        }
    }
}

/// The members of a receipt that a use decides.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptDraft<'a, C: Serialize> {
    version: &'static str,
    receipt_id: String,
    timestamp: String,
    content: ContentDraft<'a>,
    client: &'a C,
    usage: UsageDraft<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentDraft<'a> {
    entry_id: String,
    url: &'a str,
    content_hash: String,
    publisher: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageDraft<'a> {
    purpose: &'a str,
    context: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    study_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    researcher_id: Option<&'a str>,
}

impl Use {
    /// Fills in what the caller left out. The rules of the format aren't checked here.
    pub(crate) fn draft<'a, C: Serialize>(&'a self, client: &'a C) -> Result<ReceiptDraft<'a, C>, UseError> {
        let url = receipt::canonical_url(&self.url)
            .map_err(|error| UseError::one("url", "invalid_url", error.to_string()))?;
        Ok(ReceiptDraft {
            version: "1.0.0",
            receipt_id: self.receipt_id.clone().unwrap_or_else(|| Uuid::now_v7().to_string()),
            timestamp: self.timestamp()?,
            content: ContentDraft {
                entry_id: self.entry_id.clone().unwrap_or_else(|| url.entry_id().to_string()),
                url: &self.url,
                content_hash: self.hash()?,
                publisher: self.publisher.clone().unwrap_or_else(|| url.host().to_owned()),
            },
            client,
            usage: UsageDraft {
                purpose: &self.purpose,
                context: &self.context,
                dataset_id: self.dataset_id.as_deref(),
                model_id: self.model_id.as_deref(),
                query_id: self.query_id.as_deref(),
                session_id: self.session_id.as_deref(),
                study_id: self.study_id.as_deref(),
                researcher_id: self.researcher_id.as_deref(),
            },
        })
    }

    fn hash(&self) -> Result<String, UseError> {
        match (&self.content, &self.content_hash) {
            (Some(content), None) => Ok(content_hash(content.as_bytes())),
            (None, Some(hash)) => Ok(hash.clone()),
            _ => Err(UseError::one(
                "contentHash",
                "invalid_content_hash",
                "give either content or contentHash",
            )),
        }
    }

    fn timestamp(&self) -> Result<String, UseError> {
        let instant = match &self.timestamp {
            None => jiff::Timestamp::now(),
            Some(text) => instant(text).ok_or_else(|| {
                let detail = "must be RFC 3339 with a zone, like 2026-11-25T10:00:00.000Z";
                UseError::one("timestamp", "invalid_timestamp", detail)
            })?,
        };
        Ok(instant.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
    }
}

/// An instant as the gateway reads it.
fn instant(text: &str) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(receipt::timestamp_millis(text)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn vectors(name: &str) -> Vec<serde_json::Value> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors");
        serde_json::from_slice(&std::fs::read(format!("{folder}/{name}.json")).unwrap()).unwrap()
    }

    /// Members of `content` in the receipt of a URL.
    fn content_of(url: &str) -> Result<serde_json::Value, UseError> {
        let content_use = Use {
            url: url.to_owned(),
            content: Some("a".to_owned()),
            ..Use::default()
        };
        content_use
            .draft(&())
            .map(|draft| serde_json::to_value(draft.content).unwrap())
    }

    #[test]
    fn entry_ids_and_publishers_are_those_of_the_vectors() {
        for vector in vectors("entries") {
            let content = content_of(vector["url"].as_str().unwrap()).unwrap();
            assert_eq!(content["entryId"], vector["entryId"], "{vector}");
            let host = vector["canonicalUrl"].as_str().unwrap().split(['/', ':']).nth(3);
            assert_eq!(content["publisher"].as_str(), host, "{vector}");
        }
        for vector in vectors("refused-urls") {
            let error = content_of(vector["url"].as_str().unwrap()).unwrap_err();
            assert_eq!(error.faults[0].code, "invalid_url", "{vector}");
        }
    }

    #[test]
    fn timestamps_are_stored_in_utc_with_milliseconds() {
        let of = |text: &str| {
            let content_use = Use {
                timestamp: Some(text.to_owned()),
                ..Use::default()
            };
            content_use.timestamp().ok()
        };
        assert_eq!(of("2026-11-25T10:00:00Z").as_deref(), Some("2026-11-25T10:00:00.000Z"));
        assert_eq!(
            of("2026-11-25T10:00:00.1239+01:30").as_deref(),
            Some("2026-11-25T08:30:00.123Z")
        );
        assert_eq!(
            of("2026-11-25T10:00:00.123456789-00:30").as_deref(),
            Some("2026-11-25T10:30:00.123Z")
        );
        // More than RFC 3339 has, or than the gateway takes.
        for text in [
            "2026-11-25T10:00:00",
            "yesterday",
            "2026-11-25T10:00:00+24:00",
            "2026-11-25T10:00:00+0545",
            "2026-11-25T10:00:00+05",
            "2026-11-25T10:00:60Z",
            "2026-11-25T10:00:00,5Z",
            "2026-11-25T10:00:00.Z",
            "2026-11-25T10:00:00.1234567890Z",
            "2026-11-25 10:00:00Z",
            "2026-11-25t10:00:00Z",
            "2026-11-25T10:00:00z",
            "2026-11-25T10:00Z",
            "2026-11-25T10:00:00Z[UTC]",
            "2026-11-25T10:00:00+05:00:00",
            "2026-02-30T10:00:00Z",
            "2026-11-25T10:00:0\u{e9}Z",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
