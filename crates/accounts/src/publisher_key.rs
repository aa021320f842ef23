//! A publisher's API key as the operator makes it on the machine itself: a new domain gets an account.

use std::collections::BTreeSet;

use sqlx::{Any, Row, Transaction};
use uuid::Uuid;

use crate::key::{self, KeyWish};
use crate::lifetime::YEAR_MS;
use crate::{Accounts, AccountsError, Domain, IssuedKey, Scope, Tier, verification};

/// The most domains that one account holds.
pub const DOMAINS_MAX: i64 = 1_000;
/// How a domain was verified whose key the operator made on the machine itself.
const LOCAL: &str = "local";
/// The operator, in the trail.
const OPERATOR: &str = "operator";

/// What a new key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The domains it is for; 1 or more, all of one account or of none yet.
    pub domains: Vec<Domain>,
    /// The account's tier from now on; `None` leaves a known account's as it is, and makes a new one free.
    pub tier: Option<Tier>,
    /// A label, 1 to 100 characters.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// A key just made, and whom it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherKey {
    /// The key.
    pub issued: IssuedKey,
    /// The account's tier.
    pub tier: Tier,
    /// The domains it was made for, in order. The key speaks for all of the account's.
    pub domains: Vec<String>,
}

impl Accounts {
    /// Makes a key for a publisher, as the operator on the machine itself: a new domain gets an account, and every domain is
    /// recorded as verified for a year by the method `local`.
    ///
    /// # Errors
    /// The wish can't be met ([`AccountsError`] says why), or the store fails. Nothing is stored then.
    pub async fn create_publisher_key(&self, new: NewKey) -> Result<PublisherKey, AccountsError> {
        let now_ms = self.now_ms();
        if new.domains.is_empty() || i64::try_from(new.domains.len()).unwrap_or(i64::MAX) > DOMAINS_MAX {
            return Err(AccountsError::DomainCount);
        }
        let wish = KeyWish {
            name: new.name,
            scopes: new.scopes,
            expires_at_ms: new.expires_at_ms,
        };
        wish.check(now_ms)?;
        // In order, so that two transactions over the same domains never wait for each other in a circle.
        let domains = new.domains.into_iter().collect();
        self.timed("create_publisher_key", self.store_key(domains, new.tier, wish, now_ms))
            .await
    }

    async fn store_key(
        &self,
        domains: BTreeSet<Domain>,
        tier: Option<Tier>,
        wish: KeyWish,
        now_ms: i64,
    ) -> Result<PublisherKey, AccountsError> {
        let mut transaction = self.begin().await?;
        let account_id = claim(&mut transaction, &domains, now_ms).await?;
        if let Some(tier) = tier {
            let change = sqlx::query("UPDATE accounts SET tier = $1 WHERE id = $2")
                .bind(tier.as_str())
                .bind(&account_id);
            change.execute(&mut *transaction).await?;
        }
        let question = sqlx::query("SELECT tier FROM accounts WHERE id = $1").bind(&account_id);
        let row = question.fetch_one(&mut *transaction).await?;
        let tier: Tier = row
            .try_get::<&str, _>(0)?
            .parse()
            .map_err(|e: crate::TierError| AccountsError::Store(e.to_string()))?;
        let issued = key::make(&mut transaction, &account_id, wish, OPERATOR, now_ms).await?;
        transaction.commit().await?;
        Ok(PublisherKey {
            issued,
            tier,
            domains: domains.iter().map(Domain::to_string).collect(),
        })
    }

    /// The account that `domain` belongs to, whether or not its verification still holds.
    ///
    /// # Errors
    /// The store fails.
    pub async fn account_of(&self, domain: &Domain) -> Result<Option<String>, AccountsError> {
        let question = sqlx::query("SELECT account_id FROM domains WHERE domain = $1").bind(domain.as_str());
        let row = self
            .timed("account_of", async { Ok(question.fetch_optional(&self.pool).await?) })
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}

/// The one account of `domains`, made if none of them is anyone's; all are its own and verified for a year afterwards.
///
/// A domain is someone's while its verification holds, and beyond its end where the operator made it; afterwards it is as a new one, as
/// for whoever proves it. It is claimed by inserting it: whoever comes second waits for the first and then finds the owner, in either
/// database.
async fn claim(
    transaction: &mut Transaction<'static, Any>,
    domains: &BTreeSet<Domain>,
    now_ms: i64,
) -> Result<String, AccountsError> {
    let candidate = format!("acc_{}", Uuid::now_v7().simple());
    let name = domains.first().map(Domain::to_string).unwrap_or_default();
    let insert = "INSERT INTO accounts (id, name, tier, created_at_ms) VALUES ($1, $2, $3, $4)";
    let insert = sqlx::query(insert)
        .bind(&candidate)
        .bind(name)
        .bind(Tier::Free.as_str())
        .bind(now_ms);
    insert.execute(&mut **transaction).await?;
    let expires_at_ms = now_ms.saturating_add(YEAR_MS);
    let mut owners = BTreeSet::new();
    for domain in domains {
        let insert = "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms, verification_id)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (domain) DO UPDATE SET account_id = excluded.account_id, method = excluded.method,
                verified_at_ms = excluded.verified_at_ms, expires_at_ms = excluded.expires_at_ms,
                verification_id = excluded.verification_id, include_subdomains = 0,
                revoked_at_ms = NULL, expiry_noted_at_ms = NULL
            WHERE domains.revoked_at_ms IS NOT NULL
                OR (domains.expires_at_ms <= excluded.verified_at_ms AND domains.method <> $3)";
        let insert = sqlx::query(insert)
            .bind(domain.as_str())
            .bind(&candidate)
            .bind(LOCAL)
            .bind(now_ms)
            .bind(expires_at_ms)
            .bind(verification::new_id());
        if insert.execute(&mut **transaction).await?.rows_affected() > 0 {
            verification::store_ancestors(transaction, domain).await?;
        }
        let question = sqlx::query("SELECT account_id FROM domains WHERE domain = $1").bind(domain.as_str());
        owners.insert(question.fetch_one(&mut **transaction).await?.try_get::<String, _>(0)?);
    }
    owners.remove(&candidate);
    let mut owners = owners.into_iter();
    let Some(owner) = owners.next() else {
        return Ok(candidate);
    };
    if owners.next().is_some() {
        let names = domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(", ");
        return Err(AccountsError::DifferentAccounts(names));
    }
    let adopt = sqlx::query("UPDATE domains SET account_id = $1 WHERE account_id = $2")
        .bind(&owner)
        .bind(&candidate);
    adopt.execute(&mut **transaction).await?;
    sqlx::query("DELETE FROM accounts WHERE id = $1")
        .bind(&candidate)
        .execute(&mut **transaction)
        .await?;
    for domain in domains {
        // A verification that holds longer is left alone.
        let renew = "UPDATE domains SET method = $1, verified_at_ms = $2, expires_at_ms = $3, verification_id = $5,
                revoked_at_ms = NULL, expiry_noted_at_ms = NULL
            WHERE domain = $4 AND (expires_at_ms < $3 OR revoked_at_ms IS NOT NULL)";
        let renew = sqlx::query(renew)
            .bind(LOCAL)
            .bind(now_ms)
            .bind(expires_at_ms)
            .bind(domain.as_str())
            .bind(verification::new_id());
        renew.execute(&mut **transaction).await?;
    }
    if verification::held(transaction, &owner, now_ms).await? > DOMAINS_MAX {
        return Err(AccountsError::DomainCount);
    }
    Ok(owner)
}
