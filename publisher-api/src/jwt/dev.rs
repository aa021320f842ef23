//! The issuer of `receipts dev-token`: a key of this data directory, trusted where no other issuer
//! is configured.

use std::path::{Path, PathBuf};

/// Its `iss`.
pub const ISSUER: &str = "receipts-dev";
/// Its `aud`.
pub const AUDIENCE: &str = "receipts";

/// Where its private key lies: an Ed25519 key, PKCS#8 in PEM, for its owner alone.
#[must_use]
pub fn key_file(data: &Path) -> PathBuf {
    data.join("dev-key.pem")
}

/// Where its public key lies: a JWKS.
#[must_use]
pub fn jwks_file(data: &Path) -> PathBuf {
    data.join("dev-jwks.json")
}
