//! The time between the request of an erasure and its beginning: cancelled in it, begun at its end.

use super::{Erasure, ErasureState, read, select};
use crate::trail::note_action;
use crate::{Accounts, AccountsError, MailKind, mail};

/// Result of the request to cancel an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelledErasure {
    /// Cancelled, now or before.
    Cancelled(Box<Erasure>),
    /// Not cancelled: it has begun, and may be done.
    Begun,
    /// The account has no such erasure.
    Unknown,
}

impl Accounts {
    /// Cancels an erasure of an account that hasn't begun, on behalf of `actor`. The account gets a
    /// mail. Nothing changes if it was cancelled before.
    pub async fn cancel_erasure(
        &self,
        account_id: &str,
        id: &str,
        actor: &str,
    ) -> Result<CancelledErasure, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            // Of this and the beginning at one time, one finds the row scheduled.
            let cancel = "UPDATE erasures SET state = 'cancelled', cancelled_at_ms = $1,
                    person_id = CASE WHEN person_kind IS NULL THEN NULL ELSE '' END
                WHERE account_id = $2 AND id = $3 AND state = 'scheduled'";
            let cancel = sqlx::query(cancel).bind(now_ms).bind(account_id).bind(id);
            let is_cancelled_now = cancel.execute(&mut *transaction).await?.rows_affected() > 0;
            let query = sqlx::query(select!("WHERE account_id = $1 AND id = $2"));
            let row = query
                .bind(account_id)
                .bind(id)
                .fetch_optional(&mut *transaction)
                .await?;
            let Some(erasure) = row.as_ref().map(read).transpose()? else {
                return Ok(CancelledErasure::Unknown);
            };
            if erasure.state != ErasureState::Cancelled {
                return Ok(CancelledErasure::Begun);
            }
            if is_cancelled_now {
                note_action(&mut transaction, account_id, actor, "erasure.cancel", id, now_ms).await?;
                mail::queue_for_erasure(&mut transaction, MailKind::ErasureCancelled, &erasure, now_ms).await?;
                transaction.commit().await?;
            }
            Ok(CancelledErasure::Cancelled(Box::new(erasure)))
        };
        self.timed("cancel_erasure", work).await
    }

    /// Begins the scheduled erasures whose time has come. They can't be cancelled from then on.
    /// Receipts of a domain that isn't the account's any more aren't erased: the new owner's
    /// evidence would be lost.
    ///
    /// # Errors
    /// The store fails. Erasures that have begun stay so.
    pub async fn begin_scheduled_erasures(&self) -> Result<u64, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let due = sqlx::query(select!(
                "WHERE state = 'scheduled' AND execute_at_ms <= $1 ORDER BY execute_at_ms"
            ));
            let due = due.bind(now_ms).fetch_all(&self.pool).await?;
            let mut begun = 0;
            for erasure in due.iter().map(read) {
                let erasure = erasure?;
                let coverage = match &erasure.request.receipt_metadata {
                    None => None,
                    Some(requested) => {
                        let now = self.erasable_coverage(&erasure.account_id, now_ms).await?;
                        Some(serde_json::json!(requested.within(&now)).to_string())
                    }
                };
                let begin = sqlx::query(
                    "UPDATE erasures SET state = 'store', coverage = $1 WHERE id = $2 AND state = 'scheduled'",
                );
                let begin = begin.bind(coverage).bind(&erasure.id).execute(&self.pool).await?;
                begun += begin.rows_affected();
            }
            Ok(begun)
        };
        self.timed("begin_scheduled_erasures", work).await
    }
}
