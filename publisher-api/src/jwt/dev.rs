//! The issuer of `receipts dev-token`: a key of this data directory, trusted where no other issuer
//! is configured.

use std::path::{Path, PathBuf};

/// `iss` of its tokens.
pub const ISSUER: &str = "receipts-dev";
/// `aud` of its tokens.
pub const AUDIENCE: &str = "receipts";

/// File of its private key: an Ed25519 key, PKCS#8 in PEM, for its owner alone.
#[must_use]
pub fn key_file(data: &Path) -> PathBuf {
    data.join("dev-key.pem")
}

/// File of its public key: a JWKS.
#[must_use]
pub fn jwks_file(data: &Path) -> PathBuf {
    data.join("dev-jwks.json")
}
