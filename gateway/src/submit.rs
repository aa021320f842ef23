//! Submission: one receipt or one batch, from its bytes to the log's word that they are durable.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use receipt::{Algorithm, check_request_signature};
use receipt_log::{Appended, Record, RecordKind, TraceText};
use service::problem::{Kind, Problem};
use tokio::time::timeout;

use crate::acknowledgement::{Acknowledged, StoredRecord};
use crate::answer::{Answer, accepted};
use crate::append::Append;
use crate::body::{Held, Upload};
use crate::call::{Call, Spent};
use crate::checked_receipt::{CheckedReceipt, ReceiptCheck, sha256};
use crate::not_signed::{batch_not_signed, malformed_signature};
use crate::refusal::{Refusal, not_stored};
use crate::registered::require_registered;
use crate::route::Route;

/// Hint for a sender of batches at the address of single receipts.
const BATCHES: &str = "a batch goes to /api/v1/receipts/batch";

const SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");

/// `POST /api/v1/receipts`
pub(crate) async fn receipt(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let signature = request_signature(headers)?;
    let shared = Arc::clone(call.shared);
    let received = call.receive(headers, upload, shared.limits.receipt_bytes_max).await;
    let body = received.map_err(|refusal| match refusal.kind() {
        Kind::BodyTooLarge | Kind::DecodedBodyTooLarge => refusal.with_hint(BATCHES),
        _ => refusal,
    })?;
    let (charging, address) = (Arc::clone(&shared), call.sender.key);
    let check = ReceiptCheck {
        body,
        signature,
        arrived_ms: call.arrived_ms,
        charge: Box::new(move |algorithm| charging.charge_algorithm(address, Route::Receipt, algorithm, 0)),
    };
    // It waits, because the limits on requests and their bytes bound how many wait.
    let CheckedReceipt {
        body,
        signature,
        charged,
    } = shared.receipt_checks.run(check).await??;
    let (standing, verified) = charged.map_err(|exceeded| call.over(exceeded))?;
    call.charged(Ok(standing))?;
    let (head, signer, body_sha256) = verified?;
    call.charge_key(&signer.key_fingerprint, 1)?;
    require_registered(call, signer).await?;
    let appended = store(call, RecordKind::Receipt, body, Some(signature)).await?;
    let receipt_id = head.receipt_id;
    let answer = acknowledge(call, Acknowledged::Receipt { receipt_id }, body_sha256, appended).await?;
    shared.meters.acknowledged(RecordKind::Receipt, 1);
    Ok(answer)
}

/// `POST /api/v1/receipts/batch`. Its signature is inside; `X-Service-Signature` is ignored.
pub(crate) async fn batch(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.batch_bytes_max).await?;
    let arrived_ms = call.arrived_ms;
    let (checking, address) = (Arc::clone(&shared), call.sender.key);
    let check = move || {
        let read = checking.judge.read_signed_batch(body.as_ref(), arrived_ms);
        let receipts = read.as_ref().map_or(1, |batch| batch.head().receipt_count);
        // Each receipt has a signature, which the verifier will check. None is verified before the
        // charge.
        let charged = read.as_ref().map_or(Ok(None), |batch| {
            let head = batch.head();
            checking.charge_algorithm(address, Route::Batch, head.algorithm, head.receipt_count)
        });
        let checked = charged.map(|standing| {
            let verified = read.and_then(|batch| checking.judge.verify_batch(batch));
            let verified = verified.map(|(head, signer)| (head, signer, sha256(body.as_ref())));
            let verified = verified.map_err(|why| batch_not_signed(why, body.as_ref()));
            (standing, verified)
        });
        (body, receipts, checked)
    };
    let (body, receipts, checked) = shared.cpu.run_waiting(check).await?;
    call.receipts = receipts;
    let (standing, verified) = checked.map_err(|exceeded| call.over(exceeded))?;
    call.charged(Ok(standing))?;
    let (head, signer, body_sha256) = verified?;
    call.charge_key(&signer.key_fingerprint, head.receipt_count)?;
    require_registered(call, signer).await?;
    let appended = store(call, RecordKind::Batch, body, None).await?;
    let receipt_count = head.receipt_count;
    let subject = Acknowledged::Batch {
        batch_id: head.batch_id,
        receipt_count,
    };
    let answer = acknowledge(call, subject, body_sha256, appended).await?;
    shared.meters.acknowledged(RecordKind::Batch, receipt_count);
    Ok(answer)
}

/// 202 with a signed acknowledgement of what was appended.
async fn acknowledge(
    call: &Call<'_>,
    subject: Acknowledged,
    body_sha256: [u8; 32],
    appended: Appended,
) -> Result<Answer, Refusal> {
    let stored = StoredRecord {
        subject,
        body_sha256,
        position: appended.position,
        received_at_ms: appended.appended_at_ms,
    };
    let signed = call.shared.acknowledgements.run(stored).await?;
    let body = signed.map_err(|error| {
        tracing::error!(%error, request_id = %call.id, "a stored record isn't acknowledged");
        let detail = "it is stored, but the acknowledgement couldn't be signed; the same bytes sent again count once";
        Refusal::from(Problem::new(Kind::Internal, detail))
    })?;
    Ok(accepted(body))
}

/// The text of `X-Service-Signature`, if there is one.
pub(crate) fn optional_signature(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(SIGNATURE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed_signature("X-Service-Signature is given twice".to_owned()));
    }
    let not_base64 = |_| malformed_signature("X-Service-Signature must be base64".to_owned());
    let text = value.to_str().map_err(not_base64)?;
    check_request_signature(text).map_err(|fault| malformed_signature(fault.detail))?;
    Ok(Some(text.to_owned()))
}

/// Signature that some algorithm could have made; whether it is the receipt's is known with the
/// body.
fn request_signature(headers: &HeaderMap) -> Result<String, Refusal> {
    let Some(signature) = optional_signature(headers)? else {
        let detail = format!(
            "send X-Service-Signature: base64 of the signature over the body, by the receipt's key; {BATCHES}, without it"
        );
        return Err(Problem::new(Kind::MissingRequestSignature, detail).into());
    };
    let bytes = check_request_signature(&signature).map_err(|fault| malformed_signature(fault.detail))?;
    if !Algorithm::ALL.iter().any(|algorithm| algorithm.signs_in(bytes)) {
        let detail = format!("X-Service-Signature: no signature of any algorithm has {bytes} bytes");
        return Err(malformed_signature(detail));
    }
    Ok(signature)
}

/// Hands the record to the log and waits until it is durable.
pub(crate) async fn store(
    call: &Call<'_>,
    kind: RecordKind,
    body: Held,
    request_signature: Option<String>,
) -> Result<Appended, Refusal> {
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
        Ok(Ok(appended)) => {
            call.shared.clock.compare(call.arrived_ms, appended.appended_at_ms);
            Ok(appended)
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, request_id = %call.id, "not stored");
            Err(not_stored(Some(&error)))
        }
        Err(_) => Err(not_stored(None)),
    }
}
