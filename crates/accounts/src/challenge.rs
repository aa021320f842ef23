//! Challenges: a token that whoever runs a domain publishes, to prove it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::api_key::SecretHash;
use crate::lifetime::DAY_MS;
use crate::limits::CHALLENGES_MAX;
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain};

/// Prefix of a token, wherever it is published.
pub const TOKEN_PREFIX: &str = "service-verification=";
/// Time that a token waits to be found, in milliseconds.
pub const CHALLENGE_MS: i64 = 7 * DAY_MS;
/// The most open challenges of one domain: the newest ones. More than one, because a record that is
/// on its way through caches stays good.
pub const CHALLENGES_PER_DOMAIN_MAX: i64 = 5;
const TOKEN_BYTES: usize = 32;

/// Place in which a token is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerificationMethod {
    /// A TXT record at `_service-verification`.
    Dns,
    /// The file `/.well-known/service-verification.txt`.
    Https,
    /// A meta tag in the home page's head.
    Meta,
}

/// Text that names no method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no verification method: dns, https or meta")]
pub struct VerificationMethodError(String);

/// Request for challenges.
#[derive(Debug, Clone)]
pub struct ChallengeRequest<'a> {
    /// For whom.
    pub account_id: &'a str,
    /// Actor in the trail: `key:<id>`.
    pub actor: &'a str,
    /// Each gets a token of its own.
    pub domains: &'a [Domain],
    /// Place in which the tokens will be published.
    pub method: VerificationMethod,
    /// Whether the verifications are to cover subdomains too. `None`: unless the domain is a public
    /// suffix.
    pub include_subdomains: Option<bool>,
}

/// A challenge that waits for its token to be found.
#[derive(Debug, Clone)]
pub struct Challenge {
    pub(crate) id: String,
    pub(crate) account_id: String,
    pub(crate) token_hash: SecretHash,
    /// Domain that is to be proven.
    pub domain: Domain,
    /// Place in which the token will be published.
    pub method: VerificationMethod,
    /// Whether the verification is to cover subdomains too.
    pub include_subdomains: bool,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Until when it can be met.
    pub expires_at_ms: i64,
}

/// A challenge just made, with its token.
#[derive(Clone)]
pub struct IssuedChallenge {
    /// The token with [`TOKEN_PREFIX`]. It can't be had again.
    pub token: String,
    /// The challenge.
    pub challenge: Challenge,
}

impl Challenge {
    /// Whether `token`, as it was found and without [`TOKEN_PREFIX`], is this challenge's. Takes as
    /// long for any token of a length.
    #[must_use]
    pub fn is_met_by(&self, token: &str) -> bool {
        self.token_hash.matches(&SecretHash::of(token.as_bytes()))
    }
}

impl Accounts {
    /// Makes a challenge for each domain. Open ones stay, up to [`CHALLENGES_PER_DOMAIN_MAX`] of a
    /// domain.
    ///
    /// # Errors
    /// [`AccountsError::PublicSuffix`], [`AccountsError::TooManyChallenges`], or the store fails.
    /// On an error the store is unchanged.
    pub async fn create_challenges(
        &self,
        request: &ChallengeRequest<'_>,
    ) -> Result<Vec<IssuedChallenge>, AccountsError> {
        let now_ms = self.now_ms();
        let suffix = request.domains.iter().find(|domain| domain.is_public_suffix());
        if let Some(suffix) = suffix.filter(|_| request.include_subdomains == Some(true)) {
            return Err(AccountsError::PublicSuffix(suffix.to_string()));
        }
        self.timed("create_challenges", async {
            let mut transaction = self.begin().await?;
            lock(&mut transaction, request.account_id).await?;
            let expired = sqlx::query("DELETE FROM challenges WHERE account_id = $1 AND expires_at_ms <= $2");
            expired
                .bind(request.account_id)
                .bind(now_ms)
                .execute(&mut *transaction)
                .await?;
            let mut issued = Vec::with_capacity(request.domains.len());
            for domain in request.domains {
                issued.push(store(&mut transaction, request, domain, now_ms).await?);
            }
            let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM challenges WHERE account_id = $1");
            if count.bind(request.account_id).fetch_one(&mut *transaction).await? > CHALLENGES_MAX {
                return Err(AccountsError::TooManyChallenges);
            }
            transaction.commit().await?;
            Ok(issued)
        })
        .await
    }

    /// The open challenges of an account, for one domain or for all, newest first,
    /// [`CHALLENGES_MAX`] at most.
    pub async fn open_challenges(
        &self,
        account_id: &str,
        domain: Option<&Domain>,
    ) -> Result<Vec<Challenge>, AccountsError> {
        let question =
            "SELECT id, account_id, token_hash, domain, method, include_subdomains, created_at_ms, expires_at_ms
            FROM challenges WHERE account_id = $1 AND (domain = $2 OR $2 = '') AND expires_at_ms > $3
            ORDER BY created_at_ms DESC, id DESC LIMIT $4";
        let question = sqlx::query(question)
            .bind(account_id)
            .bind(domain.map(Domain::as_str).unwrap_or_default())
            .bind(self.now_ms())
            .bind(CHALLENGES_MAX);
        let rows = self
            .timed("open_challenges", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }
}

/// Lets one transaction at a time change an account's challenges and verifications, on either
/// database.
pub(crate) async fn lock(transaction: &mut Transaction<'static, Any>, account_id: &str) -> Result<(), AccountsError> {
    let touch = sqlx::query("UPDATE accounts SET name = name WHERE id = $1").bind(account_id);
    touch.execute(&mut **transaction).await?;
    Ok(())
}

async fn store(
    transaction: &mut Transaction<'static, Any>,
    request: &ChallengeRequest<'_>,
    domain: &Domain,
    now_ms: i64,
) -> Result<IssuedChallenge, AccountsError> {
    let mut secret = [0; TOKEN_BYTES];
    getrandom::fill(&mut secret).map_err(|error| AccountsError::Randomness(error.to_string()))?;
    let token = hex::encode(secret);
    let challenge = Challenge {
        id: format!("chl_{}", Uuid::now_v7().simple()),
        account_id: request.account_id.to_owned(),
        token_hash: SecretHash::of(token.as_bytes()),
        domain: domain.clone(),
        method: request.method,
        include_subdomains: request.include_subdomains.unwrap_or(!domain.is_public_suffix()),
        created_at_ms: now_ms,
        expires_at_ms: now_ms.saturating_add(CHALLENGE_MS),
    };
    let oldest = "DELETE FROM challenges WHERE account_id = $1 AND domain = $2 AND id NOT IN (
            SELECT id FROM challenges WHERE account_id = $1 AND domain = $2 ORDER BY created_at_ms DESC, id DESC LIMIT $3)";
    let oldest = sqlx::query(oldest)
        .bind(request.account_id)
        .bind(domain.as_str())
        .bind(CHALLENGES_PER_DOMAIN_MAX - 1);
    oldest.execute(&mut **transaction).await?;
    let insert = "INSERT INTO challenges
            (id, account_id, domain, method, include_subdomains, token_hash, created_at_ms, expires_at_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let insert = sqlx::query(insert)
        .bind(&challenge.id)
        .bind(request.account_id)
        .bind(domain.as_str())
        .bind(request.method.as_str())
        .bind(i64::from(challenge.include_subdomains))
        .bind(challenge.token_hash.to_text())
        .bind(now_ms)
        .bind(challenge.expires_at_ms);
    insert.execute(&mut **transaction).await?;
    let change = TrailChange {
        account_id: request.account_id,
        actor: request.actor,
        action: "domain.challenge",
        subject: domain.as_str(),
        detail: request.method.as_str(),
        at_ms: now_ms,
    };
    trail::note(transaction, &change).await?;
    Ok(IssuedChallenge {
        token: format!("{TOKEN_PREFIX}{token}"),
        challenge,
    })
}

fn read(row: &AnyRow) -> Result<Challenge, AccountsError> {
    Ok(Challenge {
        id: row.value("id")?,
        account_id: row.value("account_id")?,
        token_hash: row.parsed("token_hash")?,
        domain: row.parsed("domain")?,
        method: row.parsed("method")?,
        include_subdomains: row.flag("include_subdomains")?,
        created_at_ms: row.value("created_at_ms")?,
        expires_at_ms: row.value("expires_at_ms")?,
    })
}

impl VerificationMethod {
    /// `dns`, `https` or `meta`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            VerificationMethod::Dns => "dns",
            VerificationMethod::Https => "https",
            VerificationMethod::Meta => "meta",
        }
    }
}

impl FromStr for VerificationMethod {
    type Err = VerificationMethodError;

    fn from_str(text: &str) -> Result<Self, VerificationMethodError> {
        match text {
            "dns" => Ok(VerificationMethod::Dns),
            "https" => Ok(VerificationMethod::Https),
            "meta" => Ok(VerificationMethod::Meta),
            _ => Err(VerificationMethodError(text.chars().take(32).collect())),
        }
    }
}

impl fmt::Display for VerificationMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for IssuedChallenge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("IssuedChallenge")
            .field("domain", &self.challenge.domain)
            .field("method", &self.challenge.method)
            .finish_non_exhaustive()
    }
}
