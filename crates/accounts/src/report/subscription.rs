//! Subscriptions: mails about numbers that a member of an account wants.

use std::ops::RangeInclusive;

use sqlx::any::AnyRow;
use sqlx::{Any, Executor, Transaction};

use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::user::lock_user;
use crate::{Accounts, AccountsError, MEMBERS_MAX, MailKind, Principal, Scope, TrailActor};

/// Limits of unproven use that alerts can have, in percent. Nothing is above 100.
pub const UNPROVEN_PERCENT: RangeInclusive<u8> = 1..=99;
/// Hours without receipts that alerts can have.
pub const SILENT_HOURS: RangeInclusive<u16> = 1..=720;

/// Mails that a person chooses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportChoice {
    /// The numbers of each week.
    pub weekly: bool,
    /// The numbers of each month.
    pub monthly: bool,
    /// An alert for each operator that wasn't seen for long.
    pub new_operator: bool,
    /// An alert where more of a day's receipts are unproven, in percent.
    pub unproven_percent: Option<u8>,
    /// An alert after so many hours without receipts.
    pub silent_hours: Option<u16>,
}

/// Mails that a member gets, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSubscription {
    /// The member.
    pub user_id: String,
    /// Since when they want weekly mails, in milliseconds since the Unix epoch.
    pub weekly_since_ms: Option<i64>,
    /// Since when they want monthly mails.
    pub monthly_since_ms: Option<i64>,
    /// Since when they want alerts for new operators.
    pub new_operator_since_ms: Option<i64>,
    /// As [`ReportChoice::unproven_percent`].
    pub unproven_percent: Option<u8>,
    /// As [`ReportChoice::silent_hours`].
    pub silent_hours: Option<u16>,
}

/// An account whose members have subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedAccount {
    /// Whoever reads the numbers: the first of them, for all.
    pub principal: Principal,
    /// Of its members.
    pub subscriptions: Vec<ReportSubscription>,
}

/// The columns that [`read`] reads, of the subscriptions `s`.
macro_rules! columns {
    () => {
        "s.user_id, s.weekly_since_ms, s.monthly_since_ms, s.new_operator_since_ms, s.unproven_percent, s.silent_hours"
    };
}
pub(super) use columns;

impl Accounts {
    /// Mails that a person has chosen in an account.
    pub async fn report_choice(&self, account_id: &str, user_id: &str) -> Result<ReportChoice, AccountsError> {
        let found = self
            .timed("report_choice", find(&self.pool, account_id, user_id))
            .await?;
        Ok(found.map_or_else(ReportChoice::default, |one| one.choice()))
    }

    /// Chooses the mails of a member of an account, on their own behalf. A mail that was on before
    /// stays on since then. `false` if they aren't in the account.
    pub async fn choose_reports(
        &self,
        account_id: &str,
        user_id: &str,
        choice: &ReportChoice,
    ) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            lock_user(&mut transaction, user_id).await?;
            let member = sqlx::query("SELECT user_id FROM members WHERE account_id = $1 AND user_id = $2");
            let member = member.bind(account_id).bind(user_id);
            if member.fetch_optional(&mut *transaction).await?.is_none() {
                return Ok(false);
            }
            let before = find(&mut *transaction, account_id, user_id).await?;
            if before.as_ref().map(ReportSubscription::choice).unwrap_or_default() == *choice {
                return Ok(true);
            }
            store(&mut transaction, account_id, user_id, choice, before.as_ref(), now_ms).await?;
            let change = TrailChange {
                account_id,
                actor: &TrailActor::User(user_id.to_owned()).to_string(),
                action: "reports.choose",
                subject: user_id,
                detail: &choice.words(),
                at_ms: now_ms,
            };
            trail::note(&mut transaction, &change).await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("choose_reports", work).await
    }

    /// The first account behind the ID `after` whose members have subscriptions; `None` if there
    /// are no more.
    pub async fn next_subscribed_account(&self, after: &str) -> Result<Option<SubscribedAccount>, AccountsError> {
        let now_ms = self.now_ms();
        let query = concat!(
            "SELECT a.id AS account_id, a.tier, a.requests_per_minute, a.requests_per_day, a.trusted_operators, ",
            columns!(),
            " FROM report_subscriptions s JOIN accounts a ON a.id = s.account_id
            WHERE s.account_id = (SELECT MIN(n.account_id) FROM report_subscriptions n WHERE n.account_id > $1)
            ORDER BY s.user_id LIMIT $2"
        );
        let query = sqlx::query(query).bind(after).bind(MEMBERS_MAX);
        let work = async {
            let rows = query.fetch_all(&self.pool).await?;
            let Some(first) = rows.first() else {
                return Ok(None);
            };
            let account = self.read_account(first, None, now_ms).await?;
            let actor = TrailActor::User(first.value("user_id")?);
            Ok(Some(SubscribedAccount {
                principal: account.principal(actor, vec![Scope::Read], now_ms),
                subscriptions: rows.iter().map(read).collect::<Result<_, _>>()?,
            }))
        };
        self.timed("next_subscribed_account", work).await
    }
}

async fn find(
    executor: impl Executor<'_, Database = Any>,
    account_id: &str,
    user_id: &str,
) -> Result<Option<ReportSubscription>, AccountsError> {
    let query = concat!(
        "SELECT ",
        columns!(),
        " FROM report_subscriptions s WHERE s.account_id = $1 AND s.user_id = $2"
    );
    let query = sqlx::query(query).bind(account_id).bind(user_id);
    let row = query.fetch_optional(executor).await?;
    row.as_ref().map(read).transpose()
}

/// Replaces a subscription; without any mail there is none.
async fn store(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
    choice: &ReportChoice,
    before: Option<&ReportSubscription>,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let delete = sqlx::query("DELETE FROM report_subscriptions WHERE account_id = $1 AND user_id = $2");
    let delete = delete.bind(account_id).bind(user_id);
    delete.execute(&mut **transaction).await?;
    if *choice == ReportChoice::default() {
        return Ok(());
    }
    let since = |is_on: bool, before_ms: Option<i64>| is_on.then(|| before_ms.unwrap_or(now_ms));
    let insert = "INSERT INTO report_subscriptions
            (account_id, user_id, weekly_since_ms, monthly_since_ms, new_operator_since_ms, unproven_percent, silent_hours)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let insert = sqlx::query(insert)
        .bind(account_id)
        .bind(user_id)
        .bind(since(choice.weekly, before.and_then(|one| one.weekly_since_ms)))
        .bind(since(choice.monthly, before.and_then(|one| one.monthly_since_ms)))
        .bind(since(
            choice.new_operator,
            before.and_then(|one| one.new_operator_since_ms),
        ))
        .bind(choice.unproven_percent.map(i64::from))
        .bind(choice.silent_hours.map(i64::from));
    insert.execute(&mut **transaction).await?;
    Ok(())
}

/// Reads a subscription.
pub(super) fn read(row: &AnyRow) -> Result<ReportSubscription, AccountsError> {
    let unproven_percent: Option<i64> = row.value("unproven_percent")?;
    let silent_hours: Option<i64> = row.value("silent_hours")?;
    Ok(ReportSubscription {
        user_id: row.value("user_id")?,
        weekly_since_ms: row.value("weekly_since_ms")?,
        monthly_since_ms: row.value("monthly_since_ms")?,
        new_operator_since_ms: row.value("new_operator_since_ms")?,
        unproven_percent: unproven_percent.and_then(|percent| percent.try_into().ok()),
        silent_hours: silent_hours.and_then(|hours| hours.try_into().ok()),
    })
}

impl ReportSubscription {
    /// The mails, without since when.
    #[must_use]
    pub fn choice(&self) -> ReportChoice {
        ReportChoice {
            weekly: self.weekly_since_ms.is_some(),
            monthly: self.monthly_since_ms.is_some(),
            new_operator: self.new_operator_since_ms.is_some(),
            unproven_percent: self.unproven_percent,
            silent_hours: self.silent_hours,
        }
    }
}

impl ReportChoice {
    /// Whether it has mails of a kind.
    pub(super) fn wants(&self, kind: MailKind) -> bool {
        match kind {
            MailKind::Weekly => self.weekly,
            MailKind::Monthly => self.monthly,
            MailKind::NewOperator => self.new_operator,
            MailKind::Unproven => self.unproven_percent.is_some(),
            MailKind::Silence => self.silent_hours.is_some(),
            _ => false,
        }
    }

    /// Names of the mails that are on, for the trail.
    fn words(&self) -> String {
        let words = [
            self.weekly.then(|| "weekly".to_owned()),
            self.monthly.then(|| "monthly".to_owned()),
            self.new_operator.then(|| "new operators".to_owned()),
            self.unproven_percent
                .map(|percent| format!("above {percent}% unproven")),
            self.silent_hours.map(|hours| format!("{hours} h without receipts")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    }
}
