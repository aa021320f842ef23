//! The format check: everything that can be known of a body without cryptography. This is what the gateway asks.

use std::ops::ControlFlow;

use uuid::Uuid;

use crate::fault::{Fault, Faults, FormatError};
use crate::key::sha256;
use crate::scan::utf8;
use crate::spki::Spki;
use crate::{Algorithm, Limits, Receipt, batch, parse_receipt, receipt, rules, scratch};

/// What the answer to a receipt names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptHead {
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// `client.id`.
    pub client_id: Uuid,
    /// `signatureAlgorithm`, and so the kind of `client.publicKey`.
    pub algorithm: Algorithm,
}

/// What the answer to a batch names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// `batchId`.
    pub batch_id: String,
    /// How many receipts it holds.
    pub receipt_count: u32,
    /// `client.id` of the first receipt.
    pub client_id: Uuid,
}

/// Signer of a receipt or batch, as stated: nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// SHA-256 of the SPKI DER of the one key that all receipts carry.
    pub key_fingerprint: [u8; 32],
    /// Distinct `client.id`s of the receipts, in ascending order; at least one.
    pub client_ids: Vec<Uuid>,
}

/// A signer while receipts are read.
#[derive(Default)]
struct Signing {
    key_fingerprint: Option<[u8; 32]>,
    client_ids: Vec<Uuid>,
}

impl Signing {
    fn add(&mut self, receipt: &Receipt<'_>) {
        if self.client_ids.last() != Some(&receipt.client_id) {
            self.client_ids.push(receipt.client_id);
        }
        if self.key_fingerprint.is_none() {
            let spki = Spki::from_pem(&receipt.public_key);
            self.key_fingerprint = spki.ok().map(|spki| sha256(&spki.der));
        }
    }

    fn finish(mut self) -> Signer {
        self.client_ids.sort_unstable();
        self.client_ids.dedup();
        Signer {
            // A well-formed receipt carries a well-formed key.
            key_fingerprint: self.key_fingerprint.unwrap_or_default(),
            client_ids: self.client_ids,
        }
    }
}

/// Checks that a body is one well-formed receipt. `received_at_ms` is its arrival in Unix milliseconds.
///
/// # Errors
/// Up to twenty faults; one alone where the body isn't I-JSON.
pub fn check_receipt(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<ReceiptHead, FormatError> {
    read_receipt(body, received_at_ms, limits, |_| {})
}

/// Checks a receipt as [`check_receipt`] does, and returns its signer too.
///
/// # Errors
/// As [`check_receipt`].
pub fn check_receipt_and_signer(
    body: &[u8],
    received_at_ms: i64,
    limits: &Limits,
) -> Result<(ReceiptHead, Signer), FormatError> {
    let mut signing = Signing::default();
    let head = read_receipt(body, received_at_ms, limits, |receipt| signing.add(receipt))?;
    Ok((head, signing.finish()))
}

/// Checks a receipt, and shows it to `each`.
fn read_receipt(
    body: &[u8],
    received_at_ms: i64,
    limits: &Limits,
    each: impl FnOnce(&Receipt<'_>),
) -> Result<ReceiptHead, FormatError> {
    scratch::with(|scratch| {
        let receipt = parse_receipt(body, received_at_ms, limits, scratch)?;
        each(&receipt);
        Ok(ReceiptHead {
            receipt_id: receipt.receipt_id,
            client_id: receipt.client_id,
            algorithm: receipt.algorithm,
        })
    })
}

/// Checks that a body is one well-formed batch of well-formed receipts. `received_at_ms` is its arrival in Unix
/// milliseconds.
///
/// # Errors
/// Up to twenty faults; one alone where the body isn't I-JSON or exceeds a limit.
pub fn check_batch(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<BatchHead, FormatError> {
    read_batch(body, received_at_ms, limits, |_| {})
}

/// Checks a batch as [`check_batch`] does, and returns its signer too.
///
/// # Errors
/// As [`check_batch`].
pub fn check_batch_and_signer(
    body: &[u8],
    received_at_ms: i64,
    limits: &Limits,
) -> Result<(BatchHead, Signer), FormatError> {
    let mut signing = Signing::default();
    let head = read_batch(body, received_at_ms, limits, |receipt| signing.add(receipt))?;
    Ok((head, signing.finish()))
}

/// Checks a batch, and shows its well-formed receipts to `each`, in order.
fn read_batch(
    body: &[u8],
    received_at_ms: i64,
    limits: &Limits,
    mut each: impl FnMut(&Receipt<'_>),
) -> Result<BatchHead, FormatError> {
    batch::check_size(body.len(), limits)?;
    let text = utf8(body)?;
    let mut faults = Faults::default();
    let mut client_id = None;
    let batch = scratch::with(|scratch| {
        let mut key_kinds = std::mem::take(&mut scratch.key_kinds);
        let mut key_kind = |pem: &str| key_kinds.of(pem);
        let batch = batch::read(text, limits, scratch, &mut |index, tape| {
            match receipt::read(tape, text, received_at_ms, limits, &mut key_kind) {
                Ok(receipt) => {
                    client_id.get_or_insert(receipt.client_id);
                    each(&receipt);
                }
                Err(unreadable) => faults.absorb(&format!("/receipts/{index}"), unreadable.error),
            }
            if faults.is_full() {
                ControlFlow::Break(std::mem::take(&mut faults).into_error())
            } else {
                ControlFlow::Continue(())
            }
        });
        scratch.key_kinds = key_kinds;
        batch
    });
    if !faults.is_empty() {
        // JSON that ends badly is the one thing to say; otherwise the batch's own faults follow the receipts'.
        return match batch {
            Err(error) if error.faults.iter().any(|fault| !fault.code.is_of_a_member()) => Err(error),
            Err(error) => {
                faults.absorb("", error);
                Err(faults.into_error())
            }
            Ok(_) => Err(faults.into_error()),
        };
    }
    let batch = batch?;
    let receipt_count = u32::try_from(batch.receipts.len()).unwrap_or(u32::MAX);
    // A batch without faults has receipts without faults, and at least one.
    Ok(BatchHead {
        batch_id: batch.batch_id.into_owned(),
        receipt_count,
        client_id: client_id.unwrap_or_default(),
    })
}

/// Checks that an `X-Service-Signature` header is base64 of 1 to 512 bytes, and says of how many; whether that can be a
/// signature is told by [`Algorithm::signs_in`]. The pointer of the fault is empty.
///
/// # Errors
/// `invalid_base64` or `too_long`.
pub fn check_request_signature(header: &str) -> Result<usize, Fault> {
    rules::signature(header).map(|bytes| bytes.len()).map_err(|error| {
        let (code, detail) = error.explain();
        Fault {
            pointer: String::new(),
            code,
            detail: format!("X-Service-Signature: {detail}"),
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{PublicKey, SigningKey, sign_batch, sign_receipt};

    /// 2027-01-15T08:00:00Z.
    const NOW_MS: i64 = 1_800_000_000_000;

    fn unsigned(client_id: u128) -> String {
        let (id, hash) = (Uuid::from_u128(client_id), "ab".repeat(32));
        format!(
            r#"{{"version":"1.0.0","receiptId":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10","timestamp":"2027-01-15T08:00:00.000Z",
            "content":{{"entryId":"7d0f4b1e-3c11-4b6e-9a6b-0d6f3c7b9a10","url":"https://example.com/a",
            "contentHash":"sha256:{hash}","publisher":"example.com"}},
            "client":{{"id":"{id}","name":"a","version":"1","organization":"b"}},
            "usage":{{"purpose":"inference","context":"c"}}}}"#
        )
    }

    #[test]
    fn a_signer_is_the_key_and_every_client_once() {
        let limits = Limits::default();
        for algorithm in [Algorithm::Ed25519, Algorithm::EcdsaP256] {
            let key = SigningKey::generate(algorithm).unwrap();
            let fingerprint = *PublicKey::from_pem(key.public_key_pem()).unwrap().fingerprint();
            let [small, large] = [1, u128::MAX - 1].map(Uuid::from_u128);

            let receipt = sign_receipt(unsigned(1).as_bytes(), &key, &limits).unwrap();
            let (head, signer) = check_receipt_and_signer(&receipt, NOW_MS, &limits).unwrap();
            assert_eq!(head, check_receipt(&receipt, NOW_MS, &limits).unwrap());
            assert_eq!((signer.key_fingerprint, signer.client_ids), (fingerprint, vec![small]));

            let receipts = [u128::MAX - 1, 1, 1, u128::MAX - 1].map(unsigned).join(",");
            let batch = format!(r#"{{"version":"1.0.0","batchId":"b","receipts":[{receipts}]}}"#);
            let batch = sign_batch(batch.as_bytes(), &key, &limits).unwrap();
            let (head, signer) = check_batch_and_signer(&batch, NOW_MS, &limits).unwrap();
            assert_eq!(head, check_batch(&batch, NOW_MS, &limits).unwrap());
            assert_eq!(head.client_id, large, "that of the first receipt");
            assert_eq!(
                (signer.key_fingerprint, signer.client_ids),
                (fingerprint, vec![small, large])
            );
        }
    }

    #[test]
    fn faults_are_those_of_the_plain_check() {
        let limits = Limits::default();
        for body in ["", "{}", "[]", r#"{"receipts":[]}"#, r#"{"receipts":[{}]}"#] {
            let body = body.as_bytes();
            assert_eq!(
                check_receipt_and_signer(body, NOW_MS, &limits).unwrap_err(),
                check_receipt(body, NOW_MS, &limits).unwrap_err()
            );
            assert_eq!(
                check_batch_and_signer(body, NOW_MS, &limits).unwrap_err(),
                check_batch(body, NOW_MS, &limits).unwrap_err()
            );
        }
    }
}
