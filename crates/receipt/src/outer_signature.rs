//! The report of a bad outer signature.

use std::fmt;

use crate::PublicKey;
use crate::key::sha256;
use crate::reason::describe;
use crate::verdict::RejectReason;

/// An outer signature that isn't the key's. Its text names the bytes that were verified and the
/// key, so that the sender can compare them with its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadOuterSignature {
    /// `bad_request_signature` or `bad_batch_signature`.
    pub reason: RejectReason,
    /// Bytes that the signature should be over.
    pub bytes: usize,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// SHA-256 of the key's SPKI DER.
    pub key_fingerprint: [u8; 32],
}

impl BadOuterSignature {
    pub(crate) fn new(reason: RejectReason, message: &[u8], key: &PublicKey) -> Self {
        Self {
            reason,
            bytes: message.len(),
            sha256: sha256(message),
            key_fingerprint: *key.fingerprint(),
        }
    }
}

impl fmt::Display for BadOuterSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digest, key) = (hex::encode(self.sha256), hex::encode(self.key_fingerprint));
        let (what, bytes) = (describe(self.reason), self.bytes);
        write!(
            out,
            "{what}; those are {bytes} bytes with SHA-256 {digest}, and the key's fingerprint is {key}"
        )
    }
}
