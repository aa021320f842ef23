//! The refusals of bodies that aren't what was signed.

use receipt::{BodyKind, FaultCode, NotSigned, RejectReason};
use service::problem::{Kind, Problem};

use crate::body_kind::{is_receipt, kind_of};
use crate::refusal::{Refusal, malformed};

pub(crate) fn malformed_signature(detail: String) -> Refusal {
    Problem::new(Kind::InvalidRequestSignature, detail).into()
}

/// Refuses a body that is meant for the other address, if `why` lets suppose that.
fn wrong_address(why: &NotSigned, body: &[u8], sent_to: BodyKind) -> Option<Refusal> {
    let NotSigned::Format(error) = why else { return None };
    let lacks = |pointer| {
        let mut faults = error.faults.iter();
        faults.any(|fault| fault.code == FaultCode::MissingMember && fault.pointer == pointer)
    };
    let detail = match sent_to {
        BodyKind::Receipt if lacks("/receiptId") && kind_of(body) == BodyKind::Batch => {
            "the body is a batch: send it to /api/v1/receipts/batch, without X-Service-Signature"
        }
        BodyKind::Batch if lacks("/receipts") && is_receipt(body) => {
            "the body is a single receipt: send it to /api/v1/receipts, with X-Service-Signature"
        }
        _ => return None,
    };
    Some(Problem::new(Kind::WrongAddress, detail).into())
}

pub(crate) fn receipt_not_signed(why: NotSigned, body: &[u8]) -> Refusal {
    if let Some(refusal) = wrong_address(&why, body, BodyKind::Receipt) {
        return refusal;
    }
    match why {
        NotSigned::Format(error) => malformed(error, Kind::InvalidReceipt),
        NotSigned::Length(length) => malformed_signature(format!("X-Service-Signature: {length}")),
        NotSigned::Signature(bad) => Problem::new(Kind::BadRequestSignature, bad.to_string()).into(),
    }
}

pub(crate) fn batch_not_signed(why: NotSigned, body: &[u8]) -> Refusal {
    if let Some(refusal) = wrong_address(&why, body, BodyKind::Batch) {
        return refusal;
    }
    let (kind, code, detail) = match why {
        NotSigned::Format(error) => return malformed(error, Kind::InvalidBatch),
        NotSigned::Length(length) => (
            Kind::InvalidBatch,
            FaultCode::InvalidSignatureLength.as_str(),
            length.to_string(),
        ),
        NotSigned::Signature(bad) => (
            Kind::BadBatchSignature,
            RejectReason::BadBatchSignature.as_str(),
            bad.to_string(),
        ),
    };
    Problem::new(kind, detail.clone())
        .fault("/signature", code, detail)
        .into()
}
