//! Verified domains: taking, renewing and giving back what was proven.

use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::coverage::ancestors;
use crate::{AccountsError, Domain};

/// An identifier for a new verification.
pub(crate) fn new_id() -> String {
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
