//! AI operators: accounts that have proven a domain, the keys that were theirs in periods, and the
//! client IDs that they claim.
//!
//! A receipt's stamp depends on its arrival, so periods are history: they begin and end at the time
//! of the change, and are never deleted or moved. A lapsed domain counts as the end of all periods.

mod claims;
mod directory;
mod keys;

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain};

pub use claims::OPERATOR_CLIENTS_MAX;
pub use directory::{DirectoryState, DueDirectory};
use keys::PEM_BYTES_MAX;
pub use keys::{KeySource, NewOperatorKey, OPERATOR_KEYS_MAX, OperatorKey};

/// The most operators of an account.
pub const OPERATORS_MAX: i64 = 100;

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// ID of the mail.
    pub id: Uuid,
    /// The account whose domain it is.
    pub account_id: String,
    /// The proven domain.
    pub domain: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Whether the account's verification of the domain holds. Without it no receipt is proven.
    pub is_domain_proven: bool,
    /// State of the key directory.
    pub directory: DirectoryState,
}

/// Why an operator isn't created or changed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The account's verification of the domain doesn't hold.
    #[error("the account hasn't verified {0}: verify the domain first")]
    DomainNotProven(Domain),
    /// The account has as many operators as it may have.
    #[error("the account has {OPERATORS_MAX} operators, as many as it may have")]
    TooMany,
    /// Another operator has the key.
    #[error("another operator has this key: it must end its period there first, or you sign with a key of your own")]
    KeyHeldElsewhere,
    /// The operator has as many open keys as it may have.
    #[error("the operator has {OPERATOR_KEYS_MAX} keys, as many as it may have: end the period of one first")]
    TooManyKeys,
    /// The operator claims as many client IDs as it may.
    #[error("the operator claims {OPERATOR_CLIENTS_MAX} client IDs, as many as it may: release one first")]
    TooManyClients,
    /// The PEM is longer than any key's.
    #[error("a public key in PEM has at most {PEM_BYTES_MAX} bytes")]
    KeyTooLong,
    /// The store fails.
    #[error(transparent)]
    Store(#[from] AccountsError),
}

const COLUMNS: &str = "operators.operator_id, operators.account_id, operators.domain, operators.created_at_ms,
    CASE WHEN domains.revoked_at_ms IS NULL AND domains.expires_at_ms > $1 THEN 1 ELSE 0 END AS is_domain_proven,
    operators.directory_at_ms, operators.directory_next_at_ms, operators.directory_failures,
    operators.directory_failure";
const TABLES: &str = "operators LEFT JOIN domains
    ON domains.domain = operators.domain AND domains.account_id = operators.account_id";

impl Accounts {
    /// Makes an account the operator of its proven domain. An operator that exists is returned.
    ///
    /// # Errors
    /// [`OperatorError`]; nothing is changed then.
    pub async fn create_operator(
        &self,
        account_id: &str,
        actor: &str,
        domain: &Domain,
    ) -> Result<Operator, OperatorError> {
        let now_ms = self.now_ms();
        let created = self
            .timed("operator_create", async {
                let mut transaction = self.begin().await?;
                if !is_proven(&mut transaction, account_id, domain, now_ms).await? {
                    return Ok(Err(OperatorError::DomainNotProven(domain.clone())));
                }
                let insert = "INSERT INTO operators (operator_id, account_id, domain, created_at_ms, directory_at_ms,
                        directory_next_at_ms, directory_etag, directory_failures, directory_failure)
                    VALUES ($1, $2, $3, $4, 0, $4, '', 0, '') ON CONFLICT (account_id, domain) DO NOTHING";
                let id = Uuid::now_v7().to_string();
                let insert = sqlx::query(insert).bind(&id).bind(account_id);
                let insert = insert.bind(domain.as_str()).bind(now_ms);
                if insert.execute(&mut *transaction).await?.rows_affected() == 0 {
                    return Ok(Ok(()));
                }
                let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM operators WHERE account_id = $1")
                    .bind(account_id);
                if count.fetch_one(&mut *transaction).await? > OPERATORS_MAX {
                    return Ok(Err(OperatorError::TooMany));
                }
                let change = TrailChange {
                    account_id,
                    actor,
                    action: "operator.create",
                    subject: &id,
                    detail: domain.as_str(),
                    at_ms: now_ms,
                };
                trail::note(&mut transaction, &change).await?;
                transaction.commit().await?;
                Ok(Ok(()))
            })
            .await?;
        created?;
        let operators = self.operators(Some(account_id)).await?;
        let created = operators.into_iter().find(|one| one.domain == domain.as_str());
        created.ok_or_else(|| AccountsError::Store("the new operator is gone".to_owned()).into())
    }

    /// Returns the account whose verification of a domain holds.
    pub async fn domain_account(&self, domain: &Domain) -> Result<Option<String>, AccountsError> {
        let query = "SELECT account_id FROM domains
            WHERE domain = $1 AND revoked_at_ms IS NULL AND expires_at_ms > $2";
        let query = sqlx::query_scalar(query).bind(domain.as_str()).bind(self.now_ms());
        let work = async { Ok(query.fetch_optional(&self.pool).await?) };
        self.timed("domain_account", work).await
    }

    /// Returns the operators of an account or of all, by domain, at most 10,000.
    pub async fn operators(&self, account_id: Option<&str>) -> Result<Vec<Operator>, AccountsError> {
        let query = format!(
            "SELECT {COLUMNS} FROM {TABLES} WHERE operators.account_id = $2 OR $2 = ''
             ORDER BY operators.domain, operators.operator_id LIMIT 10000"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(self.now_ms());
        let query = query.bind(account_id.unwrap_or_default());
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        self.timed("operators", work).await?.iter().map(read).collect()
    }

    /// Returns an operator; of an account, if one is given.
    pub async fn operator(&self, id: Uuid, account_id: Option<&str>) -> Result<Option<Operator>, AccountsError> {
        let query = format!("SELECT {COLUMNS} FROM {TABLES} WHERE operators.operator_id = $2");
        let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(self.now_ms());
        let query = query.bind(id.to_string());
        let work = async { Ok(query.fetch_optional(&self.pool).await?) };
        let found = self.timed("operator", work).await?;
        let found = found.as_ref().map(read).transpose()?;
        Ok(found.filter(|one| account_id.is_none_or(|account_id| one.account_id == account_id)))
    }
}

impl Accounts {
    /// Records that stored receipts of an operator's key get another operator.
    pub async fn note_reattribution(
        &self,
        operator: &Operator,
        actor: &str,
        detail: &str,
    ) -> Result<(), AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let action = "operator.key.reattribute";
            note(&mut transaction, operator, actor, action, detail, self.now_ms()).await?;
            transaction.commit().await?;
            Ok(())
        };
        self.timed("operator_reattribution_note", work).await
    }
}

async fn is_proven(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    domain: &Domain,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let query = "SELECT 1 FROM domains
        WHERE domain = $1 AND account_id = $2 AND revoked_at_ms IS NULL AND expires_at_ms > $3";
    let query = sqlx::query(query).bind(domain.as_str()).bind(account_id).bind(now_ms);
    Ok(query.fetch_optional(&mut **transaction).await?.is_some())
}

/// Adds a change of an operator to its account's trail.
async fn note(
    transaction: &mut Transaction<'static, Any>,
    operator: &Operator,
    actor: &str,
    action: &str,
    detail: &str,
    at_ms: i64,
) -> Result<(), AccountsError> {
    let change = TrailChange {
        account_id: &operator.account_id,
        actor,
        action,
        subject: &operator.id.to_string(),
        detail,
        at_ms,
    };
    trail::note(transaction, &change).await
}

fn read(row: &AnyRow) -> Result<Operator, AccountsError> {
    Ok(Operator {
        id: row.parsed("operator_id")?,
        account_id: row.value("account_id")?,
        domain: row.value("domain")?,
        created_at_ms: row.value("created_at_ms")?,
        is_domain_proven: row.flag("is_domain_proven")?,
        directory: DirectoryState {
            fetched_at_ms: row.value("directory_at_ms")?,
            next_at_ms: row.value("directory_next_at_ms")?,
            failures: u32::try_from(row.value::<i64>("directory_failures")?).unwrap_or(u32::MAX),
            failure: row.value("directory_failure")?,
        },
    })
}
