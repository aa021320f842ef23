//! From the text of an API key to whom it speaks for.

use std::sync::Arc;

use metrics::counter;
use sqlx::Row;

use crate::api_key::SecretHash;
use crate::scope::parse_scopes;
use crate::{Accounts, AccountsError, ApiKey, DOMAINS_MAX, Scope, Tier};

/// Whom an API key speaks for, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The account.
    pub account_id: String,
    /// The key's public half.
    pub key_id: String,
    /// What the account pays for.
    pub tier: Tier,
    /// What the key may do, in order.
    pub scopes: Vec<Scope>,
    /// The account's domains whose verification holds now, lower-case, in order.
    pub domains: Vec<String>,
}

impl Principal {
    /// Whether the key may do this.
    #[must_use]
    pub fn can(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// Why a key isn't accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Not the text of a key: a typo, or something else.
    #[error("this isn't an API key: a typo, or a part is missing")]
    Malformed,
    /// No such key; also a known key's id with another secret.
    #[error("the API key is unknown")]
    Unknown,
    /// Past its time.
    #[error("the API key has expired")]
    Expired,
    /// Taken back.
    #[error("the API key was revoked")]
    Revoked,
    /// Nobody could tell: the store failed. Not the caller's fault.
    #[error(transparent)]
    Unavailable(#[from] AccountsError),
}

/// A key whose secret was right when it was read.
pub(crate) struct CheckedKey {
    hash: SecretHash,
    read_at_ms: i64,
    expires_at_ms: i64,
    revoked: bool,
    account_id: String,
    tier: Tier,
    scopes: Vec<Scope>,
    /// With the end of each one's verification.
    domains: Vec<(String, i64)>,
}

impl Accounts {
    /// Whom `bearer`, the text after `Bearer `, speaks for. Takes the same time for an unknown key as for a known one with
    /// a wrong secret. A revocation by another process is seen after `cache_ms_max` at the latest.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn authenticate(&self, bearer: &str) -> Result<Principal, AuthError> {
        let result = self.find_principal(bearer).await;
        let outcome = match &result {
            Ok(_) => "ok",
            Err(AuthError::Malformed) => "malformed",
            Err(AuthError::Unknown) => "unknown",
            Err(AuthError::Expired) => "expired",
            Err(AuthError::Revoked) => "revoked",
            Err(AuthError::Unavailable(_)) => "unavailable",
        };
        counter!("receipts_accounts_authentications_total", "outcome" => outcome).increment(1);
        result
    }

    async fn find_principal(&self, bearer: &str) -> Result<Principal, AuthError> {
        let key = ApiKey::parse(bearer).ok_or(AuthError::Malformed)?;
        let now_ms = self.now_ms();
        let hash = key.secret_hash();
        // A wrong secret isn't answered from memory: that would tell by its speed that the id exists.
        let kept = self.cache.get(key.id()).filter(|kept| {
            let age_ms = now_ms - kept.read_at_ms;
            kept.hash.matches(&hash) && (0..self.cache_ms_max).contains(&age_ms)
        });
        let checked = match kept {
            Some(kept) => {
                counter!("receipts_accounts_cache_hits_total").increment(1);
                kept
            }
            None => {
                let read = self.timed("authenticate", self.read_key(&key, hash, now_ms)).await?;
                let read = Arc::new(read.ok_or(AuthError::Unknown)?);
                if self.cache_ms_max > 0 {
                    self.cache.insert(key.id().to_owned(), Arc::clone(&read));
                }
                read
            }
        };
        checked.principal(key.id(), now_ms)
    }

    /// The key as stored, if there is one and its secret is this one.
    async fn read_key(&self, key: &ApiKey, hash: SecretHash, now_ms: i64) -> Result<Option<CheckedKey>, AccountsError> {
        let question = "SELECT k.secret_hash, k.scopes, k.expires_at_ms, k.revoked_at_ms, a.id, a.tier
            FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = $1";
        let row = sqlx::query(question).bind(key.id()).fetch_optional(&self.pool).await?;
        let stored = match &row {
            Some(row) => SecretHash::from_text(row.try_get(0)?).unwrap_or(SecretHash::NONE),
            None => SecretHash::NONE,
        };
        let right = stored.matches(&hash);
        let Some(row) = row.filter(|_| right) else {
            return Ok(None);
        };
        let unreadable = |what: String| AccountsError::Store(format!("API key {}: {what}", key.id()));
        let scopes = parse_scopes(row.try_get(1)?).map_err(|error| unreadable(error.to_string()))?;
        let tier = row
            .try_get::<&str, _>(5)?
            .parse()
            .map_err(|error: crate::TierError| unreadable(error.to_string()))?;
        let account_id: String = row.try_get(4)?;
        let question = "SELECT domain, expires_at_ms FROM domains WHERE account_id = $1 ORDER BY domain LIMIT $2";
        let rows = sqlx::query(question)
            .bind(&account_id)
            .bind(DOMAINS_MAX)
            .fetch_all(&self.pool)
            .await?;
        let domains: Result<_, sqlx::Error> = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
        Ok(Some(CheckedKey {
            hash,
            read_at_ms: now_ms,
            expires_at_ms: row.try_get(2)?,
            revoked: row.try_get::<Option<i64>, _>(3)?.is_some(),
            account_id,
            tier,
            scopes,
            domains: domains?,
        }))
    }
}

impl CheckedKey {
    fn principal(&self, key_id: &str, now_ms: i64) -> Result<Principal, AuthError> {
        if self.revoked {
            return Err(AuthError::Revoked);
        }
        if self.expires_at_ms <= now_ms {
            return Err(AuthError::Expired);
        }
        let holding = self.domains.iter().filter(|(_, expires_at_ms)| *expires_at_ms > now_ms);
        Ok(Principal {
            account_id: self.account_id.clone(),
            key_id: key_id.to_owned(),
            tier: self.tier,
            scopes: self.scopes.clone(),
            domains: holding.map(|(domain, _)| domain.clone()).collect(),
        })
    }
}
