//! Signature algorithms.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A signature algorithm, and with it the kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// RFC 8032, pure, strictly verified.
    Ed25519,
    /// PKCS#1 v1.5 with SHA-256 (RFC 8017 section 8.2), modulus of exactly 2048 bits.
    #[serde(rename = "RSA-2048")]
    Rsa2048,
    /// ECDSA over P-256 with SHA-256 (FIPS 186-5), signatures in DER or as 64 raw bytes.
    #[serde(rename = "ECDSA-P256")]
    EcdsaP256,
}

impl Algorithm {
    /// Every algorithm there is.
    pub const ALL: [Self; 3] = [Self::Ed25519, Self::Rsa2048, Self::EcdsaP256];

    /// As written in `signatureAlgorithm`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ed25519 => "Ed25519",
            Self::Rsa2048 => "RSA-2048",
            Self::EcdsaP256 => "ECDSA-P256",
        }
    }

    /// Cost of a verification, in those of Ed25519. With the rest that a receipt costs the service
    /// (docs/sizing.md), whoever chooses the dearest keys and signatures of an algorithm gets no
    /// more CPU for the same units than with Ed25519. benches/benches/verification_cost.rs measures
    /// those: 2 and 6 times Ed25519, beside twice as much of everything else.
    #[must_use]
    pub const fn verification_cost(self) -> u32 {
        match self {
            Self::Ed25519 => 1,
            Self::Rsa2048 => 2,
            Self::EcdsaP256 => 3,
        }
    }

    /// Whether a signature of this algorithm can have `bytes` bytes. Of ECDSA in DER (X.690) the
    /// least are two integers of one byte each, the most two of 33.
    #[must_use]
    pub const fn signs_in(self, bytes: usize) -> bool {
        match self {
            Self::Ed25519 => bytes == 64,
            Self::Rsa2048 => bytes == 256,
            Self::EcdsaP256 => matches!(bytes, 8..=72),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A signature that its algorithm can't have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no signature of {algorithm} has {bytes} bytes")]
pub struct ImpossibleLength {
    /// The receipt's or the batch's `signatureAlgorithm`.
    pub algorithm: Algorithm,
    /// Bytes of the signature.
    pub bytes: usize,
}

impl ImpossibleLength {
    pub(crate) fn check(algorithm: Algorithm, bytes: usize) -> Result<(), Self> {
        if algorithm.signs_in(bytes) {
            Ok(())
        } else {
            Err(Self { algorithm, bytes })
        }
    }
}

/// The text names no supported algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the algorithm must be Ed25519, RSA-2048 or ECDSA-P256")]
pub struct UnknownAlgorithm;

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str() == text)
            .ok_or(UnknownAlgorithm)
    }
}
