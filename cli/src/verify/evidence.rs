//! Evidence files: answers of `GET /api/v1/receipts/{receiptId}/evidence`, one payload of such an
//! answer, or a row of an export's receipts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use receipt::Evidence;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Members of an evidence file, or of one payload in it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EvidenceMembers {
    /// Receipts have it, and evidence doesn't.
    content: Option<IgnoredAny>,
    evidence: Option<Vec<Payload>>,
    #[serde(flatten)]
    payload: Payload,
}

/// Evidence of one payload. All but the received bytes can be derived from them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload {
    received_bytes: Option<String>,
    signed_bytes: Option<String>,
    signature: Option<String>,
    public_key: Option<String>,
    payload_hash: Option<String>,
    key_fingerprint: Option<String>,
}

/// Returns the payloads of an evidence file; `None` if the document isn't one.
#[must_use]
pub(super) fn payloads(document: &[u8]) -> Option<Vec<Payload>> {
    let members: EvidenceMembers = serde_json::from_slice(document).ok()?;
    if members.content.is_some() {
        return None;
    }
    match members.evidence {
        Some(payloads) => Some(payloads),
        None => members.payload.received_bytes.is_some().then(|| vec![members.payload]),
    }
}

impl Payload {
    /// Returns the receipt as it was received, after comparing everything else in the file with it.
    ///
    /// # Errors
    /// The file contradicts itself: what differs, for people.
    pub(super) fn receipt(&self) -> Result<Vec<u8>, String> {
        let Some(received) = &self.received_bytes else {
            return Err("the evidence has no `receivedBytes`: its data was erased".to_owned());
        };
        let received = STANDARD
            .decode(received)
            .map_err(|error| format!("`receivedBytes` isn't base64: {error}"))?;
        let derived = Evidence::read(&received).map_err(|error| format!("`receivedBytes` isn't a receipt: {error}"))?;
        let hash = hex::encode(derived.payload_hash());
        let stated = [
            (
                "signedBytes",
                &self.signed_bytes,
                STANDARD.encode(&derived.signed_bytes),
            ),
            ("signature", &self.signature, STANDARD.encode(&derived.signature)),
            ("publicKey", &self.public_key, derived.public_key.clone()),
            (
                "keyFingerprint",
                &self.key_fingerprint,
                hex::encode(derived.key_fingerprint),
            ),
        ];
        let differs = |name: &str| format!("`{name}` isn't that of the receipt in `receivedBytes`");
        for (name, stated, derived) in stated {
            if stated.as_ref().is_some_and(|stated| *stated != derived) {
                return Err(differs(name));
            }
        }
        // With its algorithm's name in the API's answer, and without in an export.
        let is_hash = |stated: &String| stated.strip_prefix("sha256:").unwrap_or(stated) == hash;
        if !self.payload_hash.as_ref().is_none_or(is_hash) {
            return Err(differs("payloadHash"));
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn receipt() -> Vec<u8> {
        let key = receipt::SigningKey::generate(receipt::Algorithm::Ed25519).unwrap();
        let now = jiff::Timestamp::now();
        let unsigned = json!({
            "version": "1.0.0", "receiptId": "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10", "timestamp": format!("{now:.3}"),
            "content": {
                "entryId": "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10", "url": "https://example.com/a",
                "contentHash": format!("sha256:{}", "ab".repeat(32)), "publisher": "example.com",
            },
            "client": {
                "id": "7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11", "name": "a", "version": "1", "organization": "b",
            },
            "usage": { "purpose": "inference", "context": "c" },
        });
        receipt::sign_receipt(unsigned.to_string().as_bytes(), &key, &receipt::Limits::default()).unwrap()
    }

    fn read(file: &Value) -> Option<Vec<Result<Vec<u8>, String>>> {
        let payloads = payloads(file.to_string().as_bytes())?;
        Some(payloads.iter().map(Payload::receipt).collect())
    }

    #[test]
    fn receipts_are_taken_out_of_answers_payloads_and_rows() {
        let receipt = receipt();
        let bytes = STANDARD.encode(&receipt);
        let hash = hex::encode(Evidence::read(&receipt).unwrap().payload_hash());
        let payload = json!({"receivedBytes": bytes, "payloadHash": format!("sha256:{hash}")});
        let row = json!({"receivedBytes": bytes, "payloadHash": hash, "url": "x"});
        let found = Some(vec![Ok(receipt.clone())]);
        assert_eq!(read(&payload), found);
        assert_eq!(read(&row), found);
        assert_eq!(
            read(&json!({"receiptId": "x", "evidence": [payload, row]}))
                .unwrap()
                .len(),
            2
        );
        assert!(payloads(&receipt).is_none());
        assert!(payloads(br#"{"receipts":[]}"#).is_none());
        assert!(payloads(b"x").is_none());
    }

    #[test]
    fn contradictions_are_named() {
        let bytes = STANDARD.encode(receipt());
        for name in ["signedBytes", "signature", "publicKey", "keyFingerprint", "payloadHash"] {
            let mut file = json!({"receivedBytes": bytes});
            file[name] = json!("other");
            let found = read(&file).unwrap().remove(0).unwrap_err();
            assert!(found.contains(&format!("`{name}`")), "{found}");
        }
        let erased = json!({"evidence": [{"receivedBytes": null}]});
        assert!(read(&erased).unwrap()[0].as_ref().unwrap_err().contains("erased"));
    }
}
