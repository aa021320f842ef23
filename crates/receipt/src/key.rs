//! Public keys, ready to verify with.

use std::sync::Arc;

use aws_lc_rs::digest::{Digest, SHA256, digest};
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};

use crate::ecdsa::{self, P256Check, P256Key};
use crate::ed25519::{self, Ed25519Check, Ed25519Key};
use crate::spki::Spki;
use crate::{Algorithm, KeyError};

/// A parsed public key. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct PublicKey(Arc<ParsedKey>);

#[derive(Debug)]
struct ParsedKey {
    fingerprint: [u8; 32],
    material: Material,
}

#[derive(Debug)]
enum Material {
    Ed25519(Box<Ed25519Key>),
    Rsa {
        key: ParsedPublicKey,
        /// PKCS#1.
        der: Vec<u8>,
    },
    P256(Box<P256Key>),
}

impl PublicKey {
    /// Parses an SPKI PEM (`-----BEGIN PUBLIC KEY-----`) of an Ed25519, RSA-2048 or P-256 key.
    ///
    /// # Errors
    /// A PEM of another label, shape or kind; a point that isn't on its curve; an Ed25519 point of
    /// small order or in an encoding that isn't canonical (RFC 8032 section 5.1.3).
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let spki = Spki::from_pem(pem).map_err(KeyError::new)?;
        let material = match spki.algorithm {
            Algorithm::Ed25519 => Material::Ed25519(Box::new(Ed25519Key::new(spki.key())?)),
            Algorithm::Rsa2048 => Material::Rsa {
                key: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, spki.key())
                    .map_err(|_| KeyError::new("the RSA key isn't usable"))?,
                der: spki.key().to_vec(),
            },
            Algorithm::EcdsaP256 => Material::P256(Box::new(P256Key::new(spki.key())?)),
        };
        Ok(Self(Arc::new(ParsedKey {
            fingerprint: sha256(&spki.der),
            material,
        })))
    }

    /// Algorithm of the key's signatures.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.0.material {
            Material::Ed25519(_) => Algorithm::Ed25519,
            Material::Rsa { .. } => Algorithm::Rsa2048,
            Material::P256(_) => Algorithm::EcdsaP256,
        }
    }

    /// An RSA key in PKCS#1.
    pub(crate) fn rsa_der(&self) -> Option<&[u8]> {
        match &self.0.material {
            Material::Rsa { der, .. } => Some(der),
            _ => None,
        }
    }

    /// SHA-256 of the key's SPKI DER.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.0.fingerprint
    }

    /// Whether `signature` is this key's over `message`. Ed25519 as ed25519-dalek's
    /// `verify_strict`; RSA PKCS#1 v1.5 with SHA-256; ECDSA with SHA-256, in DER or as 64 raw
    /// bytes.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0.material {
            Material::Ed25519(key) => key.verify(message, signature),
            _ => self.verify_hashed(message, &digest(&SHA256, message), signature),
        }
    }

    /// As [`verify`](Self::verify), where the message's SHA-256 is at hand.
    pub(crate) fn verify_hashed(&self, message: &[u8], sha256: &Digest, signature: &[u8]) -> bool {
        match &self.0.material {
            Material::Ed25519(key) => key.verify(message, signature),
            Material::Rsa { key, .. } => key.verify_digest_sig(sha256, signature).is_ok(),
            Material::P256(key) => key.verify(*sha256, signature),
        }
    }
}

/// A signature to verify.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedCheck<'a> {
    pub(crate) key: &'a PublicKey,
    pub(crate) message: &'a [u8],
    /// SHA-256 of the message, where it is at hand.
    pub(crate) sha256: Option<&'a Digest>,
    pub(crate) signature: &'a [u8],
}

impl<'a> KeyedCheck<'a> {
    fn of_p256(&self) -> Option<P256Check<'a>> {
        match &self.key.0.material {
            Material::P256(key) => Some(P256Check {
                key,
                sha256: self.sha256.copied().unwrap_or_else(|| digest(&SHA256, self.message)),
                signature: self.signature,
            }),
            _ => None,
        }
    }

    fn of_ed25519(&self) -> Option<Ed25519Check<'a>> {
        match &self.key.0.material {
            Material::Ed25519(key) => Some(Ed25519Check {
                key,
                message: self.message,
                signature: self.signature,
            }),
            _ => None,
        }
    }

    /// Verifies it.
    pub(crate) fn verify(&self) -> bool {
        match self.sha256 {
            Some(sha256) => self.key.verify_hashed(self.message, sha256, self.signature),
            None => self.key.verify(self.message, self.signature),
        }
    }
}

/// Verifies signatures, each by itself: a verdict doesn't depend on the others. Those of Ed25519
/// and P-256 cost less together than one by one. Where there is no check, what is there is
/// returned.
///
/// Batch equations would be faster and are forbidden: with them, who crafts signatures decides the
/// verdict on a neighbour.
pub(crate) fn verify_all<'a, E>(checks: impl IntoIterator<Item = Result<KeyedCheck<'a>, E>>) -> Vec<Result<bool, E>> {
    let checks: Vec<_> = checks.into_iter().collect();
    let of_ed25519 = checks.iter().flatten().filter_map(KeyedCheck::of_ed25519);
    let mut of_ed25519 = ed25519::verify_all(&of_ed25519.collect::<Vec<_>>()).into_iter();
    let of_p256 = checks.iter().flatten().filter_map(KeyedCheck::of_p256);
    let mut of_p256 = ecdsa::verify_all(&of_p256.collect::<Vec<_>>()).into_iter();
    let verdicts = checks.into_iter().map(|check| {
        check.map(|check| match check.key.algorithm() {
            Algorithm::Ed25519 => of_ed25519.next() == Some(true),
            Algorithm::EcdsaP256 => of_p256.next() == Some(true),
            Algorithm::Rsa2048 => check.verify(),
        })
    });
    verdicts.collect()
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}
