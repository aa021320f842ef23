//! A use of content, and the receipt it becomes.

use std::fmt;

use receipt::FormatError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;
use uuid::Uuid;

/// Use of a piece of content, as JSON with the members of conformance/README.md.
///
/// `publisher` is the host of `url` unless given, `entryId` the UUIDv5 of `url` without its
/// fragment (RFC 9562, section 5.5), `receiptId` a new UUIDv7, and `timestamp` now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Use {
    /// Address of the content.
    pub url: String,
    /// `training`, `inference` or `research`.
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
        Ok(ReceiptDraft {
            version: "1.0.0",
            receipt_id: self.receipt_id.clone().unwrap_or_else(|| Uuid::now_v7().to_string()),
            timestamp: self.timestamp()?,
            content: ContentDraft {
                entry_id: match &self.entry_id {
                    Some(entry_id) => entry_id.clone(),
                    None => entry_id(&self.url)?.to_string(),
                },
                url: &self.url,
                content_hash: self.hash()?,
                publisher: match &self.publisher {
                    Some(publisher) => publisher.clone(),
                    None => host(&self.url)?,
                },
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

/// Reads RFC 3339 (section 5.6) as strictly as the gateway: `T` and `Z` in capitals, 0 to 9 digits
/// of fraction, no leap second, and an offset of less than a day. jiff alone reads more.
fn instant(text: &str) -> Option<jiff::Timestamp> {
    let (time, rest) = text.split_at_checked("2026-11-25T10:00:00".len())?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            (1..=9).contains(&(fraction.len() - zone.len())).then_some(zone)?
        }
        None => rest,
    };
    let offset = zone.strip_prefix(['+', '-']);
    let is_zone = zone == "Z" || offset.is_some_and(|offset| has_form(offset, "dd:dd") && offset < "24:00");
    let is_instant = has_form(time, "dddd-dd-ddTdd:dd:dd") && !time.ends_with(":60") && is_zone;
    is_instant.then(|| text.parse().ok()).flatten()
}

/// Whether `text` is `form`, where `d` in the form is any digit.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, form)| {
        if form == b'd' {
            u8::is_ascii_digit(&byte)
        } else {
            byte == form
        }
    };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

/// Returns the entry ID of content that the publisher doesn't list: the UUIDv5 of its canonical
/// URL.
///
/// # Errors
/// The URL has no canonical form.
fn entry_id(url: &str) -> Result<Uuid, UseError> {
    receipt::entry_id_of(url).map_err(|error| UseError::one("url", "invalid_url", error.to_string()))
}

fn host(url: &str) -> Result<String, UseError> {
    let wrong = || UseError::one("url", "invalid_url", "must be an http or https URL with a host");
    let parsed = Url::parse(url).map_err(|_| wrong())?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong());
    }
    parsed.host_str().map(str::to_owned).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct EntryVector {
        url: String,
        entry_id: Uuid,
    }

    #[test]
    fn entry_ids_are_those_of_the_vectors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/entries.json");
        let vectors: Vec<EntryVector> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(!vectors.is_empty());
        for vector in vectors {
            assert_eq!(entry_id(&vector.url).unwrap(), vector.entry_id, "{}", vector.url);
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
