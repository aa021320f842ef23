//! Rows of domains: what verifications, transfers and keys of publishers share.

use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::coverage::ancestors;
use crate::{AccountsError, Domain};

/// Counts an account's domains that hold at `now_ms`: ended ones aren't counted.
pub(crate) async fn held_domains(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    now_ms: i64,
) -> Result<i64, AccountsError> {
    let question =
        "SELECT COUNT(*) FROM domains WHERE account_id = $1 AND revoked_at_ms IS NULL AND expires_at_ms > $2";
    let question = sqlx::query_scalar(question).bind(account_id).bind(now_ms);
    Ok(question.fetch_one(&mut **transaction).await?)
}

/// An identifier for a new verification.
pub(crate) fn new_verification_id() -> String {
    format!("ver_{}", Uuid::now_v7().simple())
}

/// Notes which names are above `domain`, for finding who has verified something below them.
pub(crate) async fn store_ancestors(
    transaction: &mut Transaction<'static, Any>,
    domain: &Domain,
) -> Result<(), AccountsError> {
    for ancestor in ancestors(domain.as_str()) {
        let insert =
            "INSERT INTO domain_ancestors (ancestor, domain) VALUES ($1, $2) ON CONFLICT (ancestor, domain) DO NOTHING";
        let insert = sqlx::query(insert).bind(ancestor).bind(domain.as_str());
        insert.execute(&mut **transaction).await?;
    }
    Ok(())
}
