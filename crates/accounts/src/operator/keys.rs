//! Keys of operators, in periods.

use std::str::FromStr;

use sqlx::{Any, Transaction};

use super::{Operator, OperatorError, note};
use crate::registry::{RegistrySection, increment};
use crate::row::RowValues;
use crate::{Accounts, AccountsError, Fingerprint};

/// The most keys of an operator that are open.
pub const OPERATOR_KEYS_MAX: i64 = 100;
/// The longest PEM, in bytes.
pub(super) const PEM_BYTES_MAX: usize = 4_096;

/// Source of an operator's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The key directory at the operator's domain.
    Directory,
    /// The API, with a request that the key signed.
    Registered,
    /// Whoever runs the deployment.
    Deployment,
}

impl KeySource {
    /// The word of the interface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Registered => "registered",
            Self::Deployment => "deployment",
        }
    }
}

impl FromStr for KeySource {
    type Err = AccountsError;

    fn from_str(text: &str) -> Result<Self, AccountsError> {
        let existing = [Self::Directory, Self::Registered, Self::Deployment];
        let found = existing.into_iter().find(|source| source.as_str() == text);
        found.ok_or_else(|| AccountsError::Store(format!("`{text}` is no source of a key")))
    }
}

/// A key whose possession an operator has proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperatorKey {
    /// SHA-256 of the SPKI DER.
    pub fingerprint: Fingerprint,
    /// RFC 7638 thumbprint with SHA-256, base64url without padding.
    pub thumbprint: String,
    /// SPKI in PEM.
    pub pem: String,
    /// `Ed25519`, `RSA-2048` or `ECDSA-P256`.
    pub algorithm: String,
    /// Source.
    pub source: KeySource,
}

/// A key in one of its periods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorKey {
    /// The key.
    pub key: NewOperatorKey,
    /// Begin of the period, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// End of the period; `None` while it is open.
    pub until_ms: Option<i64>,
}

impl Accounts {
    /// Begins a period of a key, now. `false` if the operator has the key already.
    ///
    /// # Errors
    /// [`OperatorError`]; nothing is changed then.
    pub async fn add_operator_key(
        &self,
        operator: &Operator,
        actor: &str,
        key: &NewOperatorKey,
    ) -> Result<bool, OperatorError> {
        if key.pem.len() > PEM_BYTES_MAX {
            return Err(OperatorError::KeyTooLong);
        }
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Operators).await?;
            let id = operator.id.to_string();
            if let Some(holder) = self.holder(&mut transaction, key.fingerprint).await? {
                return Ok(if holder == id {
                    Ok(false)
                } else {
                    Err(OperatorError::KeyHeldElsewhere)
                });
            }
            // Periods of a key don't overlap, and two of one millisecond would have the same key.
            let last = "SELECT COALESCE(MAX(until_ms), 0) FROM operator_keys WHERE fingerprint = $1";
            let last = sqlx::query_scalar(last).bind(key.fingerprint.to_string());
            let last: i64 = last.fetch_one(&mut *transaction).await?;
            let from_ms = self.now_ms().max(last + 1);
            let insert = "INSERT INTO operator_keys
                    (operator_id, fingerprint, from_ms, thumbprint, pem, algorithm, source)
                VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let insert = sqlx::query(insert).bind(&id).bind(key.fingerprint.to_string());
            let insert = insert.bind(from_ms).bind(&key.thumbprint).bind(&key.pem);
            let insert = insert.bind(&key.algorithm).bind(key.source.as_str());
            insert.execute(&mut *transaction).await?;
            let count = "SELECT COUNT(*) FROM operator_keys WHERE operator_id = $1 AND until_ms IS NULL";
            let count = sqlx::query_scalar::<_, i64>(count).bind(&id);
            if count.fetch_one(&mut *transaction).await? > OPERATOR_KEYS_MAX {
                return Ok(Err(OperatorError::TooManyKeys));
            }
            let detail = format!("{} {}", key.source.as_str(), key.fingerprint);
            note(&mut transaction, operator, actor, "operator.key.add", &detail, from_ms).await?;
            transaction.commit().await?;
            Ok(Ok(true))
        };
        self.timed("operator_key_add", work).await?
    }

    /// Ends the open period of an operator's key, now. `false` if it has none.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn end_operator_key(
        &self,
        operator: &Operator,
        actor: &str,
        key: Fingerprint,
    ) -> Result<bool, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Operators).await?;
            let now_ms = self.now_ms();
            if !end_period(&mut transaction, &operator.id.to_string(), key, now_ms).await? {
                return Ok(false);
            }
            let detail = key.to_string();
            note(&mut transaction, operator, actor, "operator.key.end", &detail, now_ms).await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("operator_key_end", work).await
    }

    /// Returns the periods of an operator's keys: those that are open, then the others, each newest
    /// first, at most 1,000.
    pub async fn operator_keys(&self, operator: &Operator) -> Result<Vec<OperatorKey>, AccountsError> {
        let query = "SELECT fingerprint, thumbprint, pem, algorithm, source, from_ms, until_ms FROM operator_keys
            WHERE operator_id = $1
            ORDER BY CASE WHEN until_ms IS NULL THEN 0 ELSE 1 END, from_ms DESC, fingerprint LIMIT 1000";
        let query = sqlx::query(query).bind(operator.id.to_string());
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let rows = self.timed("operator_keys", work).await?;
        let key = |row: &sqlx::any::AnyRow| {
            Ok(OperatorKey {
                key: NewOperatorKey {
                    fingerprint: row.parsed("fingerprint")?,
                    thumbprint: row.value("thumbprint")?,
                    pem: row.value("pem")?,
                    algorithm: row.value("algorithm")?,
                    source: row.parsed("source")?,
                },
                from_ms: row.value("from_ms")?,
                until_ms: row.value("until_ms")?,
            })
        };
        rows.iter().map(key).collect()
    }

    /// The operator that has a key now. The period of an operator whose domain isn't proven any
    /// more ends here: an account that lost its domain can't keep the domain's keys from the new
    /// owner.
    async fn holder(
        &self,
        transaction: &mut Transaction<'static, Any>,
        key: Fingerprint,
    ) -> Result<Option<String>, AccountsError> {
        let query = "SELECT operator_id FROM operator_keys WHERE fingerprint = $1 AND until_ms IS NULL";
        let query = sqlx::query_scalar(query).bind(key.to_string());
        let Some(holder): Option<String> = query.fetch_optional(&mut **transaction).await? else {
            return Ok(None);
        };
        let now_ms = self.now_ms();
        let proven = "SELECT 1 FROM operators JOIN domains
                ON domains.domain = operators.domain AND domains.account_id = operators.account_id
            WHERE operators.operator_id = $1 AND domains.revoked_at_ms IS NULL AND domains.expires_at_ms > $2";
        let proven = sqlx::query(proven).bind(&holder).bind(now_ms);
        if proven.fetch_optional(&mut **transaction).await?.is_some() {
            return Ok(Some(holder));
        }
        end_period(transaction, &holder, key, now_ms).await?;
        Ok(None)
    }
}

/// Ends the open period of an operator's key. `false` if it has none.
async fn end_period(
    transaction: &mut Transaction<'static, Any>,
    operator_id: &str,
    key: Fingerprint,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    // A period can't end before it begins, where clocks differ.
    let end = "UPDATE operator_keys SET until_ms = CASE WHEN from_ms > $1 THEN from_ms ELSE $1 END
        WHERE operator_id = $2 AND fingerprint = $3 AND until_ms IS NULL";
    let end = sqlx::query(end).bind(now_ms).bind(operator_id).bind(key.to_string());
    Ok(end.execute(&mut **transaction).await?.rows_affected() > 0)
}
