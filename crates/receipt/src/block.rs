//! Raw signature checks, many at once.

use rayon::prelude::*;

use crate::{Algorithm, KeyCache, RejectReason};

/// A signature to check.
#[derive(Clone, Copy, Debug)]
pub struct SignatureCheck<'a> {
    /// Algorithm that the signature claims.
    pub algorithm: Algorithm,
    /// The key, as SPKI PEM.
    pub public_key_pem: &'a str,
    /// Signed bytes.
    pub message: &'a [u8],
    /// The signature's bytes.
    pub signature: &'a [u8],
}

impl SignatureCheck<'_> {
    /// Checks this signature.
    ///
    /// # Errors
    /// `BadPublicKey`, `KeyAlgorithmMismatch` or `BadSignature`.
    pub fn verify(&self, keys: &KeyCache) -> Result<(), RejectReason> {
        let key = keys.get(self.public_key_pem).map_err(|_| RejectReason::BadPublicKey)?;
        if key.algorithm() != self.algorithm {
            return Err(RejectReason::KeyAlgorithmMismatch);
        }
        if key.verify(self.message, self.signature) {
            Ok(())
        } else {
            Err(RejectReason::BadSignature)
        }
    }
}

/// Checks a block of signatures in parallel on the rayon pool of the calling thread; results are in
/// the block's order.
///
/// Each is verified by itself. Batch equations are faster and forbidden: with them, who crafts
/// signatures decides the verdict on a neighbour.
#[must_use]
pub fn verify_block(checks: &[SignatureCheck<'_>], keys: &KeyCache) -> Vec<Result<(), RejectReason>> {
    checks
        .par_iter()
        .with_min_len(8)
        .map(|check| check.verify(keys))
        .collect()
}
