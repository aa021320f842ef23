//! Failures on their way out: handlers return a [`Failure`], and one module ([`crate::envelope`])
//! writes it as a problem with the request's id.

use accounts::AccountsError;
use axum::response::{IntoResponse, Response};
use service::problem::{Kind, Problem};
use warehouse::WarehouseError;

use crate::params::InvalidQuery;

/// A problem, as a handler returns it.
#[derive(Debug, Clone)]
pub struct Failure(pub Box<Problem>);

impl Failure {
    /// A problem of this kind; `detail` says what a person can do.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Problem::new(kind, detail).into()
    }

    /// 500, of a fault that the log names.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Kind::Internal, "the request id finds the cause in the log")
    }

    /// 404.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, detail)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl IntoResponse for Failure {
    /// Status and extension only: the envelope writes the body.
    fn into_response(self) -> Response {
        let mut response = self.0.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<InvalidQuery> for Failure {
    fn from(invalid: InvalidQuery) -> Self {
        let detail = invalid.to_string().trim_start_matches(": ").to_owned();
        Problem::new(Kind::InvalidQuery, detail)
            .fault(invalid.parameter, "invalid_parameter", invalid.detail)
            .into()
    }
}

impl From<WarehouseError> for Failure {
    fn from(error: WarehouseError) -> Self {
        if error.is_retryable() {
            tracing::warn!(%error, "the warehouse did not answer");
            let problem = Problem::new(Kind::WarehouseUnavailable, "the warehouse can't answer now; try again");
            return problem.retry_after_s(1).into();
        }
        // Limits keep callers from asking what the warehouse refuses, so this is damage on its
        // disk, another schema, or a bug; none of it the caller's, and all of it the warehouse's as
        // long as it lasts.
        tracing::error!(%error, "a warehouse query failed");
        Self::new(
            Kind::WarehouseFailed,
            "the warehouse failed at this query; the request id finds the cause in the log",
        )
    }
}

impl From<AccountsError> for Failure {
    fn from(error: AccountsError) -> Self {
        tracing::warn!(%error, "the account store did not answer");
        let detail = "the account store can't answer now; try again";
        Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(1).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of the warehouse are never a 500: that would say nothing to whoever watches, nor
    /// to a client that retries.
    #[test]
    fn whatever_the_warehouse_fails_with_is_a_503_that_says_so() {
        let text = || "Code: 40. DB::Exception: Checksum doesn't match".to_owned();
        for (error, code) in [
            (WarehouseError::Unavailable(text()), "warehouse_unavailable"),
            (
                WarehouseError::Refused {
                    code: 40,
                    message: text(),
                },
                "warehouse_failed",
            ),
            (WarehouseError::Damaged(text()), "warehouse_failed"),
            (WarehouseError::BadAnswer(text()), "warehouse_failed"),
        ] {
            let Failure(problem) = error.into();
            assert_eq!((problem.kind.status().as_u16(), problem.kind.code()), (503, code));
            assert!(
                !problem.detail.contains("Checksum"),
                "the engine's words stay in the log"
            );
        }
    }
}
