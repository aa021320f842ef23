//! Long answers, each with its share of the budget.

use service::problem::ProblemFault;

use crate::answer::{Answer, json};
use crate::budget_share::{BudgetShare, NoShare};
use crate::call::Call;
use crate::refusal::Refusal;

/// The most faults that a problem lists without a share of the budget.
const UNSHARED_FAULTS_MAX: usize = 20;

async fn share(call: &Call<'_>, bytes: usize) -> Result<BudgetShare, NoShare> {
    BudgetShare::take(call.source, &call.shared.admission, bytes).await
}

/// 200 with `text`, which is JSON and may be as long as what it answers, while its reader may be
/// slow.
pub(crate) async fn written(call: &Call<'_>, text: Vec<u8>) -> Result<Answer, Refusal> {
    let share = share(call, text.len()).await?;
    Ok(json(share.holding(text)))
}

/// Takes a share of the budget for a problem with many faults, or cuts the faults.
pub(crate) async fn with_share(call: &Call<'_>, mut refusal: Refusal) -> Refusal {
    let faults = &refusal.problem().faults;
    if faults.len() <= UNSHARED_FAULTS_MAX {
        return refusal;
    }
    let fault_bytes = |fault: &ProblemFault| {
        // Names and quotes of the three members.
        40 + fault.pointer.len() + fault.code.len() + fault.detail.len()
    };
    let bytes = faults.iter().map(fault_bytes).sum();
    match share(call, bytes).await {
        Ok(share) => refusal.hold(share),
        Err(_) => refusal.problem_mut().cut_faults(UNSHARED_FAULTS_MAX),
    }
    refusal
}
