//! References that ours is compared with: the naive way to a payload hash, and signatures alone.

use anyhow::{Context, Result};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use receipt::Algorithm;
use rsa::pkcs8::DecodePublicKey;
use rsa::signature::Verifier;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The canonical bytes of a receipt or batch by `serde_json` and `serde_jcs`.
///
/// # Errors
/// Not JSON, or not an object.
pub fn canonical(body: &[u8]) -> Result<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body)?;
    let members = value.as_object_mut().context("not an object")?;
    members.remove("signature");
    members.remove("signatureAlgorithm");
    Ok(serde_jcs::to_vec(&value)?)
}

/// The payload hash, the naive way: parse to a tree, write it canonically, hash.
///
/// # Errors
/// Not JSON, or not an object.
pub fn payload_hash(body: &[u8]) -> Result<[u8; 32]> {
    Ok(Sha256::digest(canonical(body)?).into())
}

/// Library whose verification is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// ed25519-dalek's `verify_strict`; aws-lc-rs for RSA and ECDSA.
    Usual,
    /// ed25519-dalek's `verify_strict`; the crates `rsa` and `p256`.
    RustCrypto,
}

enum Key {
    Ed25519(Box<VerifyingKey>, Box<ed25519_dalek::Signature>),
    AwsLc(Box<ParsedPublicKey>, Vec<u8>),
    Rsa(Box<rsa::pkcs1v15::VerifyingKey<Sha256>>, rsa::pkcs1v15::Signature),
    P256(Box<p256::ecdsa::VerifyingKey>, p256::ecdsa::DerSignature),
}

/// A signature with everything before it done: key parsed, message canonical, base64 decoded.
pub struct SignatureAlone {
    message: Vec<u8>,
    key: Key,
}

impl SignatureAlone {
    /// Takes the signature out of a receipt.
    ///
    /// # Errors
    /// Not a receipt.
    pub fn of(body: &[u8], library: Library) -> Result<Self> {
        let receipt: Value = serde_json::from_slice(body)?;
        let text = |pointer: &str| {
            receipt
                .pointer(pointer)
                .and_then(Value::as_str)
                .context(pointer.to_owned())
        };
        let algorithm: Algorithm = text("/signatureAlgorithm")?.parse()?;
        let spki = spki_der(text("/client/publicKey")?)?;
        let signature = STANDARD.decode(text("/signature")?)?;
        let key = match (algorithm, library) {
            (Algorithm::Ed25519, _) => {
                let raw = spki.last_chunk::<32>().context("a short key")?;
                let signature = ed25519_dalek::Signature::from_slice(&signature)?;
                Key::Ed25519(Box::new(VerifyingKey::from_bytes(raw)?), Box::new(signature))
            }
            (Algorithm::Rsa2048, Library::Usual) => Key::AwsLc(
                Box::new(ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, spki)?),
                signature,
            ),
            (Algorithm::EcdsaP256, Library::Usual) => Key::AwsLc(
                Box::new(ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, spki)?),
                signature,
            ),
            (Algorithm::Rsa2048, Library::RustCrypto) => {
                let key = rsa::RsaPublicKey::from_public_key_der(&spki)?;
                let signature = rsa::pkcs1v15::Signature::try_from(signature.as_slice())?;
                Key::Rsa(Box::new(rsa::pkcs1v15::VerifyingKey::new(key)), signature)
            }
            (Algorithm::EcdsaP256, Library::RustCrypto) => {
                let point = spki.last_chunk::<65>().context("a short key")?;
                let signature = p256::ecdsa::DerSignature::from_bytes(&signature)?;
                Key::P256(Box::new(p256::ecdsa::VerifyingKey::from_sec1_bytes(point)?), signature)
            }
        };
        Ok(Self {
            message: canonical(body)?,
            key,
        })
    }

    /// Verifies it.
    #[must_use]
    pub fn verify(&self) -> bool {
        match &self.key {
            Key::Ed25519(key, signature) => key.verify_strict(&self.message, signature).is_ok(),
            Key::AwsLc(key, signature) => key.verify_sig(&self.message, signature).is_ok(),
            Key::Rsa(key, signature) => key.verify(&self.message, signature).is_ok(),
            Key::P256(key, signature) => key.verify(&self.message, signature).is_ok(),
        }
    }
}

/// The DER inside a PEM block.
fn spki_der(pem: &str) -> Result<Vec<u8>> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    Ok(STANDARD.decode(lines.collect::<String>())?)
}
