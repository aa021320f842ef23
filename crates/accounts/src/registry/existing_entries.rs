//! Existence of entries, whatever account lists them.

use std::collections::HashSet;

use sqlx::Row;
use uuid::Uuid;

use super::key_status::padded;
use super::placeholders;
use crate::{Accounts, AccountsError};

/// IDs in one statement. Every statement has this many placeholders.
const IDS_PER_STATEMENT: usize = 256;

impl Accounts {
    /// Returns those of `ids` that are entries of any account.
    ///
    /// # Errors
    /// The store fails.
    pub async fn existing_entries(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, AccountsError> {
        let mut existing = HashSet::new();
        for chunk in ids.chunks(IDS_PER_STATEMENT) {
            let statement = format!(
                "SELECT DISTINCT id FROM entries WHERE id IN ({})",
                placeholders(IDS_PER_STATEMENT, 1)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            // The last ID fills the placeholders that are left.
            for id in padded(chunk, IDS_PER_STATEMENT) {
                query = query.bind(id.to_string());
            }
            let work = async { Ok(query.fetch_all(&self.pool).await?) };
            for row in self.timed("existing_entries", work).await? {
                let id: &str = row.try_get(0)?;
                let id = id.parse();
                existing.insert(id.map_err(|_| AccountsError::Store("an entry's ID isn't a UUID".to_owned()))?);
            }
        }
        Ok(existing)
    }
}
