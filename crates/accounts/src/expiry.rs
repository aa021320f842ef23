//! The end of verifications: when to warn, and noting what has ended.
//!
//! Any number of replicas may do this at any time. A mail's identifier is made of the
//! verification's and its kind, so it is queued once; an end is noted by whoever finds it unnoted,
//! in the transaction that queues its mail.

use sqlx::{Any, Transaction};

use crate::lifetime::{DAY_MS, OLD_NEWS_MS, URGENT_MS};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, MailKind, contest, mail};

/// Time between the first warning and the end, in milliseconds.
pub const WARNING_MS: i64 = 90 * DAY_MS;
/// Ends noted in one look.
const ENDS_MAX: i64 = 500;

/// Result of one look at the verifications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expiries {
    /// Warnings queued.
    pub warnings: u64,
    /// Urgent warnings queued.
    pub urgent: u64,
    /// Verifications whose end was noted.
    pub ended: u64,
    /// Whether there may be more ends to note.
    pub more: bool,
}

impl Accounts {
    /// Queues the warnings that are due and notes the verifications that have ended.
    ///
    /// # Errors
    /// The store fails; what was done until then stays, and the rest is for the next look.
    pub async fn look_for_expiries(&self) -> Result<Expiries, AccountsError> {
        let now_ms = self.now_ms();
        let (urgent_ms, warning_ms) = (now_ms.saturating_add(URGENT_MS), now_ms.saturating_add(WARNING_MS));
        let mut done = Expiries {
            warnings: self
                .queue_warnings(MailKind::Warning, urgent_ms, warning_ms, now_ms)
                .await?,
            urgent: self.queue_warnings(MailKind::Urgent, now_ms, urgent_ms, now_ms).await?,
            ..Expiries::default()
        };
        let question = "SELECT domain, verification_id FROM domains
            WHERE expires_at_ms <= $1 AND revoked_at_ms IS NULL AND expiry_noted_at_ms IS NULL ORDER BY expires_at_ms LIMIT $2";
        let question = sqlx::query_as(question).bind(now_ms).bind(ENDS_MAX);
        let ended: Vec<(String, String)> = self
            .timed("ended_verifications", async {
                Ok(question.fetch_all(&self.pool).await?)
            })
            .await?;
        done.more = ended.len() >= usize::try_from(ENDS_MAX).unwrap_or(usize::MAX);
        for (domain, verification_id) in ended {
            let noting = async {
                let mut transaction = self.begin().await?;
                let noted = note_end(&mut transaction, &domain, &verification_id, now_ms).await?;
                transaction.commit().await?;
                Ok(noted)
            };
            done.ended += u64::from(self.timed("note_expiry", noting).await?);
        }
        Ok(done)
    }

    /// Queues a mail of `kind` for each verification that ends after `from_ms` and until `to_ms`,
    /// where there is none yet.
    async fn queue_warnings(
        &self,
        kind: MailKind,
        from_ms: i64,
        to_ms: i64,
        now_ms: i64,
    ) -> Result<u64, AccountsError> {
        let queue = "INSERT INTO mails
                (id, account_id, kind, domain, verification_id, created_at_ms, state, attempts, next_at_ms)
            SELECT verification_id || '.' || $1, account_id, $1, domain, verification_id, $2, 'queued', 0, $2 FROM domains
            WHERE expires_at_ms > $3 AND expires_at_ms <= $4 AND revoked_at_ms IS NULL
                AND NOT EXISTS (SELECT 1 FROM mails WHERE mails.id = domains.verification_id || '.' || $1)
            ON CONFLICT (id) DO NOTHING";
        let queue = sqlx::query(queue)
            .bind(kind.as_str())
            .bind(now_ms)
            .bind(from_ms)
            .bind(to_ms);
        let done = self
            .timed("queue_warnings", async { Ok(queue.execute(&self.pool).await?) })
            .await?;
        Ok(done.rows_affected())
    }
}

async fn note_end(
    transaction: &mut Transaction<'static, Any>,
    domain: &str,
    verification_id: &str,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let change = "UPDATE domains SET expiry_noted_at_ms = $1 WHERE domain = $2 AND verification_id = $3
        AND expires_at_ms <= $1 AND revoked_at_ms IS NULL AND expiry_noted_at_ms IS NULL";
    let change = sqlx::query(change).bind(now_ms).bind(domain).bind(verification_id);
    if change.execute(&mut **transaction).await?.rows_affected() == 0 {
        return Ok(false);
    }
    let question = sqlx::query_as("SELECT account_id, expires_at_ms FROM domains WHERE domain = $1").bind(domain);
    let (account_id, expires_at_ms): (String, i64) = question.fetch_one(&mut **transaction).await?;
    let change = TrailChange {
        account_id: &account_id,
        actor: "service",
        action: "domain.expire",
        subject: domain,
        detail: verification_id,
        at_ms: now_ms,
    };
    trail::note(transaction, &change).await?;
    contest::end(transaction, domain, now_ms).await?;
    if expires_at_ms.saturating_add(OLD_NEWS_MS) > now_ms {
        let kind = MailKind::Expired;
        let id = format!("{verification_id}.{kind}");
        mail::queue(transaction, &id, &account_id, kind, domain, verification_id, now_ms).await?;
    }
    Ok(true)
}
