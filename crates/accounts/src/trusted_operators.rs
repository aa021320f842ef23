//! Operators that an account chooses: only their receipts count as proven in its numbers.

use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain};

/// The most operators that an account chooses.
pub const TRUSTED_OPERATORS_MAX: usize = 100;

/// Domains as they are stored: with commas, and NULL for none.
pub(crate) fn read(words: Option<&str>) -> Vec<String> {
    words.map_or_else(Vec::new, |words| words.split(',').map(str::to_owned).collect())
}

impl Accounts {
    /// Returns the domains of the operators that an account chose, in order; empty if all count.
    pub async fn trusted_operators(&self, account_id: &str) -> Result<Vec<String>, AccountsError> {
        let query = sqlx::query("SELECT trusted_operators FROM accounts WHERE id = $1").bind(account_id);
        let work = async { Ok(query.fetch_optional(&self.pool).await?) };
        match self.timed("trusted_operators", work).await? {
            Some(row) => Ok(read(row.value("trusted_operators")?)),
            None => Ok(Vec::new()),
        }
    }

    /// Replaces an account's choice, on behalf of `actor`, and returns it; none means that all
    /// count. In force at once in this process, in others after their `cache_ms_max`.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn set_trusted_operators(
        &self,
        account_id: &str,
        domains: &[Domain],
        actor: &str,
    ) -> Result<Vec<String>, AccountsError> {
        let mut domains: Vec<String> = domains.iter().map(|domain| domain.as_str().to_owned()).collect();
        domains.sort_unstable();
        domains.dedup();
        let words = Some(domains.join(",")).filter(|words| !words.is_empty());
        let work = async {
            let mut transaction = self.begin().await?;
            let update = sqlx::query("UPDATE accounts SET trusted_operators = $1 WHERE id = $2");
            let update = update.bind(words.as_deref()).bind(account_id);
            update.execute(&mut *transaction).await?;
            let change = TrailChange {
                account_id,
                actor,
                action: "account.trust-operators",
                subject: account_id,
                detail: words.as_deref().unwrap_or("all"),
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
            transaction.commit().await?;
            Ok(())
        };
        self.timed("trusted_operators_set", work).await?;
        self.cache.retain(|_, key| !key.is_of(account_id));
        Ok(domains)
    }
}
