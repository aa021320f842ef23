//! Samples of `receipts new`.

use clap::ValueEnum;
use receipt::SigningKey;
use serde_json::Value;
use service::instant::{DAY_MS, now_ms, rfc3339_ms};
use sha2::{Digest, Sha256};

use super::unsigned::UnsignedReceipt;
use crate::failure::CommandFailure;

/// Content of a sample, where no other is given.
pub(super) const URL: &str = "https://news.example/lead";

/// Kind of a sample, and the outcome of its receipts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Sample {
    /// A receipt: 202, verified
    Receipt,
    /// A receipt twice: 202, counted once
    Duplicate,
    /// Two receipts under one ID: 202, a conflict
    Conflict,
    /// A receipt that was changed after it was signed: 202, rejected
    BadSignature,
    /// A receipt that breaks three rules of the format: 400 with a pointer to each
    BadFormat,
    /// A receipt of a use 31 days ago: 400
    OldTimestamp,
}

/// Hash that a sample has instead of that of its content.
pub(super) fn content_hash(url: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(url)))
}

impl Sample {
    /// Receipts of the sample, which begins with `receipt`.
    ///
    /// # Errors
    /// The key can't sign.
    pub(super) fn receipts(self, receipt: &UnsignedReceipt, key: &SigningKey) -> Result<Vec<Vec<u8>>, CommandFailure> {
        let mut other = receipt.clone();
        let signed = receipt.signed(key)?;
        Ok(match self {
            Self::Receipt => vec![signed],
            Self::Duplicate => vec![signed.clone(), signed],
            Self::Conflict => {
                other.usage.context += ", another";
                vec![signed, other.signed(key)?]
            }
            Self::OldTimestamp => {
                other.timestamp = rfc3339_ms(now_ms() - 31 * DAY_MS);
                vec![other.signed(key)?]
            }
            Self::BadSignature => vec![changed(&signed, |receipt| {
                receipt["usage"]["context"] = "changed after it was signed".into();
            })?],
            Self::BadFormat => vec![changed(&signed, |receipt| {
                receipt["content"]["contentHash"] = "none".into();
                receipt["usage"]["purpose"] = "advertising".into();
                receipt["client"]["id"] = "client-1".into();
            })?],
        })
    }
}

fn changed(signed: &[u8], change: impl FnOnce(&mut Value)) -> Result<Vec<u8>, CommandFailure> {
    let mut receipt = serde_json::from_slice(signed).map_err(CommandFailure::input)?;
    change(&mut receipt);
    serde_json::to_vec(&receipt).map_err(CommandFailure::input)
}
