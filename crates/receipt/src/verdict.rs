//! Verdict on a receipt: verified, or rejected with one reason of a closed list.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::Receipt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Why a receipt is rejected. Signatures are verified from the outside in, and the first
        /// failure is the reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RejectReason { $($(#[doc = $doc])+ $name,)+ }

        impl RejectReason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The reason as it is stored and shown, in snake_case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The reason's meaning, for documents.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim(),)+ }
            }
        }
    };
}

reasons! {
    /// The record isn't a receipt or batch at all, or the receipt breaks a rule no other reason
    /// names.
    Malformed = "malformed",
    /// The receipt's own signature doesn't verify.
    BadSignature = "bad_signature",
    /// The batch's signature doesn't verify. Its receipts aren't checked.
    BadBatchSignature = "bad_batch_signature",
    /// Receipts before this one in its batch have 100 bad signatures or more, so its own wasn't
    /// verified. No verdict on the receipt: in another batch it counts.
    BatchAbandoned = "batch_abandoned",
    /// The signature of the request that brought the receipt doesn't verify. Its own isn't checked.
    BadRequestSignature = "bad_request_signature",
    /// `client.publicKey` is no usable key.
    BadPublicKey = "bad_public_key",
    /// The key is of another kind than `signatureAlgorithm` names.
    KeyAlgorithmMismatch = "key_algorithm_mismatch",
    /// `content.contentHash` isn't `sha256:` and 64 hexadecimal digits.
    BadContentHash = "bad_content_hash",
    /// The timestamp is too far from the time of arrival.
    TimestampOutOfRange = "timestamp_out_of_range",
    /// A `version` other than 1.0.0.
    UnsupportedVersion = "unsupported_version",
    /// A `signatureAlgorithm` that isn't supported.
    UnsupportedAlgorithm = "unsupported_algorithm",
    /// Every check passed, but the warehouse doesn't take the row: a constraint on the table, say.
    /// Never our verdict.
    RefusedByWarehouse = "refused_by_warehouse",
    /// Every check passed, but the deployment's policy wants keys registered, and this one isn't
    /// for `client.id`.
    ClientKeyUnknown = "client_key_unknown",
    /// Every check passed, but the key was revoked before the receipt was received.
    ClientKeyRevoked = "client_key_revoked",
    /// Every check passed, but the deployment's policy wants entries to exist, and
    /// `content.entryId` doesn't.
    EntryUnknown = "entry_unknown",
}

impl RejectReason {
    /// Whether a policy of the deployment rejects the receipt, whose every check passed. The same
    /// receipt may count later.
    #[must_use]
    pub const fn is_of_policy(self) -> bool {
        match self {
            Self::ClientKeyUnknown | Self::ClientKeyRevoked | Self::EntryUnknown => true,
            Self::Malformed
            | Self::BadSignature
            | Self::BadBatchSignature
            | Self::BatchAbandoned
            | Self::BadRequestSignature
            | Self::BadPublicKey
            | Self::KeyAlgorithmMismatch
            | Self::BadContentHash
            | Self::TimestampOutOfRange
            | Self::UnsupportedVersion
            | Self::UnsupportedAlgorithm
            | Self::RefusedByWarehouse => false,
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RejectReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The text names no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a reason for rejecting a receipt")]
pub struct UnknownReason;

impl FromStr for RejectReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
            .ok_or(UnknownReason)
    }
}

/// A receipt whose every check passed.
#[derive(Clone, Debug)]
pub struct VerifiedReceipt<'a> {
    /// The receipt.
    pub receipt: Receipt<'a>,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// SHA-256 of the key's SPKI DER.
    pub key_fingerprint: [u8; 32],
    /// The receipt as it came.
    pub raw: &'a [u8],
    /// Part of its record that `raw` is.
    pub origin: Origin,
    /// The signature of the batch that it arrived in, if it arrived in one.
    pub batch: Option<Arc<BatchSignature>>,
}

/// A verified signature of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSignature {
    /// `signature`, decoded.
    pub signature: Vec<u8>,
    /// SHA-256 of the batch's canonical bytes, which the signature is over.
    pub payload_hash: [u8; 32],
    /// SHA-256 of the SPKI DER of the key that made it.
    pub key_fingerprint: [u8; 32],
}

/// Part of a record that a receipt's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The whole body.
    Record,
    /// A receipt of a batch whose signature is its key's.
    SignedBatch,
}

impl Origin {
    /// Every origin there is.
    pub const ALL: &'static [Self] = &[Self::Record, Self::SignedBatch];

    /// The origin as it is stored, in snake_case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::SignedBatch => "signed_batch",
        }
    }
}

/// A receipt, or a record that is none, that failed a check. The optional fields are what could
/// still be read.
#[derive(Clone, Debug)]
pub struct RejectedReceipt<'a> {
    /// Why.
    pub reason: RejectReason,
    /// Finding, for a person. At most a few hundred bytes.
    pub detail: String,
    /// `receiptId`, where it is a UUID.
    pub receipt_id: Option<Uuid>,
    /// Host of `content.url`, as [`Receipt::host`]. Of a receipt that breaks the format:
    /// `content.publisher` in canonical form, where it is a domain name.
    pub publisher: Option<Cow<'a, str>>,
    /// `client.id`, where it is a UUID.
    pub client_id: Option<Uuid>,
    /// `content.entryId`, where it is a UUID.
    pub entry_id: Option<Uuid>,
    /// SHA-256 of the canonical bytes, where the receipt is a JSON object.
    pub payload_hash: Option<[u8; 32]>,
    /// SHA-256 of the SPKI of the key whose signature of the request or batch was verified. Without
    /// such a signature, that of the receipt's own key if its signature was verified.
    pub key_fingerprint: Option<[u8; 32]>,
    /// The receipt as it came; the whole body where no receipt could be distinguished.
    pub raw: &'a [u8],
    /// Part of its record that `raw` is.
    pub origin: Origin,
}

/// The one outcome of a receipt.
#[derive(Clone, Debug)]
// Nearly all are the larger variant: a box would only cost an allocation.
#[allow(clippy::large_enum_variant)]
#[must_use = "every receipt ends in exactly one outcome"]
pub enum Judged<'a> {
    /// Every check passed.
    Verified(VerifiedReceipt<'a>),
    /// A check failed.
    Rejected(RejectedReceipt<'a>),
}
