//! Evidence: the parts of a stored receipt with which anybody verifies it, without this project's
//! code.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::Signature;
use uuid::Uuid;

use crate::canonical::write_receipt;
use crate::fault::{FaultCode, FormatError};
use crate::key::sha256;
use crate::{Algorithm, Limits, PublicKey, parse_receipt, scratch};

/// Columns of a line of base64 (RFC 2045 section 6.8): terminals cut lines of over 4,095 bytes.
const LINE: usize = 76;
/// Bytes of an ECDSA P-256 signature that is `r` and `s`, not DER.
const RAW_ECDSA_BYTES: usize = 64;

/// Bytes that a receipt's signature is over, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// The canonical bytes (RFC 8785) without `signature` and `signatureAlgorithm`.
    pub signed_bytes: Vec<u8>,
    /// `signatureAlgorithm`.
    pub algorithm: Algorithm,
    /// `signature`, decoded.
    pub signature: Vec<u8>,
    /// `client.publicKey`, PEM.
    pub public_key: String,
    /// SHA-256 of the key's SPKI DER.
    pub key_fingerprint: [u8; 32],
}

impl Evidence {
    /// Takes a receipt apart. It may be of any age and as long as a batch: another deployment may
    /// have other limits.
    ///
    /// # Errors
    /// The bytes aren't a receipt, or its key can't be used.
    pub fn read(receipt: &[u8]) -> Result<Self, FormatError> {
        let limits = Limits::of_any_deployment();
        scratch::with(|scratch| {
            let parsed = parse_receipt(receipt, 0, &limits, scratch)?;
            let unusable = |error: crate::KeyError| {
                let pointer = "/client/publicKey".to_owned();
                FormatError::one(pointer, FaultCode::InvalidPublicKey, error.detail)
            };
            let key = PublicKey::from_pem(&parsed.public_key).map_err(unusable)?;
            write_receipt(receipt, &limits, scratch)?;
            Ok(Self {
                receipt_id: parsed.receipt_id,
                signed_bytes: scratch.canonical.clone(),
                algorithm: parsed.algorithm,
                signature: parsed.signature.to_vec(),
                public_key: parsed.public_key.into_owned(),
                key_fingerprint: *key.fingerprint(),
            })
        })
    }

    /// SHA-256 of the signed bytes.
    #[must_use]
    pub fn payload_hash(&self) -> [u8; 32] {
        sha256(&self.signed_bytes)
    }

    /// Whether the signature is the key's.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        PublicKey::from_pem(&self.public_key)
            .is_ok_and(|key| key.algorithm() == self.algorithm && key.verify(&self.signed_bytes, &self.signature))
    }

    /// A shell command that verifies the signature with OpenSSL 3 and shows the hash of the signed
    /// bytes. It contains everything it needs, and writes to a new directory only.
    #[must_use]
    pub fn openssl_command(&self) -> String {
        let mut command = "cd \"$(mktemp -d)\"\n".to_owned();
        push_file(&mut command, "signed.json", &self.signed_bytes);
        push_file(&mut command, "signature.bin", &self.openssl_signature());
        // As base64 too, because a PEM's line ends are the sender's.
        push_file(&mut command, "key.pem", self.public_key.as_bytes());
        command.push_str(match self.algorithm {
            Algorithm::Ed25519 => {
                "openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in signed.json -sigfile signature.bin\n"
            }
            Algorithm::Rsa2048 | Algorithm::EcdsaP256 => {
                "openssl dgst -sha256 -verify key.pem -signature signature.bin signed.json\n"
            }
        });
        command.push_str("openssl dgst -sha256 signed.json\n");
        command
    }

    /// The signature as OpenSSL takes it: ECDSA in DER.
    fn openssl_signature(&self) -> Vec<u8> {
        if self.algorithm == Algorithm::EcdsaP256 && self.signature.len() == RAW_ECDSA_BYTES {
            // A DER signature can have as many bytes by chance, and isn't within the curve's order
            // then.
            if !self.is_der()
                && let Ok(signature) = Signature::from_slice(&self.signature)
            {
                return signature.to_der().as_bytes().to_vec();
            }
        }
        self.signature.clone()
    }

    fn is_der(&self) -> bool {
        Signature::from_der(&self.signature).is_ok()
    }
}

/// Appends lines that write a file.
fn push_file(command: &mut String, name: &str, bytes: &[u8]) {
    let text = STANDARD.encode(bytes);
    // Writing into a String can't fail.
    let _ = writeln!(command, "base64 -d > {name} <<'END'");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        let _ = writeln!(command, "{line}");
        rest = behind;
    }
    command.push_str("END\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;
    use crate::{SigningKey, sign_receipt};

    const RECEIPT: &str = r#"{"usage":{"purpose":"inference","context":"c"},"version":"1.0.0",
        "receiptId":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10","timestamp":"2001-01-15T08:00:00.000Z",
        "content":{"entryId":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10","url":"https://example.com/a",
        "contentHash":"sha256:HASH","publisher":"example.com"},"extra":{"z":1e21,"a":[0.1,-0,4.50]},
        "client":{"id":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a11","name":"\u00e4 \"b\"","version":"1","organization":"b"}}"#;

    fn signed(algorithm: Algorithm) -> Vec<u8> {
        let key = SigningKey::generate(algorithm).unwrap();
        let receipt = RECEIPT.replace("HASH", &"ab".repeat(32));
        let limits = Limits::default().of_any_age();
        sign_receipt(receipt.as_bytes(), &key, &limits).unwrap()
    }

    fn runs(command: &str) -> (bool, String) {
        let output = Command::new("sh").args(["-ec", command]).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    #[test]
    fn openssl_accepts_it_and_refuses_other_bytes() {
        for algorithm in Algorithm::ALL {
            let evidence = Evidence::read(&signed(algorithm)).unwrap();
            assert!(evidence.is_valid());
            let (is_valid, output) = runs(&evidence.openssl_command());
            assert!(is_valid, "{algorithm}");
            assert!(output.contains(&hex::encode(evidence.payload_hash())), "{output}");

            let mut other = evidence.clone();
            other.signed_bytes.push(b' ');
            assert!(!other.is_valid());
            assert!(!runs(&other.openssl_command()).0, "{algorithm}");
        }
    }

    #[test]
    fn openssl_accepts_ecdsa_in_raw_form() {
        let mut evidence = Evidence::read(&signed(Algorithm::EcdsaP256)).unwrap();
        let signature =
            Signature::from_der(&evidence.signature).or_else(|_| Signature::from_slice(&evidence.signature));
        evidence.signature = signature.unwrap().to_bytes().to_vec();
        assert!(evidence.is_valid());
        assert!(runs(&evidence.openssl_command()).0);
    }

    #[test]
    fn only_receipts_are_evidence() {
        assert!(Evidence::read(b"").is_err());
        assert!(Evidence::read(b"[]").is_err());
        assert!(Evidence::read(br#"{"receiptId":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10"}"#).is_err());
    }
}
