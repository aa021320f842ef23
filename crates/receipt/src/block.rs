//! Raw signature checks, many at once.

use rayon::prelude::*;

use crate::judge::JUDGED_TOGETHER;
use crate::key::{KeyedCheck, verify_all};
use crate::{Algorithm, KeyCache, PublicKey, RejectReason};

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
    /// Returns its key.
    ///
    /// # Errors
    /// `BadPublicKey` or `KeyAlgorithmMismatch`.
    fn key(&self, keys: &KeyCache) -> Result<PublicKey, RejectReason> {
        let key = keys.get(self.public_key_pem).map_err(|_| RejectReason::BadPublicKey)?;
        if key.algorithm() == self.algorithm {
            Ok(key)
        } else {
            Err(RejectReason::KeyAlgorithmMismatch)
        }
    }
}

/// Checks a block of signatures in parallel on the rayon pool of the calling thread; results are in
/// the block's order: `BadPublicKey`, `KeyAlgorithmMismatch` or `BadSignature`.
#[must_use]
pub fn verify_block(checks: &[SignatureCheck<'_>], keys: &KeyCache) -> Vec<Result<(), RejectReason>> {
    let chunks = checks.par_chunks(JUDGED_TOGETHER);
    chunks.flat_map_iter(|chunk| verify_chunk(chunk, keys)).collect()
}

fn verify_chunk(checks: &[SignatureCheck<'_>], keys: &KeyCache) -> Vec<Result<(), RejectReason>> {
    let found: Vec<_> = checks.iter().map(|check| check.key(keys)).collect();
    let keyed = found.iter().zip(checks).map(|(key, check)| {
        Ok(KeyedCheck {
            key: key.as_ref().map_err(|reason| *reason)?,
            message: check.message,
            sha256: None,
            signature: check.signature,
        })
    });
    let verdicts = verify_all(keyed).into_iter();
    let verdicts = verdicts.map(|verdict| {
        if verdict? {
            Ok(())
        } else {
            Err(RejectReason::BadSignature)
        }
    });
    verdicts.collect()
}
