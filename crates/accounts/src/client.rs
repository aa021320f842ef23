//! Clients, and the keys that an operator registers and revokes for them.

mod keys;

use std::fmt;

use uuid::Uuid;

pub use keys::{CLIENTS_LISTED_MAX, ClientInfo, ClientKeyState, NewClientKey, Revoked};

/// SHA-256 of a key's SPKI DER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// A key that signs as a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    /// `client.id`.
    pub client_id: Uuid,
    /// The key.
    pub fingerprint: Fingerprint,
}

/// Text that isn't 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key's fingerprint has 64 hexadecimal digits: SHA-256 of its SPKI DER")]
pub struct FingerprintError;

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).map_err(|_| FingerprintError)?;
        Ok(Self(bytes))
    }
}
