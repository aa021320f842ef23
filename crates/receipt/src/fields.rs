//! Reading members by their rules, each fault with its location.

use std::borrow::Cow;

use uuid::Uuid;

use crate::algorithm::ImpossibleLength;
use crate::fault::{FaultCode, Faults};
use crate::host::{canonical_host, is_within, publisher_name};
use crate::rules::{self, SignatureBytes, SignatureTextError};
use crate::tape::{NodeId, NodeKind, Tape};
use crate::timestamp::timestamp_millis;
use crate::{Algorithm, CanonicalUrlError, Limits, Purpose};

/// The only version of the receipt and batch formats.
const VERSION: &str = "1.0.0";

/// Reads members of one body, collecting what is wrong with them.
pub(crate) struct Fields<'t, 'a> {
    pub(crate) tape: &'t Tape,
    pub(crate) text: &'a str,
    pub(crate) faults: Faults,
}

impl<'a> Fields<'_, 'a> {
    fn fault(&mut self, pointer: &str, code: FaultCode, detail: &str) {
        self.faults.push(pointer.to_owned(), code, detail);
    }

    fn missing(&mut self, pointer: &str) {
        let name = pointer.rsplit('/').next().unwrap_or_default();
        let detail = format!("add the required member {name:?}");
        self.faults.push(pointer.to_owned(), FaultCode::MissingMember, detail);
    }

    pub(crate) fn wrong_type(&mut self, pointer: &str, wanted: &str, id: NodeId) {
        let detail = format!("must be {wanted}, not {}", self.tape.kind(id).name());
        self.faults.push(pointer.to_owned(), FaultCode::WrongType, detail);
    }

    pub(crate) fn is_object(&self, id: NodeId) -> bool {
        id != 0 && self.tape.kind(id) == NodeKind::Object
    }

    pub(crate) fn object<const N: usize>(
        &mut self,
        id: NodeId,
        pointer: &str,
        names: [&str; N],
    ) -> Option<[NodeId; N]> {
        if id == 0 {
            self.missing(pointer);
            None
        } else if self.tape.kind(id) != NodeKind::Object {
            self.wrong_type(pointer, "an object", id);
            None
        } else {
            Some(self.tape.members(id, self.text, names))
        }
    }

    pub(crate) fn string(&mut self, id: NodeId, pointer: &str) -> Option<Cow<'a, str>> {
        if id == 0 {
            self.missing(pointer);
            return None;
        }
        self.optional(id, pointer)
    }

    pub(crate) fn optional(&mut self, id: NodeId, pointer: &str) -> Option<Cow<'a, str>> {
        if id == 0 {
            return None;
        }
        if self.tape.kind(id) != NodeKind::String {
            self.wrong_type(pointer, "a string", id);
            return None;
        }
        Some(self.tape.string(id, self.text))
    }

    /// Reads a required text for people, which mustn't be empty.
    pub(crate) fn text(&mut self, id: NodeId, pointer: &str) -> Option<Cow<'a, str>> {
        let text = self.string(id, pointer)?;
        if text.trim().is_empty() {
            self.fault(
                pointer,
                FaultCode::EmptyText,
                "must have a character that isn't white space",
            );
        }
        Some(text)
    }

    pub(crate) fn version(&mut self, id: NodeId) {
        if self.string(id, "/version").is_some_and(|version| version != VERSION) {
            self.fault(
                "/version",
                FaultCode::UnsupportedVersion,
                "the version must be \"1.0.0\"",
            );
        }
    }

    pub(crate) fn uuid(&mut self, id: NodeId, pointer: &str) -> Option<Uuid> {
        let text = self.string(id, pointer)?;
        let uuid = rules::uuid(&text);
        if uuid.is_none() {
            self.fault(
                pointer,
                FaultCode::InvalidUuid,
                "must be a UUID of 36 characters, hyphens included, and neither the nil nor the max UUID",
            );
        }
        uuid
    }

    pub(crate) fn timestamp(&mut self, id: NodeId, received_at_ms: i64, limits: &Limits) -> Option<i64> {
        let text = self.string(id, "/timestamp")?;
        let Some(ms) = timestamp_millis(&text) else {
            let detail = "must be RFC 3339 with a zone and up to 9 digits of a second, like 2025-06-30T12:34:56.789Z";
            self.fault("/timestamp", FaultCode::InvalidTimestamp, detail);
            return None;
        };
        let (ahead, behind) = (limits.timestamp_ahead_ms_max, limits.timestamp_behind_ms_max);
        let distance = received_at_ms.abs_diff(ms);
        if ms > received_at_ms && distance > ahead {
            let detail = format!("lies {distance} ms after its arrival, and may lie {ahead}: check the clock");
            self.faults
                .push("/timestamp".to_owned(), FaultCode::TimestampOutOfRange, detail);
        } else if ms < received_at_ms && distance > behind {
            let detail = format!("lies {distance} ms before its arrival, and may lie {behind}: send receipts sooner");
            self.faults
                .push("/timestamp".to_owned(), FaultCode::TimestampOutOfRange, detail);
        }
        Some(ms)
    }

    /// Reads `content.url`. Its canonical host is compared with the publisher if that is known.
    pub(crate) fn url(&mut self, id: NodeId, publisher: Option<&str>, limits: &Limits) -> Option<Cow<'a, str>> {
        let url = self.string(id, "/content/url")?;
        if url.len() > limits.url_bytes_max {
            let detail = format!("shorten the URL to {} bytes", limits.url_bytes_max);
            self.faults.push("/content/url".to_owned(), FaultCode::TooLong, detail);
            return Some(url);
        }
        let host = rules::url_host(&url).ok_or(CanonicalUrlError::NotContent);
        let host = match host.and_then(|host| canonical_host(host).ok_or(CanonicalUrlError::NotDomain)) {
            Ok(host) => host,
            Err(error) => {
                self.fault("/content/url", FaultCode::InvalidUrl, &error.to_string());
                return Some(url);
            }
        };
        if publisher.is_some_and(|publisher| !is_within(&host, publisher)) {
            let detail = "its host must be content.publisher or a subdomain of it";
            self.fault("/content/url", FaultCode::UrlOutsidePublisher, detail);
        }
        Some(url)
    }

    pub(crate) fn content_hash(&mut self, id: NodeId) -> Option<[u8; 32]> {
        let text = self.string(id, "/content/contentHash")?;
        let hash = rules::content_hash(&text);
        if hash.is_none() {
            let detail = "must be \"sha256:\" followed by 64 hexadecimal digits";
            self.fault("/content/contentHash", FaultCode::InvalidContentHash, detail);
        }
        hash
    }

    pub(crate) fn publisher(&mut self, id: NodeId) -> Option<Cow<'a, str>> {
        let name = self.string(id, "/content/publisher")?;
        let changed = publisher_name(&name).map(|canonical| (canonical != name).then(|| canonical.into_owned()));
        if changed.is_none() {
            let detail = "must be a domain name, like news.example.com, and no address";
            self.fault("/content/publisher", FaultCode::InvalidPublisher, detail);
        }
        changed.map(|changed| changed.map_or(name, Cow::Owned))
    }

    pub(crate) fn key_kind(
        &mut self,
        pem: &str,
        key_kind: &mut dyn FnMut(&str) -> Result<Algorithm, String>,
    ) -> Option<Algorithm> {
        key_kind(pem)
            .map_err(|detail| {
                self.faults
                    .push("/client/publicKey".to_owned(), FaultCode::InvalidPublicKey, detail)
            })
            .ok()
    }

    pub(crate) fn purpose(&mut self, id: NodeId) -> Option<Purpose> {
        let text = self.string(id, "/usage/purpose")?;
        let purpose = text.parse().ok();
        if purpose.is_none() {
            let detail = format!("must be {}", Purpose::choices("\""));
            self.fault("/usage/purpose", FaultCode::InvalidPurpose, &detail);
        }
        purpose
    }

    pub(crate) fn signature(&mut self, id: NodeId) -> Option<SignatureBytes> {
        let text = self.string(id, "/signature")?;
        rules::signature(&text).map_err(|error| self.signature_text(error)).ok()
    }

    fn signature_text(&mut self, error: SignatureTextError) {
        if self.faults.has("/signature") {
            return;
        }
        let (code, detail) = error.explain();
        self.fault("/signature", code, detail);
    }

    pub(crate) fn algorithm(&mut self, id: NodeId) -> Option<Algorithm> {
        let text = self.string(id, "/signatureAlgorithm")?;
        let algorithm = text.parse().ok();
        if algorithm.is_none() {
            let detail = "must be \"Ed25519\", \"RSA-2048\" or \"ECDSA-P256\"";
            self.fault("/signatureAlgorithm", FaultCode::UnsupportedAlgorithm, detail);
        }
        algorithm
    }

    /// Refuses a signature that its algorithm can't have made. `id` is its text.
    pub(crate) fn check_length(&mut self, signature: &[u8], id: NodeId, algorithm: Algorithm) {
        if let Err(impossible) = ImpossibleLength::check(algorithm, signature.len()) {
            let is_hex = self
                .tape
                .inner(id, self.text)
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit());
            let advice = if is_hex {
                ": it looks like hexadecimal, write base64"
            } else {
                ""
            };
            let detail = format!("{impossible}{advice}");
            self.faults
                .push("/signature".to_owned(), FaultCode::InvalidSignatureLength, detail);
        }
    }

    /// Holds the kind of a key against the algorithm that a signature names.
    pub(crate) fn check_kind(&mut self, kind: Algorithm, algorithm: Algorithm, pointer: &str) {
        if kind != algorithm {
            let detail = format!("signatureAlgorithm is {algorithm}, but client.publicKey is a key for {kind}");
            self.faults
                .push(pointer.to_owned(), FaultCode::KeyAlgorithmMismatch, detail);
        }
    }
}
