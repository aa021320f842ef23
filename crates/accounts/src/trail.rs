//! The audit trail: who changed what, written in the transaction of the change itself.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::page::{Cursor, Page};
use crate::row::RowValues;
use crate::{Accounts, AccountsError};

/// A change, on its way into the trail. Nothing here may be secret, and personal data only where
/// erasing the account takes it away.
pub(crate) struct TrailChange<'a> {
    /// Account whose trail it is in.
    pub(crate) account_id: &'a str,
    /// Actor: `key:<id>`, `user:<id>`, `operator` or `service`.
    pub(crate) actor: &'a str,
    /// Action as `<noun>.<verb>`: `key.revoke`.
    pub(crate) action: &'a str,
    /// The identifier of what it was done to.
    pub(crate) subject: &'a str,
    /// Further details: the names of the changed fields, a reason.
    pub(crate) detail: &'a str,
    /// When, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
}

impl<'a> TrailChange<'a> {
    /// A change by the operator, of what belongs to no account.
    pub(crate) fn of_deployment(action: &'a str, subject: &'a str, detail: &'a str, at_ms: i64) -> Self {
        Self {
            account_id: "deployment",
            actor: "operator",
            action,
            subject,
            detail,
            at_ms,
        }
    }
}

/// Adds `change` to the trail of its account.
pub(crate) async fn note(
    transaction: &mut Transaction<'static, Any>,
    change: &TrailChange<'_>,
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

/// Adds a change that needs no detail to the trail of the account.
pub(crate) async fn note_action(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    actor: &str,
    action: &str,
    subject: &str,
    at_ms: i64,
) -> Result<(), AccountsError> {
    let change = TrailChange {
        account_id,
        actor,
        action,
        subject,
        detail: "",
        at_ms,
    };
    note(transaction, &change).await
}

/// A change, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailEntry {
    /// Identifier: `trl_...`.
    pub id: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Actor: `key:<id>`, `user:<id>`, `operator` or `service`.
    pub actor: String,
    /// Action as `<noun>.<verb>`.
    pub action: String,
    /// The identifier of what it was done to.
    pub subject: String,
    /// Further details.
    pub detail: String,
}

impl Accounts {
    /// The trail of an account, newest first, at most `items_max`, from `after` on.
    pub async fn trail_page(
        &self,
        account_id: &str,
        after: Option<&Cursor>,
        items_max: usize,
    ) -> Result<Page<TrailEntry>, AccountsError> {
        let question = "SELECT id, at_ms, actor, action, subject, detail FROM trail
            WHERE account_id = $1 AND (at_ms, id) < ($2, $3) ORDER BY at_ms DESC, id DESC LIMIT $4";
        let (at_ms, id) = after.map_or((i64::MAX, ""), |cursor| (cursor.created_at_ms, cursor.id.as_str()));
        let items_asked = i64::try_from(items_max).unwrap_or(i64::MAX).saturating_add(1);
        let question = sqlx::query(question).bind(account_id).bind(at_ms);
        let question = question.bind(id).bind(items_asked);
        let rows = self
            .timed("trail_page", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let entries: Vec<TrailEntry> = rows.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(entries, items_max, |entry| Cursor {
            created_at_ms: entry.at_ms,
            id: entry.id.clone(),
        }))
    }
}

fn read(row: &AnyRow) -> Result<TrailEntry, AccountsError> {
    Ok(TrailEntry {
        id: row.value("id")?,
        at_ms: row.value("at_ms")?,
        actor: row.value("actor")?,
        action: row.value("action")?,
        subject: row.value("subject")?,
        detail: row.value("detail")?,
    })
}
