//! The outbox: mails on their way from the decision to send them to the server that took them.
//!
//! ```text
//! queued -> claimed -> sending -> sent
//!   ^          |          |-> queued (the server said no for now, or didn't answer)
//!   |----------|          |-> refused (the server said never)
//!                         |-> unknown (its sender was gone before it had the answer)
//! ```
//!
//! A mail is claimed for a while; a claim that runs out is another replica's to take. `sending` is written after the server has taken
//! the envelope and before it gets the text, so a sender that dies earlier costs nothing, and one that dies later has left a mail that
//! the server has in all likelihood. That one isn't sent again: each mail is sent once. A server that is asked and doesn't
//! answer has not taken the mail (RFC 5321, 4.2.5 and 6.1); it gets the same mail again, under the same `Message-ID`.
//!
//! What a mail says and to whom is read when it is sent: an outbox holds no addresses, and what is no longer true isn't sent.

use std::fmt;
use std::str::FromStr;

use sqlx::Row;

use crate::expiry::{EXPIRED_MAIL_MS, URGENT_MS};
use crate::lifetime::DAY_MS;
use crate::{Accounts, AccountsError};

/// How long an ended mail stays, in milliseconds: longer than a verification lives, so that none is queued again.
const KEPT_MS: i64 = 400 * DAY_MS;
/// Between two looks for the address of an account that has none.
const NO_ADDRESS_MS: i64 = DAY_MS;
/// Mails looked at for one that can be sent.
const LOOKED_AT_MAX: i64 = 20;
/// The longest reason that is stored, in characters.
const PROBLEM_CHARS_MAX: usize = 300;

/// What a mail tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// A verification ends within 90 days.
    Warning,
    /// It ends within 30 days.
    Urgent,
    /// It has ended.
    Expired,
}

/// A mail that its claimer may send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMail {
    /// Stable: the same at every attempt.
    pub id: String,
    /// What it tells.
    pub kind: MailKind,
    /// To whom.
    pub to: String,
    /// About which domain.
    pub domain: String,
    /// Its verification.
    pub verification_id: String,
    /// When that ends or ended, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
    /// How often it was claimed, this time included.
    pub attempts: i64,
}

/// How many mails there are of each state that someone may want to know of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Queued, claimed or being sent.
    pub waiting: u64,
    /// Refused by the server for good.
    pub refused: u64,
    /// Perhaps sent: their sender was gone before it had the answer.
    pub unknown: u64,
}

impl Accounts {
    /// Claims a mail that is due, for `lease_ms` milliseconds. What isn't true any more is put away on the way.
    ///
    /// # Errors
    /// The store fails.
    pub async fn claim_mail(&self, holder: &str, lease_ms: i64) -> Result<Option<ClaimedMail>, AccountsError> {
        self.timed("claim_mail", async {
            let now_ms = self.now_ms();
            let due = "SELECT id FROM mails WHERE state IN ('queued', 'claimed') AND next_at_ms <= $1
                ORDER BY next_at_ms, id LIMIT $2";
            let due = sqlx::query(due)
                .bind(now_ms)
                .bind(LOOKED_AT_MAX)
                .fetch_all(&self.pool)
                .await?;
            for row in due {
                let id: String = row.try_get(0)?;
                let claim = "UPDATE mails SET state = 'claimed', holder = $1, next_at_ms = $2, attempts = attempts + 1
                    WHERE id = $3 AND state IN ('queued', 'claimed') AND next_at_ms <= $4";
                let claim = sqlx::query(claim)
                    .bind(holder)
                    .bind(now_ms.saturating_add(lease_ms))
                    .bind(&id)
                    .bind(now_ms);
                if claim.execute(&self.pool).await?.rows_affected() == 0 {
                    continue;
                }
                if let Some(mail) = self.read_claimed(&id, holder, now_ms).await? {
                    return Ok(Some(mail));
                }
            }
            Ok(None)
        })
        .await
    }

    /// The claimed mail, or `None` and it is put away: for good if it isn't true any more, for a day if nobody can get it.
    async fn read_claimed(&self, id: &str, holder: &str, now_ms: i64) -> Result<Option<ClaimedMail>, AccountsError> {
        let question = "SELECT m.kind, m.domain, m.verification_id, m.attempts, d.expires_at_ms,
                (SELECT u.email FROM users u WHERE u.account_id = m.account_id AND u.email IS NOT NULL
                    ORDER BY u.created_at_ms, u.id LIMIT 1)
            FROM mails m LEFT JOIN domains d ON d.domain = m.domain AND d.account_id = m.account_id
                AND d.verification_id = m.verification_id AND d.revoked_at_ms IS NULL
            WHERE m.id = $1";
        let row = sqlx::query(question).bind(id).fetch_one(&self.pool).await?;
        let kind: MailKind = row
            .try_get::<&str, _>(0)?
            .parse()
            .map_err(|()| AccountsError::Store(format!("mail {id}: its kind")))?;
        let expires_at_ms = row
            .try_get::<Option<i64>, _>(4)?
            .filter(|expires_at_ms| kind.is_true(*expires_at_ms, now_ms));
        let Some(expires_at_ms) = expires_at_ms else {
            self.end_mail(id, holder, "claimed", "moot", "").await?;
            return Ok(None);
        };
        let Some(to) = row.try_get::<Option<String>, _>(5)? else {
            let problem = "the account has no user with an e-mail address";
            self.requeue(id, holder, now_ms.saturating_add(NO_ADDRESS_MS), problem)
                .await?;
            return Ok(None);
        };
        Ok(Some(ClaimedMail {
            id: id.to_owned(),
            kind,
            to,
            domain: row.try_get(1)?,
            verification_id: row.try_get(2)?,
            expires_at_ms,
            attempts: row.try_get(3)?,
        }))
    }

    /// Notes that the server gets the mail's text now. `false` if the claim isn't `holder`'s any more: then it must not be sent.
    ///
    /// # Errors
    /// The store fails: then it must not be sent either.
    pub async fn begin_sending(&self, id: &str, holder: &str, lease_ms: i64) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let change = "UPDATE mails SET state = 'sending', next_at_ms = $1
            WHERE id = $2 AND holder = $3 AND state = 'claimed' AND next_at_ms > $4";
        let change = sqlx::query(change)
            .bind(now_ms.saturating_add(lease_ms))
            .bind(id)
            .bind(holder)
            .bind(now_ms);
        let done = self
            .timed("begin_sending", async { Ok(change.execute(&self.pool).await?) })
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The server took it.
    ///
    /// # Errors
    /// The store fails: the mail is `unknown` once its time is over.
    pub async fn mail_sent(&self, id: &str, holder: &str) -> Result<(), AccountsError> {
        self.timed("mail_sent", self.end_mail(id, holder, "sending", "sent", ""))
            .await
    }

    /// The server will never take it.
    ///
    /// # Errors
    /// The store fails.
    pub async fn mail_refused(&self, id: &str, holder: &str, problem: &str) -> Result<(), AccountsError> {
        self.timed("mail_refused", async {
            for state in ["claimed", "sending"] {
                self.end_mail(id, holder, state, "refused", problem).await?;
            }
            Ok(())
        })
        .await
    }

    /// The server doesn't take it now: again in `after_ms` milliseconds.
    ///
    /// # Errors
    /// The store fails.
    pub async fn mail_failed(&self, id: &str, holder: &str, after_ms: i64, problem: &str) -> Result<(), AccountsError> {
        let at_ms = self.now_ms().saturating_add(after_ms);
        self.timed("mail_failed", self.requeue(id, holder, at_ms, problem))
            .await
    }

    /// Tells apart what its sender left in the middle of sending, and removes what ended long ago. How many are `unknown` since now.
    ///
    /// # Errors
    /// The store fails.
    pub async fn tidy_outbox(&self) -> Result<u64, AccountsError> {
        self.timed("tidy_outbox", async {
            let now_ms = self.now_ms();
            let left =
                "UPDATE mails SET state = 'unknown', ended_at_ms = $1 WHERE state = 'sending' AND next_at_ms <= $1";
            let left = sqlx::query(left).bind(now_ms).execute(&self.pool).await?;
            let old = sqlx::query("DELETE FROM mails WHERE ended_at_ms <= $1").bind(now_ms.saturating_sub(KEPT_MS));
            old.execute(&self.pool).await?;
            Ok(left.rows_affected())
        })
        .await
    }

    /// What is in the outbox.
    ///
    /// # Errors
    /// The store fails.
    pub async fn outbox(&self) -> Result<Outbox, AccountsError> {
        let question =
            sqlx::query("SELECT state, COUNT(*) FROM mails WHERE state NOT IN ('sent', 'moot') GROUP BY state");
        let rows = self
            .timed("outbox", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let mut outbox = Outbox::default();
        for row in rows {
            let count = u64::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
            match row.try_get::<&str, _>(0)? {
                "refused" => outbox.refused += count,
                "unknown" => outbox.unknown += count,
                _ => outbox.waiting += count,
            }
        }
        Ok(outbox)
    }

    async fn end_mail(&self, id: &str, holder: &str, from: &str, to: &str, problem: &str) -> Result<(), AccountsError> {
        let end =
            "UPDATE mails SET state = $1, ended_at_ms = $2, problem = $3 WHERE id = $4 AND holder = $5 AND state = $6";
        let end = sqlx::query(end)
            .bind(to)
            .bind(self.now_ms())
            .bind(shortened(problem))
            .bind(id)
            .bind(holder)
            .bind(from);
        end.execute(&self.pool).await?;
        Ok(())
    }

    async fn requeue(&self, id: &str, holder: &str, at_ms: i64, problem: &str) -> Result<(), AccountsError> {
        let change = "UPDATE mails SET state = 'queued', next_at_ms = $1, problem = $2
            WHERE id = $3 AND holder = $4 AND state IN ('claimed', 'sending')";
        let change = sqlx::query(change)
            .bind(at_ms)
            .bind(shortened(problem))
            .bind(id)
            .bind(holder);
        change.execute(&self.pool).await?;
        Ok(())
    }
}

fn shortened(problem: &str) -> String {
    problem.chars().take(PROBLEM_CHARS_MAX).collect()
}

impl MailKind {
    /// Whether it is so at `now_ms` of a verification that ends at `expires_at_ms`. A warning that comes so late that the
    /// urgent one is due is the urgent one's.
    fn is_true(self, expires_at_ms: i64, now_ms: i64) -> bool {
        let left_ms = expires_at_ms.saturating_sub(now_ms);
        match self {
            MailKind::Warning => left_ms > URGENT_MS,
            MailKind::Urgent => left_ms > 0,
            MailKind::Expired => left_ms <= 0 && left_ms > -EXPIRED_MAIL_MS,
        }
    }

    /// `warning`, `urgent` or `expired`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MailKind::Warning => "warning",
            MailKind::Urgent => "urgent",
            MailKind::Expired => "expired",
        }
    }
}

impl FromStr for MailKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "warning" => Ok(MailKind::Warning),
            "urgent" => Ok(MailKind::Urgent),
            "expired" => Ok(MailKind::Expired),
            _ => Err(()),
        }
    }
}

impl fmt::Display for MailKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
