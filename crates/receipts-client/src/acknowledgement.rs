//! Signed acknowledgements: proof that the service has a request's bytes durably.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_signatures::parse_directory;
use receipt::{Algorithm, BodyKind, Limits, PublicKey, Sibling, canonicalize, tree_root};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Path of the gateway's public keys.
pub(crate) const KEYS_PATH: &str = "/.well-known/receipts-keys.json";

/// Keys that are read: a rotation has two or three.
const KEYS_MAX: usize = 1_000;

/// An acknowledgement whose signature was verified, as JSON (docs/acknowledgements.md).
pub type SignedAcknowledgement = Box<RawValue>;

/// Why a 202 proves nothing, so that the request is made again.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AcknowledgementError(String);

fn error(detail: impl Into<String>) -> AcknowledgementError {
    AcknowledgementError(detail.into())
}

/// The gateway's public keys by their ID, the thumbprint.
#[derive(Debug, Default)]
pub(crate) struct PublishedKeys(HashMap<String, PublicKey>);

impl PublishedKeys {
    /// Reads a JWK Set.
    pub(crate) fn read(body: &[u8]) -> Result<Self, AcknowledgementError> {
        let keys = parse_directory(body, KEYS_MAX, jiff::Timestamp::now().as_second())
            .map_err(|why| error(format!("{KEYS_PATH}: {why}")))?;
        let keys = keys
            .into_iter()
            .flatten()
            .filter(|key| key.key.algorithm() == Algorithm::Ed25519);
        Ok(Self(keys.map(|key| (key.thumbprint, key.key)).collect()))
    }

    pub(crate) fn has(&self, key_id: &str) -> bool {
        self.0.contains_key(key_id)
    }
}

/// The answer of a 202 to a request, with an acknowledgement that isn't verified.
#[derive(Debug)]
pub(crate) struct QueuedAnswer {
    acknowledgement: SignedAcknowledgement,
    members: Map<String, Value>,
}

/// Members of a request's body that its acknowledgement repeats.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SubmittedBody {
    receipt_id: Option<String>,
    batch_id: Option<String>,
    receipts: Vec<IgnoredAny>,
}

/// Body of a 202.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AcceptedBody {
    acknowledgement: Option<SignedAcknowledgement>,
    receipt_id: Option<String>,
    batch_id: Option<String>,
    status: String,
}

impl QueuedAnswer {
    /// Reads the answer to the request with this body: its acknowledgement must be of exactly these
    /// bytes.
    pub(crate) fn read(kind: BodyKind, body: &[u8], answer: &[u8]) -> Result<Self, AcknowledgementError> {
        let answer: AcceptedBody =
            serde_json::from_slice(answer).map_err(|_| error("the answer has another form than the gateway's"))?;
        let acknowledgement = answer.acknowledgement.ok_or_else(|| error("it isn't there"))?;
        let members: Map<String, Value> =
            serde_json::from_str(acknowledgement.get()).map_err(|_| error("it isn't an object"))?;
        let submitted: SubmittedBody = serde_json::from_slice(body).unwrap_or_default();
        let (name, submitted_id, answered_id) = match kind {
            BodyKind::Receipt => ("receiptId", submitted.receipt_id, answer.receipt_id),
            BodyKind::Batch => ("batchId", submitted.batch_id, answer.batch_id),
        };
        // The gateway writes UUIDs in small letters.
        let is_id = |id: &str| match (kind, submitted_id.as_deref()) {
            (BodyKind::Receipt, Some(submitted)) => submitted.eq_ignore_ascii_case(id),
            (BodyKind::Batch, Some(submitted)) => submitted == id,
            (_, None) => false,
        };
        if answer.status != "queued" || !answered_id.is_some_and(|id| is_id(&id)) {
            return Err(error("the answer isn't to this request"));
        }
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(body)));
        let member = |name: &str| members.get(name).unwrap_or(&Value::Null);
        for (name, is_right) in [
            ("requestDigest", member("requestDigest") == digest.as_str()),
            (name, member(name).as_str().is_some_and(is_id)),
            (
                "receiptCount",
                kind == BodyKind::Receipt || member("receiptCount") == submitted.receipts.len(),
            ),
        ] {
            if !is_right {
                return Err(error(format!("its {name} is {}", member(name))));
            }
        }
        Ok(Self {
            acknowledgement,
            members,
        })
    }

    /// ID of the key that signed it.
    pub(crate) fn key_id(&self) -> &str {
        self.members.get("keyId").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the acknowledgement if a published key signed it.
    pub(crate) fn verified(mut self, keys: &PublishedKeys) -> Result<SignedAcknowledgement, AcknowledgementError> {
        let key = keys.0.get(self.key_id());
        let key = key.ok_or_else(|| error(format!("its key {:?} isn't in {KEYS_PATH}", self.key_id())))?;
        let signature = match self.members.remove("signature") {
            Some(Value::String(text)) => STANDARD.decode(text).unwrap_or_default(),
            _ => Vec::new(),
        };
        let path = self.members.remove("path").map(serde_json::from_value::<Vec<Sibling>>);
        let signed = Value::Object(self.members).to_string();
        let is_valid = canonicalize(signed.as_bytes(), Limits::default().depth_max).is_ok_and(|canonical| match path {
            None => key.verify(&canonical, &signature),
            // It was signed together with others.
            Some(path) => path
                .ok()
                .and_then(|path| tree_root(&canonical, &path))
                .is_some_and(|root| key.verify(&root, &signature)),
        });
        if is_valid {
            Ok(self.acknowledgement)
        } else {
            Err(error("its signature isn't that of the key that it names"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Deserialize)]
    struct AcknowledgementVector {
        name: String,
        body: String,
        answer: String,
        keys: Value,
        valid: bool,
    }

    #[test]
    fn acknowledgements_are_verified_as_the_vectors_say() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/vectors/acknowledgements.json"
        );
        let vectors: Vec<AcknowledgementVector> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(vectors.iter().any(|vector| vector.valid) && vectors.len() > 20);
        for vector in vectors {
            let keys = PublishedKeys::read(vector.keys.to_string().as_bytes()).unwrap();
            let verified = QueuedAnswer::read(BodyKind::Batch, vector.body.as_bytes(), vector.answer.as_bytes())
                .and_then(|answer| answer.verified(&keys));
            assert_eq!(verified.is_ok(), vector.valid, "{}: {verified:?}", vector.name);
        }
    }

    #[test]
    fn a_single_receipts_acknowledgement_names_it() {
        let body = br#"{"receiptId":"r"}"#;
        let digest = hex::encode(Sha256::digest(body));
        for (id, digest, is_right) in [("r", digest.as_str(), true), ("s", &digest, false), ("r", "00", false)] {
            let answer = format!(
                r#"{{"receiptId":"{id}","status":"queued","acknowledgement":{{"requestDigest":"sha256:{digest}","receiptId":"{id}"}}}}"#
            );
            let read = QueuedAnswer::read(BodyKind::Receipt, body, answer.as_bytes());
            assert_eq!(read.is_ok(), is_right, "{answer}");
        }
    }
}
