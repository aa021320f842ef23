//! A round: ended verifications are noted, due mails are queued, queued ones are sent.

use std::sync::atomic::{AtomicU64, Ordering};

use accounts::{Accounts, AccountsError, ClaimedMail, Outbox};
use lettre::message::Mailbox;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::config::SmtpConfig;
use super::letter::{Letter, Links};
use super::server::{self, NotTaken};

/// Mails of one round; the next one continues.
const MAILS_MAX: usize = 1_000;
/// Time beyond the work for which a mail is leased, in milliseconds.
const LEASE_SPARE_MS: i64 = 60_000;
/// The first pause before a mail is tried again, in milliseconds; each is twice as long as the one
/// before.
const PAUSE_MS_MIN: i64 = 60_000;
/// The longest.
const PAUSE_MS_MAX: i64 = 6 * 3_600_000;
/// Tries to write down that a mail was sent, because otherwise it is sent again.
const NOTES_MAX: usize = 3;

/// Result of one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Mails queued.
    pub queued: u64,
    /// Verifications whose end was noted.
    pub ended: u64,
    /// Mails that the server took.
    pub sent: u64,
    /// Mails that it didn't take, now or ever.
    pub failed: u64,
}

/// Does rounds. Any number of them, in any number of processes, send each mail once unless one
/// dies while it sends.
pub struct Postman {
    accounts: Accounts,
    config: SmtpConfig,
    links: Links,
    /// Sender; `None`: mails wait.
    from: Option<Mailbox>,
    holder: String,
    /// The waiting mails reported last, so that the log tells a change only.
    reported_waiting: AtomicU64,
}

impl Postman {
    /// Makes a postman that sends as `config` says; without a host there it only queues.
    #[must_use]
    pub fn new(accounts: Accounts, config: SmtpConfig, public_url: Option<&str>) -> Self {
        Self {
            links: Links {
                renew_url: config.renew_url.clone(),
                public_url: public_url.map(str::to_owned),
            },
            from: config.host().and_then(|_| config.sender()),
            accounts,
            config,
            holder: format!("postman-{}", Uuid::now_v7().simple()),
            reported_waiting: AtomicU64::new(0),
        }
    }

    /// Does a round; the mail that is being sent when `stop` comes is finished.
    ///
    /// # Errors
    /// The store fails. Nothing is lost: the next round continues.
    pub async fn round(&self, stop: &CancellationToken) -> Result<Round, AccountsError> {
        let mut round = Round::default();
        loop {
            let found = self.accounts.look_for_expiries().await?;
            round.queued += found.warnings + found.urgent;
            round.ended += found.ended;
            if !found.more || stop.is_cancelled() {
                break;
            }
        }
        self.accounts.tidy_outbox().await?;
        self.accounts.tidy_invitations().await?;
        if let Some(from) = &self.from {
            for _ in 0..MAILS_MAX {
                if stop.is_cancelled() {
                    break;
                }
                let Some(mail) = self.accounts.claim_mail(&self.holder, self.lease_ms()).await? else {
                    break;
                };
                if self.deliver(&mail, from).await? {
                    round.sent += 1;
                } else {
                    round.failed += 1;
                }
            }
        }
        self.tell(self.accounts.outbox().await?);
        Ok(round)
    }

    /// Whether the server took it.
    async fn deliver(&self, mail: &ClaimedMail, from: &Mailbox) -> Result<bool, AccountsError> {
        let outcome = match Letter::new(mail, from, &self.links, self.accounts.now_ms()) {
            Ok(letter) => self.hand_over(mail, &letter, from).await?,
            Err(what) => Err(NotTaken::Never(what)),
        };
        let id = mail.id.as_str();
        let counted =
            |outcome: &'static str| metrics::counter!("receipts_mails_total", "outcome" => outcome).increment(1);
        match outcome {
            Ok(()) => {
                counted("sent");
                tracing::info!(mail = id, "mail sent");
                Ok(true)
            }
            Err(NotTaken::Never(what)) => {
                counted("refused");
                tracing::warn!(mail = id, what, "the mail server refuses a mail for good");
                self.accounts.mail_refused(id, &self.holder, &what).await?;
                Ok(false)
            }
            Err(NotTaken::NotNow(what)) => {
                counted("failed");
                let pause_ms = pause_ms(mail.attempts);
                tracing::warn!(
                    mail = id,
                    what,
                    again_in_s = pause_ms / 1_000,
                    "the mail server didn't take a mail"
                );
                self.accounts.mail_failed(id, &self.holder, pause_ms, &what).await?;
                Ok(false)
            }
        }
    }

    async fn hand_over(
        &self,
        mail: &ClaimedMail,
        letter: &Letter,
        from: &Mailbox,
    ) -> Result<Result<(), NotTaken>, AccountsError> {
        if let Err(error) = server::send(&self.config, letter, from.email.domain()).await {
            return Ok(Err(error));
        }
        for _ in 1..NOTES_MAX {
            if self.accounts.mail_sent(&mail.id, &self.holder).await.is_ok() {
                return Ok(Ok(()));
            }
        }
        self.accounts.mail_sent(&mail.id, &self.holder).await?;
        Ok(Ok(()))
    }

    /// Lease of a mail: for all that may take time, and some.
    fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.wait_ms_max.saturating_add(self.config.answer_ms_max))
            .unwrap_or(i64::MAX)
            .saturating_add(LEASE_SPARE_MS)
    }

    fn tell(&self, outbox: Outbox) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        metrics::gauge!("receipts_mails_waiting").set(outbox.waiting as f64);
        let before = self.reported_waiting.swap(outbox.waiting, Ordering::Relaxed);
        if self.from.is_none() && outbox.waiting > 0 && outbox.waiting != before {
            tracing::warn!(
                waiting = outbox.waiting,
                "mails wait in the outbox: smtp.host isn't configured"
            );
        }
    }
}

fn pause_ms(attempts: i64) -> i64 {
    let doublings = u32::try_from(attempts.clamp(1, 20) - 1).unwrap_or_default();
    PAUSE_MS_MIN.saturating_mul(1 << doublings).min(PAUSE_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let minutes = [1, 2, 3, 9, 10, i64::MAX].map(|attempts| pause_ms(attempts) / 60_000);
        assert_eq!(minutes, [1, 2, 4, 256, 360, 360]);
        assert_eq!(pause_ms(0), PAUSE_MS_MIN);
    }
}
