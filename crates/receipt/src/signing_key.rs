//! Private keys: made, read, written, and signed with.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use ed25519_dalek::{Signer as _, SigningKey as Ed25519Key};

use crate::spki::{self, Spki};
use crate::{Algorithm, KeyError, pem};

/// The label of a PKCS#8 private key (RFC 7468 section 10).
const LABEL: &str = "PRIVATE KEY";

/// Command that makes a usable key.
const NEW_KEY: &str = "openssl genpkey -algorithm ed25519 -out client.key";
const TO_PKCS8: &str = "openssl pkcs8 -topk8 -nocrypt -in FILE -out client.key";

/// PEM labels that aren't accepted, with what they are and the command that makes an accepted one.
const OTHER_LABELS: [(&str, &str, &str); 6] = [
    ("EC PRIVATE KEY", "a private key in SEC1", TO_PKCS8),
    ("EC PARAMETERS", "a private key in SEC1", TO_PKCS8),
    ("RSA PRIVATE KEY", "a private key in PKCS#1", TO_PKCS8),
    (
        "ENCRYPTED PRIVATE KEY",
        "encrypted: decrypt it",
        "openssl pkcs8 -in FILE -out client.key",
    ),
    (
        "PUBLIC KEY",
        "a public key: give the private key, or make a new pair",
        NEW_KEY,
    ),
    (
        "RSA PUBLIC KEY",
        "a public key: give the private key, or make a new pair",
        NEW_KEY,
    ),
];

/// PKCS#8 version 1 of an Ed25519 key before its 32-byte seed (RFC 8410 section 7). Version 2,
/// which also holds the public key, isn't read by OpenSSL 3.0.
const ED25519_PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The SPKI of an Ed25519 key before its 32 bytes.
const ED25519_SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A private key to sign receipts with.
pub struct SigningKey {
    secret: PrivateKeyMaterial,
    public_pem: String,
}

enum PrivateKeyMaterial {
    Ed25519(Box<Ed25519Key>),
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("algorithm", &self.algorithm())
            .finish_non_exhaustive()
    }
}

impl SigningKey {
    /// A new random key.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let failed = |_| KeyError::new("no key could be generated");
        Self::new(match algorithm {
            Algorithm::Ed25519 => {
                let mut seed = [0; 32];
                aws_lc_rs::rand::fill(&mut seed).map_err(failed)?;
                PrivateKeyMaterial::Ed25519(Box::new(Ed25519Key::from_bytes(&seed)))
            }
            Algorithm::Rsa2048 => {
                PrivateKeyMaterial::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?))
            }
            Algorithm::EcdsaP256 => PrivateKeyMaterial::P256(Box::new(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?,
            )),
        })
    }

    /// Reads an unencrypted PKCS#8 PEM (`-----BEGIN PRIVATE KEY-----`), as `openssl genpkey` and
    /// Node write it. As in environment variables, `\n` may be written for its line ends.
    ///
    /// # Errors
    /// Another label, an encrypted key, or a key of another kind or size than the three that are
    /// supported, with the command that makes a usable key.
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, KeyError> {
        let pem = pem.replace("\\r", "").replace("\\n", "\n");
        let pem = pem.trim();
        let label = pem
            .strip_prefix("-----BEGIN ")
            .and_then(|rest| rest.split_once("-----"));
        let other = OTHER_LABELS
            .iter()
            .find(|(other, ..)| label.is_some_and(|(label, _)| label == *other));
        if let Some((_, what, command)) = other {
            return Err(KeyError::new(format!("the key is {what}: {command}")));
        }
        Self::decode(pem).map_err(|error| KeyError::new(format!("{}: {NEW_KEY}", error.detail)))
    }

    fn decode(pem: &str) -> Result<Self, KeyError> {
        let der = pem::decode(pem, LABEL).map_err(KeyError::new)?;
        let secret = if let Ok(key) = Ed25519Key::from_pkcs8_der(&der) {
            PrivateKeyMaterial::Ed25519(Box::new(key))
        } else if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der) {
            PrivateKeyMaterial::P256(Box::new(key))
        } else if let Ok(key) = RsaKeyPair::from_pkcs8(&der) {
            PrivateKeyMaterial::Rsa(Box::new(key))
        } else {
            return Err(KeyError::new(
                "the private key must be an Ed25519, RSA-2048 or P-256 key in PKCS#8",
            ));
        };
        Self::new(secret)
    }

    fn new(secret: PrivateKeyMaterial) -> Result<Self, KeyError> {
        let failed = |_| KeyError::new("the public key can't be encoded");
        let spki = match &secret {
            PrivateKeyMaterial::Ed25519(key) => [&ED25519_SPKI_HEAD[..], key.verifying_key().as_bytes()].concat(),
            PrivateKeyMaterial::Rsa(key) => AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key())
                .map_err(failed)?
                .as_ref()
                .to_vec(),
            PrivateKeyMaterial::P256(key) => AsDer::<PublicKeyX509Der<'_>>::as_der(key.public_key())
                .map_err(failed)?
                .as_ref()
                .to_vec(),
        };
        let public_pem = pem::encode(&spki, spki::LABEL);
        // What signs must also be able to verify: an RSA key of another size ends here.
        Spki::from_pem(&public_pem).map_err(KeyError::new)?;
        Ok(Self { secret, public_pem })
    }

    /// The key as an unencrypted PKCS#8 version 1 PEM.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn to_pkcs8_pem(&self) -> Result<String, KeyError> {
        let failed = |_| KeyError::new("the private key can't be encoded");
        Ok(match &self.secret {
            PrivateKeyMaterial::Ed25519(key) => pem::encode(&[&ED25519_PKCS8_HEAD[..], key.as_bytes()].concat(), LABEL),
            PrivateKeyMaterial::Rsa(key) => pem::encode(
                AsDer::<Pkcs8V1Der<'_>>::as_der(key.as_ref()).map_err(failed)?.as_ref(),
                LABEL,
            ),
            PrivateKeyMaterial::P256(key) => pem::encode(key.to_pkcs8v1().map_err(failed)?.as_ref(), LABEL),
        })
    }

    /// The public key as SPKI PEM: what belongs into `client.publicKey`.
    #[must_use]
    pub fn public_key_pem(&self) -> &str {
        &self.public_pem
    }

    /// Algorithm of the key's signatures.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.secret {
            PrivateKeyMaterial::Ed25519(_) => Algorithm::Ed25519,
            PrivateKeyMaterial::Rsa(_) => Algorithm::Rsa2048,
            PrivateKeyMaterial::P256(_) => Algorithm::EcdsaP256,
        }
    }

    /// Signs a message: Ed25519 in 64 bytes, RSA in 256, ECDSA in DER.
    ///
    /// # Errors
    /// If the system has no memory or randomness to give.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::new("the message couldn't be signed");
        match &self.secret {
            PrivateKeyMaterial::Ed25519(key) => Ok(key.sign(message).to_vec()),
            PrivateKeyMaterial::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
            PrivateKeyMaterial::P256(key) => Ok(key
                .sign(&SystemRandom::new(), message)
                .map_err(failed)?
                .as_ref()
                .to_vec()),
        }
    }
}
