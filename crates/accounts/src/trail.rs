//! The audit trail: who changed what, written in the transaction of the change itself.

use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::AccountsError;

/// One change, on its way into the trail. Nothing here may be secret, and personal data only where erasing the account takes it away.
pub(crate) struct Change<'a> {
    /// Whose trail it stands in.
    pub(crate) account_id: &'a str,
    /// Who did it: `key:<id>`, `user:<id>`, `operator` or `service`.
    pub(crate) actor: &'a str,
    /// What was done, as `<noun>.<verb>`: `key.revoke`.
    pub(crate) action: &'a str,
    /// The identifier of what it was done to.
    pub(crate) subject: &'a str,
    /// What else is worth knowing: the names of the changed fields, a reason.
    pub(crate) detail: &'a str,
    /// When, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
}

/// Adds `change` to the trail of its account.
pub(crate) async fn note(
    transaction: &mut Transaction<'static, Any>,
    change: &Change<'_>,
) -> Result<(), AccountsError> {
    let insert = "INSERT INTO trail (id, account_id, at_ms, actor, action, subject, detail)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let insert = sqlx::query(insert)
        .bind(format!("trl_{}", Uuid::now_v7().simple()))
        .bind(change.account_id)
        .bind(change.at_ms)
        .bind(change.actor)
        .bind(change.action)
        .bind(change.subject)
        .bind(change.detail);
    insert.execute(&mut **transaction).await?;
    Ok(())
}
