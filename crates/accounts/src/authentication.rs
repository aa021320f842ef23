//! From the text of an API key to whom it speaks for.

use std::sync::Arc;

use metrics::counter;
use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use crate::api_key::SecretHash;
use crate::checked_key::{CheckedAccount, CheckedKey, HeldDomain};
use crate::coverage::KeyDomains;
use crate::domain::is_public_suffix;
use crate::key::read_scopes;
use crate::row::RowValues;
use crate::trusted_operators;
use crate::{AccountQuota, Accounts, AccountsError, ApiKey, Coverage, DOMAINS_MAX, Inherited, Principal, TrailActor};

/// The most subdomains of an account's domains that are others'; beyond it no subdomain is covered,
/// rather than one too many.
const OTHERS_MAX: i64 = 500;

/// Time after which another use of a key is recorded.
const USED_STEP_MS: i64 = 60 * 60_000;

/// The end of a verification, of a table `d`: that of a suspended one has passed.
const NOT_SUSPENDED: &str = "d.expires_at_ms";
/// The end that a suspended verification has if its proof is found again.
const SUSPENDED_TOO: &str = "COALESCE(d.suspended_expires_at_ms, d.expires_at_ms)";

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

impl Accounts {
    /// Whom `bearer`, the text after `Bearer `, speaks for. Takes the same time for an unknown key
    /// as for a known one with a wrong secret. A revocation by another process is seen after
    /// `cache_ms_max` at the latest.
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

    /// Whether `bearer` is cached as the text of a key: it has been right before, and may have been
    /// revoked or expired since. Nothing is read.
    #[must_use]
    pub fn was_right(&self, bearer: &str) -> bool {
        let cached = ApiKey::parse(bearer).and_then(|key| Some((self.cache.get(key.id())?, key.secret_hash())));
        cached.is_some_and(|(cached, hash)| cached.hash.matches(&hash))
    }

    async fn find_principal(&self, bearer: &str) -> Result<Principal, AuthError> {
        let key = ApiKey::parse(bearer).ok_or(AuthError::Malformed)?;
        let now_ms = self.now_ms();
        let hash = key.secret_hash();
        // A wrong secret isn't answered from memory: its speed would reveal that the id
        // exists.
        let cached = self.cache.get(key.id()).filter(|cached| {
            let age_ms = now_ms - cached.read_at_ms;
            cached.hash.matches(&hash) && (0..self.cache_ms_max).contains(&age_ms)
        });
        let checked = match cached {
            Some(cached) => {
                counter!("receipts_accounts_cache_hits_total").increment(1);
                cached
            }
            None => {
                let read = self.timed("authenticate", self.read_key(&key, hash, now_ms)).await?;
                let read = Arc::new(read.ok_or(AuthError::Unknown)?);
                self.cache.insert(key.id().to_owned(), Arc::clone(&read));
                read
            }
        };
        checked.principal(key.id(), now_ms)
    }

    /// The key as stored, if there is one and its secret is this one.
    async fn read_key(&self, key: &ApiKey, hash: SecretHash, now_ms: i64) -> Result<Option<CheckedKey>, AccountsError> {
        let question =
            "SELECT k.id, k.secret_hash, k.scopes, k.expires_at_ms, k.revoked_at_ms, k.account_id, a.tier, k.domains,
                k.last_used_at_ms,
                a.requests_per_minute, a.requests_per_day, a.trusted_operators
            FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = $1";
        let row = sqlx::query(question).bind(key.id()).fetch_optional(&self.pool).await?;
        let stored = match &row {
            Some(row) => row.parsed("secret_hash").unwrap_or(SecretHash::NONE),
            None => SecretHash::NONE,
        };
        let right = stored.matches(&hash);
        let Some(row) = row.filter(|_| right) else {
            return Ok(None);
        };
        let account = self.read_account(&row, row.value("domains")?, now_ms).await?;
        self.touch_key(key.id(), row.value("last_used_at_ms")?, now_ms).await;
        Ok(Some(CheckedKey {
            hash,
            read_at_ms: now_ms,
            expires_at_ms: row.value("expires_at_ms")?,
            revoked: row.value::<Option<i64>>("revoked_at_ms")?.is_some(),
            scopes: read_scopes(&row)?,
            account,
        }))
    }

    /// Records that a key is used now, unless that was recorded within the hour. A key works also
    /// where its use can't be recorded.
    async fn touch_key(&self, id: &str, last_used_at_ms: Option<i64>, now_ms: i64) {
        if last_used_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < USED_STEP_MS) {
            return;
        }
        let update = "UPDATE api_keys SET last_used_at_ms = $1
            WHERE id = $2 AND (last_used_at_ms IS NULL OR last_used_at_ms <= $3)";
        let update = sqlx::query(update).bind(now_ms).bind(id);
        let update = update.bind(now_ms.saturating_sub(USED_STEP_MS));
        if let Err(error) = update.execute(&self.pool).await {
            tracing::debug!(%error, key_id = id, "the use of an API key can't be recorded");
        }
    }

    /// The account of a row with its columns, limited to the domains of `limit`, which are
    /// separated by commas.
    pub(crate) async fn read_account(
        &self,
        row: &AnyRow,
        limit: Option<&str>,
        now_ms: i64,
    ) -> Result<CheckedAccount, AccountsError> {
        let account_id: String = row.value("account_id")?;
        let mut domains = self.held_domains(&account_id, now_ms, NOT_SUSPENDED).await?;
        let limit = match limit {
            None => None,
            Some(words) => Some(self.key_domains(&account_id, words).await?),
        };
        if let Some(limit) = &limit {
            domains.retain(|held| limit.domains.contains(&held.domain));
        }
        Ok(CheckedAccount {
            account_id,
            tier: row.parsed("tier")?,
            quota: AccountQuota::read(row)?,
            domains,
            limit,
            trusted_operators: trusted_operators::read(row.value("trusted_operators")?),
        })
    }

    /// The limit of a key, as it is stored with commas. Its exceptions are the account's other
    /// domains below, verified or not: entries of domains that have ended are there too.
    async fn key_domains(&self, account_id: &str, words: &str) -> Result<KeyDomains, AccountsError> {
        let mut limit = KeyDomains {
            domains: words.split(',').map(str::to_owned).collect(),
            except: Vec::new(),
        };
        for domain in limit.domains.clone() {
            let question = "SELECT d.domain FROM domain_ancestors a JOIN domains d ON d.domain = a.domain
                WHERE a.ancestor = $1 AND d.account_id = $2 ORDER BY d.domain LIMIT $3";
            let question = sqlx::query_scalar(question)
                .bind(domain)
                .bind(account_id)
                .bind(DOMAINS_MAX);
            for other in question.fetch_all(&self.pool).await? {
                if !limit.domains.contains(&other) && !limit.except.contains(&other) {
                    limit.except.push(other);
                }
            }
        }
        Ok(limit)
    }

    /// Domains that the account speaks for now. Subdomains whose owners are suspended aren't
    /// covered: they may be verified again.
    pub(crate) async fn erasable_coverage(&self, account_id: &str, now_ms: i64) -> Result<Coverage, AccountsError> {
        let mut coverage = Coverage::default();
        for HeldDomain { domain, others, .. } in self.held_domains(account_id, now_ms, SUSPENDED_TOO).await? {
            coverage.inherited.extend(others.map(|others| Inherited {
                parent: domain.clone(),
                except: others.into_iter().map(|(other, _)| other).collect(),
            }));
            coverage.domains.push(domain);
        }
        Ok(coverage)
    }

    /// The account's verified domains. `others_end` is the end of other owners' verifications.
    async fn held_domains(
        &self,
        account_id: &str,
        now_ms: i64,
        others_end: &str,
    ) -> Result<Vec<HeldDomain>, AccountsError> {
        let question = "SELECT domain, expires_at_ms, include_subdomains FROM domains
            WHERE account_id = $1 AND revoked_at_ms IS NULL AND expires_at_ms > $2 ORDER BY domain LIMIT $3";
        let question = sqlx::query_as(question).bind(account_id).bind(now_ms).bind(DOMAINS_MAX);
        let rows: Vec<(String, i64, i64)> = question.fetch_all(&self.pool).await?;
        let mut held = Vec::new();
        for (domain, expires_at_ms, include_subdomains) in rows {
            let is_covering = include_subdomains != 0 && !is_public_suffix(&domain);
            held.push(HeldDomain {
                domain,
                expires_at_ms,
                others: is_covering.then(Vec::new),
            });
        }
        if held.iter().all(|domain| domain.others.is_none()) {
            return Ok(held);
        }
        let question = format!(
            "SELECT a.ancestor, d.domain, {others_end} FROM domains p
            JOIN domain_ancestors a ON a.ancestor = p.domain JOIN domains d ON d.domain = a.domain
            WHERE p.account_id = $1 AND p.revoked_at_ms IS NULL AND p.include_subdomains = 1
                AND d.account_id <> $1 AND d.revoked_at_ms IS NULL AND {others_end} > $2
            ORDER BY d.domain LIMIT $3"
        );
        let question = sqlx::query_as(AssertSqlSafe(question))
            .bind(account_id)
            .bind(now_ms)
            .bind(OTHERS_MAX + 1);
        let rows: Vec<(String, String, i64)> = question.fetch_all(&self.pool).await?;
        if rows.len() > usize::try_from(OTHERS_MAX).unwrap_or(usize::MAX) {
            tracing::warn!(
                account_id,
                "too many subdomains are others': none is covered by its parent"
            );
            held.iter_mut().for_each(|domain| domain.others = None);
            return Ok(held);
        }
        for (parent, other, end_ms) in rows {
            let of_parent = held.iter_mut().find(|domain| domain.domain == parent);
            if let Some(others) = of_parent.and_then(|domain| domain.others.as_mut()) {
                others.push((other, end_ms));
            }
        }
        Ok(held)
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
        let actor = TrailActor::Key(key_id.to_owned());
        Ok(self.account.principal(actor, self.scopes.clone(), now_ms))
    }

    /// Whether it is a key of this account.
    pub(crate) fn is_of(&self, account_id: &str) -> bool {
        self.account.account_id == account_id
    }
}
