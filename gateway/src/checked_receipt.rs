//! The check of single receipts that wait together: format, charge and outer signature.

use aws_lc_rs::digest::{SHA256, digest};
use receipt::{
    Algorithm, Judge, NotSigned, ReceiptHead, SignedRequest, Signer, UnverifiedReceipt, VerifiedReceiptHead,
};
use service::cpu::{CpuError, CpuPool};

use crate::body::Held;
use crate::not_signed::receipt_not_signed;
use crate::rate::{Exceeded, Standing};
use crate::refusal::Refusal;

/// A single receipt to check.
pub(crate) struct ReceiptCheck {
    pub(crate) body: Held,
    pub(crate) signature: String,
    pub(crate) arrived_ms: i64,
    /// Charges its address for the algorithm.
    pub(crate) charge: Box<dyn Fn(Algorithm) -> Result<Option<Standing>, Exceeded> + Send>,
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
enum NotVerified {
    Panicked(CpuError),
    Exceeded(Exceeded),
    NotSigned(NotSigned),
}

impl ReceiptCheck {
    /// Checks receipts, each by itself. Their signatures are verified together, because that costs
    /// less.
    pub(crate) fn check(judge: &Judge, cpu: &CpuPool, group: Vec<Self>) -> Vec<Result<CheckedReceipt, CpuError>> {
        let read: Vec<_> = group.iter().map(|check| check.read(judge, cpu)).collect();
        let requests = group.iter().zip(&read).map(|(check, read)| {
            Ok(SignedRequest {
                receipt: &read.as_ref()?.1,
                body: check.body.as_ref(),
                header: &check.signature,
            })
        });
        let verified = judge.verify_receipts(requests);
        let checked = group.into_iter().zip(&read).zip(verified);
        checked
            .map(|((check, read), verified)| check.checked(read, verified))
            .collect()
    }

    /// Reads the receipt and charges its address. A receipt whose reading panics fails alone.
    fn read(&self, judge: &Judge, cpu: &CpuPool) -> Result<(Option<Standing>, UnverifiedReceipt), NotVerified> {
        let read = || judge.read_signed_receipt(self.body.as_ref(), self.arrived_ms, &self.signature);
        let receipt = cpu.catch(read).map_err(NotVerified::Panicked)?;
        let receipt = receipt.map_err(NotVerified::NotSigned)?;
        // Not verified before the charge.
        let charged = (self.charge)(receipt.algorithm());
        Ok((charged.map_err(NotVerified::Exceeded)?, receipt))
    }

    fn checked(
        self,
        read: &Result<(Option<Standing>, UnverifiedReceipt), NotVerified>,
        verified: Result<VerifiedReceiptHead, &NotVerified>,
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
                NotVerified::Panicked(error) => return Err(error.clone()),
                NotVerified::Exceeded(exceeded) => Err(*exceeded),
                NotVerified::NotSigned(why) => Ok((None, refused(why.clone()))),
            },
        };
        Ok(CheckedReceipt {
            body: self.body,
            signature: self.signature,
            charged,
        })
    }
}

pub(crate) fn sha256(body: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, body).as_ref());
    hash
}
