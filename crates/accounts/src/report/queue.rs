//! Mails about numbers in the outbox: queued once for each occasion, and read to be sent.

use uuid::Uuid;

use super::MailedReport;
use super::subscription::{self, columns};
use crate::lifetime::{DAY_MS, OLD_NEWS_MS};
use crate::member::account_name;
use crate::row::RowValues;
use crate::user::lock_user;
use crate::{Accounts, AccountsError, MailKind, MailSubject};

/// The longest report that is stored, in bytes of JSON.
const REPORT_BYTES_MAX: usize = 16 << 10;
/// Age of a mail, in milliseconds, from which it isn't worth sending. That of a month is longer.
const OLD_MS: i64 = 7 * DAY_MS;
/// Namespace of the identifiers of mails about numbers.
const NAMESPACE: Uuid = Uuid::from_u128(0x5d0f_9a52_7c4b_4f0e_8d39_2f6a_1be0_c7d4);

impl Accounts {
    /// Whether a member has the mail of this kind about this occasion, sent or not.
    pub async fn has_report(
        &self,
        account_id: &str,
        user_id: &str,
        kind: MailKind,
        occasion: &str,
    ) -> Result<bool, AccountsError> {
        let query =
            sqlx::query("SELECT id FROM mails WHERE id = $1").bind(mail_id(account_id, user_id, kind, occasion));
        let work = async { Ok(query.fetch_optional(&self.pool).await?.is_some()) };
        self.timed("has_report", work).await
    }

    /// Queues a mail to a member about an occasion, once, whoever else does so at the same time.
    /// Returns whether it was queued now: not if there was one, or the person has no subscription.
    ///
    /// # Errors
    /// The store fails, or the report is too long.
    pub async fn queue_report(
        &self,
        account_id: &str,
        user_id: &str,
        occasion: &str,
        report: &MailedReport,
    ) -> Result<bool, AccountsError> {
        let (now_ms, kind) = (self.now_ms(), MailKind::from(report));
        if self.has_report(account_id, user_id, kind, occasion).await? {
            return Ok(false);
        }
        let text = serde_json::to_string(report).map_err(|error| AccountsError::Store(error.to_string()))?;
        if text.len() > REPORT_BYTES_MAX {
            let what = format!("a report of {} bytes is longer than {REPORT_BYTES_MAX}", text.len());
            return Err(AccountsError::Store(what));
        }
        let work = async {
            let mut transaction = self.begin().await?;
            // Who leaves the account at the same time takes the mail along.
            lock_user(&mut transaction, user_id).await?;
            let queue =
                "INSERT INTO mails (id, account_id, kind, domain, verification_id, created_at_ms, state, attempts,
                    next_at_ms, user_id, report)
                SELECT $1, account_id, $2, '', '', $3, 'queued', 0, $3, user_id, $4 FROM report_subscriptions
                WHERE account_id = $5 AND user_id = $6
                ON CONFLICT (id) DO NOTHING";
            let queue = sqlx::query(queue)
                .bind(mail_id(account_id, user_id, kind, occasion))
                .bind(kind.as_str())
                .bind(now_ms)
                .bind(&text)
                .bind(account_id)
                .bind(user_id);
            let is_queued = queue.execute(&mut *transaction).await?.rows_affected() > 0;
            transaction.commit().await?;
            Ok(is_queued)
        };
        self.timed("queue_report", work).await
    }

    /// Recipient, if they have an address, and contents of a mail about numbers. `None` if the
    /// person doesn't want such mails any more, or it is old.
    pub(crate) async fn report_mail(
        &self,
        id: &str,
        now_ms: i64,
    ) -> Result<Option<(Option<String>, MailSubject)>, AccountsError> {
        let query = concat!(
            "SELECT m.id, m.report, m.created_at_ms, u.email, ",
            account_name!(),
            " AS account_name, ",
            columns!(),
            " FROM mails m JOIN accounts a ON a.id = m.account_id JOIN users u ON u.id = m.user_id
            JOIN report_subscriptions s ON s.account_id = m.account_id AND s.user_id = m.user_id WHERE m.id = $1"
        );
        let query = sqlx::query(query).bind(id);
        let Some(row) = query.fetch_optional(&self.pool).await? else {
            return Ok(None);
        };
        let report: MailedReport = serde_json::from_str(row.value("report")?)
            .map_err(|error| AccountsError::Store(format!("`report` of {id}: {error}")))?;
        let age_ms_max = match MailKind::from(&report) {
            MailKind::Monthly => OLD_NEWS_MS,
            _ => OLD_MS,
        };
        let queued_at_ms: i64 = row.value("created_at_ms")?;
        let is_old = queued_at_ms.saturating_add(age_ms_max) <= now_ms;
        if is_old || !subscription::read(&row)?.choice().wants(MailKind::from(&report)) {
            return Ok(None);
        }
        let about = MailSubject::Report {
            account_name: row.value("account_name")?,
            report: Box::new(report),
        };
        Ok(Some((row.value("email")?, about)))
    }
}

/// Identifier of a mail: the same for every replica, and without an ID of a person, because it is
/// its `Message-ID`.
fn mail_id(account_id: &str, user_id: &str, kind: MailKind, occasion: &str) -> String {
    let name = format!("{account_id} {user_id} {kind} {occasion}");
    format!("rep_{}", Uuid::new_v5(&NAMESPACE, name.as_bytes()).simple())
}
