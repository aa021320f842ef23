//! Domains as the operator of the deployment sees them: whose they are, and given to another
//! account.

use std::collections::HashMap;

use sqlx::any::AnyRow;

use crate::claim::NewOwner;
use crate::domain_rows::held_domains;
use crate::publisher_key::LOCAL;
use crate::row::RowValues;
use crate::verification;
use crate::{Accounts, AccountsError, DOMAINS_MAX, Domain, Verification};

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
    /// The accounts that claim it, with the instants until which the claims are pending.
    pub claims: Vec<(String, i64)>,
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
            "SELECT {}, account_id, proof_next_at_ms FROM domains
             WHERE (account_id = $1 OR $1 = '') AND (domain = $2 OR $2 = '') ORDER BY domain LIMIT $3",
            verification::COLUMNS
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(account_id)
            .bind(domain)
            .bind(DOMAINS_LISTED_MAX);
        let claims = "SELECT domain, account_id, until_ms FROM domain_claims
            WHERE domain = $1 OR $1 = '' ORDER BY domain, until_ms LIMIT $2";
        let claims = sqlx::query_as(claims).bind(domain).bind(DOMAINS_LISTED_MAX);
        let work = async { Ok((query.fetch_all(&self.pool).await?, claims.fetch_all(&self.pool).await?)) };
        let (rows, claims) = self.timed("owned_domains", work).await?;
        let mut owned = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut of_domain: HashMap<String, Vec<(String, i64)>> = HashMap::new();
        for (domain, account_id, until_ms) in claims {
            of_domain.entry(domain).or_default().push((account_id, until_ms));
        }
        for one in &mut owned {
            one.claims = of_domain.remove(&one.verification.domain).unwrap_or_default();
        }
        Ok(owned)
    }

    /// Gives a domain to an account on the operator's word, verified for a year by the method
    /// `local`, and mails both accounts. Claims of it end. `false` if it is the account's already
    /// and its verification holds.
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
            let query = "SELECT account_id, include_subdomains,
                    CASE WHEN revoked_at_ms IS NULL AND expires_at_ms > $2 THEN 1 ELSE 0 END
                FROM domains WHERE domain = $1";
            let query = sqlx::query_as(query).bind(domain.as_str()).bind(now_ms);
            let row: Option<(String, i64, i64)> = query.fetch_optional(&mut *transaction).await?;
            let Some((account_id, include_subdomains, holds)) = row else {
                return Ok(Err(TransferError::UnknownDomain(domain.clone())));
            };
            let holds = holds != 0;
            if holds && account_id == to {
                return Ok(Ok(None));
            }
            if held_domains(&mut transaction, to, now_ms).await? >= DOMAINS_MAX {
                return Ok(Err(TransferError::TooManyDomains(to.to_owned())));
            }
            let new = NewOwner {
                domain,
                account_id: to,
                method: LOCAL,
                include_subdomains: include_subdomains != 0,
                token_hash: None,
            };
            let before = new.store(&mut transaction, actor, now_ms).await?;
            transaction.commit().await?;
            Ok(Ok(Some(before)))
        });
        let Some(before) = done.await?? else {
            return Ok(false);
        };
        self.forget(to);
        before.iter().for_each(|account_id| self.forget(account_id));
        Ok(true)
    }
}

fn read(row: &AnyRow) -> Result<OwnedDomain, AccountsError> {
    Ok(OwnedDomain {
        verification: verification::read(row)?,
        account_id: row.value("account_id")?,
        proof_next_at_ms: row.value("proof_next_at_ms")?,
        claims: Vec::new(),
    })
}
