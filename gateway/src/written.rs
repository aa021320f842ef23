//! Long answers, each with its share of the budget.

use std::sync::Arc;

use bytes::Bytes;
use service::problem::Problem;

use crate::admission::{BudgetFull, Reservation};
use crate::answer::{Answer, Refusal, address_overloaded, json, overloaded};
use crate::call::Call;
use crate::source::Claim;

/// The most faults that a problem lists without a share of the budget.
const UNSHARED_FAULTS_MAX: usize = 20;

/// A share of the budget, which is in its reader's account until it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    _reservation: Reservation,
    _claim: Claim,
}

impl BudgetShare {
    async fn of(call: &Call<'_>, bytes: usize) -> Result<Self, Refusal> {
        let mut claim = call.source.begin().map_err(|BudgetFull| address_overloaded())?;
        if !claim.try_raise(bytes) {
            return Err(address_overloaded());
        }
        let admission = Arc::clone(&call.shared.admission);
        let reservation = admission.reserve(bytes).await.map_err(|_| overloaded())?;
        Ok(Self {
            _reservation: reservation,
            _claim: claim,
        })
    }

    /// The body of an answer, which holds this share until it is sent.
    pub(crate) fn holding(self, text: Vec<u8>) -> Bytes {
        Bytes::from_owner(Written { text, _share: self })
    }
}

/// A text on its way out.
struct Written {
    text: Vec<u8>,
    _share: BudgetShare,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// 200 with `text`, which is JSON and may be as long as what it answers, while its reader may be
/// slow.
pub(crate) async fn written(call: &Call<'_>, text: Vec<u8>) -> Result<Answer, Refusal> {
    let share = BudgetShare::of(call, text.len()).await?;
    Ok(json(share.holding(text)))
}

/// Share of a problem with many faults. Where there is none, the problem is cut to few.
pub(crate) async fn share_of_problem(call: &Call<'_>, problem: &mut Problem) -> Option<BudgetShare> {
    if problem.faults.len() <= UNSHARED_FAULTS_MAX {
        return None;
    }
    let fault_bytes = |fault: &service::problem::ProblemFault| {
        // Names and quotes of the three members.
        40 + fault.pointer.len() + fault.code.len() + fault.detail.len()
    };
    let bytes = problem.faults.iter().map(fault_bytes).sum();
    let share = BudgetShare::of(call, bytes).await.ok();
    if share.is_none() {
        problem.cut_faults(UNSHARED_FAULTS_MAX);
    }
    share
}
