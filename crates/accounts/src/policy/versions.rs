//! Versions of what a policy asks: each change takes the next one.

use sqlx::{Any, Row, Transaction};

use crate::AccountsError;

/// What is counted by itself, so that a change of one doesn't touch who asks for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Clients and their keys.
    Clients,
    /// Which entries there are.
    Entries,
}

impl Subject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Entries => "entries",
        }
    }
}

/// The version of the last change that is to be seen.
pub(crate) async fn current(
    transaction: &mut Transaction<'static, Any>,
    subject: Subject,
) -> Result<i64, AccountsError> {
    let question = sqlx::query("SELECT number FROM policy_versions WHERE subject = $1").bind(subject.as_str());
    Ok(question.fetch_one(&mut **transaction).await?.try_get(0)?)
}

/// The next version, for a change in this transaction. Whoever changes something else waits for its end, so a version is seen only
/// with all before it.
pub(crate) async fn next(transaction: &mut Transaction<'static, Any>, subject: Subject) -> Result<i64, AccountsError> {
    let next = "UPDATE policy_versions SET number = number + 1 WHERE subject = $1 RETURNING number";
    let next = sqlx::query(next).bind(subject.as_str());
    Ok(next.fetch_one(&mut **transaction).await?.try_get(0)?)
}
