//! Accounts as whoever runs the deployment sees them: listed, shown, and moved to another tier.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};

use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{AccountQuota, Accounts, AccountsError, Deletion, Tier};

/// The most accounts of a list.
pub const ACCOUNTS_LISTED_MAX: i64 = 1_000;

/// An account, without what belongs to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountInfo {
    /// `acc_` and 32 digits.
    pub account_id: String,
    /// First domain, or the ID of the user for whom it was made.
    pub name: String,
    /// Tier.
    pub tier: Tier,
    /// The account's own quota; `None`: that of its tier.
    pub quota: Option<AccountQuota>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Whether it is to be deleted.
    pub deletion: Option<Deletion>,
    /// Number of domains that are verified now.
    pub verified_domains: i64,
    /// Number of API keys that count against the tier's limit.
    pub active_keys: i64,
}

/// The columns that [`read`] reads, of the accounts that the rest of the statement names; `$1` is
/// now.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, tier, requests_per_minute, requests_per_day, created_at_ms, deletion_requested_at_ms,
                erase_after_ms,
                (SELECT COUNT(*) FROM domains WHERE domains.account_id = accounts.id
                    AND domains.revoked_at_ms IS NULL AND domains.expires_at_ms > $1) AS verified_domains,
                (SELECT COUNT(*) FROM api_keys WHERE api_keys.account_id = accounts.id
                    AND api_keys.revoked_at_ms IS NULL AND api_keys.expires_at_ms > $1
                    AND api_keys.replaced_by IS NULL) AS active_keys
            FROM accounts ",
            $rest
        )
    };
}

impl Accounts {
    /// All accounts, newest first, [`ACCOUNTS_LISTED_MAX`] at most.
    pub async fn list_accounts(&self) -> Result<Vec<AccountInfo>, AccountsError> {
        let query = sqlx::query(select!("ORDER BY created_at_ms DESC, id DESC LIMIT $2"))
            .bind(self.now_ms())
            .bind(ACCOUNTS_LISTED_MAX);
        let rows = self
            .timed("list_accounts", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }

    /// An account; `None` if there is no account with this ID.
    pub async fn account(&self, account_id: &str) -> Result<Option<AccountInfo>, AccountsError> {
        let query = sqlx::query(select!("WHERE id = $2"))
            .bind(self.now_ms())
            .bind(account_id);
        let row = self
            .timed("account", async { Ok(query.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// Gives an account a quota of its own, or its tier's again, on behalf of `actor`. Returns
    /// whether there is such an account. In force as [`Accounts::set_tier`] is.
    pub async fn set_quota(
        &self,
        account_id: &str,
        quota: Option<AccountQuota>,
        actor: &str,
    ) -> Result<bool, AccountsError> {
        let at_ms = self.now_ms();
        let update = "UPDATE accounts SET requests_per_minute = $1, requests_per_day = $2 WHERE id = $3";
        let update = sqlx::query(update)
            .bind(quota.map(|quota| i64::from(quota.per_minute)))
            .bind(quota.and_then(|quota| quota.per_day).map(i64::from))
            .bind(account_id);
        let work = async {
            let mut transaction = self.begin().await?;
            if update.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let change = TrailChange {
                account_id,
                actor,
                action: "account.set-quota",
                subject: account_id,
                detail: &quota.map_or_else(|| "that of its tier".to_owned(), |quota| quota.to_string()),
                at_ms,
            };
            trail::note(&mut transaction, &change).await?;
            transaction.commit().await?;
            Ok(true)
        };
        let is_known = self.timed("set_quota", work).await?;
        self.cache.retain(|_, key| !key.is_of(account_id));
        Ok(is_known)
    }

    /// Moves an account to a tier, on behalf of `actor`, and returns the tier before; `None` if
    /// there is no such account. Its own quota ends with another tier. In force at once in this
    /// process, in others after their `cache_ms_max`.
    pub async fn set_tier(&self, account_id: &str, tier: Tier, actor: &str) -> Result<Option<Tier>, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            let before = change_tier(&mut transaction, account_id, tier, actor, now_ms).await?;
            transaction.commit().await?;
            Ok(before)
        };
        let before = self.timed("set_tier", work).await?;
        self.cache.retain(|_, key| !key.is_of(account_id));
        Ok(before)
    }
}

/// Moves an account to a tier and returns the tier before; `None` if there is no such account. The
/// account's row stays locked: of two changes at one time the second sees the first's tier.
pub(crate) async fn change_tier(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    tier: Tier,
    actor: &str,
    at_ms: i64,
) -> Result<Option<Tier>, AccountsError> {
    let lock = sqlx::query("UPDATE accounts SET tier = tier WHERE id = $1").bind(account_id);
    if lock.execute(&mut **transaction).await?.rows_affected() == 0 {
        return Ok(None);
    }
    let query = sqlx::query("SELECT id, tier FROM accounts WHERE id = $1").bind(account_id);
    let before = query.fetch_one(&mut **transaction).await?.parsed("tier")?;
    if before == tier {
        return Ok(Some(before));
    }
    let update =
        sqlx::query("UPDATE accounts SET tier = $1, requests_per_minute = NULL, requests_per_day = NULL WHERE id = $2");
    let update = update.bind(tier.as_str()).bind(account_id);
    update.execute(&mut **transaction).await?;
    let change = TrailChange {
        account_id,
        actor,
        action: "account.set-tier",
        subject: account_id,
        detail: &format!("{before} to {tier}"),
        at_ms,
    };
    trail::note(transaction, &change).await?;
    Ok(Some(before))
}

fn read(row: &AnyRow) -> Result<AccountInfo, AccountsError> {
    Ok(AccountInfo {
        account_id: row.value("id")?,
        name: row.value("name")?,
        tier: row.parsed("tier")?,
        quota: AccountQuota::read(row)?,
        created_at_ms: row.value("created_at_ms")?,
        deletion: Deletion::read(row)?,
        verified_domains: row.value("verified_domains")?,
        active_keys: row.value("active_keys")?,
    })
}
