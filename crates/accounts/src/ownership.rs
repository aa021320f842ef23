//! Domains as the operator of the deployment sees them: whose they are, and given to another
//! account.

use sqlx::any::AnyRow;

use crate::domain_rows::{held_domains, new_verification_id};
use crate::lifetime::YEAR_MS;
use crate::publisher_key::LOCAL;
use crate::registry::{RegistrySection, increment};
use crate::row::RowValues;
use crate::trail::note_action;
use crate::{Accounts, AccountsError, DOMAINS_MAX, Domain, MailKind, Verification, mail, verification};

/// The most domains of one list.
pub const DOMAINS_LISTED_MAX: i64 = 10_000;

/// A domain and its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedDomain {
    /// The account that owns it.
    pub account_id: String,
    /// Method, beginning and end.
    pub verification: Verification,
    /// When its published proof is checked next, in milliseconds since the Unix epoch. `None` if it
    /// has none that could be.
    pub proof_next_at_ms: Option<i64>,
    /// The first other account that has proven it while the verification holds.
    pub contested_by: Option<String>,
}

/// Why a domain can't be given to an account.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// No account has or had it.
    #[error("no account has {0}: `receipts domains list` shows all domains")]
    UnknownDomain(Domain),
    /// The account has as many domains as it may have.
    #[error("the account {0} has {DOMAINS_MAX} domains, as many as it may have: revoke one first")]
    TooManyDomains(String),
    /// No such account, or the store fails.
    #[error(transparent)]
    Store(#[from] AccountsError),
}

impl Accounts {
    /// The domains of an account or of all, in order, verified or not, at most
    /// [`DOMAINS_LISTED_MAX`].
    pub async fn owned_domains(&self, account_id: Option<&str>) -> Result<Vec<OwnedDomain>, AccountsError> {
        self.find_owned(account_id.unwrap_or_default(), "").await
    }

    /// A domain, verified or not. `None` if no account has or had it.
    pub async fn owned_domain(&self, domain: &Domain) -> Result<Option<OwnedDomain>, AccountsError> {
        Ok(self.find_owned("", domain.as_str()).await?.pop())
    }

    /// Rows of an account and of a domain, either of which may be empty for any.
    async fn find_owned(&self, account_id: &str, domain: &str) -> Result<Vec<OwnedDomain>, AccountsError> {
        let query = format!(
            "SELECT {}, account_id, proof_next_at_ms, contested_by FROM domains
             WHERE (account_id = $1 OR $1 = '') AND (domain = $2 OR $2 = '') ORDER BY domain LIMIT $3",
            verification::COLUMNS
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(account_id)
            .bind(domain)
            .bind(DOMAINS_LISTED_MAX);
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("owned_domains", work).await?;
        rows.iter().map(read).collect()
    }

    /// Gives a domain to an account on the operator's word, verified for a year by the method
    /// `local`, and mails both accounts. `false` if it is the account's already and its
    /// verification holds.
    ///
    /// # Errors
    /// [`TransferError`]. Nothing is changed then.
    pub async fn transfer_domain(&self, domain: &Domain, to: &str, actor: &str) -> Result<bool, TransferError> {
        let now_ms = self.now_ms();
        let done = self.timed("transfer_domain", async {
            let mut transaction = self.begin().await?;
            let hold = sqlx::query("UPDATE accounts SET name = name WHERE id = $1").bind(to);
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Err(AccountsError::UnknownAccount(to.to_owned()));
            }
            let hold = sqlx::query("UPDATE domains SET domain = domain WHERE domain = $1").bind(domain.as_str());
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(Err(TransferError::UnknownDomain(domain.clone())));
            }
            let query = "SELECT account_id, CASE WHEN revoked_at_ms IS NULL AND expires_at_ms > $2 THEN 1 ELSE 0 END
                FROM domains WHERE domain = $1";
            let query = sqlx::query_as(query).bind(domain.as_str()).bind(now_ms);
            let (before, holds): (String, i64) = query.fetch_one(&mut *transaction).await?;
            if holds != 0 && before == to {
                return Ok(Ok(None));
            }
            if held_domains(&mut transaction, to, now_ms).await? >= DOMAINS_MAX {
                return Ok(Err(TransferError::TooManyDomains(to.to_owned())));
            }
            let id = new_verification_id();
            let store = "UPDATE domains SET account_id = $2, method = $3, verified_at_ms = $4, expires_at_ms = $5,
                    verification_id = $6, token_hash = NULL, proof_next_at_ms = NULL, proof_failures = 0,
                    suspended_expires_at_ms = NULL, revoked_at_ms = NULL, expiry_noted_at_ms = NULL, contested_by = NULL
                WHERE domain = $1";
            let store = sqlx::query(store)
                .bind(domain.as_str())
                .bind(to)
                .bind(LOCAL)
                .bind(now_ms)
                .bind(now_ms.saturating_add(YEAR_MS))
                .bind(&id);
            store.execute(&mut *transaction).await?;
            increment(&mut transaction, RegistrySection::Operators).await?;
            let mut changes = vec![(to, "domain.receive", MailKind::Won)];
            if before != to {
                changes.push((&before, "domain.lose", MailKind::Lost));
            }
            for (account_id, action, kind) in changes {
                note_action(&mut transaction, account_id, actor, action, domain.as_str(), now_ms).await?;
                let mail_id = format!("{id}.{kind}");
                mail::queue(
                    &mut transaction,
                    &mail_id,
                    account_id,
                    kind,
                    domain.as_str(),
                    &id,
                    now_ms,
                )
                .await?;
            }
            transaction.commit().await?;
            Ok(Ok(Some(before)))
        });
        let Some(before) = done.await?? else {
            return Ok(false);
        };
        self.forget(to);
        self.forget(&before);
        Ok(true)
    }
}

fn read(row: &AnyRow) -> Result<OwnedDomain, AccountsError> {
    Ok(OwnedDomain {
        verification: verification::read(row)?,
        account_id: row.value("account_id")?,
        proof_next_at_ms: row.value("proof_next_at_ms")?,
        contested_by: row.value("contested_by")?,
    })
}
