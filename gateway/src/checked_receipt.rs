//! A single receipt that was checked.

use receipt::{ReceiptHead, Signer};

use crate::body::Held;
use crate::rate::{Exceeded, Standing};
use crate::refusal::Refusal;

/// Outcome of the check of a receipt, up to its outer signature.
pub(crate) struct CheckedReceipt {
    pub(crate) body: Held,
    pub(crate) signature: String,
    /// The charge for the algorithm, and then the verdict: head, signer and SHA-256 of the body.
    pub(crate) charged: Result<(Option<Standing>, OuterVerdict), Exceeded>,
}

type OuterVerdict = Result<(ReceiptHead, Signer, [u8; 32]), Refusal>;
