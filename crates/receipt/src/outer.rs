//! The outer signature: of the request that brought a receipt, or of the batch. Whoever made it
//! sent the bytes.

use std::borrow::Cow;

use uuid::Uuid;

use crate::algorithm::ImpossibleLength;
use crate::batch::{self, Batch};
use crate::canonical::write_value;
use crate::check::{self, BatchHead, ReceiptHead};
use crate::fault::{FaultCode, FormatError};
use crate::judge::{Arrival, BodyKind, Judge};
use crate::key::{KeyedCheck, verify_all};
use crate::outer_signature::BadOuterSignature;
use crate::verdict::RejectReason;
use crate::{Algorithm, PublicKey, SignatureBytes, parse_receipt, rules, scratch};

/// Key that made an outer signature, and for which bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// SHA-256 of the key's SPKI DER.
    pub key_fingerprint: [u8; 32],
    /// Distinct `client.id`s of the receipts, in ascending order; at least one. They are claims.
    pub client_ids: Vec<Uuid>,
}

/// A well-formed receipt whose request's signature isn't verified yet.
#[derive(Debug)]
#[must_use = "the request's signature must be verified"]
pub struct UnverifiedReceipt {
    head: ReceiptHead,
    key_pem: String,
}

impl UnverifiedReceipt {
    /// Algorithm of the receipt, and so of its request's signature.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.head.algorithm
    }
}

/// Verdict on a receipt's outer signature.
pub type VerifiedReceiptHead = Result<(ReceiptHead, Signer), NotSigned>;

/// A request that brought a receipt, and whose signature isn't verified yet.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The receipt in the body.
    pub receipt: &'a UnverifiedReceipt,
    /// The body.
    pub body: &'a [u8],
    /// `X-Service-Signature`.
    pub header: &'a str,
}

/// A well-formed batch whose signature isn't verified yet.
#[derive(Debug)]
#[must_use = "its signature must be verified"]
pub struct UnverifiedBatch {
    head: BatchHead,
    client_ids: Vec<Uuid>,
    key_pem: String,
    payload: Vec<u8>,
    signature: SignatureBytes,
}

impl UnverifiedBatch {
    /// Members that the answer names.
    #[must_use]
    pub fn head(&self) -> &BatchHead {
        &self.head
    }
}

/// Why a body isn't taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    /// The body isn't a well-formed receipt or batch, or its key can't be used.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The outer signature can't be one.
    #[error(transparent)]
    Length(#[from] ImpossibleLength),
    /// The outer signature isn't the key's.
    #[error(transparent)]
    Signature(#[from] BadOuterSignature),
}

impl Judge {
    /// Reads a body as one well-formed receipt, as [`check_receipt`](crate::check_receipt) does,
    /// without verifying a signature. `header` is `X-Service-Signature`.
    ///
    /// # Errors
    /// [`NotSigned`], never for its signature.
    pub fn read_signed_receipt(
        &self,
        body: &[u8],
        received_at_ms: i64,
        header: &str,
    ) -> Result<UnverifiedReceipt, NotSigned> {
        scratch::with(|scratch| {
            let receipt = parse_receipt(body, received_at_ms, &self.limits, scratch)?;
            let bytes = rules::signature(header).map_or(0, |signature| signature.len());
            ImpossibleLength::check(receipt.algorithm, bytes)?;
            Ok(UnverifiedReceipt {
                head: ReceiptHead::of(&receipt),
                key_pem: receipt.public_key.into_owned(),
            })
        })
    }

    /// Verifies that each header is the signature over its body by its receipt's key. Together they
    /// cost less than one by one. Where there is no request, what is there is returned.
    pub fn verify_receipts<'a, E>(
        &self,
        requests: impl IntoIterator<Item = Result<SignedRequest<'a>, E>>,
    ) -> Vec<Result<VerifiedReceiptHead, E>> {
        let requests = requests.into_iter().map(|request| {
            let request = request?;
            let key = self.key(&request.receipt.key_pem, "/client/publicKey");
            // Bytes that can't be a signature, where the header isn't one.
            Ok((request, key, rules::signature(request.header).unwrap_or_default()))
        });
        let requests: Vec<Result<_, E>> = requests.collect();
        let verdicts = verify_all(requests.iter().map(|request| match request {
            Ok((request, Ok(key), signature)) => Ok(KeyedCheck {
                key,
                message: request.body,
                sha256: None,
                signature,
            }),
            _ => Err(()),
        }));
        let verified = requests.into_iter().zip(verdicts).map(|(request, verdict)| {
            request.map(|(request, key, _)| {
                let key = key?;
                if verdict != Ok(true) {
                    return Err(BadOuterSignature::new(RejectReason::BadRequestSignature, request.body, &key).into());
                }
                let head = request.receipt.head;
                let signer = Signer {
                    key_fingerprint: *key.fingerprint(),
                    client_ids: vec![head.client_id],
                };
                Ok((head, signer))
            })
        });
        verified.collect()
    }

    /// Checks that a body is one well-formed receipt, and that `header` is its key's signature over
    /// the body.
    pub fn check_signed_receipt(
        &self,
        body: &[u8],
        received_at_ms: i64,
        header: &str,
    ) -> Result<(ReceiptHead, Signer), NotSigned> {
        let receipt = self.read_signed_receipt(body, received_at_ms, header)?;
        let request = Ok::<_, NotSigned>(SignedRequest {
            receipt: &receipt,
            body,
            header,
        });
        // One request has one result.
        self.verify_receipts([request]).remove(0).flatten()
    }

    /// Reads a body as one well-formed batch, as [`check_batch`](crate::check_batch) does, without
    /// verifying a signature.
    ///
    /// # Errors
    /// [`NotSigned`], never for its signature.
    pub fn read_signed_batch(&self, body: &[u8], received_at_ms: i64) -> Result<UnverifiedBatch, NotSigned> {
        let text = self.text(&Arrival {
            kind: BodyKind::Batch,
            body,
            request_signature: None,
            received_at_ms,
        })?;
        let (mut client_ids, mut payload) = (Vec::new(), Vec::new());
        let (batch, head) = scratch::with(|scratch| {
            let mut receipts = Vec::with_capacity(text.len());
            let read = check::read_batch(text, received_at_ms, &self.limits, scratch, &mut |receipt, tape| {
                if client_ids.last() != Some(&receipt.client_id) {
                    client_ids.push(receipt.client_id);
                }
                if !receipts.is_empty() {
                    receipts.push(b',');
                }
                write_value(tape, 0, text, &mut receipts);
            })?;
            batch::write_payload(&scratch.own, text, &receipts, &mut payload);
            Ok::<_, FormatError>(read)
        })?;
        ImpossibleLength::check(batch.algorithm, batch.signature.len())?;
        client_ids.sort_unstable();
        client_ids.dedup();
        let Batch { signature, key_pem, .. } = batch;
        Ok(UnverifiedBatch {
            head,
            client_ids,
            key_pem: key_pem.map(Cow::into_owned).unwrap_or_default(),
            payload,
            signature,
        })
    }

    /// Verifies the signature of a batch, which its receipts' key must have made.
    pub fn verify_batch(&self, batch: UnverifiedBatch) -> Result<(BatchHead, Signer), NotSigned> {
        let UnverifiedBatch {
            head,
            client_ids,
            key_pem,
            payload,
            signature,
        } = batch;
        let key = self.key(&key_pem, "/receipts/0/client/publicKey")?;
        check_batch(&key, head.algorithm, &signature, &payload)?;
        let signer = Signer {
            key_fingerprint: *key.fingerprint(),
            client_ids,
        };
        Ok((head, signer))
    }

    /// Checks that a body is one well-formed batch that its receipts' key signed.
    pub fn check_signed_batch(&self, body: &[u8], received_at_ms: i64) -> Result<(BatchHead, Signer), NotSigned> {
        self.verify_batch(self.read_signed_batch(body, received_at_ms)?)
    }

    /// Checks a batch's signature over its canonical bytes, and returns the key's fingerprint.
    ///
    /// # Errors
    /// The reason, which is `bad_public_key` where no receipt carries a usable key, and its
    /// explanation.
    pub(crate) fn check_batch_signature(
        &self,
        batch: &Batch<'_>,
        payload: &[u8],
    ) -> Result<[u8; 32], (RejectReason, String)> {
        let no_key = |detail| (RejectReason::BadPublicKey, detail);
        let Some(pem) = batch.key_pem.as_deref() else {
            return Err(no_key(
                "no receipt of the batch carries a usable client.publicKey".to_owned(),
            ));
        };
        let key = self.keys.get(pem).map_err(|error| no_key(error.detail))?;
        match check_batch(&key, batch.algorithm, &batch.signature, payload) {
            Ok(()) => Ok(*key.fingerprint()),
            Err(bad) => Err((bad.reason, bad.to_string())),
        }
    }

    fn key(&self, pem: &str, pointer: &str) -> Result<PublicKey, FormatError> {
        let unusable =
            |error: crate::KeyError| FormatError::one(pointer.to_owned(), FaultCode::InvalidPublicKey, error.detail);
        self.keys.get(pem).map_err(unusable)
    }
}

fn check_batch(
    key: &PublicKey,
    algorithm: Algorithm,
    signature: &[u8],
    payload: &[u8],
) -> Result<(), BadOuterSignature> {
    if key.algorithm() == algorithm && key.verify(payload, signature) {
        return Ok(());
    }
    Err(BadOuterSignature::new(RejectReason::BadBatchSignature, payload, key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::key::sha256;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use crate::{Limits, SigningKey, check_batch, check_receipt, sign_batch, sign_receipt};

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
        let (limits, judge) = (Limits::default(), Judge::new(Limits::default(), 10));
        for algorithm in [Algorithm::Ed25519, Algorithm::EcdsaP256] {
            let key = SigningKey::generate(algorithm).unwrap();
            let fingerprint = *PublicKey::from_pem(key.public_key_pem()).unwrap().fingerprint();
            let [small, large] = [1, u128::MAX - 1].map(Uuid::from_u128);

            let receipt = sign_receipt(unsigned(1).as_bytes(), &key, &limits).unwrap();
            let header = STANDARD.encode(key.sign(&receipt).unwrap());
            let (head, signer) = judge.check_signed_receipt(&receipt, NOW_MS, &header).unwrap();
            assert_eq!(head, check_receipt(&receipt, NOW_MS, &limits).unwrap());
            assert_eq!((signer.key_fingerprint, signer.client_ids), (fingerprint, vec![small]));

            let receipts = [u128::MAX - 1, 1, 1, u128::MAX - 1].map(unsigned).join(",");
            let batch = format!(r#"{{"version":"1.0.0","batchId":"b","receipts":[{receipts}]}}"#);
            let batch = sign_batch(batch.as_bytes(), &key, &limits).unwrap();
            let (head, signer) = judge.check_signed_batch(&batch, NOW_MS).unwrap();
            assert_eq!(head, check_batch(&batch, NOW_MS, &limits).unwrap());
            assert_eq!(head.client_id, large, "that of the first receipt");
            assert_eq!(
                (signer.key_fingerprint, signer.client_ids),
                (fingerprint, vec![small, large])
            );
        }
    }

    #[test]
    fn faults_of_the_format_come_first() {
        let (limits, judge) = (Limits::default(), Judge::new(Limits::default(), 10));
        for body in ["", "{}", "[]", r#"{"receipts":[]}"#, r#"{"receipts":[{}]}"#] {
            let body = body.as_bytes();
            assert_eq!(
                judge.check_signed_receipt(body, NOW_MS, "AAAA").unwrap_err(),
                NotSigned::Format(check_receipt(body, NOW_MS, &limits).unwrap_err())
            );
            assert_eq!(
                judge.check_signed_batch(body, NOW_MS).unwrap_err(),
                NotSigned::Format(check_batch(body, NOW_MS, &limits).unwrap_err())
            );
        }
    }

    #[test]
    fn a_bad_signature_is_reported_with_digest_and_fingerprint() {
        let (limits, judge) = (Limits::default(), Judge::new(Limits::default(), 10));
        let key = SigningKey::generate(Algorithm::Ed25519).unwrap();
        let fingerprint = *PublicKey::from_pem(key.public_key_pem()).unwrap().fingerprint();
        let receipt = sign_receipt(unsigned(1).as_bytes(), &key, &limits).unwrap();
        let of_another = STANDARD.encode(key.sign(b"another body").unwrap());
        let bad = NotSigned::Signature(BadOuterSignature {
            reason: RejectReason::BadRequestSignature,
            bytes: receipt.len(),
            sha256: sha256(&receipt),
            key_fingerprint: fingerprint,
        });
        assert_eq!(
            judge.check_signed_receipt(&receipt, NOW_MS, &of_another),
            Err(bad.clone())
        );
        assert!(bad.to_string().contains(&hex::encode(fingerprint)));
        assert!(bad.to_string().contains(&hex::encode(sha256(&receipt))));

        let batch = format!(r#"{{"version":"1.0.0","batchId":"b","receipts":[{}]}}"#, unsigned(1));
        let batch = String::from_utf8(sign_batch(batch.as_bytes(), &key, &limits).unwrap()).unwrap();
        let other = batch.replace(r#""batchId":"b""#, r#""batchId":"c""#);
        let Err(NotSigned::Signature(bad)) = judge.check_signed_batch(other.as_bytes(), NOW_MS) else {
            panic!("it must be refused");
        };
        // What the sender finds if it canonicalises the batch that it sent, without its two
        // signature members.
        let mut members: serde_json::Value = serde_json::from_str(&other).unwrap();
        members
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !name.starts_with("signature"));
        let canonical = crate::canonicalize(members.to_string().as_bytes(), 32).unwrap();
        assert_eq!(
            (bad.reason, bad.sha256),
            (RejectReason::BadBatchSignature, sha256(&canonical))
        );
    }
}
