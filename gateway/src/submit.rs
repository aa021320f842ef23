//! Submission: one receipt or one batch, from its bytes to the log's word that they are durable.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use receipt::{
    Algorithm, BatchHead, FormatError, ReceiptHead, RejectReason, Signer, check_batch, check_batch_and_signer,
    check_receipt, check_receipt_and_signer, check_request_signature,
};
use receipt_log::{Record, RecordKind, TraceText};
use service::problem::{Kind, Problem};
use tokio::time::timeout;

use crate::answer::{Answer, Refusal, batch_queued, malformed, not_stored, receipt_queued};
use crate::append::Append;
use crate::body::{Held, Upload};
use crate::call::{Call, Spent};
use crate::config::RequestSignature;
use crate::registered::require_registered;
use crate::shared::Shared;

const SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");

/// Bodies up to this are checked on the worker: one receipt takes 1-2 us, 64 KiB some 50, and the way to the pool and back
/// costs about 10 us of CPU and a thread's waking time.
const CHECK_INLINE_BYTES_MAX: usize = 64 * 1024;

/// `POST /api/v1/receipts`
pub(crate) async fn receipt(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let signature = request_signature(headers)?;
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.receipt_bytes_max).await?;
    let arrived_ms = call.arrived_ms;
    let (body, head) = if body.as_ref().len() <= CHECK_INLINE_BYTES_MAX {
        let head = receipt_head(&shared, body.as_ref(), arrived_ms);
        (body, head)
    } else {
        let checking = Arc::clone(&shared);
        let check = move || {
            let head = receipt_head(&checking, body.as_ref(), arrived_ms);
            (body, head)
        };
        shared.cpu.run(check).await?
    };
    let (head, signer) = head.map_err(|error| malformed(error, Kind::InvalidReceipt))?;
    if !head.algorithm.signs_in(signature.bytes) {
        return Err(no_signature_of(signature.bytes, head.algorithm.as_str()));
    }
    let signature = signature.text;
    let body = match shared.config.request_signature {
        RequestSignature::Deferred => body,
        RequestSignature::Inline => verify(call, body, signature.clone()).await?,
    };
    require_registered(call, signer).await?;
    call.charge_client(head.client_id, 1)?;
    store(call, RecordKind::Receipt, body, Some(signature)).await?;
    shared.meters.acknowledged(RecordKind::Receipt, 1);
    Ok(receipt_queued(&head.receipt_id))
}

/// `POST /api/v1/receipts/batch`. Its signature is inside; `X-Service-Signature` is ignored.
pub(crate) async fn batch(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.batch_bytes_max).await?;
    let arrived_ms = call.arrived_ms;
    let (body, head) = if body.as_ref().len() <= CHECK_INLINE_BYTES_MAX {
        let head = batch_head(&shared, body.as_ref(), arrived_ms);
        (body, head)
    } else {
        let checking = Arc::clone(&shared);
        let check = move || {
            let head = batch_head(&checking, body.as_ref(), arrived_ms);
            (body, head)
        };
        shared.cpu.run(check).await?
    };
    let (head, signer) = head.map_err(|error| malformed(error, Kind::InvalidBatch))?;
    call.charge_more(head.receipt_count)?;
    require_registered(call, signer).await?;
    call.charge_client(head.client_id, head.receipt_count)?;
    store(call, RecordKind::Batch, body, None).await?;
    shared.meters.acknowledged(RecordKind::Batch, head.receipt_count);
    Ok(batch_queued(&head))
}

/// Checks a receipt; reads its signer only where keys must be registered.
fn receipt_head(shared: &Shared, body: &[u8], arrived_ms: i64) -> Result<(ReceiptHead, Option<Signer>), FormatError> {
    if shared.registry.is_none() {
        return Ok((check_receipt(body, arrived_ms, &shared.limits)?, None));
    }
    let (head, signer) = check_receipt_and_signer(body, arrived_ms, &shared.limits)?;
    Ok((head, Some(signer)))
}

/// Checks a batch; reads its signer only where keys must be registered.
fn batch_head(shared: &Shared, body: &[u8], arrived_ms: i64) -> Result<(BatchHead, Option<Signer>), FormatError> {
    if shared.registry.is_none() {
        return Ok((check_batch(body, arrived_ms, &shared.limits)?, None));
    }
    let (head, signer) = check_batch_and_signer(body, arrived_ms, &shared.limits)?;
    Ok((head, Some(signer)))
}

/// `X-Service-Signature`: base64, and of how many bytes.
pub(crate) struct Signature {
    pub(crate) text: String,
    bytes: usize,
}

/// The request's signature, if it has one.
pub(crate) fn optional_signature(headers: &HeaderMap) -> Result<Option<Signature>, Refusal> {
    let mut values = headers.get_all(SIGNATURE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let malformed = |detail: String| Problem::new(Kind::InvalidRequestSignature, detail);
    if values.next().is_some() {
        return Err(malformed("X-Service-Signature is given twice".to_owned()).into());
    }
    let text = value
        .to_str()
        .map_err(|_| malformed("X-Service-Signature must be base64".to_owned()))?;
    let bytes = check_request_signature(text).map_err(|fault| malformed(fault.detail))?;
    let text = text.to_owned();
    Ok(Some(Signature { text, bytes }))
}

/// One that some algorithm could have made; whether it is the receipt's is known with the body.
fn request_signature(headers: &HeaderMap) -> Result<Signature, Refusal> {
    let Some(signature) = optional_signature(headers)? else {
        let detail = "send X-Service-Signature: base64 of the signature over the body, by the receipt's key";
        return Err(Problem::new(Kind::MissingRequestSignature, detail).into());
    };
    if !Algorithm::ALL
        .iter()
        .any(|algorithm| algorithm.signs_in(signature.bytes))
    {
        return Err(no_signature_of(signature.bytes, "any algorithm"));
    }
    Ok(signature)
}

fn no_signature_of(bytes: usize, whose: &str) -> Refusal {
    let detail = format!("X-Service-Signature: no signature of {whose} has {bytes} bytes");
    Problem::new(Kind::InvalidRequestSignature, detail).into()
}

/// The request signature, verified on the pool: some 50 us.
async fn verify(call: &Call<'_>, body: Held, signature: String) -> Result<Held, Refusal> {
    let shared = Arc::clone(call.shared);
    let check = move || {
        let verdict = shared.judge.check_request_signature(body.as_ref(), &signature);
        (body, verdict)
    };
    let (body, verdict) = call.shared.cpu.run(check).await?;
    match verdict {
        Ok(()) => Ok(body),
        Err(RejectReason::BadRequestSignature) => {
            let detail = "X-Service-Signature doesn't verify over the decoded body with client.publicKey";
            Err(Problem::new(Kind::BadRequestSignature, detail).into())
        }
        Err(reason) => {
            let detail = format!("X-Service-Signature can't be verified: {reason}");
            Err(Problem::new(Kind::BadRequestSignature, detail).into())
        }
    }
}

/// Hands the record to the log and waits until it is durable.
pub(crate) async fn store(
    call: &Call<'_>,
    kind: RecordKind,
    body: Held,
    request_signature: Option<String>,
) -> Result<(), Refusal> {
    let (body, reservation) = body.into_parts();
    let record = Record {
        kind,
        body,
        request_signature,
        request_id: call.id.as_str().to_owned(),
        received_at_ms: call.arrived_ms,
        client_address: Some(call.sender.address),
        trace: call.trace.and_then(|trace| TraceText::new(&trace.text())),
    };
    let append = Append::new(Arc::clone(&call.shared.log), record, reservation);
    let appended = timeout(call.shared.config.append_wait(), append);
    match Spent::on(&call.spent.log_us, appended).await {
        Ok(Ok(_position)) => Ok(()),
        Ok(Err(error)) => {
            tracing::debug!(%error, request_id = %call.id, "not stored");
            Err(not_stored(Some(&error)))
        }
        Err(_) => Err(not_stored(None)),
    }
}
