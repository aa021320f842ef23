//! `POST /api/service/receipt`: what a publisher's webhook takes. One receipt or one batch,
//! verified before it is answered and stored like any other.
//!
//! | status | when |
//! |---|---|
//! | 200 | every signature is good, and the log has it durably: `{receiptId, status: "verified"}`; of a batch `{batchId, receiptCount, status: "verified", receipts: [{receiptId, status: "verified"}]}` |
//! | 400 | it is no receipt or batch, or breaks a rule that isn't about signatures (key of another kind, timestamp out of range, ...); `errors` says where |
//! | 401 | a receipt's or the batch's signature isn't its key's; `errors` says whose |
//! | 404 | the publisher has no such entry, and `webhook_entries` is `required` |
//! | 429, 503 | later; 500 is a bug |
//!
//! A batch is taken whole or refused whole. The service's policy on clients' keys isn't asked here:
//! it is the verifier's, who judges every record of the log again. `X-Service-Signature` is no part
//! of this interface; one that comes is neither checked nor stored.

use std::collections::HashSet;
use std::sync::Arc;

use http::HeaderMap;
use receipt::{Algorithm, Arrival, BatchHead, BodyKind, Judged, ReceiptHead, RejectReason, check_batch, check_receipt};
use receipt_log::RecordKind;
use serde_json::json as value;
use service::problem::{FAULTS_MAX, Kind, Problem};
use uuid::Uuid;

use crate::answer::{Answer, json};
use crate::body::{Held, Upload};
use crate::body_kind::kind_of;
use crate::call::Call;
use crate::entry_book::NamedEntry;
use crate::refusal::{Refusal, malformed};
use crate::route::Route;
use crate::submit::store;

/// A body whose form is right.
enum SubmissionHead {
    Receipt(ReceiptHead),
    Batch(BatchHead),
}

impl SubmissionHead {
    fn kind(&self) -> BodyKind {
        match self {
            Self::Receipt(_) => BodyKind::Receipt,
            Self::Batch(_) => BodyKind::Batch,
        }
    }

    fn receipts(&self) -> u32 {
        match self {
            Self::Receipt(_) => 1,
            Self::Batch(head) => head.receipt_count,
        }
    }

    /// Receipts of a batch; 0 for a single one.
    fn batched(&self) -> u32 {
        match self {
            Self::Receipt(_) => 0,
            Self::Batch(head) => head.receipt_count,
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Receipt(head) => head.algorithm,
            Self::Batch(head) => head.algorithm,
        }
    }
}

/// A receipt whose every check passed.
struct Good {
    receipt_id: Uuid,
    /// Of a batch, all receipts have one key.
    key_fingerprint: [u8; 32],
    entry: NamedEntry,
}

/// A receipt that failed one.
struct Bad {
    index: u16,
    reason: RejectReason,
    detail: String,
}

/// Verifies, stores, answers.
pub(crate) async fn receive(call: &mut Call<'_>, headers: &HeaderMap, upload: &mut Upload) -> Result<Answer, Refusal> {
    let shared = Arc::clone(call.shared);
    let body = call.receive(headers, upload, shared.limits.batch_bytes_max).await?;
    let (body, head) = check(call, body).await?;
    call.receipts = head.receipts();
    // Before the signatures: they are what costs.
    let charged = shared.charge_algorithm(call.sender.key, Route::Webhook, head.algorithm(), head.batched());
    call.charged(charged)?;
    let (body, verdicts) = judge(call, body, head.kind()).await?;
    let good = verdicts.map_err(|bad| refusal(head.kind(), &bad))?;
    if let Some(Good { key_fingerprint, .. }) = good.first() {
        call.charge_key(key_fingerprint, head.receipts())?;
    }
    require_entries(call, head.kind(), &good).await?;
    // A long answer is reserved before the record is stored: there must be one then.
    let text = text(&head, &good);
    let answer = match head {
        SubmissionHead::Receipt(_) => json(text.into()),
        SubmissionHead::Batch(_) => call.long_answer(text).await?,
    };
    let kind = match head.kind() {
        BodyKind::Receipt => RecordKind::Receipt,
        BodyKind::Batch => RecordKind::Batch,
    };
    store(call, kind, body, None).await?;
    shared.meters.acknowledged(kind, head.receipts());
    Ok(answer)
}

/// The form, on the pool.
async fn check(call: &Call<'_>, body: Held) -> Result<(Held, SubmissionHead), Refusal> {
    let (limits, arrived_ms) = (call.shared.limits.clone(), call.arrived_ms);
    let check = move || {
        let kind = kind_of(body.as_ref());
        let head = match kind {
            BodyKind::Receipt => check_receipt(body.as_ref(), arrived_ms, &limits).map(SubmissionHead::Receipt),
            BodyKind::Batch => check_batch(body.as_ref(), arrived_ms, &limits).map(SubmissionHead::Batch),
        };
        (body, head.map_err(|error| (error, kind)))
    };
    let (body, head) = call.shared.cpu.run(check).await?;
    let head = head.map_err(|(error, kind)| malformed(error, invalid(kind)))?;
    Ok((body, head))
}

/// Every receipt, or all that is wrong, up to as many faults as a problem lists.
async fn judge(call: &Call<'_>, body: Held, kind: BodyKind) -> Result<(Held, Result<Vec<Good>, Vec<Bad>>), Refusal> {
    let (shared, received_at_ms) = (Arc::clone(call.shared), call.arrived_ms);
    let judge = move || {
        let arrival = Arrival {
            kind,
            body: body.as_ref(),
            request_signature: None,
            received_at_ms,
        };
        let verdicts = shared.judge.judge(&arrival, &|index, judged| match judged {
            Judged::Verified(verified) => Ok(Good {
                receipt_id: verified.receipt.receipt_id,
                key_fingerprint: verified.key_fingerprint,
                entry: NamedEntry {
                    id: verified.receipt.entry_id,
                    publisher: verified.receipt.publisher.into_owned(),
                },
            }),
            Judged::Rejected(rejected) => Err(Bad {
                index,
                reason: rejected.reason,
                detail: rejected.detail,
            }),
        });
        let (mut good, mut bad) = (Vec::with_capacity(verdicts.len()), Vec::new());
        for verdict in verdicts {
            match verdict {
                Ok(verified) => good.push(verified),
                Err(rejected) => bad.push(rejected),
            }
        }
        let verdict = if bad.is_empty() { Ok(good) } else { Err(bad) };
        (body, verdict)
    };
    Ok(call.shared.cpu.run(judge).await?)
}

/// Problem that a reason is to the receipt's sender.
fn problem_of(reason: RejectReason, kind: BodyKind) -> Kind {
    match reason {
        // A batch is abandoned behind bad signatures.
        RejectReason::BadSignature | RejectReason::BatchAbandoned => Kind::BadSignature,
        RejectReason::BadBatchSignature => Kind::BadBatchSignature,
        RejectReason::BadRequestSignature => Kind::BadRequestSignature,
        RejectReason::EntryUnknown => Kind::EntryUnknown,
        RejectReason::Malformed
        | RejectReason::BadPublicKey
        | RejectReason::KeyAlgorithmMismatch
        | RejectReason::BadContentHash
        | RejectReason::TimestampOutOfRange
        | RejectReason::UnsupportedVersion
        | RejectReason::UnsupportedAlgorithm
        // The webhook judges without policies and warehouse.
        | RejectReason::RefusedByWarehouse
        | RejectReason::ClientKeyUnknown
        | RejectReason::ClientKeyRevoked => invalid(kind),
    }
}

fn invalid(kind: BodyKind) -> Kind {
    match kind {
        BodyKind::Receipt => Kind::InvalidReceipt,
        BodyKind::Batch => Kind::InvalidBatch,
    }
}

/// The batch's signature, or else the faults of its receipts: one that isn't about signatures comes
/// first, and what wasn't judged is left out.
fn refusal(kind: BodyKind, bad: &[Bad]) -> Refusal {
    let is_judged = |bad: &&Bad| bad.reason != RejectReason::BatchAbandoned;
    let mut bad: Vec<&Bad> = bad.iter().filter(is_judged).collect();
    bad.sort_by_key(|bad| (bad.reason == RejectReason::BadSignature, bad.index));
    let first = bad.first().map_or(RejectReason::Malformed, |bad| bad.reason);
    let detail = match (kind, bad.first()) {
        (BodyKind::Batch, Some(first)) if first.reason != RejectReason::BadBatchSignature => {
            let count = bad.len();
            format!("{count} of the batch's receipts are refused; nothing of it was taken")
        }
        (_, first) => first.map_or_else(String::new, |bad| bad.detail.clone()),
    };
    let mut problem = Problem::new(problem_of(first, kind), detail);
    problem.more_faults = bad.len() > FAULTS_MAX;
    for bad in bad.into_iter().take(FAULTS_MAX) {
        let pointer = match bad.reason {
            RejectReason::BadBatchSignature => "/signature".to_owned(),
            RejectReason::BadSignature => pointer(kind, bad.index, "/signature"),
            _ => pointer(kind, bad.index, ""),
        };
        problem = problem.fault(pointer, bad.reason.as_str(), bad.detail.clone());
    }
    problem.into()
}

/// 404 unless every entry exists, where that is requested.
async fn require_entries(call: &Call<'_>, kind: BodyKind, good: &[Good]) -> Result<(), Refusal> {
    let Some(book) = &call.shared.entries else {
        return Ok(());
    };
    let asked: HashSet<&NamedEntry> = good.iter().map(|good| &good.entry).collect();
    let asked: Vec<NamedEntry> = asked.into_iter().cloned().collect();
    let existing = book.existing(&asked).await.map_err(|what| {
        tracing::warn!(what, "the entries can't be read");
        let detail = "the entries can't be read; send it again later";
        Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(RETRY_S)
    })?;
    let unknown = || (0..).zip(good).filter(|(_, good)| !existing.contains(&good.entry));
    let count = unknown().count();
    if count == 0 {
        return Ok(());
    }
    let detail = match kind {
        BodyKind::Receipt => "content.entryId is no entry of content.publisher here".to_owned(),
        BodyKind::Batch => format!(
            "{count} of the batch's receipts are for entries that their publishers don't have here; nothing of it was taken"
        ),
    };
    let mut problem = Problem::new(Kind::EntryUnknown, detail);
    problem.more_faults = count > FAULTS_MAX;
    for (index, good) in unknown().take(FAULTS_MAX) {
        let pointer = pointer(kind, index, "/content/entryId");
        let NamedEntry { id, publisher } = &good.entry;
        let detail = format!("{publisher} has no entry {id}");
        problem = problem.fault(pointer, RejectReason::EntryUnknown.as_str(), detail);
    }
    Err(problem.into())
}

/// Seconds until the entries may be there again.
const RETRY_S: u32 = 5;

/// A member of the receipt at `index`, as a JSON Pointer into the body.
fn pointer(kind: BodyKind, index: u16, member: &str) -> String {
    match kind {
        BodyKind::Receipt => member.to_owned(),
        BodyKind::Batch => format!("/receipts/{index}{member}"),
    }
}

fn text(head: &SubmissionHead, good: &[Good]) -> Vec<u8> {
    let verified = |good: &Good| value!({"receiptId": good.receipt_id, "status": "verified"});
    let body = match head {
        SubmissionHead::Receipt(head) => value!({"receiptId": head.receipt_id, "status": "verified"}),
        SubmissionHead::Batch(head) => value!({
            "batchId": head.batch_id,
            "receiptCount": head.receipt_count,
            "status": "verified",
            "receipts": good.iter().map(verified).collect::<Vec<_>>(),
        }),
    };
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn bad(index: u16, reason: RejectReason) -> Bad {
        Bad {
            index,
            reason,
            detail: format!("it is {reason}"),
        }
    }

    #[test]
    fn every_reason_has_its_status() {
        for reason in RejectReason::ALL {
            let status = problem_of(*reason, BodyKind::Receipt).status().as_u16();
            let expected = match reason.as_str() {
                "bad_signature" | "bad_batch_signature" | "batch_abandoned" | "bad_request_signature" => 401,
                "entry_unknown" => 404,
                _ => 400,
            };
            assert_eq!(status, expected, "{reason}");
        }
    }

    #[test]
    fn a_fault_of_form_goes_before_one_of_signatures() {
        let all = [bad(3, RejectReason::BadSignature), bad(5, RejectReason::BadPublicKey)];
        let problem = refusal(BodyKind::Batch, &all).into_problem();
        let pointers: Vec<&str> = problem.faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!((problem.kind, problem.code()), (Kind::InvalidBatch, "bad_public_key"));
        assert_eq!(pointers, ["/receipts/5", "/receipts/3/signature"]);
        let problem = refusal(BodyKind::Batch, &all[..1]).into_problem();
        assert_eq!((problem.kind, problem.faults.len()), (Kind::BadSignature, 1));
        let of_batch = bad(0, RejectReason::BadBatchSignature);
        let problem = refusal(BodyKind::Batch, &[of_batch]).into_problem();
        assert_eq!(
            (problem.kind, problem.faults[0].pointer.as_str()),
            (Kind::BadBatchSignature, "/signature")
        );
        let problem = refusal(BodyKind::Receipt, &all[..1]).into_problem();
        assert_eq!(
            (problem.kind, problem.faults[0].pointer.as_str()),
            (Kind::BadSignature, "/signature")
        );
    }
}
