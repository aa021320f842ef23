//! Refusals: why a request isn't taken, as a problem.

use receipt::{FaultCode, FormatError};
use receipt_log::AppendError;
use service::cpu::CpuError;
use service::problem::{Kind, Problem};
use service::request_id::RequestId;

use crate::answer::Answer;
use crate::budget::{BudgetFull, Reservation};

/// Why a request wasn't taken. Boxed: a result on the way of every request shouldn't carry a
/// problem's size.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Refused>);

#[derive(Debug)]
struct Refused {
    problem: Problem,
    /// Reserved bytes of a long one.
    reservation: Option<Reservation>,
}

/// Seconds until a client that met a passing shortage should come again.
const RETRY_SOON_S: u32 = 1;

/// Seconds to wait where someone may have to repair something.
const RETRY_LATER_S: u32 = 5;

impl Refusal {
    pub(crate) fn kind(&self) -> Kind {
        self.0.problem.kind
    }

    pub(crate) fn problem(&self) -> &Problem {
        &self.0.problem
    }

    #[cfg(test)]
    pub(crate) fn into_problem(self) -> Problem {
        self.0.problem
    }

    pub(crate) fn problem_mut(&mut self) -> &mut Problem {
        &mut self.0.problem
    }

    /// Holds a part of the budget until the problem is sent.
    pub(crate) fn hold(&mut self, reservation: Reservation) {
        self.0.reservation = Some(reservation);
    }

    /// Adds a sentence to the problem's detail.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        let detail = &mut self.0.problem.detail;
        detail.push_str("; ");
        detail.push_str(hint);
        self
    }

    pub(crate) fn into_answer(self, id: &RequestId) -> Answer {
        let Refused { problem, reservation } = *self.0;
        match reservation {
            Some(reservation) => problem.into_response_with(id, |text| reservation.holding(text)),
            None => problem.into_response(id),
        }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(Refused {
            problem,
            reservation: None,
        }))
    }
}

impl From<BudgetFull> for Refusal {
    fn from(full: BudgetFull) -> Self {
        match full {
            BudgetFull::Address => address_overloaded(),
            BudgetFull::Bytes => overloaded(),
        }
    }
}

impl From<CpuError> for Refusal {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::Busy => overloaded(),
            CpuError::Panicked(message) => {
                tracing::error!(message, "a check panicked");
                Problem::new(
                    Kind::Internal,
                    "the body could not be checked; the request id names the log line",
                )
                .into()
            }
        }
    }
}

/// 503: no room in memory or on the CPU.
pub(crate) fn overloaded() -> Refusal {
    let detail = "as much is in progress as the service allows; send the request again later";
    Problem::new(Kind::Overloaded, detail)
        .retry_after_s(RETRY_SOON_S)
        .into()
}

/// 503: one address, or all of them, hold as much as they may.
fn address_overloaded() -> Refusal {
    let detail =
        "as much is unfinished, from this address or in all, as the service allows; finish or close some of it first";
    Problem::new(Kind::Overloaded, detail)
        .retry_after_s(RETRY_SOON_S)
        .into()
}

/// 503 or 413: the log didn't take the record. `None`: it didn't say in time.
pub(crate) fn not_stored(error: Option<&AppendError>) -> Refusal {
    let (detail, retry_s) = match error {
        Some(AppendError::TooLarge { max, .. }) => {
            let detail = format!("the log takes at most {max} bytes");
            return Problem::new(Kind::BodyTooLarge, detail).into();
        }
        Some(AppendError::Busy) => ("the log's queue is full", RETRY_SOON_S),
        Some(AppendError::Unavailable(_)) => ("the log can't store it now", RETRY_LATER_S),
        Some(AppendError::Closed) => ("the service is shutting down", RETRY_LATER_S),
        None => ("the log didn't confirm it in time", RETRY_LATER_S),
    };
    let detail = format!("{detail}; send the same bytes again, receipts that were stored after all count once");
    Problem::new(Kind::LogUnavailable, detail).retry_after_s(retry_s).into()
}

/// 400, or 413 where the whole body is too long: what the format check found.
pub(crate) fn malformed(error: FormatError, otherwise: Kind) -> Refusal {
    let first = error.faults.first();
    let kind = match first.map(|fault| (fault.code, fault.pointer.as_str())) {
        Some((FaultCode::ReceiptTooLarge | FaultCode::BatchTooLarge, "")) => Kind::BodyTooLarge,
        Some((code, _)) if code.is_of_json() => Kind::InvalidJson,
        _ => otherwise,
    };
    let mut detail = first.map(|fault| fault.detail.clone()).unwrap_or_default();
    match (error.faults.len(), error.more) {
        (0 | 1, false) => {}
        (count, false) => detail.push_str(&format!("; {count} faults in all")),
        (count, true) => detail.push_str(&format!("; more than {count} faults in all")),
    }
    let mut problem = Problem::new(kind, detail);
    problem.more_faults = error.more;
    for fault in error.faults {
        problem = problem.fault(fault.pointer, fault.code.as_str(), fault.detail);
    }
    problem.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_log_that_refuses_may_be_tried_again_unless_the_record_is_too_large() {
        for error in [
            AppendError::Busy,
            AppendError::Unavailable("disk full".to_owned()),
            AppendError::Closed,
        ] {
            let refusal = not_stored(Some(&error));
            assert_eq!(refusal.kind(), Kind::LogUnavailable);
            assert!(refusal.into_problem().retry_after_s.is_some());
        }
        let too_large = AppendError::TooLarge { size: 2, max: 1 };
        assert_eq!(not_stored(Some(&too_large)).kind(), Kind::BodyTooLarge);
        assert_eq!(not_stored(None).kind(), Kind::LogUnavailable);
    }
}
