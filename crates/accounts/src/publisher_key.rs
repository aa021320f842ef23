//! Making, listing and revoking a publisher's API keys.

use std::collections::BTreeSet;

use sqlx::{Any, Row, Transaction};
use uuid::Uuid;

use crate::lifetime::YEAR_MS;
use crate::scope::{joined, ordered, parse_scopes};
use crate::trail::{self, Change};
use crate::{Accounts, AccountsError, ApiKey, Domain, Scope, Tier, verification};

/// The most domains of one account.
pub const DOMAINS_MAX: i64 = 1_000;
/// The most keys of one account that aren't revoked, and the most that are listed.
pub const KEYS_MAX: i64 = 1_000;
/// The longest label, in characters.
const NAME_CHARS_MAX: usize = 100;
/// How a domain was verified whose key the operator made on the machine itself.
const LOCAL: &str = "local";

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

/// A key just made.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKey {
    /// The whole key, secret included. It can't be had again.
    pub api_key: String,
    /// Its public half.
    pub key_id: String,
    /// The account it belongs to.
    pub account_id: String,
    /// The account's tier.
    pub tier: Tier,
    /// What it may do, in order.
    pub scopes: Vec<Scope>,
    /// The domains it was made for, in order. The key speaks for all of the account's.
    pub domains: Vec<String>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// A key in a list: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its public half.
    pub key_id: String,
    /// The account it belongs to.
    pub account_id: String,
    /// Its label.
    pub name: String,
    /// What it may do, in order.
    pub scopes: Vec<Scope>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it expires.
    pub expires_at_ms: i64,
    /// When it was revoked, if it was.
    pub revoked_at_ms: Option<i64>,
}

impl Accounts {
    /// Makes a key for a publisher, as the operator on the machine itself: a new domain gets an account, and every domain is
    /// recorded as verified for a year by the method `local`.
    ///
    /// # Errors
    /// The wish can't be met ([`AccountsError`] says why), or the store fails. Nothing is stored then.
    pub async fn create_publisher_key(&self, new: NewKey) -> Result<IssuedKey, AccountsError> {
        let now_ms = self.now_ms();
        check(&new, now_ms)?;
        self.timed("create_key", self.store_key(new, now_ms)).await
    }

    async fn store_key(&self, new: NewKey, now_ms: i64) -> Result<IssuedKey, AccountsError> {
        let key = ApiKey::generate().map_err(|error| AccountsError::Randomness(error.to_string()))?;
        let scopes = ordered(new.scopes);
        // In order, so that two transactions over the same domains never wait for each other in a circle.
        let domains: BTreeSet<Domain> = new.domains.into_iter().collect();
        let mut transaction = self.begin().await?;
        let account_id = claim(&mut transaction, &domains, now_ms).await?;
        if let Some(tier) = new.tier {
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
        let count = "SELECT COUNT(*) FROM api_keys WHERE account_id = $1 AND revoked_at_ms IS NULL";
        let row = sqlx::query(count)
            .bind(&account_id)
            .fetch_one(&mut *transaction)
            .await?;
        if row.try_get::<i64, _>(0)? >= KEYS_MAX {
            return Err(AccountsError::TooManyKeys);
        }
        let insert = "INSERT INTO api_keys (id, account_id, name, secret_hash, scopes, created_at_ms, expires_at_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let insert = sqlx::query(insert).bind(key.id()).bind(&account_id).bind(&new.name);
        let insert = insert
            .bind(key.secret_hash().to_text())
            .bind(joined(&scopes))
            .bind(now_ms)
            .bind(new.expires_at_ms);
        insert.execute(&mut *transaction).await?;
        let change = Change {
            account_id: &account_id,
            actor: "operator",
            action: "key.create",
            subject: key.id(),
            detail: &joined(&scopes),
            at_ms: now_ms,
        };
        trail::note(&mut transaction, &change).await?;
        transaction.commit().await?;
        Ok(IssuedKey {
            api_key: key.reveal(),
            key_id: key.id().to_owned(),
            account_id,
            tier,
            scopes,
            domains: domains.iter().map(Domain::to_string).collect(),
            expires_at_ms: new.expires_at_ms,
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

    /// The keys of an account, or of all, newest first, [`KEYS_MAX`] at most.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list_keys(&self, account_id: Option<&str>) -> Result<Vec<KeyInfo>, AccountsError> {
        let question = "SELECT id, account_id, name, scopes, created_at_ms, expires_at_ms, revoked_at_ms FROM api_keys
            WHERE account_id = $1 OR $1 = '' ORDER BY created_at_ms DESC, id LIMIT $2";
        let question = sqlx::query(question)
            .bind(account_id.unwrap_or_default())
            .bind(KEYS_MAX);
        let rows = self
            .timed("list_keys", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let read = rows.iter().map(|row| {
            Ok(KeyInfo {
                key_id: row.try_get(0)?,
                account_id: row.try_get(1)?,
                name: row.try_get(2)?,
                scopes: parse_scopes(row.try_get(3)?).map_err(|error| AccountsError::Store(error.to_string()))?,
                created_at_ms: row.try_get(4)?,
                expires_at_ms: row.try_get(5)?,
                revoked_at_ms: row.try_get(6)?,
            })
        });
        read.collect()
    }

    /// Takes a key back for good. `false` if there is no such key that isn't revoked already. Holds at once in this process, and in
    /// others after their `cache_ms_max`.
    ///
    /// # Errors
    /// The store fails.
    pub async fn revoke_key(&self, key_id: &str) -> Result<bool, AccountsError> {
        let change = "UPDATE api_keys SET revoked_at_ms = $1 WHERE id = $2 AND revoked_at_ms IS NULL";
        let change = sqlx::query(change).bind(self.now_ms()).bind(key_id);
        let done = self
            .timed("revoke_key", async { Ok(change.execute(&self.pool).await?) })
            .await?;
        self.cache.remove(key_id);
        Ok(done.rows_affected() > 0)
    }
}

fn check(new: &NewKey, now_ms: i64) -> Result<(), AccountsError> {
    if new.domains.is_empty() || i64::try_from(new.domains.len()).unwrap_or(i64::MAX) > DOMAINS_MAX {
        return Err(AccountsError::DomainCount);
    }
    if new.scopes.is_empty() {
        return Err(AccountsError::NoScope);
    }
    if new.expires_at_ms <= now_ms {
        return Err(AccountsError::ExpiryInThePast);
    }
    let chars = new.name.chars().count();
    if new.name.trim().is_empty() || chars > NAME_CHARS_MAX || new.name.chars().any(char::is_control) {
        return Err(AccountsError::Name);
    }
    Ok(())
}

/// The one account of `domains`, made if none of them is known; all are its own and verified for a year afterwards.
///
/// A domain is claimed by inserting it: whoever comes second waits for the first and then finds the owner, in either database.
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
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (domain) DO NOTHING";
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
    let count = sqlx::query("SELECT COUNT(*) FROM domains WHERE account_id = $1").bind(&owner);
    if count.fetch_one(&mut **transaction).await?.try_get::<i64, _>(0)? > DOMAINS_MAX {
        return Err(AccountsError::DomainCount);
    }
    Ok(owner)
}

impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("IssuedKey")
            .field("key_id", &self.key_id)
            .field("domains", &self.domains)
            .finish_non_exhaustive()
    }
}
