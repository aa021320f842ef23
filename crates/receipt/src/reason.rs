//! From what is wrong with a receipt to the one reason it is rejected for.

use crate::RejectReason;
use crate::fault::{FaultCode, FormatError};

/// Description of a rejection, where no fault describes it.
pub(crate) const fn describe(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::BadSignature => {
            "signature isn't client.publicKey's over the canonical receipt without signature and signatureAlgorithm"
        }
        RejectReason::BadBatchSignature => {
            "the batch's signature isn't client.publicKey's over the canonical batch without signature and \
             signatureAlgorithm"
        }
        RejectReason::BatchAbandoned => {
            "receipts before this one in its batch have 100 bad signatures or more, so its own wasn't verified"
        }
        RejectReason::BadRequestSignature => "X-Service-Signature isn't client.publicKey's over the request's body",
        _ => "the receipt breaks a rule of the format",
    }
}

/// Description of a rejection, with advice where a mistake was recognised.
pub(crate) fn advised(reason: RejectReason, advice: Option<&str>) -> String {
    let described = describe(reason);
    advice.map_or_else(|| described.to_owned(), |advice| format!("{described}; {advice}"))
}

/// The reason that a format error comes down to: an unsupported version explains everything else;
/// then whatever has no reason of its own; then the first fault.
pub(crate) fn reason_of(error: &FormatError) -> RejectReason {
    let reasons = || error.faults.iter().map(|fault| reason_for(fault.code, &fault.pointer));
    let has = |wanted| reasons().any(|reason| reason == wanted);
    if has(RejectReason::UnsupportedVersion) {
        RejectReason::UnsupportedVersion
    } else if error.more || has(RejectReason::Malformed) {
        RejectReason::Malformed
    } else {
        reasons().next().unwrap_or(RejectReason::Malformed)
    }
}

fn reason_for(code: FaultCode, pointer: &str) -> RejectReason {
    match code {
        FaultCode::UnsupportedVersion => RejectReason::UnsupportedVersion,
        FaultCode::UnsupportedAlgorithm => RejectReason::UnsupportedAlgorithm,
        FaultCode::InvalidPublicKey => RejectReason::BadPublicKey,
        FaultCode::KeyAlgorithmMismatch => RejectReason::KeyAlgorithmMismatch,
        FaultCode::InvalidContentHash => RejectReason::BadContentHash,
        FaultCode::TimestampOutOfRange => RejectReason::TimestampOutOfRange,
        FaultCode::InvalidBase64 | FaultCode::InvalidSignatureLength if pointer == "/signature" => {
            RejectReason::BadSignature
        }
        FaultCode::InvalidJson
        | FaultCode::InvalidUtf8
        | FaultCode::ByteOrderMark
        | FaultCode::TrailingData
        | FaultCode::DuplicateMember
        | FaultCode::LoneSurrogate
        | FaultCode::TooDeep
        | FaultCode::NumberOutOfRange
        | FaultCode::MissingMember
        | FaultCode::WrongType
        | FaultCode::InvalidUuid
        | FaultCode::InvalidTimestamp
        | FaultCode::InvalidBase64
        | FaultCode::InvalidSignatureLength
        | FaultCode::InvalidUrl
        | FaultCode::UrlOutsidePublisher
        | FaultCode::InvalidPurpose
        | FaultCode::InvalidPublisher
        | FaultCode::EmptyText
        | FaultCode::TooLong
        | FaultCode::ReceiptTooLarge
        | FaultCode::BatchTooLarge
        | FaultCode::EmptyBatchId
        | FaultCode::EmptyBatch
        | FaultCode::TooManyReceipts
        | FaultCode::MixedKeys => RejectReason::Malformed,
    }
}

/// The first faults of an error, in a few hundred bytes.
pub(crate) fn summary(error: &FormatError) -> String {
    const BYTES_MAX: usize = 400;
    let mut text = String::new();
    for fault in &error.faults {
        let separator = if text.is_empty() { "" } else { "; " };
        text.push_str(separator);
        text.push_str(&fault.to_string());
        if text.len() > BYTES_MAX {
            let end = (0..=BYTES_MAX)
                .rev()
                .find(|&end| text.is_char_boundary(end))
                .unwrap_or(0);
            text.truncate(end);
            text.push('…');
            break;
        }
    }
    text
}
