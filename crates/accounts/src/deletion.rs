//! Deleting an account: requested by any of its owners, carried out after a time in which it can be
//! taken back.

use sqlx::any::AnyRow;

use crate::row::RowValues;
use crate::trail::note_action;
use crate::{Accounts, AccountsError};

/// An account's coming end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// When it was requested, in milliseconds since the Unix epoch.
    pub requested_at_ms: i64,
    /// From when on everything may be erased.
    pub erase_after_ms: i64,
}

/// Result of the request to keep an account after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// The account stays.
    Done,
    /// No deletion was pending.
    NothingPending,
    /// The time to take it back is over.
    TooLate,
}

impl Accounts {
    /// Plans the deletion of an account, on behalf of `actor`; it may be erased
    /// `grace_ms` milliseconds from now. One that is planned already stays as it is. Until then
    /// everything continues working. `None` if there is no such account any more.
    pub async fn request_deletion(
        &self,
        account_id: &str,
        grace_ms: i64,
        actor: &str,
    ) -> Result<Option<Deletion>, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            let plan = "UPDATE accounts SET deletion_requested_at_ms = $1, erase_after_ms = $2
                WHERE id = $3 AND erase_after_ms IS NULL";
            let plan = sqlx::query(plan)
                .bind(now_ms)
                .bind(now_ms.saturating_add(grace_ms.max(0)));
            let planned = plan.bind(account_id).execute(&mut *transaction).await?;
            if planned.rows_affected() > 0 {
                note_action(
                    &mut transaction,
                    account_id,
                    actor,
                    "account.delete",
                    account_id,
                    now_ms,
                )
                .await?;
            }
            let question = "SELECT deletion_requested_at_ms, erase_after_ms FROM accounts WHERE id = $1";
            let question = sqlx::query_as(question).bind(account_id);
            let Some((requested_at_ms, erase_after_ms)) = question.fetch_optional(&mut *transaction).await? else {
                return Ok(None);
            };
            let deletion = Deletion {
                requested_at_ms,
                erase_after_ms,
            };
            transaction.commit().await?;
            Ok(Some(deletion))
        };
        self.timed("request_deletion", work).await
    }

    /// Takes the deletion of an account back, on behalf of `actor`.
    pub async fn cancel_deletion(&self, account_id: &str, actor: &str) -> Result<Cancellation, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            let keep = "UPDATE accounts SET deletion_requested_at_ms = NULL, erase_after_ms = NULL
                WHERE id = $1 AND erase_after_ms > $2";
            let keep = sqlx::query(keep).bind(account_id).bind(now_ms);
            if keep.execute(&mut *transaction).await?.rows_affected() > 0 {
                note_action(&mut transaction, account_id, actor, "account.keep", account_id, now_ms).await?;
                transaction.commit().await?;
                return Ok(Cancellation::Done);
            }
            let question = "SELECT COUNT(*) FROM accounts WHERE id = $1 AND erase_after_ms IS NOT NULL";
            let question = sqlx::query_scalar(question).bind(account_id);
            Ok(match question.fetch_one(&mut *transaction).await? {
                0 => Cancellation::NothingPending,
                _ => Cancellation::TooLate,
            })
        };
        self.timed("cancel_deletion", work).await
    }

    /// The accounts that may be erased at `now_ms`, those that have waited longest first, at most
    /// `accounts_max`. Whoever erases one looks again within the transaction:
    /// `erase_after_ms <= now_ms` can't be taken back any more.
    pub async fn accounts_due_for_erasure(&self, now_ms: i64, accounts_max: i64) -> Result<Vec<String>, AccountsError> {
        let question = "SELECT id FROM accounts WHERE erase_after_ms <= $1 ORDER BY erase_after_ms, id LIMIT $2";
        let question = sqlx::query_scalar(question).bind(now_ms).bind(accounts_max);
        self.timed("accounts_due_for_erasure", async {
            Ok(question.fetch_all(&self.pool).await?)
        })
        .await
    }
}

impl Deletion {
    /// The deletion of the account in a row, if one is requested.
    pub(crate) fn read(row: &AnyRow) -> Result<Option<Self>, AccountsError> {
        let requested_at_ms: Option<i64> = row.value("deletion_requested_at_ms")?;
        let erase_after_ms: Option<i64> = row.value("erase_after_ms")?;
        let both = requested_at_ms.zip(erase_after_ms);
        Ok(both.map(|(requested_at_ms, erase_after_ms)| Self {
            requested_at_ms,
            erase_after_ms,
        }))
    }
}
