//! Published proofs, which are checked again every week, and every day while another account
//! contests the domain: found, missing, and what follows.
//!
//! A domain whose proof is missing [`SUSPENDED_AFTER`] times in a row is suspended: its
//! verification ends now, so that everything that looks at its end treats it as expired, and its
//! own end is stored beside it for the day on which the proof is found again. Each result is stored
//! only if the proof is still due as it was read, so that a step done twice counts once.

use sqlx::any::AnyRow;

use crate::api_key::SecretHash;
use crate::lifetime::{DAY_MS, HOUR_MS, WEEK_MS};
use crate::registry::{self, increment};
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain, MailKind, VerificationMethod, contest, mail};

/// Consecutive checks without the proof after which a domain is suspended.
pub const SUSPENDED_AFTER: i64 = 3;
/// Until the next check of a proof that is missing.
const MISSING_MS: i64 = DAY_MS;
/// Until the next check of a proof that is found, of a domain that another account contests.
const CONTESTED_MS: i64 = DAY_MS;
/// Until the next check of a proof that couldn't be read.
const POSTPONED_MS: i64 = HOUR_MS;
/// The longest reason in the trail, in characters.
const PROBLEM_CHARS_MAX: usize = 200;

/// The token that proved a domain, and where it was published.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The proven domain.
    pub domain: Domain,
    /// Owner of the domain.
    pub account_id: String,
    /// The location of the token.
    pub method: VerificationMethod,
    verification_id: String,
    token_hash: SecretHash,
    next_at_ms: i64,
}

impl Proof {
    /// Whether `token`, as it was found and without [`crate::TOKEN_PREFIX`], is the one that proved
    /// the domain.
    #[must_use]
    pub fn is_met_by(&self, token: &str) -> bool {
        self.token_hash.matches(&SecretHash::of(token.as_bytes()))
    }
}

/// The columns that [`read`] reads, of the domains that the rest of the statement names. What was
/// proven before tokens were stored, and what the operator vouched for, has no proof that could be
/// checked again.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT domain, account_id, method, verification_id, token_hash, proof_next_at_ms FROM domains
                WHERE token_hash IS NOT NULL AND proof_next_at_ms IS NOT NULL AND revoked_at_ms IS NULL
                AND COALESCE(suspended_expires_at_ms, expires_at_ms) > $1 AND ",
            $rest
        )
    };
}

impl Accounts {
    /// The proofs that are to be checked now, those that have waited longest first, at most
    /// `proofs_max`. Suspended domains are among them.
    pub async fn due_proofs(&self, proofs_max: i64) -> Result<Vec<Proof>, AccountsError> {
        let query = select!("proof_next_at_ms <= $1 ORDER BY proof_next_at_ms, domain LIMIT $2");
        let query = sqlx::query(query).bind(self.now_ms()).bind(proofs_max);
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("due_proofs", work).await?;
        rows.iter().map(read).collect()
    }

    /// Proofs by one of two methods that aren't due and were found last time, the latest first, at
    /// most `proofs_max`. A service that finds none of them has a broken network, rather than so
    /// many domains without a proof.
    pub async fn witness_proofs(
        &self,
        methods: [VerificationMethod; 2],
        proofs_max: i64,
    ) -> Result<Vec<Proof>, AccountsError> {
        let query = select!(
            "proof_next_at_ms > $1 AND proof_failures = 0 AND suspended_expires_at_ms IS NULL
             AND method IN ($2, $3) ORDER BY proof_next_at_ms DESC, domain LIMIT $4"
        );
        let query = sqlx::query(query).bind(self.now_ms());
        let query = methods.iter().fold(query, |query, method| query.bind(method.as_str()));
        let query = query.bind(proofs_max);
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("witness_proofs", work).await?;
        rows.iter().map(read).collect()
    }

    /// The proof of a domain, due or not, whoever owns it. `None` if there is none that could be
    /// checked again, or the verification was given back or is past its end.
    pub async fn proof(&self, domain: &Domain) -> Result<Option<Proof>, AccountsError> {
        let query = sqlx::query(select!("domain = $2"));
        let query = query.bind(self.now_ms()).bind(domain.as_str());
        let work = async { Ok(query.fetch_optional(&self.pool).await?) };
        let row = self.timed("proof", work).await?;
        row.as_ref().map(read).transpose()
    }

    /// Notes that a proof is published: failures are forgotten, and a suspended domain is verified
    /// again until its own end. `false` if the proof isn't the domain's any more.
    ///
    /// # Errors
    /// The store fails. Nothing is changed then.
    pub async fn proof_found(&self, proof: &Proof, actor: &str) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let done = self.timed("proof_found", async {
            let mut transaction = self.begin().await?;
            let hold = "UPDATE domains SET proof_failures = 0,
                    proof_next_at_ms = CASE WHEN contested_by IS NULL THEN $1 ELSE $2 END
                WHERE domain = $3 AND verification_id = $4 AND revoked_at_ms IS NULL
                    AND COALESCE(suspended_expires_at_ms, expires_at_ms) > $5";
            let hold = sqlx::query(hold)
                .bind(now_ms.saturating_add(WEEK_MS))
                .bind(now_ms.saturating_add(CONTESTED_MS))
                .bind(proof.domain.as_str())
                .bind(&proof.verification_id)
                .bind(now_ms);
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let restore = "UPDATE domains SET expires_at_ms = suspended_expires_at_ms, suspended_expires_at_ms = NULL,
                    expiry_noted_at_ms = NULL
                WHERE domain = $1 AND suspended_expires_at_ms IS NOT NULL";
            let restore = sqlx::query(restore).bind(proof.domain.as_str());
            if restore.execute(&mut *transaction).await?.rows_affected() > 0 {
                increment(&mut transaction, registry::RegistrySection::Operators).await?;
                let change = proof.change(actor, "domain.restore", "", now_ms);
                trail::note(&mut transaction, &change).await?;
            }
            transaction.commit().await?;
            Ok(true)
        });
        let done = done.await?;
        self.forget(&proof.account_id);
        Ok(done)
    }

    /// Notes that a due proof isn't published. `true` if its domain is suspended for that now,
    /// which is mailed to its owner, and to the account that contests it.
    ///
    /// # Errors
    /// The store fails. Nothing is changed then.
    pub async fn proof_missing(&self, proof: &Proof, problem: &str) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let suspended = self.timed("proof_missing", async {
            let mut transaction = self.begin().await?;
            let count = "UPDATE domains SET proof_failures = proof_failures + 1, proof_next_at_ms = $1
                WHERE domain = $2 AND verification_id = $3 AND proof_next_at_ms = $4";
            let count = sqlx::query(count)
                .bind(now_ms.saturating_add(MISSING_MS))
                .bind(proof.domain.as_str())
                .bind(&proof.verification_id)
                .bind(proof.next_at_ms);
            if count.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let suspend = "UPDATE domains SET suspended_expires_at_ms = expires_at_ms, expires_at_ms = $1, expiry_noted_at_ms = $1
                WHERE domain = $2 AND proof_failures >= $3 AND suspended_expires_at_ms IS NULL AND expires_at_ms > $1
                    AND revoked_at_ms IS NULL";
            let suspend = sqlx::query(suspend)
                .bind(now_ms)
                .bind(proof.domain.as_str())
                .bind(SUSPENDED_AFTER);
            let suspended = suspend.execute(&mut *transaction).await?.rows_affected() > 0;
            if suspended {
                increment(&mut transaction, registry::RegistrySection::Operators).await?;
                let problem: String = problem.chars().take(PROBLEM_CHARS_MAX).collect();
                let change = proof.change("service", "domain.suspend", &problem, now_ms);
                trail::note(&mut transaction, &change).await?;
                // A domain may be suspended more than once, and each time is mailed.
                let (kind, about) = (MailKind::Suspended, proof.verification_id.as_str());
                let id = format!("{about}.{kind}.{now_ms}");
                mail::queue(&mut transaction, &id, &proof.account_id, kind, proof.domain.as_str(), about, now_ms).await?;
                contest::end(&mut transaction, proof.domain.as_str(), now_ms).await?;
            }
            transaction.commit().await?;
            Ok(suspended)
        });
        let suspended = suspended.await?;
        if suspended {
            self.forget(&proof.account_id);
        }
        Ok(suspended)
    }

    /// Notes that a due proof couldn't be read, for no fault of its domain: it is due again
    /// in an hour.
    pub async fn proof_postponed(&self, proof: &Proof) -> Result<(), AccountsError> {
        let change = "UPDATE domains SET proof_next_at_ms = $1
            WHERE domain = $2 AND verification_id = $3 AND proof_next_at_ms = $4";
        let change = sqlx::query(change)
            .bind(self.now_ms().saturating_add(POSTPONED_MS))
            .bind(proof.domain.as_str())
            .bind(&proof.verification_id)
            .bind(proof.next_at_ms);
        let work = async { Ok(change.execute(&self.pool).await?) };
        self.timed("proof_postponed", work).await?;
        Ok(())
    }
}

impl Proof {
    fn change<'a>(&'a self, actor: &'a str, action: &'a str, detail: &'a str, at_ms: i64) -> TrailChange<'a> {
        TrailChange {
            account_id: &self.account_id,
            actor,
            action,
            subject: self.domain.as_str(),
            detail,
            at_ms,
        }
    }
}

fn read(row: &AnyRow) -> Result<Proof, AccountsError> {
    Ok(Proof {
        domain: row.parsed("domain")?,
        account_id: row.value("account_id")?,
        method: row.parsed("method")?,
        verification_id: row.value("verification_id")?,
        token_hash: row.parsed("token_hash")?,
        next_at_ms: row.value("proof_next_at_ms")?,
    })
}
