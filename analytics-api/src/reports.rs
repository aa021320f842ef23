//! Mails about numbers: weekly and monthly reports, and alerts. They go into the account store's
//! outbox, from which the publisher API sends them.
//!
//! - `periods`: which week, month and day is the last whole one
//! - `numbers`: what an account's mails say, by the queries of the dashboard
//! - `checked`: until when an account needs no query
//!
//! A period is over once `completeThrough` has passed its end, so its numbers are those of the
//! dashboard, and after an outage the newest period alone is reported. Any number of replicas may
//! do rounds: a mail's identifier is its occasion, so the store has it once. A lease would save
//! queries only.

mod checked;
mod numbers;
mod periods;

use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{MailKind, MailedReport, ReportSubscription, SubscribedAccount};
use metrics::{gauge, histogram};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use web::Failure;

use self::checked::{CheckedAccounts, NextChecks};
use self::numbers::AccountNumbers;
use self::periods::Periods;
use crate::Deps;
use crate::access::Access;
use crate::config::AnalyticsConfig;
use crate::state::AnalyticsState;

/// Age of `completeThrough` from which nothing is said of silence: receipts may wait to be counted.
const OUTAGE_MS: i64 = 600_000;
/// Uses of a day from which its unproven share says something.
const DAY_USES_MIN: u64 = 100;

/// Does rounds over all accounts with subscriptions.
pub struct Reporter {
    app: Arc<AnalyticsState>,
    checked: Mutex<CheckedAccounts>,
}

impl Reporter {
    /// A reporter with limits of its own.
    #[must_use]
    pub fn new(config: AnalyticsConfig, deps: Deps) -> Self {
        Self::of(Arc::new(AnalyticsState::new(config, deps, CancellationToken::new())))
    }

    pub(crate) fn of(app: Arc<AnalyticsState>) -> Self {
        Self {
            app,
            checked: Mutex::default(),
        }
    }

    /// Does rounds until it is aborted.
    pub(crate) async fn watch(self) {
        let pause = Duration::from_millis(self.app.config.reports_interval_ms);
        self.ended_well();
        loop {
            tokio::time::sleep(pause).await;
            match self.round().await {
                Ok(0) => {}
                Ok(mails) => tracing::info!(mails, "mails about numbers queued"),
                Err(failure) => {
                    let why = failure.0.detail;
                    tracing::warn!(why, "mails about numbers can't be made now; the next round tries again");
                }
            }
        }
    }

    /// Queues the mails that are due, one account after another, and returns how many. An account
    /// that fails doesn't stop the others.
    ///
    /// # Errors
    /// The account store fails, or nobody knows through which instant the numbers are complete.
    pub async fn round(&self) -> Result<u64, Failure> {
        let begin = Instant::now();
        let mut last = self.checked.lock().await;
        let complete_ms = self.app.snapshot().await?.reading.complete_ms;
        let accounts = &self.app.deps.accounts;
        let (mut queued, mut failing, mut after) = (0, 0_u32, String::new());
        let mut checked = CheckedAccounts::default();
        while let Some(account) = accounts.next_subscribed_account(&after).await? {
            after.clone_from(&account.principal.account_id);
            match self.report(&account, last.take(&account), complete_ms).await {
                Ok((mails, next)) => {
                    queued += mails;
                    checked.insert(account, next);
                }
                Err(failure) => {
                    failing += 1;
                    let why = failure.0.detail;
                    tracing::warn!(
                        account_id = after,
                        why,
                        "an account's mails about numbers wait for the next round"
                    );
                }
            }
        }
        *last = checked;
        histogram!("receipts_mails_round_seconds").record(begin.elapsed().as_secs_f64());
        gauge!("receipts_mails_accounts_failing").set(failing);
        if failing == 0 {
            self.ended_well();
        }
        Ok(queued)
    }

    /// Publishes that there is nothing to catch up with now.
    #[allow(clippy::cast_precision_loss)] // Milliseconds of this age fit 2^53.
    fn ended_well(&self) {
        let now_ms = self.app.deps.accounts.now_ms();
        gauge!("receipts_mails_round_good_timestamp_seconds").set(now_ms as f64 / 1e3);
    }

    /// Queues what is due of an account, and returns when to check again. Without a verified domain
    /// it has no numbers.
    async fn report(
        &self,
        account: &SubscribedAccount,
        mut next: NextChecks,
        complete_ms: i64,
    ) -> Result<(u64, NextChecks), Failure> {
        let Ok(access) = Access::of(&Arc::new(account.principal.clone())) else {
            return Ok((0, next));
        };
        let now_ms = self.app.deps.accounts.now_ms();
        let due = AccountReports {
            periods: Periods::before(complete_ms).ok_or_else(Failure::internal)?,
            app: &self.app,
            numbers: AccountNumbers::new(&self.app, access, complete_ms),
        };
        let mut queued = 0;
        if complete_ms >= next.hourly_ms {
            for member in &account.subscriptions {
                queued += due.periodic(member).await?;
                queued += due.new_operators(member).await?;
                queued += due.unproven(member).await?;
            }
            let tomorrow_ms = due.periods.day.to_ms + periods::DAY_MS;
            next.hourly_ms = tomorrow_ms.min(complete_ms + periods::HOUR_MS);
        }
        let is_outage = now_ms.saturating_sub(complete_ms) > OUTAGE_MS;
        if complete_ms >= next.silence_ms && !is_outage {
            next.silence_ms = i64::MAX;
            for member in &account.subscriptions {
                let (mails, check_ms) = due.silence(member).await?;
                queued += mails;
                next.silence_ms = next.silence_ms.min(check_ms);
            }
        }
        Ok((queued, next))
    }
}

/// Mails of an account that may be due.
struct AccountReports<'a> {
    app: &'a AnalyticsState,
    numbers: AccountNumbers<'a>,
    periods: Periods,
}

impl AccountReports<'_> {
    /// The last whole week and month, unless they ended before the member wanted them.
    async fn periodic(&self, member: &ReportSubscription) -> Result<u64, Failure> {
        let mut queued = 0;
        for (kind, since_ms, period) in [
            (MailKind::Weekly, member.weekly_since_ms, self.periods.week),
            (MailKind::Monthly, member.monthly_since_ms, self.periods.month),
        ] {
            let occasion = period.from_ms.to_string();
            let is_wanted = since_ms.is_some_and(|since_ms| since_ms < period.to_ms);
            if !is_wanted || self.has(member, kind, &occasion).await? {
                continue;
            }
            let report = match kind {
                MailKind::Weekly => MailedReport::Weekly(self.numbers.week(period).await?),
                _ => MailedReport::Monthly(self.numbers.month(period).await?),
            };
            queued += self.queue(member, &occasion, &report).await?;
        }
        Ok(queued)
    }

    /// Each operator once that is new since the member wants to know.
    async fn new_operators(&self, member: &ReportSubscription) -> Result<u64, Failure> {
        let Some(since_ms) = member.new_operator_since_ms else {
            return Ok(0);
        };
        let mut queued = 0;
        for (from_ms, operator) in self.numbers.operators_since(since_ms).await? {
            let report = MailedReport::NewOperator {
                operator: operator.key.clone(),
                uses: operator.receipt_count,
                from_ms,
            };
            queued += self.queue(member, &operator.key, &report).await?;
        }
        Ok(queued)
    }

    /// The last whole day, if more of it is unproven than the limit, and of the day before wasn't.
    async fn unproven(&self, member: &ReportSubscription) -> Result<u64, Failure> {
        let Some(percent) = member.unproven_percent else {
            return Ok(0);
        };
        let day = self.periods.day;
        let occasion = day.from_ms.to_string();
        if self.has(member, MailKind::Unproven, &occasion).await? {
            return Ok(0);
        }
        let [last, before] = self.numbers.days(day).await?;
        if !last.is_above(percent) || before.is_above(percent) {
            return Ok(0);
        }
        let report = MailedReport::Unproven {
            from_ms: day.from_ms,
            uses: last.uses,
            unproven: last.unproven,
            percent,
        };
        self.queue(member, &occasion, &report).await
    }

    /// Receipts that stopped coming: one mail for each day on which the last use was. Returns also
    /// when to check again: newer uses only put off when it is due.
    async fn silence(&self, member: &ReportSubscription) -> Result<(u64, i64), Failure> {
        let Some(hours) = member.silent_hours else {
            return Ok((0, i64::MAX));
        };
        let complete_ms = self.numbers.complete_ms;
        let in_an_hour_ms = complete_ms + periods::HOUR_MS;
        let Some(last_ms) = self.numbers.last_use().await? else {
            return Ok((0, in_an_hour_ms));
        };
        let due_ms = last_ms.saturating_add(i64::from(hours) * periods::HOUR_MS);
        if complete_ms < due_ms {
            return Ok((0, due_ms));
        }
        let report = MailedReport::Silence { last_ms, hours };
        let occasion = last_ms.div_euclid(periods::DAY_MS).to_string();
        Ok((self.queue(member, &occasion, &report).await?, in_an_hour_ms))
    }

    async fn has(&self, member: &ReportSubscription, kind: MailKind, occasion: &str) -> Result<bool, Failure> {
        let accounts = &self.app.deps.accounts;
        let found = accounts.has_report(self.numbers.account_id(), &member.user_id, kind, occasion);
        Ok(found.await?)
    }

    async fn queue(&self, member: &ReportSubscription, occasion: &str, report: &MailedReport) -> Result<u64, Failure> {
        let accounts = &self.app.deps.accounts;
        let queued = accounts.queue_report(self.numbers.account_id(), &member.user_id, occasion, report);
        Ok(u64::from(queued.await?))
    }
}
