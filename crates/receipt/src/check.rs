//! The format check: everything that can be known of a body without cryptography.

use std::ops::ControlFlow;

use uuid::Uuid;

use crate::batch::{self, Batch};
use crate::fault::{Fault, Faults, FormatError};
use crate::scan::utf8;
use crate::scratch::{self, Scratch};
use crate::tape::Tape;
use crate::{Algorithm, Limits, Receipt, parse_receipt, receipt, rules};

/// Members that the answer to a receipt names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptHead {
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// `client.id`.
    pub client_id: Uuid,
    /// `signatureAlgorithm`, and so the kind of `client.publicKey`.
    pub algorithm: Algorithm,
}

/// Members that the answer to a batch names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// `batchId`.
    pub batch_id: String,
    /// Number of its receipts.
    pub receipt_count: u32,
    /// `client.id` of the first receipt.
    pub client_id: Uuid,
    /// `signatureAlgorithm`, and so the kind of its receipts' key.
    pub algorithm: Algorithm,
}

/// Checks that a body is one well-formed receipt. `received_at_ms` is its arrival in Unix
/// milliseconds.
///
/// # Errors
/// Up to 20 faults; one alone where the body isn't I-JSON.
pub fn check_receipt(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<ReceiptHead, FormatError> {
    scratch::with(|scratch| {
        let receipt = parse_receipt(body, received_at_ms, limits, scratch)?;
        Ok(ReceiptHead::of(&receipt))
    })
}

impl ReceiptHead {
    pub(crate) fn of(receipt: &Receipt<'_>) -> Self {
        Self {
            receipt_id: receipt.receipt_id,
            client_id: receipt.client_id,
            algorithm: receipt.algorithm,
        }
    }
}

/// Checks that a body is one well-formed batch of well-formed receipts. `received_at_ms` is its
/// arrival in Unix milliseconds.
///
/// # Errors
/// Up to 1,000 faults; one alone where the body isn't I-JSON or exceeds a limit.
pub fn check_batch(body: &[u8], received_at_ms: i64, limits: &Limits) -> Result<BatchHead, FormatError> {
    batch::check_size(body.len(), limits)?;
    let text = utf8(body)?;
    let (_, head) = scratch::with(|scratch| read_batch(text, received_at_ms, limits, scratch, &mut |_, _| {}))?;
    Ok(head)
}

/// Checks a batch, and shows its well-formed receipts to `each`, in order, with their tapes. Leaves
/// the batch's own members in `scratch.own`.
pub(crate) fn read_batch<'b>(
    text: &'b str,
    received_at_ms: i64,
    limits: &Limits,
    scratch: &mut Scratch,
    each: &mut dyn FnMut(&Receipt<'_>, &Tape),
) -> Result<(Batch<'b>, BatchHead), FormatError> {
    let mut faults = Faults::of_batch();
    let mut client_id = None;
    let mut key_kinds = std::mem::take(&mut scratch.key_kinds);
    let mut key_kind = |pem: &str| key_kinds.of(pem);
    let batch = batch::read(text, limits, scratch, &mut |index, tape| {
        match receipt::read(tape, text, received_at_ms, limits, &mut key_kind) {
            Ok(receipt) => {
                client_id.get_or_insert(receipt.client_id);
                each(&receipt, tape);
            }
            Err(unreadable) => faults.absorb(&format!("/receipts/{index}"), unreadable.error),
        }
        if faults.is_full() {
            ControlFlow::Break(std::mem::replace(&mut faults, Faults::of_batch()).into_error())
        } else {
            ControlFlow::Continue(())
        }
    });
    scratch.key_kinds = key_kinds;
    if !faults.is_empty() {
        // JSON that ends badly is the one thing to say; otherwise the batch's own faults follow the
        // receipts'.
        return match batch {
            Err(error) if error.faults.iter().any(|fault| !fault.code.is_of_a_member()) => Err(error),
            Err(error) => {
                faults.absorb("", error);
                Err(faults.into_error())
            }
            Ok(_) => Err(faults.into_error()),
        };
    }
    let batch = batch?;
    let head = BatchHead {
        batch_id: batch.batch_id.clone().into_owned(),
        receipt_count: u32::try_from(batch.receipts.len()).unwrap_or(u32::MAX),
        // A batch without faults has receipts without faults, and at least one.
        client_id: client_id.unwrap_or_default(),
        algorithm: batch.algorithm,
    };
    Ok((batch, head))
}

/// Checks that an `X-Service-Signature` header is base64 of 1 to 512 bytes, and says of how many;
/// [`Algorithm::signs_in`] says whether that can be a signature. The pointer of the fault is
/// empty.
///
/// # Errors
/// `invalid_base64` or `too_long`.
pub fn check_request_signature(header: &str) -> Result<usize, Fault> {
    rules::signature(header).map(|bytes| bytes.len()).map_err(|error| {
        let (code, detail) = error.explain();
        Fault {
            pointer: String::new(),
            code,
            detail: format!("X-Service-Signature: {detail}"),
        }
    })
}
