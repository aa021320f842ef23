//! A publisher's API key as the operator makes it on the machine itself: a new domain gets an
//! account.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::account::change_tier;
use crate::domain_rows::{held_domains, new_verification_id, store_ancestors};
use crate::key::{self, KeyRequest};
use crate::lifetime::YEAR_MS;
use crate::limits::DOMAINS_MAX;
use crate::registry::{RegistrySection, increment};
use crate::{Accounts, AccountsError, Domain, IssuedKey, Scope, Tier};

/// Method of a domain whose key the operator made on the machine itself.
pub(crate) const LOCAL: &str = "local";
/// The operator, in the trail.
const OPERATOR: &str = "operator";

/// Request for a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The domains it is for; 1 or more, all of one account or of none yet.
    pub domains: Vec<Domain>,
    /// The account that the key is for: required if it owns one of the domains, and then those that
    /// nobody owns become its own. `None` makes an account.
    pub account_id: Option<String>,
    /// Tier of the account from now on; `None` leaves it as it is, and a new account is free.
    pub tier: Option<Tier>,
    /// Whether the key is limited to `domains`, instead of speaking for all of the account's.
    pub is_limited: bool,
    /// A label, 1 to 100 characters.
    pub name: String,
    /// Permissions of the key.
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
    /// The domains it was made for, in order. The key speaks for all of the account's, unless it is
    /// limited to these.
    pub domains: Vec<String>,
}

impl Accounts {
    /// Makes a key for a publisher, as the operator on the machine itself: domains that nobody owns
    /// are recorded as verified for a year by the method `local`, for the account that `new` names
    /// or for a new one. A domain that was proven keeps its proof.
    ///
    /// # Errors
    /// The request can't be met ([`AccountsError`] says why), or the store fails. Nothing is stored
    /// then.
    pub async fn create_publisher_key(&self, new: NewKey) -> Result<PublisherKey, AccountsError> {
        let now_ms = self.now_ms();
        if new.domains.is_empty() || i64::try_from(new.domains.len()).unwrap_or(i64::MAX) > DOMAINS_MAX {
            return Err(AccountsError::DomainCount);
        }
        let request = KeyRequest {
            name: new.name,
            scopes: new.scopes,
            domains: new.is_limited.then(|| new.domains.clone()),
            expires_at_ms: new.expires_at_ms,
        };
        request.check(now_ms)?;
        // In order, so that two transactions over the same domains never wait for each other in a
        // circle.
        let domains = new.domains.into_iter().collect();
        let account = (new.account_id.as_deref(), new.tier);
        let made = self
            .timed(
                "create_publisher_key",
                self.store_key(domains, account, request, now_ms),
            )
            .await?;
        if new.tier.is_some() {
            self.forget(&made.issued.account_id);
        }
        Ok(made)
    }

    async fn store_key(
        &self,
        domains: BTreeSet<Domain>,
        (named, tier): (Option<&str>, Option<Tier>),
        request: KeyRequest,
        now_ms: i64,
    ) -> Result<PublisherKey, AccountsError> {
        let mut transaction = self.begin().await?;
        let account_id = claim(&mut transaction, &domains, named, now_ms).await?;
        if let Some(tier) = tier {
            change_tier(&mut transaction, &account_id, tier, OPERATOR, now_ms).await?;
        }
        let tier = key::check_room(&mut transaction, &account_id, self.keys_max, now_ms).await?;
        let issued = key::make(&mut transaction, &account_id, request, OPERATOR, now_ms).await?;
        transaction.commit().await?;
        Ok(PublisherKey {
            issued,
            tier,
            domains: domains.iter().map(Domain::to_string).collect(),
        })
    }

    /// Gives a domain that nobody owns to an account, as [`Self::create_publisher_key`] does, but
    /// without a key.
    ///
    /// # Errors
    /// The domain is another account's, there is no such account or it has too many domains, or the
    /// store fails. Nothing is stored then.
    pub async fn add_domain(&self, domain: &Domain, account_id: &str) -> Result<(), AccountsError> {
        let now_ms = self.now_ms();
        self.timed("add_domain", async {
            let mut transaction = self.begin().await?;
            let domains = BTreeSet::from([domain.clone()]);
            claim(&mut transaction, &domains, Some(account_id), now_ms).await?;
            transaction.commit().await?;
            Ok(())
        })
        .await
    }

    /// The account that `domain` belongs to, whether or not its verification still holds.
    pub async fn account_of(&self, domain: &Domain) -> Result<Option<String>, AccountsError> {
        let question = sqlx::query_scalar("SELECT account_id FROM domains WHERE domain = $1").bind(domain.as_str());
        self.timed("account_of", async { Ok(question.fetch_optional(&self.pool).await?) })
            .await
    }
}

/// The one account of `domains`, made if none of them is anyone's and none is `named`; all are its
/// own afterwards, and verified.
///
/// A domain is someone's while its verification holds or is suspended, and beyond its end where the
/// operator made it; afterwards it is as a new one, as for whoever proves it. It is claimed by
/// inserting it: whoever comes second waits for the first and then finds the owner, in either
/// database.
async fn claim(
    transaction: &mut Transaction<'static, Any>,
    domains: &BTreeSet<Domain>,
    named: Option<&str>,
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
    let mut owners = BTreeMap::new();
    for domain in domains {
        let insert = "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms, verification_id,
                include_subdomains, first_verified_at_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $4)
            ON CONFLICT (domain) DO UPDATE SET account_id = excluded.account_id, method = excluded.method,
                verified_at_ms = excluded.verified_at_ms, expires_at_ms = excluded.expires_at_ms,
                verification_id = excluded.verification_id, include_subdomains = excluded.include_subdomains,
                revoked_at_ms = NULL, expiry_noted_at_ms = NULL, token_hash = NULL, proof_next_at_ms = NULL,
                proof_failures = 0, suspended_expires_at_ms = NULL, contested_by = NULL
            WHERE domains.revoked_at_ms IS NOT NULL
                OR (COALESCE(domains.suspended_expires_at_ms, domains.expires_at_ms) <= excluded.verified_at_ms
                    AND domains.method <> $3)";
        let insert = sqlx::query(insert)
            .bind(domain.as_str())
            .bind(&candidate)
            .bind(LOCAL)
            .bind(now_ms)
            .bind(expires_at_ms)
            .bind(new_verification_id())
            .bind(i64::from(!domain.is_public_suffix()));
        if insert.execute(&mut **transaction).await?.rows_affected() > 0 {
            store_ancestors(transaction, domain).await?;
            increment(transaction, RegistrySection::Operators).await?;
        }
        let question = sqlx::query_scalar("SELECT account_id FROM domains WHERE domain = $1").bind(domain.as_str());
        let owner: String = question.fetch_one(&mut **transaction).await?;
        owners.entry(owner).or_insert(domain);
    }
    owners.remove(&candidate);
    if owners.len() > 1 {
        let names = domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(", ");
        return Err(AccountsError::DifferentAccounts(names));
    }
    if let Some((owner, domain)) = owners.into_iter().find(|(owner, _)| named != Some(owner)) {
        return Err(AccountsError::DomainOwned {
            domain: domain.to_string(),
            account_id: owner,
        });
    }
    let Some(owner) = named else {
        return Ok(candidate);
    };
    let question = sqlx::query("SELECT id FROM accounts WHERE id = $1").bind(owner);
    if question.fetch_optional(&mut **transaction).await?.is_none() {
        return Err(AccountsError::UnknownAccount(owner.to_owned()));
    }
    let adopt = sqlx::query("UPDATE domains SET account_id = $1 WHERE account_id = $2")
        .bind(owner)
        .bind(&candidate);
    adopt.execute(&mut **transaction).await?;
    sqlx::query("DELETE FROM accounts WHERE id = $1")
        .bind(&candidate)
        .execute(&mut **transaction)
        .await?;
    for domain in domains {
        // The operator's own word is renewed, unless it holds longer. A proof is its owner's to
        // renew.
        let renew = "UPDATE domains SET verified_at_ms = $2, expires_at_ms = $3, verification_id = $5, expiry_noted_at_ms = NULL,
                contested_by = NULL
            WHERE domain = $4 AND method = $1 AND expires_at_ms < $3";
        let renew = sqlx::query(renew)
            .bind(LOCAL)
            .bind(now_ms)
            .bind(expires_at_ms)
            .bind(domain.as_str())
            .bind(new_verification_id());
        renew.execute(&mut **transaction).await?;
    }
    if held_domains(transaction, owner, now_ms).await? > DOMAINS_MAX {
        return Err(AccountsError::DomainCount);
    }
    Ok(owner.to_owned())
}
