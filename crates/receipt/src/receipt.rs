//! A receipt as a borrowed, typed view of its JSON.

use std::borrow::Cow;

use smallvec::SmallVec;
use uuid::Uuid;

use crate::{Algorithm, Purpose};

/// The decoded bytes of a signature: Ed25519 64, RSA-2048 256, ECDSA-P256 up to 72.
pub type SignatureBytes = SmallVec<[u8; 96]>;

/// A receipt that passed the format check. Text borrows from the body where it holds no escapes.
#[derive(Clone, Debug)]
pub struct Receipt<'a> {
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// `timestamp`, in Unix milliseconds.
    pub timestamp_ms: i64,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `content.url`.
    pub url: Cow<'a, str>,
    /// `content.contentHash`, the 32 bytes of SHA-256.
    pub content_hash: [u8; 32],
    /// `content.publisher`, lower-cased.
    pub publisher: Cow<'a, str>,
    /// `client.id`.
    pub client_id: Uuid,
    /// `client.name`.
    pub client_name: Cow<'a, str>,
    /// `client.version`.
    pub client_version: Cow<'a, str>,
    /// `client.organization`.
    pub organization: Cow<'a, str>,
    /// `client.publicKey`, PEM.
    pub public_key: Cow<'a, str>,
    /// `usage.purpose`.
    pub purpose: Purpose,
    /// `usage.context`.
    pub context: Cow<'a, str>,
    /// `usage.datasetId`.
    pub dataset_id: Option<Cow<'a, str>>,
    /// `usage.modelId`.
    pub model_id: Option<Cow<'a, str>>,
    /// `usage.queryId`.
    pub query_id: Option<Cow<'a, str>>,
    /// `usage.sessionId`.
    pub session_id: Option<Cow<'a, str>>,
    /// `usage.studyId`.
    pub study_id: Option<Cow<'a, str>>,
    /// `usage.researcherId`.
    pub researcher_id: Option<Cow<'a, str>>,
    /// `signatureAlgorithm`.
    pub algorithm: Algorithm,
    /// `signature`, decoded.
    pub signature: SignatureBytes,
    /// The receipt's JSON as it came.
    pub raw: &'a [u8],
}
