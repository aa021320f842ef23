//! Contested domains: another account has proven a domain whose verification holds.
//!
//! The domain stays its holder's, whose proof is checked every day from then on. The first other
//! account is stored until the verification is renewed or doesn't hold any more. It then gets a
//! mail, to check again. Each step happens once, so repeated checks send nothing, and make no check
//! of the holder's proof come sooner. Neither account learns who the other is: identifiers of mails
//! are made of what their readers have already.

use sqlx::{Any, Transaction};

use crate::lifetime::DAY_MS;
use crate::trail::note_action;
use crate::{AccountsError, Challenge, MailKind, mail};

/// Notes that a `challenge` was met for another account's domain, and mails both accounts, unless
/// the domain is contested already.
pub(crate) async fn begin(
    transaction: &mut Transaction<'static, Any>,
    actor: &str,
    challenge: &Challenge,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let (account_id, domain) = (challenge.account_id.as_str(), challenge.domain.as_str());
    let note = "UPDATE domains SET contested_by = $1,
            proof_next_at_ms = CASE WHEN proof_next_at_ms > $2 THEN $2 ELSE proof_next_at_ms END
        WHERE domain = $3 AND contested_by IS NULL";
    let note = sqlx::query(note).bind(account_id).bind(now_ms.saturating_add(DAY_MS));
    if note.bind(domain).execute(&mut **transaction).await?.rows_affected() == 0 {
        return Ok(());
    }
    let holder = sqlx::query_as("SELECT account_id, verification_id FROM domains WHERE domain = $1").bind(domain);
    let (holder, verification_id): (String, String) = holder.fetch_one(&mut **transaction).await?;
    note_action(transaction, &holder, "service", "domain.contest", domain, now_ms).await?;
    note_action(transaction, account_id, actor, "domain.held", domain, now_ms).await?;
    let holder = (&*holder, &*verification_id, MailKind::Contested);
    for (account_id, about, kind) in [holder, (account_id, &challenge.id, MailKind::DomainHeld)] {
        let id = format!("{about}.{kind}");
        mail::queue(transaction, &id, account_id, kind, domain, about, now_ms).await?;
    }
    Ok(())
}

/// Ends the contest of a domain whose verification doesn't hold any more, if there is one: by mail
/// the other account is requested to check again.
pub(crate) async fn end(
    transaction: &mut Transaction<'static, Any>,
    domain: &str,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let query = sqlx::query_scalar("SELECT contested_by FROM domains WHERE domain = $1").bind(domain);
    let Some(account_id) = query.fetch_optional(&mut **transaction).await?.flatten() else {
        return Ok(());
    };
    let account_id: String = account_id;
    let end = sqlx::query("UPDATE domains SET contested_by = NULL WHERE domain = $1").bind(domain);
    end.execute(&mut **transaction).await?;
    let kind = MailKind::DomainFree;
    let id = format!("{domain}.{kind}.{now_ms}");
    mail::queue(transaction, &id, &account_id, kind, domain, domain, now_ms).await
}
