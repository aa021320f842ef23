//! The check of single receipts that wait together: format, charge and outer signature.

use std::sync::Arc;

use receipt::{NotSigned, ReceiptHead, SignedRequest, Signer, UnverifiedReceipt, VerifiedReceiptHead};
use service::cpu::CpuError;

use crate::body::Held;
use crate::rate::{Exceeded, Standing};
use crate::refusal::Refusal;
use crate::route::Route;
use crate::shared::Shared;
use crate::submit::{receipt_not_signed, sha256};

/// A single receipt to check.
pub(crate) struct ReceiptCheck {
    pub(crate) shared: Arc<Shared>,
    pub(crate) body: Held,
    pub(crate) signature: String,
    pub(crate) arrived_ms: i64,
    /// Key of the address's limits.
    pub(crate) address: u128,
}

/// Outcome of the check of a receipt, up to its outer signature.
pub(crate) struct CheckedReceipt {
    pub(crate) body: Held,
    pub(crate) signature: String,
    /// The charge for the algorithm, and then the verdict: head, signer and SHA-256 of the body.
    pub(crate) charged: Result<(Option<Standing>, OuterVerdict), Exceeded>,
}

type OuterVerdict = Result<(ReceiptHead, Signer, [u8; 32]), Refusal>;

/// Why a receipt's outer signature isn't verified.
enum Unverified {
    Panicked(CpuError),
    Exceeded(Exceeded),
    NotSigned(NotSigned),
}

impl ReceiptCheck {
    /// Checks receipts, each by itself. Their signatures are verified together, because that costs
    /// less.
    pub(crate) fn check(group: Vec<Self>) -> Vec<Result<CheckedReceipt, CpuError>> {
        let Some(Self { shared, .. }) = group.first() else {
            return Vec::new();
        };
        let shared = Arc::clone(shared);
        let read: Vec<_> = group.iter().map(Self::read).collect();
        let requests = group.iter().zip(&read).map(|(check, read)| {
            Ok(SignedRequest {
                receipt: &read.as_ref()?.1,
                body: check.body.as_ref(),
                header: &check.signature,
            })
        });
        let verified = shared.judge.verify_receipts(requests);
        let checked = group.into_iter().zip(&read).zip(verified);
        checked
            .map(|((check, read), verified)| check.checked(read, verified))
            .collect()
    }

    /// Reads the receipt and charges its address. A receipt whose reading panics fails alone.
    fn read(&self) -> Result<(Option<Standing>, UnverifiedReceipt), Unverified> {
        let shared = &self.shared;
        let read = || {
            let (body, header) = (self.body.as_ref(), &self.signature);
            shared.judge.read_signed_receipt(body, self.arrived_ms, header)
        };
        let receipt = shared.cpu.catch(read).map_err(Unverified::Panicked)?;
        let receipt = receipt.map_err(Unverified::NotSigned)?;
        // Not verified before the charge.
        let charged = shared.charge_algorithm(self.address, Route::Receipt, receipt.algorithm(), 0);
        Ok((charged.map_err(Unverified::Exceeded)?, receipt))
    }

    fn checked(
        self,
        read: &Result<(Option<Standing>, UnverifiedReceipt), Unverified>,
        verified: Result<VerifiedReceiptHead, &Unverified>,
    ) -> Result<CheckedReceipt, CpuError> {
        let body = self.body.as_ref();
        let refused = |why: NotSigned| Err(receipt_not_signed(why, body));
        let charged = match (read, verified) {
            (Ok((standing, _)), Ok(verified)) => {
                let verdict = match verified {
                    Ok((head, signer)) => Ok((head, signer, sha256(body))),
                    Err(why) => refused(why),
                };
                Ok((*standing, verdict))
            }
            (Err(unverified), _) | (_, Err(unverified)) => match unverified {
                Unverified::Panicked(error) => return Err(error.clone()),
                Unverified::Exceeded(exceeded) => Err(*exceeded),
                Unverified::NotSigned(why) => Ok((None, refused(why.clone()))),
            },
        };
        Ok(CheckedReceipt {
            body: self.body,
            signature: self.signature,
            charged,
        })
    }
}
