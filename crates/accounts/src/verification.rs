//! Verified domains: taken, renewed and given back.
//!
//! A domain has one row: whose it is, and since when and until when its verification holds. While
//! it holds, somebody else's proof contests it (`contest`). Afterwards it goes to whoever proves
//! it. The trail keeps what was before.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};

use crate::domain_rows::{held_domains, new_verification_id, store_ancestors};
use crate::lifetime::{WEEK_MS, YEAR_MS};
use crate::registry::{self, increment};
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Challenge, DOMAINS_MAX, Domain, challenge, contest};

/// Life of a verification, in milliseconds: a year of 365 days.
pub const VERIFICATION_MS: i64 = YEAR_MS;

/// State of an account's domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The domain.
    pub domain: String,
    /// Method of the proof: `dns`, `https`, `meta`, or `local` by the operator.
    pub method: String,
    /// The identifier of the last proof, beginning with `ver_`.
    pub id: String,
    /// Whether it covers subdomains.
    pub include_subdomains: bool,
    /// When it was proven last, in milliseconds since the Unix epoch.
    pub verified_at_ms: i64,
    /// Until when that holds. Of a suspended domain: since when it is.
    pub expires_at_ms: i64,
    /// Of a suspended domain: the end that it has again once its proof is found.
    pub suspended_expires_at_ms: Option<i64>,
    /// Checks in a row that didn't find the published proof.
    pub proof_failures: i64,
    /// Whether another account has proven it while this verification holds.
    pub is_contested: bool,
    /// When it was given back before its time.
    pub revoked_at_ms: Option<i64>,
}

/// Why a proof doesn't make a verification.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Another account's verification holds. Its proof is checked every day from now on, and the
    /// challenge stays open for a week.
    #[error("{0} is verified by another account")]
    DomainHeld(Domain),
    /// The challenge was met, replaced or withdrawn meanwhile, and the domain isn't verified.
    #[error("the token isn't open any more")]
    ChallengeGone,
    /// The account has as many domains as it may have.
    #[error("the account has {DOMAINS_MAX} domains, as many as it may have")]
    TooManyDomains,
    /// The store fails.
    #[error(transparent)]
    Store(#[from] AccountsError),
}

pub(crate) const COLUMNS: &str = "domain, method, verification_id, include_subdomains, verified_at_ms, expires_at_ms,
    revoked_at_ms, suspended_expires_at_ms, proof_failures,
    CASE WHEN contested_by IS NULL THEN 0 ELSE 1 END AS is_contested";

impl Verification {
    /// Whether it holds at `now_ms`.
    #[must_use]
    pub fn holds(&self, now_ms: i64) -> bool {
        self.revoked_at_ms.is_none() && self.expires_at_ms > now_ms
    }

    /// Whether it is suspended at `now_ms`: it doesn't hold, and does again once its proof is
    /// found.
    #[must_use]
    pub fn is_suspended(&self, now_ms: i64) -> bool {
        self.revoked_at_ms.is_none() && self.suspended_expires_at_ms.is_some_and(|end_ms| end_ms > now_ms)
    }
}

impl Accounts {
    /// An account's domain, whether or not its verification holds.
    pub async fn verification(&self, account_id: &str, domain: &Domain) -> Result<Option<Verification>, AccountsError> {
        let question = format!("SELECT {COLUMNS} FROM domains WHERE domain = $1 AND account_id = $2");
        let question = sqlx::query(sqlx::AssertSqlSafe(question))
            .bind(domain.as_str())
            .bind(account_id);
        let row = self
            .timed("verification", async { Ok(question.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// The domains of an account, in order: those whose verification holds, and others up to
    /// [`DOMAINS_MAX`] together, those first that were proven last.
    pub async fn verifications(&self, account_id: &str) -> Result<Vec<Verification>, AccountsError> {
        let question = format!(
            "SELECT {COLUMNS} FROM domains WHERE account_id = $1
             ORDER BY CASE WHEN revoked_at_ms IS NULL AND expires_at_ms > $2 THEN 0 ELSE 1 END, verified_at_ms DESC, domain LIMIT $3"
        );
        let question = sqlx::query(sqlx::AssertSqlSafe(question))
            .bind(account_id)
            .bind(self.now_ms())
            .bind(DOMAINS_MAX);
        let rows = self
            .timed("verifications", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let mut domains = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        domains.sort_by(|one, other| one.domain.cmp(&other.domain));
        Ok(domains)
    }

    /// Makes `challenge`, whose token was found, a verification for a year from now, and ends all
    /// open challenges of the domain. Where another check has done so meanwhile, that check's
    /// verification is answered: they are one.
    ///
    /// # Errors
    /// [`VerifyError`]. Nothing is changed then, but for [`VerifyError::DomainHeld`].
    pub async fn verify(&self, actor: &str, challenge: &Challenge) -> Result<Verification, VerifyError> {
        let verification = Verification {
            domain: challenge.domain.to_string(),
            method: challenge.method.to_string(),
            id: new_verification_id(),
            include_subdomains: challenge.include_subdomains,
            verified_at_ms: self.now_ms(),
            expires_at_ms: self.now_ms().saturating_add(VERIFICATION_MS),
            revoked_at_ms: None,
            suspended_expires_at_ms: None,
            proof_failures: 0,
            is_contested: false,
        };
        let account_id = challenge.account_id.as_str();
        let done = self
            .timed("verify", async {
                let mut transaction = self.begin().await?;
                let outcome = meet(&mut transaction, actor, challenge, &verification).await?;
                if matches!(outcome, Ok(_) | Err(VerifyError::DomainHeld(_))) {
                    transaction.commit().await?;
                }
                Ok(outcome)
            })
            .await?;
        self.forget(account_id);
        if let Ok(Some(before)) = &done {
            self.forget(before);
        }
        match done {
            Err(VerifyError::ChallengeGone) => self
                .verification(account_id, &challenge.domain)
                .await?
                .filter(|other| other.holds(self.now_ms()) && other.verified_at_ms >= challenge.created_at_ms)
                .ok_or(VerifyError::ChallengeGone),
            Err(error) => Err(error),
            Ok(_) => Ok(verification),
        }
    }

    /// Gives a domain back: its verification ends now, and its open challenges with it. `false` if
    /// the account has no verification that holds or is suspended. Seen by other processes after
    /// their `cache_ms_max`.
    pub async fn revoke_verification(
        &self,
        account_id: &str,
        actor: &str,
        domain: &Domain,
    ) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let revoked = self
            .timed("revoke_verification", async {
                let mut transaction = self.begin().await?;
                challenge::lock(&mut transaction, account_id).await?;
                let change = "UPDATE domains SET revoked_at_ms = $1
                    WHERE domain = $2 AND account_id = $3 AND revoked_at_ms IS NULL
                        AND COALESCE(suspended_expires_at_ms, expires_at_ms) > $1";
                let change = sqlx::query(change).bind(now_ms).bind(domain.as_str()).bind(account_id);
                if change.execute(&mut *transaction).await?.rows_affected() == 0 {
                    return Ok(false);
                }
                contest::end(&mut transaction, domain.as_str(), now_ms).await?;
                end_challenges(&mut transaction, account_id, domain).await?;
                increment(&mut transaction, registry::RegistrySection::Operators).await?;
                let change = TrailChange {
                    account_id,
                    actor,
                    action: "domain.revoke",
                    subject: domain.as_str(),
                    detail: "",
                    at_ms: now_ms,
                };
                trail::note(&mut transaction, &change).await?;
                transaction.commit().await?;
                Ok(true)
            })
            .await?;
        self.forget(account_id);
        Ok(revoked)
    }

    /// Reads the account's keys again at their next use.
    pub(crate) fn forget(&self, account_id: &str) {
        self.cache.retain(|_, key| !key.is_of(account_id));
    }
}

/// Stores a verification. Returns the domain's owner before, if it had one.
async fn meet(
    transaction: &mut Transaction<'static, Any>,
    actor: &str,
    challenge: &Challenge,
    new: &Verification,
) -> Result<Result<Option<String>, VerifyError>, AccountsError> {
    let (account_id, domain) = (challenge.account_id.as_str(), &challenge.domain);
    challenge::lock(transaction, account_id).await?;
    // Long enough for three daily checks of another account's proof.
    let open = "UPDATE challenges SET expires_at_ms = $1 WHERE id = $2 AND account_id = $3 AND expires_at_ms > $4";
    let open = sqlx::query(open)
        .bind(new.verified_at_ms.saturating_add(challenge::CHALLENGE_MS))
        .bind(&challenge.id)
        .bind(account_id)
        .bind(new.verified_at_ms);
    if open.execute(&mut **transaction).await?.rows_affected() == 0 {
        return Ok(Err(VerifyError::ChallengeGone));
    }
    let owner = sqlx::query_scalar("SELECT account_id FROM domains WHERE domain = $1").bind(domain.as_str());
    let owner: Option<String> = owner.fetch_optional(&mut **transaction).await?;
    let take = "INSERT INTO domains
            (domain, account_id, method, verified_at_ms, expires_at_ms, verification_id, include_subdomains, token_hash,
                proof_next_at_ms, first_verified_at_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $4)
        ON CONFLICT (domain) DO UPDATE SET account_id = excluded.account_id, method = excluded.method,
            verified_at_ms = excluded.verified_at_ms, expires_at_ms = excluded.expires_at_ms,
            verification_id = excluded.verification_id, include_subdomains = excluded.include_subdomains,
            revoked_at_ms = NULL, expiry_noted_at_ms = NULL, token_hash = excluded.token_hash,
            proof_next_at_ms = excluded.proof_next_at_ms, proof_failures = 0, suspended_expires_at_ms = NULL,
            contested_by = NULL
        WHERE domains.account_id = excluded.account_id OR domains.revoked_at_ms IS NOT NULL
            OR domains.expires_at_ms <= excluded.verified_at_ms";
    let take = sqlx::query(take)
        .bind(domain.as_str())
        .bind(account_id)
        .bind(&new.method)
        .bind(new.verified_at_ms)
        .bind(new.expires_at_ms)
        .bind(&new.id)
        .bind(i64::from(new.include_subdomains))
        .bind(challenge.token_hash.to_text())
        .bind(new.verified_at_ms.saturating_add(WEEK_MS));
    if take.execute(&mut **transaction).await?.rows_affected() == 0 {
        contest::begin(transaction, actor, challenge, new.verified_at_ms).await?;
        return Ok(Err(VerifyError::DomainHeld(domain.clone())));
    }
    if held_domains(transaction, account_id, new.verified_at_ms).await? > DOMAINS_MAX {
        return Ok(Err(VerifyError::TooManyDomains));
    }
    store_ancestors(transaction, domain).await?;
    increment(transaction, registry::RegistrySection::Operators).await?;
    end_challenges(transaction, account_id, domain).await?;
    let action = if owner.as_deref() == Some(account_id) {
        "domain.renew"
    } else {
        "domain.verify"
    };
    let detail = format!("{} by {}", new.id, new.method);
    let change = TrailChange {
        account_id,
        actor,
        action,
        subject: domain.as_str(),
        detail: &detail,
        at_ms: new.verified_at_ms,
    };
    trail::note(transaction, &change).await?;
    Ok(Ok(owner))
}

async fn end_challenges(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    domain: &Domain,
) -> Result<(), AccountsError> {
    let end = sqlx::query("DELETE FROM challenges WHERE account_id = $1 AND domain = $2");
    let end = end.bind(account_id).bind(domain.as_str());
    end.execute(&mut **transaction).await?;
    Ok(())
}

/// Reads [`COLUMNS`].
pub(crate) fn read(row: &AnyRow) -> Result<Verification, AccountsError> {
    Ok(Verification {
        domain: row.value("domain")?,
        method: row.value("method")?,
        id: row.value("verification_id")?,
        include_subdomains: row.flag("include_subdomains")?,
        verified_at_ms: row.value("verified_at_ms")?,
        expires_at_ms: row.value("expires_at_ms")?,
        revoked_at_ms: row.value("revoked_at_ms")?,
        suspended_expires_at_ms: row.value("suspended_expires_at_ms")?,
        proof_failures: row.value("proof_failures")?,
        is_contested: row.flag("is_contested")?,
    })
}
