//! Pages of every code that the gateway answers: kinds of problems, faults of the format, and
//! reasons for which the webhook refuses a receipt.

use receipt::{FaultCode, RejectReason};
use service::problem::Kind;
use service::problem_page::{ProblemPage, common};

/// All pages. The first of two with one code counts.
pub(crate) fn all() -> Vec<ProblemPage> {
    let mut pages = common();
    pages.extend(FaultCode::ALL.iter().map(|code| of_fault(*code)));
    pages.extend(RejectReason::ALL.iter().filter_map(|reason| of_reason(*reason)));
    pages
}

fn of_fault(code: FaultCode) -> ProblemPage {
    let (kind, pointer) = match code {
        code if code.is_of_json() => (Kind::InvalidJson, ""),
        FaultCode::ReceiptTooLarge | FaultCode::BatchTooLarge => (Kind::BodyTooLarge, ""),
        FaultCode::EmptyBatchId => (Kind::InvalidBatch, "/batchId"),
        FaultCode::EmptyBatch | FaultCode::TooManyReceipts => (Kind::InvalidBatch, "/receipts"),
        FaultCode::MixedKeys => (Kind::InvalidBatch, "/receipts/1/client/publicKey"),
        _ => (Kind::InvalidBatch, "/receipts/0"),
    };
    ProblemPage::of_fault(code.as_str(), code.meaning(), code.remedy(), kind, pointer)
}

/// The page of a reason that the webhook answers and that no other page has.
fn of_reason(reason: RejectReason) -> Option<ProblemPage> {
    let remedy = match reason {
        RejectReason::Malformed => "Correct the receipt as the detail says. docs/receipt-format.md has the rules.",
        RejectReason::BadPublicKey => "Send the public key as an SPKI PEM of Ed25519, RSA-2048 or P-256.",
        RejectReason::BadContentHash => "Write `sha256:` and the SHA-256 of the content as 64 hexadecimal digits.",
        _ => return None,
    };
    let (code, meaning) = (reason.as_str(), reason.meaning());
    Some(ProblemPage::of_fault(
        code,
        meaning,
        remedy,
        Kind::InvalidBatch,
        "/receipts/0",
    ))
}
