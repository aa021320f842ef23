//! Claims: domains that an account has proven while another account's verification holds.
//!
//! A newer proof wins after [`CLAIM_MS`], unless the owner's own proof is found in the meantime.
//! Both accounts get a mail when a claim begins and when it ends, and neither is told who the other
//! is.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::api_key::SecretHash;
use crate::domain_rows::{held_domains, new_verification_id, store_ancestors};
use crate::lifetime::{DAY_MS, HOUR_MS, WEEK_MS, YEAR_MS};
use crate::registry::{self, increment};
use crate::row::RowValues;
use crate::trail::note_action;
use crate::{Accounts, AccountsError, Challenge, DOMAINS_MAX, Domain, MailKind, VerificationMethod, mail};

/// Duration of a pending claim, in milliseconds.
pub const CLAIM_MS: i64 = 7 * DAY_MS;
/// Between two tries to decide a claim that is past its time.
const RETRY_MS: i64 = HOUR_MS;

/// A claim that is to be decided.
#[derive(Debug, Clone)]
pub struct DueClaim {
    /// The domain.
    pub domain: Domain,
    /// The claimant.
    pub account_id: String,
    /// The place of its token.
    pub method: VerificationMethod,
    id: String,
    token_hash: SecretHash,
    include_subdomains: bool,
    until_ms: i64,
}

impl DueClaim {
    /// Whether `token`, as it was found and without [`crate::TOKEN_PREFIX`], is the one that claims
    /// the domain.
    #[must_use]
    pub fn is_met_by(&self, token: &str) -> bool {
        self.token_hash.matches(&SecretHash::of(token.as_bytes()))
    }
}

impl Accounts {
    /// Until when an account's claim of a domain is pending, in milliseconds since the Unix epoch.
    /// `None` if it has none.
    pub async fn claim_until(&self, account_id: &str, domain: &Domain) -> Result<Option<i64>, AccountsError> {
        let query = sqlx::query_scalar("SELECT until_ms FROM domain_claims WHERE domain = $1 AND account_id = $2");
        let query = query.bind(domain.as_str()).bind(account_id);
        let work = async { Ok(query.fetch_optional(&self.pool).await?) };
        self.timed("claim_until", work).await
    }

    /// An account's pending claims, as domain and the instant until which each is pending, in order
    /// of the domains, [`DOMAINS_MAX`] at most.
    pub async fn claims_of(&self, account_id: &str) -> Result<Vec<(String, i64)>, AccountsError> {
        let query = "SELECT domain, until_ms FROM domain_claims WHERE account_id = $1 ORDER BY domain LIMIT $2";
        let query = sqlx::query_as(query).bind(account_id).bind(DOMAINS_MAX);
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        self.timed("claims_of", work).await
    }

    /// The claims that are to be decided now, those that have waited longest first, at most
    /// `claims_max`.
    pub async fn due_claims(&self, claims_max: i64) -> Result<Vec<DueClaim>, AccountsError> {
        let query = "SELECT id, domain, account_id, method, include_subdomains, token_hash, until_ms FROM domain_claims
            WHERE next_at_ms <= $1 ORDER BY next_at_ms, id LIMIT $2";
        let query = sqlx::query(query).bind(self.now_ms()).bind(claims_max);
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("due_claims", work).await?;
        rows.iter().map(read).collect()
    }

    /// Gives a domain to its claimant, verified for a year from now, and mails both accounts.
    /// `false` if the claim has ended, or ends now as the claimant has as many domains as it may
    /// have.
    ///
    /// # Errors
    /// The store fails. Nothing is changed then.
    pub async fn meet_claim(&self, claim: &DueClaim) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let DueClaim { domain, account_id, .. } = claim;
        let met = self.timed("meet_claim", async {
            let mut transaction = self.begin().await?;
            // The domain first, as everything else that changes both.
            let hold = sqlx::query("UPDATE domains SET domain = domain WHERE domain = $1");
            hold.bind(domain.as_str()).execute(&mut *transaction).await?;
            let take = sqlx::query("DELETE FROM domain_claims WHERE id = $1 AND next_at_ms <= $2");
            let take = take.bind(&claim.id).bind(now_ms);
            if take.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(None);
            }
            if held_domains(&mut transaction, account_id, now_ms).await? >= DOMAINS_MAX {
                end(&mut transaction, &claim.id, account_id, domain, now_ms).await?;
                transaction.commit().await?;
                return Ok(None);
            }
            let new = NewOwner {
                domain,
                account_id,
                method: claim.method.as_str(),
                include_subdomains: claim.include_subdomains,
                token_hash: Some(claim.token_hash),
            };
            let before = new.store(&mut transaction, "service", now_ms).await?;
            transaction.commit().await?;
            Ok(Some(before))
        });
        let Some(before) = met.await? else {
            return Ok(false);
        };
        self.forget(account_id);
        before.iter().for_each(|account_id| self.forget(account_id));
        Ok(true)
    }

    /// Leaves a claim whose token isn't found for an hour, or ends it once it is pending for twice
    /// [`CLAIM_MS`].
    pub async fn postpone_claim(&self, claim: &DueClaim) -> Result<(), AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            if now_ms < claim.until_ms.saturating_add(CLAIM_MS) {
                let wait = sqlx::query("UPDATE domain_claims SET next_at_ms = $1 WHERE id = $2");
                let wait = wait.bind(now_ms.saturating_add(RETRY_MS)).bind(&claim.id);
                wait.execute(&mut *transaction).await?;
            } else {
                let delete = sqlx::query("DELETE FROM domain_claims WHERE id = $1").bind(&claim.id);
                if delete.execute(&mut *transaction).await?.rows_affected() > 0 {
                    end(&mut transaction, &claim.id, &claim.account_id, &claim.domain, now_ms).await?;
                    keep(&mut transaction, &claim.id, &claim.domain, now_ms).await?;
                }
            }
            transaction.commit().await?;
            Ok(())
        };
        self.timed("postpone_claim", work).await
    }
}

/// Makes a found `challenge` a claim, and mails both accounts. A claim that is pending gets the new
/// token and keeps its time. Returns until when it is pending; `None` if the account has
/// [`DOMAINS_MAX`] claims, which leaves the transaction to be rolled back.
pub(crate) async fn begin(
    transaction: &mut Transaction<'static, Any>,
    actor: &str,
    challenge: &Challenge,
    now_ms: i64,
) -> Result<Option<i64>, AccountsError> {
    let (account_id, domain) = (challenge.account_id.as_str(), challenge.domain.as_str());
    let new_id = format!("clm_{}", Uuid::now_v7().simple());
    let until_ms = now_ms.saturating_add(CLAIM_MS);
    let insert = "INSERT INTO domain_claims
            (id, domain, account_id, method, include_subdomains, token_hash, claimed_at_ms, until_ms, next_at_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
        ON CONFLICT (domain, account_id) DO UPDATE SET method = excluded.method,
            include_subdomains = excluded.include_subdomains, token_hash = excluded.token_hash";
    let insert = sqlx::query(insert)
        .bind(&new_id)
        .bind(domain)
        .bind(account_id)
        .bind(challenge.method.as_str())
        .bind(i64::from(challenge.include_subdomains))
        .bind(challenge.token_hash.to_text())
        .bind(now_ms)
        .bind(until_ms);
    insert.execute(&mut **transaction).await?;
    let query = sqlx::query_as("SELECT id, until_ms FROM domain_claims WHERE domain = $1 AND account_id = $2");
    let query = query.bind(domain).bind(account_id);
    let (id, until_ms): (String, i64) = query.fetch_one(&mut **transaction).await?;
    if id != new_id {
        return Ok(Some(until_ms));
    }
    let count =
        sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM domain_claims WHERE account_id = $1").bind(account_id);
    if count.fetch_one(&mut **transaction).await? > DOMAINS_MAX {
        return Ok(None);
    }
    note_action(transaction, account_id, actor, "domain.claim", domain, now_ms).await?;
    tell(transaction, &id, account_id, MailKind::Claimed, domain, now_ms).await?;
    if let Some(owner) = owner(transaction, domain).await? {
        note_action(transaction, &owner, "service", "domain.contest", domain, now_ms).await?;
        tell(transaction, &id, &owner, MailKind::Contested, domain, now_ms).await?;
    }
    Ok(Some(until_ms))
}

/// Ends all claims of a domain, and mails the claimants. `kept_by` is the owner who keeps it, who
/// gets a mail too if there was a claim.
pub(crate) async fn end_all(
    transaction: &mut Transaction<'static, Any>,
    domain: &Domain,
    kept_by: Option<&str>,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let query = sqlx::query_as("SELECT id, account_id FROM domain_claims WHERE domain = $1 ORDER BY id");
    let claims: Vec<(String, String)> = query.bind(domain.as_str()).fetch_all(&mut **transaction).await?;
    let delete = sqlx::query("DELETE FROM domain_claims WHERE domain = $1").bind(domain.as_str());
    delete.execute(&mut **transaction).await?;
    let owner = owner(transaction, domain.as_str()).await?;
    for (id, account_id) in &claims {
        // An account that got the domain in another way has a mail about that.
        if owner.as_ref() != Some(account_id) {
            end(transaction, id, account_id, domain, now_ms).await?;
        }
    }
    if let Some((first, _)) = claims.first().filter(|_| kept_by.is_some()) {
        keep(transaction, first, domain, now_ms).await?;
    }
    Ok(())
}

/// An account that gets a domain of another account.
pub(crate) struct NewOwner<'a> {
    pub(crate) domain: &'a Domain,
    pub(crate) account_id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) include_subdomains: bool,
    /// Of the published token; `None` if the operator vouches for the domain.
    pub(crate) token_hash: Option<SecretHash>,
}

impl NewOwner<'_> {
    /// Stores the new owner's verification for a year, ends all claims, and mails both accounts.
    /// Returns the owner before, if there was one.
    pub(crate) async fn store(
        &self,
        transaction: &mut Transaction<'static, Any>,
        actor: &str,
        now_ms: i64,
    ) -> Result<Option<String>, AccountsError> {
        let domain = self.domain.as_str();
        let before = owner(transaction, domain).await?;
        let id = new_verification_id();
        let store = "INSERT INTO domains (domain, account_id, method, verified_at_ms, expires_at_ms, verification_id,
                include_subdomains, token_hash, proof_next_at_ms, first_verified_at_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $4)
            ON CONFLICT (domain) DO UPDATE SET account_id = excluded.account_id, method = excluded.method,
                verified_at_ms = excluded.verified_at_ms, expires_at_ms = excluded.expires_at_ms,
                verification_id = excluded.verification_id, include_subdomains = excluded.include_subdomains,
                token_hash = excluded.token_hash, proof_next_at_ms = excluded.proof_next_at_ms, proof_failures = 0,
                suspended_expires_at_ms = NULL, revoked_at_ms = NULL, expiry_noted_at_ms = NULL";
        let store = sqlx::query(store)
            .bind(domain)
            .bind(self.account_id)
            .bind(self.method)
            .bind(now_ms)
            .bind(now_ms.saturating_add(YEAR_MS))
            .bind(&id)
            .bind(i64::from(self.include_subdomains))
            .bind(self.token_hash.map(SecretHash::to_text))
            .bind(self.token_hash.map(|_| now_ms.saturating_add(WEEK_MS)));
        store.execute(&mut **transaction).await?;
        store_ancestors(transaction, self.domain).await?;
        increment(transaction, registry::RegistrySection::Operators).await?;
        end_all(transaction, self.domain, None, now_ms).await?;
        note_action(transaction, self.account_id, actor, "domain.receive", domain, now_ms).await?;
        tell(transaction, &id, self.account_id, MailKind::Won, domain, now_ms).await?;
        let before = before.filter(|before| before != self.account_id);
        if let Some(before) = &before {
            note_action(transaction, before, actor, "domain.lose", domain, now_ms).await?;
            tell(transaction, &id, before, MailKind::Lost, domain, now_ms).await?;
        }
        Ok(before)
    }
}

async fn owner(transaction: &mut Transaction<'static, Any>, domain: &str) -> Result<Option<String>, AccountsError> {
    let query = sqlx::query_scalar("SELECT account_id FROM domains WHERE domain = $1").bind(domain);
    Ok(query.fetch_optional(&mut **transaction).await?)
}

/// Mails a claimant that its deleted claim came to nothing.
async fn end(
    transaction: &mut Transaction<'static, Any>,
    id: &str,
    account_id: &str,
    domain: &Domain,
    now_ms: i64,
) -> Result<(), AccountsError> {
    note_action(
        transaction,
        account_id,
        "service",
        "domain.claim_end",
        domain.as_str(),
        now_ms,
    )
    .await?;
    tell(
        transaction,
        id,
        account_id,
        MailKind::ClaimEnded,
        domain.as_str(),
        now_ms,
    )
    .await
}

/// Mails the owner that its domain stays its own.
async fn keep(
    transaction: &mut Transaction<'static, Any>,
    claim_id: &str,
    domain: &Domain,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let Some(owner) = owner(transaction, domain.as_str()).await? else {
        return Ok(());
    };
    note_action(transaction, &owner, "service", "domain.keep", domain.as_str(), now_ms).await?;
    tell(transaction, claim_id, &owner, MailKind::Kept, domain.as_str(), now_ms).await
}

async fn tell(
    transaction: &mut Transaction<'static, Any>,
    about: &str,
    account_id: &str,
    kind: MailKind,
    domain: &str,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let id = format!("{about}.{kind}");
    mail::queue(transaction, &id, account_id, kind, domain, about, now_ms).await
}

fn read(row: &AnyRow) -> Result<DueClaim, AccountsError> {
    Ok(DueClaim {
        id: row.value("id")?,
        domain: row.parsed("domain")?,
        account_id: row.value("account_id")?,
        method: row.parsed("method")?,
        include_subdomains: row.flag("include_subdomains")?,
        token_hash: row.parsed("token_hash")?,
        until_ms: row.value("until_ms")?,
    })
}
