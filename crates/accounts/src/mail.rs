//! The outbox: mails on their way from the decision to send them to the server that took them.
//!
//! ```text
//! queued -> claimed -> sent
//!   ^          |-> refused (the server said never)
//!   |----------| (the server said no for now, didn't answer, or the sender is gone)
//! ```
//!
//! A mail is claimed for a while; a claim that runs out is another replica's to take. A sender that
//! dies after the server has taken the mail leaves it to be sent again, and so does a server that
//! doesn't answer (RFC 5321, 4.2.5 and 6.1): under the same `Message-ID`, by which the recipient's
//! server or reader drops the second one.
//!
//! Text and recipient of a mail are read when it is sent: an outbox holds no addresses, and a mail
//! no longer true isn't sent. Only the numbers of a report are stored with it, because they are
//! those of one position.

use std::fmt;
use std::str::FromStr;

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};

use crate::erasure::{self, Erasure, ErasureState};
use crate::lifetime::{DAY_MS, OLD_NEWS_MS, URGENT_MS};
use crate::row::RowValues;
use crate::{Accounts, AccountsError, MailedReport, OfferedMembership, SecretToken};

/// Time that an ended mail stays, in milliseconds: longer than a verification lives, so that none
/// is queued again.
const RETAINED_MS: i64 = 400 * DAY_MS;
/// Between two looks for the address of an account that has none.
const NO_ADDRESS_MS: i64 = DAY_MS;
/// Mails checked for one that can be sent.
const CANDIDATES_MAX: i64 = 20;
/// The longest reason that is stored, in characters.
const PROBLEM_CHARS_MAX: usize = 300;

/// Event that a mail reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// A verification ends within 90 days.
    Warning,
    /// The verification ends within 30 days.
    Urgent,
    /// The verification has ended.
    Expired,
    /// The domain's proof isn't published any more: it is suspended.
    Suspended,
    /// To the owner: another account has proven the domain.
    Contested,
    /// To who has proven another's domain: it stays the other's while that proof is published.
    DomainHeld,
    /// To who has proven another's domain: nobody has it any more.
    DomainFree,
    /// To the owner before: the domain is another account's.
    Lost,
    /// To the new owner: the domain is theirs.
    Won,
    /// An erasure was requested.
    ErasureRequested,
    /// An erasure was cancelled.
    ErasureCancelled,
    /// An erasure is done.
    ErasureDone,
    /// An invitation into an account, to who isn't in it.
    Invitation,
    /// The numbers of a week.
    Weekly,
    /// The numbers of a month.
    Monthly,
    /// An operator used content for the first time.
    NewOperator,
    /// Much of a day's use is unproven.
    Unproven,
    /// Receipts have stopped coming.
    Silence,
}

/// Subject of a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailSubject {
    /// A domain.
    Domain {
        /// The domain.
        domain: String,
        /// Identifier of the reader's verification or token, or the domain again.
        id: String,
        /// The instant that the mail is about, in milliseconds since the Unix epoch: when the
        /// verification ends or ended, when the domain was suspended, or when the mail was queued.
        at_ms: i64,
    },
    /// An erasure, as it is now.
    Erasure(Box<Erasure>),
    /// An invitation, with the secret of its link.
    Invitation {
        /// The account and the role.
        offer: OfferedMembership,
        /// Of this attempt.
        token: SecretToken,
        /// When it ends, in milliseconds since the Unix epoch.
        expires_at_ms: i64,
    },
    /// Numbers of an account.
    Report {
        /// The account's name.
        account_name: String,
        /// The numbers, as they were when the mail was queued.
        report: Box<MailedReport>,
    },
}

/// A mail that its claimer may send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMail {
    /// Stable: the same at every attempt.
    pub id: String,
    /// Event that it reports.
    pub kind: MailKind,
    /// To whom.
    pub to: String,
    /// Subject.
    pub about: MailSubject,
    /// Number of claims, this one included.
    pub attempts: i64,
}

/// Numbers of mails in the states that an operator may want to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Queued or claimed.
    pub waiting: u64,
    /// Refused by the server permanently.
    pub refused: u64,
}

impl Accounts {
    /// Claims a mail that is due, for `lease_ms` milliseconds. What isn't true any more is put away
    /// on the way.
    pub async fn claim_mail(&self, holder: &str, lease_ms: i64) -> Result<Option<ClaimedMail>, AccountsError> {
        self.timed("claim_mail", async {
            let now_ms = self.now_ms();
            let due = "SELECT id FROM mails WHERE state IN ('queued', 'claimed') AND next_at_ms <= $1
                ORDER BY next_at_ms, id LIMIT $2";
            let due: Vec<String> = sqlx::query_scalar(due)
                .bind(now_ms)
                .bind(CANDIDATES_MAX)
                .fetch_all(&self.pool)
                .await?;
            for id in due {
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

    /// The claimed mail, or `None` and it is put away: permanently if it isn't true any more, for a
    /// day if nobody can get it.
    async fn read_claimed(&self, id: &str, holder: &str, now_ms: i64) -> Result<Option<ClaimedMail>, AccountsError> {
        let question =
            "SELECT m.id, m.kind, m.domain, m.verification_id, m.attempts, d.expires_at_ms, d.suspended_expires_at_ms,
                m.created_at_ms,
                CASE WHEN (m.kind = 'contested' AND d.contested_by IS NOT NULL)
                    OR (m.kind = 'domain_held' AND h.contested_by = m.account_id)
                    OR (m.kind = 'domain_free' AND h.domain IS NULL) THEN 1 ELSE 0 END AS contest_is_so,
                (SELECT u.email FROM members p JOIN users u ON u.id = p.user_id
                    WHERE p.account_id = m.account_id AND u.email IS NOT NULL
                    ORDER BY CASE p.role WHEN 'owner' THEN 0 ELSE 1 END, p.created_at_ms, u.id LIMIT 1) AS email, m.erasure_id,
                m.invitation_id, m.user_id
            FROM mails m LEFT JOIN domains d ON d.domain = m.domain AND d.account_id = m.account_id
                AND d.verification_id = m.verification_id AND d.revoked_at_ms IS NULL
            LEFT JOIN domains h ON h.domain = m.domain AND h.revoked_at_ms IS NULL AND h.expires_at_ms > $2
            WHERE m.id = $1";
        let question = sqlx::query(question).bind(id).bind(now_ms);
        let row = question.fetch_one(&self.pool).await?;
        let kind: MailKind = row.parsed("kind")?;
        let found = if let Some(invitation_id) = row.value::<Option<String>>("invitation_id")? {
            let mail = self.invitation_mail(&invitation_id, now_ms).await?;
            mail.map(|(to, about)| (Some(to), about))
        } else if row.value::<Option<String>>("user_id")?.is_some() {
            self.report_mail(id, now_ms).await?
        } else {
            self.account_mail(&row, kind, now_ms).await?
        };
        let Some((to, about)) = found else {
            self.end_mail(id, holder, "moot", "").await?;
            return Ok(None);
        };
        let Some(to) = to else {
            let problem = "nobody whom the mail is for has an e-mail address";
            self.requeue(id, holder, now_ms.saturating_add(NO_ADDRESS_MS), problem)
                .await?;
            return Ok(None);
        };
        Ok(Some(ClaimedMail {
            id: id.to_owned(),
            kind,
            to,
            about,
            attempts: row.value("attempts")?,
        }))
    }

    /// Recipient, if the account has one, and subject of a mail about an erasure or a domain.
    /// `None` if it isn't true any more.
    async fn account_mail(
        &self,
        row: &AnyRow,
        kind: MailKind,
        now_ms: i64,
    ) -> Result<Option<(Option<String>, MailSubject)>, AccountsError> {
        let to: Option<String> = row.value("email")?;
        let facts = MailFacts {
            expires_at_ms: row.value("expires_at_ms")?,
            is_suspended: row.value::<Option<i64>>("suspended_expires_at_ms")?.is_some(),
            contest_is_so: row.flag("contest_is_so")?,
            queued_at_ms: row.value("created_at_ms")?,
        };
        let about = match row.value::<Option<String>>("erasure_id")? {
            // Who had no address when it was queued gets none, and who has none any more neither.
            Some(_) if to.is_none() || facts.queued_at_ms.saturating_add(OLD_NEWS_MS) <= now_ms => None,
            Some(erasure_id) => {
                let query = sqlx::query(erasure::select!("WHERE id = $1")).bind(erasure_id);
                let erasure = query.fetch_optional(&self.pool).await?.as_ref().map(erasure::read);
                let erasure = erasure.transpose()?.filter(|erasure| kind.is_true_of(erasure));
                erasure.map(|erasure| MailSubject::Erasure(Box::new(erasure)))
            }
            None => match kind.instant(&facts, now_ms) {
                None => None,
                Some(at_ms) => Some(MailSubject::Domain {
                    domain: row.value("domain")?,
                    id: row.value("verification_id")?,
                    at_ms,
                }),
            },
        };
        Ok(about.map(|about| (to, about)))
    }

    /// The server took it.
    ///
    /// # Errors
    /// The store fails: the mail is sent again once its time is over.
    pub async fn mail_sent(&self, id: &str, holder: &str) -> Result<(), AccountsError> {
        self.timed("mail_sent", self.end_mail(id, holder, "sent", "")).await
    }

    /// The server will never take it.
    pub async fn mail_refused(&self, id: &str, holder: &str, problem: &str) -> Result<(), AccountsError> {
        self.timed("mail_refused", self.end_mail(id, holder, "refused", problem))
            .await
    }

    /// The server doesn't take it now: again in `after_ms` milliseconds.
    pub async fn mail_failed(&self, id: &str, holder: &str, after_ms: i64, problem: &str) -> Result<(), AccountsError> {
        let at_ms = self.now_ms().saturating_add(after_ms);
        self.timed("mail_failed", self.requeue(id, holder, at_ms, problem))
            .await
    }

    /// Removes mails that ended long ago.
    pub async fn tidy_outbox(&self) -> Result<(), AccountsError> {
        let old =
            sqlx::query("DELETE FROM mails WHERE ended_at_ms <= $1").bind(self.now_ms().saturating_sub(RETAINED_MS));
        self.timed("tidy_outbox", async { Ok(old.execute(&self.pool).await?) })
            .await?;
        Ok(())
    }

    /// Counts the mails in the outbox.
    pub async fn outbox(&self) -> Result<Outbox, AccountsError> {
        let question =
            sqlx::query_as("SELECT state, COUNT(*) FROM mails WHERE state NOT IN ('sent', 'moot') GROUP BY state");
        let rows: Vec<(String, i64)> = self
            .timed("outbox", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let mut outbox = Outbox::default();
        for (state, count) in rows {
            let count = u64::try_from(count).unwrap_or_default();
            match state.as_str() {
                "refused" => outbox.refused += count,
                _ => outbox.waiting += count,
            }
        }
        Ok(outbox)
    }

    async fn end_mail(&self, id: &str, holder: &str, state: &str, problem: &str) -> Result<(), AccountsError> {
        let end = "UPDATE mails SET state = $1, ended_at_ms = $2, problem = $3
            WHERE id = $4 AND holder = $5 AND state = 'claimed'";
        let end = sqlx::query(end)
            .bind(state)
            .bind(self.now_ms())
            .bind(shortened(problem))
            .bind(id)
            .bind(holder);
        end.execute(&self.pool).await?;
        Ok(())
    }

    async fn requeue(&self, id: &str, holder: &str, at_ms: i64, problem: &str) -> Result<(), AccountsError> {
        let change = "UPDATE mails SET state = 'queued', next_at_ms = $1, problem = $2
            WHERE id = $3 AND holder = $4 AND state = 'claimed'";
        let change = sqlx::query(change)
            .bind(at_ms)
            .bind(shortened(problem))
            .bind(id)
            .bind(holder);
        change.execute(&self.pool).await?;
        Ok(())
    }
}

/// Queues the mail of this kind about an erasure, once, if the account exists and has an address:
/// the erasure may have erased both.
pub(crate) async fn queue_for_erasure(
    transaction: &mut Transaction<'static, Any>,
    kind: MailKind,
    erasure: &Erasure,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let queue = "INSERT INTO mails
            (id, account_id, kind, domain, verification_id, created_at_ms, state, attempts, next_at_ms, erasure_id)
        SELECT $1, id, $2, '', '', $3, 'queued', 0, $3, $4 FROM accounts
        WHERE id = $5 AND EXISTS (SELECT 1 FROM members p JOIN users u ON u.id = p.user_id
            WHERE p.account_id = accounts.id AND u.email IS NOT NULL)
        ON CONFLICT (id) DO NOTHING";
    let queue = sqlx::query(queue)
        .bind(format!("{}.{kind}", erasure.id))
        .bind(kind.as_str())
        .bind(now_ms)
        .bind(&erasure.id)
        .bind(&erasure.account_id);
    queue.execute(&mut **transaction).await?;
    Ok(())
}

fn shortened(problem: &str) -> String {
    problem.chars().take(PROBLEM_CHARS_MAX).collect()
}

/// Stored state that a mail is about, read when it is to be sent.
struct MailFacts {
    /// The end of its verification, if the domain still has that one.
    expires_at_ms: Option<i64>,
    is_suspended: bool,
    /// Whether a mail about a contest is true.
    contest_is_so: bool,
    queued_at_ms: i64,
}

/// Adds a mail to the outbox, unless it has one with this `id`. `about` is the verification, the
/// challenge or the domain.
pub(crate) async fn queue(
    transaction: &mut Transaction<'static, Any>,
    id: &str,
    account_id: &str,
    kind: MailKind,
    domain: &str,
    about: &str,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let queue = "INSERT INTO mails
            (id, account_id, kind, domain, verification_id, created_at_ms, state, attempts, next_at_ms)
        VALUES ($1, $2, $3, $4, $5, $6, 'queued', 0, $6) ON CONFLICT (id) DO NOTHING";
    let queue = sqlx::query(queue)
        .bind(id)
        .bind(account_id)
        .bind(kind.as_str())
        .bind(domain)
        .bind(about)
        .bind(now_ms);
    queue.execute(&mut **transaction).await?;
    Ok(())
}

impl MailKind {
    const ALL: [Self; 18] = [
        Self::Warning,
        Self::Urgent,
        Self::Expired,
        Self::Suspended,
        Self::Contested,
        Self::DomainHeld,
        Self::DomainFree,
        Self::Lost,
        Self::Won,
        Self::ErasureRequested,
        Self::ErasureCancelled,
        Self::ErasureDone,
        Self::Invitation,
        Self::Weekly,
        Self::Monthly,
        Self::NewOperator,
        Self::Unproven,
        Self::Silence,
    ];

    /// The instant that the mail is about; `None` if what it says isn't so at `now_ms`. A warning
    /// that comes so late that the urgent one is due is the urgent one's.
    fn instant(self, facts: &MailFacts, now_ms: i64) -> Option<i64> {
        let left_ms = |at_ms: i64| at_ms.saturating_sub(now_ms);
        let is_recent = |at_ms: &i64| left_ms(*at_ms) > -OLD_NEWS_MS;
        match self {
            Self::Warning => facts.expires_at_ms.filter(|at_ms| left_ms(*at_ms) > URGENT_MS),
            Self::Urgent => facts.expires_at_ms.filter(|at_ms| left_ms(*at_ms) > 0),
            Self::Expired => {
                let ended = facts
                    .expires_at_ms
                    .filter(|at_ms| left_ms(*at_ms) <= 0 && is_recent(at_ms));
                ended.filter(|_| !facts.is_suspended)
            }
            Self::Suspended => facts.expires_at_ms.filter(|_| facts.is_suspended),
            Self::Contested | Self::DomainHeld | Self::DomainFree if !facts.contest_is_so => None,
            Self::Contested | Self::DomainHeld | Self::DomainFree | Self::Lost | Self::Won => {
                Some(facts.queued_at_ms).filter(is_recent)
            }
            // About something else than a domain.
            Self::ErasureRequested | Self::ErasureCancelled | Self::ErasureDone | Self::Invitation => None,
            Self::Weekly | Self::Monthly | Self::NewOperator | Self::Unproven | Self::Silence => None,
        }
    }

    /// Whether the mail is still worth sending: a request that was cancelled has a mail of its own
    /// about that.
    fn is_true_of(self, erasure: &Erasure) -> bool {
        self != Self::ErasureRequested || erasure.state != ErasureState::Cancelled
    }

    /// The word of the kind in the store and in exports: `warning`, `domain_held`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MailKind::Warning => "warning",
            MailKind::Urgent => "urgent",
            MailKind::Expired => "expired",
            MailKind::Suspended => "suspended",
            MailKind::Contested => "contested",
            MailKind::DomainHeld => "domain_held",
            MailKind::DomainFree => "domain_free",
            MailKind::Lost => "lost",
            MailKind::Won => "won",
            MailKind::ErasureRequested => "erasure_requested",
            MailKind::ErasureCancelled => "erasure_cancelled",
            MailKind::ErasureDone => "erasure_done",
            MailKind::Invitation => "invitation",
            MailKind::Weekly => "weekly",
            MailKind::Monthly => "monthly",
            MailKind::NewOperator => "new_operator",
            MailKind::Unproven => "unproven",
            MailKind::Silence => "silence",
        }
    }
}

impl From<&MailedReport> for MailKind {
    fn from(report: &MailedReport) -> Self {
        match report {
            MailedReport::Weekly(_) => Self::Weekly,
            MailedReport::Monthly(_) => Self::Monthly,
            MailedReport::NewOperator { .. } => Self::NewOperator,
            MailedReport::Unproven { .. } => Self::Unproven,
            MailedReport::Silence { .. } => Self::Silence,
        }
    }
}

impl FromStr for MailKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        kind.ok_or("isn't a kind of mail")
    }
}

impl fmt::Display for MailKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
