//! `GET /api/v1/receipts/{receiptId}/evidence`: the bytes and signatures with which anybody
//! verifies a receipt again, without this service.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use receipt::Evidence;
use serde::Serialize;
use service::problem::Kind;
use utoipa::ToSchema;
use warehouse::{PayloadCursor, ReceiptsOf, StoredBatchSignature, StoredEvidence};
use web::params::{Params, parse_uuid};
use web::{Failure, rfc3339_ms};

use super::receipt::sha256;
use crate::access::Access;
use crate::answers::Refusals;
use crate::cursor::ListCursor;
use crate::format::reply::{Complete, Reply};
use crate::parameters::{DOMAIN, KEY, PAYLOAD_CURSOR, Query};
use crate::selection::key_fingerprint;
use crate::state::AnalyticsState;

pub(crate) const PATH: &str = "/api/v1/receipts/{receiptId}/evidence";
pub(crate) const PARAMETERS: &[&[Query]] = &[&[DOMAIN, KEY, PAYLOAD_CURSOR]];

/// Evidence of a receipt. `receipts verify` accepts this answer as a file.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptEvidence {
    #[schema(format = "uuid")]
    receipt_id: String,
    /// Evidence of each payload, at most 10: proven ones first, each in order of arrival. More than
    /// one is a conflict.
    evidence: Vec<PayloadEvidence>,
    /// Begin of the next page; null if this is the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// Evidence of one payload. Bytes are in base64 (RFC 4648 section 4).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PayloadEvidence {
    publisher: String,
    /// `sha256:` and the SHA-256 of the signed bytes.
    payload_hash: String,
    #[schema(format = DateTime)]
    received_at: String,
    /// The receipt as it was first received.
    received_bytes: String,
    /// The bytes that the signature is over: the receipt's canonical form (RFC 8785) without
    /// `signature` and `signatureAlgorithm`.
    signed_bytes: String,
    #[schema(pattern = "^(Ed25519|RSA-2048|ECDSA-P256)$")]
    signature_algorithm: &'static str,
    signature: String,
    /// The client's key, SPKI in PEM.
    public_key: String,
    /// SHA-256 of the key's SPKI in hexadecimal.
    key_fingerprint: String,
    /// Signature of the batch that the receipt arrived in; absent for single receipts.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<BatchEvidence>,
    /// Shell command that verifies the signature with OpenSSL 3. It contains all that it needs.
    openssl_command: String,
}

/// Signature of a batch, made with the receipt's key. The batch itself isn't stored: its sender can
/// prove with it what else was in the batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BatchEvidence {
    /// `sha256:` and the SHA-256 of the batch's canonical bytes.
    payload_hash: String,
    signature: String,
}

impl From<StoredBatchSignature> for BatchEvidence {
    fn from(stored: StoredBatchSignature) -> Self {
        Self {
            payload_hash: sha256(&stored.payload_hash),
            signature: STANDARD.encode(hex::decode(stored.signature_hex).unwrap_or_default()),
        }
    }
}

impl PayloadEvidence {
    /// `None` if an erasure has blanked the bytes.
    pub(super) fn new(stored: StoredEvidence) -> Option<Self> {
        let evidence = Evidence::read(stored.received.as_bytes()).ok()?;
        Some(Self {
            publisher: stored.publisher,
            payload_hash: sha256(&stored.payload_hash),
            received_at: rfc3339_ms(stored.received_at_ms),
            received_bytes: STANDARD.encode(&stored.received),
            signed_bytes: STANDARD.encode(&evidence.signed_bytes),
            signature_algorithm: evidence.algorithm.as_str(),
            signature: STANDARD.encode(&evidence.signature),
            openssl_command: evidence.openssl_command(),
            key_fingerprint: hex::encode(evidence.key_fingerprint),
            public_key: evidence.public_key,
            batch: stored.batch.map(BatchEvidence::from),
        })
    }
}

/// Evidence of a receipt
///
/// The exact bytes, signature and key of a verified receipt as it first arrived, and a command that
/// verifies them. Where many payloads carry the ID, proven ones come first.
#[utoipa::path(
    get, path = PATH, tag = "receipts", security(("apiKey" = [])),
    params(("receiptId" = String, Path, format = "uuid", description = "The receipt")),
    responses(
        (status = 200, description = "The evidence", body = Complete<ReceiptEvidence>),
        (status = 404, description = "No evidence is stored: the receipt isn't verified, or its data was erased"),
        Refusals,
    ),
)]
pub(crate) async fn evidence(
    State(app): State<Arc<AnalyticsState>>,
    access: Access,
    Path(receipt_id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Failure> {
    let reply = Reply::json(headers)?;
    let receipt_id = parse_uuid("receiptId", &receipt_id)?;
    let of = ReceiptsOf::Publisher(access.scope(&params)?, key_fingerprint(&params)?);
    let after = PayloadCursor::read(&params)?;
    let (completeness, page) = app
        .ask(access.account_id(), async |_| {
            app.warehouse().evidence(&of, receipt_id, after.as_ref()).await
        })
        .await?;
    let (stored, next_cursor) = (page.payloads, page.next.map(|next| next.to_text()));
    let was_erased = stored.iter().any(|payload| payload.received.is_empty());
    let evidence: Vec<PayloadEvidence> = stored.into_iter().filter_map(PayloadEvidence::new).collect();
    if evidence.is_empty() && next_cursor.is_none() {
        let detail = if was_erased {
            "the evidence of this receipt was erased together with its client's data"
        } else {
            "no evidence of this receipt is stored: GET /api/v1/receipts/{receiptId} shows its status; evidence is \
             stored some seconds after a receipt is verified"
        };
        return Err(Failure::new(Kind::NotFound, detail));
    }
    let evidence = ReceiptEvidence {
        receipt_id: receipt_id.to_string(),
        evidence,
        next_cursor,
    };
    Ok(reply.object(evidence, completeness))
}
