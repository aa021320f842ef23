//! The domain: receipts as JSON, canonical bytes, hashes, keys, signatures, verdicts. Pure and synchronous.
#![forbid(unsafe_code)]
#![allow(clippy::todo, unused_variables, dead_code, missing_docs)] // skeleton

mod algorithm;
mod fault;
mod limits;
mod receipt;
mod verdict;

pub use algorithm::{Algorithm, Purpose, UnknownAlgorithm, UnknownPurpose};
pub use fault::{Fault, FaultCode, FormatError};
pub use limits::Limits;
pub use receipt::{Receipt, SignatureBytes};
pub use verdict::{Judged, RejectReason, RejectedReceipt, UnknownReason, VerifiedReceipt};

use serde::Serialize;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Default)]
pub struct Scratch {}
#[derive(Clone, Copy, Debug)]
pub struct ReceiptHead {
    pub receipt_id: Uuid,
    pub client_id: Uuid,
}
#[derive(Clone, Debug)]
pub struct BatchHead {
    pub batch_id: String,
    pub receipt_count: u32,
    pub client_id: Uuid,
}
pub fn check_receipt(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<ReceiptHead, FormatError> {
    todo!()
}
pub fn check_batch(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<BatchHead, FormatError> {
    todo!()
}
/// `X-Service-Signature` is base64 of 1 to 512 bytes.
pub fn check_request_signature(header: &str) -> Result<(), Fault> {
    todo!()
}
pub fn parse_receipt<'a>(
    body: &'a [u8],
    received_at_ms: i64,
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Receipt<'a>, FormatError> {
    todo!()
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    Receipt,
    Batch,
}
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub kind: BodyKind,
    pub body: &'a [u8],
    pub request_signature: Option<&'a str>,
    pub received_at_ms: i64,
}
pub struct Judge {}
impl Judge {
    pub fn new(limits: Limits, key_cache_entries_max: usize) -> Self {
        todo!()
    }
    pub fn limits(&self) -> &Limits {
        todo!()
    }
    pub fn judge<R: Send>(&self, arrival: &Arrival<'_>, each: &(impl Fn(u16, Judged<'_>) -> R + Sync)) -> Vec<R> {
        todo!()
    }
    /// The gateway's `inline` mode: the request signature of a single receipt.
    pub fn check_request_signature(&self, body: &[u8], header: &str) -> Result<(), RejectReason> {
        todo!()
    }
    pub fn explain(&self, arrival: &Arrival<'_>) -> Explanation {
        todo!()
    }
}
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// "verified" or "rejected"
    pub outcome: &'static str,
    pub reason: Option<RejectReason>,
}
pub fn canonicalize(json: &[u8], depth_max: usize) -> Result<Vec<u8>, FormatError> {
    todo!()
}
#[derive(Clone, Debug)]
pub struct PublicKey(Arc<()>);
impl PublicKey {
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        todo!()
    }
    pub fn algorithm(&self) -> Algorithm {
        todo!()
    }
    pub fn fingerprint(&self) -> &[u8; 32] {
        todo!()
    }
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        todo!()
    }
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct KeyError {
    pub detail: String,
}
pub struct KeyCache {}
impl KeyCache {
    pub fn new(entries_max: usize) -> Self {
        todo!()
    }
    pub fn get(&self, pem: &str) -> Result<PublicKey, KeyError> {
        todo!()
    }
}
pub struct SigningKey {}
impl SigningKey {
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        todo!()
    }
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, KeyError> {
        todo!()
    }
    pub fn to_pkcs8_pem(&self) -> Result<String, KeyError> {
        todo!()
    }
    pub fn public_key_pem(&self) -> &str {
        todo!()
    }
    pub fn algorithm(&self) -> Algorithm {
        todo!()
    }
    /// Ed25519 64 bytes, RSA 256, ECDSA in DER.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        todo!()
    }
}
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Key(#[from] KeyError),
}
pub fn sign_receipt(json: &[u8], key: &SigningKey, limits: &Limits) -> Result<Vec<u8>, SignError> {
    todo!()
}
pub fn sign_batch(json: &[u8], key: &SigningKey, limits: &Limits) -> Result<Vec<u8>, SignError> {
    todo!()
}
#[derive(Clone, Copy, Debug)]
pub struct SignatureCheck<'a> {
    pub algorithm: Algorithm,
    pub public_key_pem: &'a str,
    pub message: &'a [u8],
    pub signature: &'a [u8],
}
pub fn verify_block(checks: &[SignatureCheck<'_>], keys: &KeyCache) -> Vec<Result<(), RejectReason>> {
    todo!()
}
