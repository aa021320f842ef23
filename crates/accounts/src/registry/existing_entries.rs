//! Existence of entries, whatever account lists them.

use std::collections::HashMap;

use uuid::Uuid;

use super::key_status::padded;
use super::placeholders;
use crate::row::RowValues;
use crate::{Accounts, AccountsError};

/// IDs in one statement. Every statement has this many placeholders.
const IDS_PER_STATEMENT: usize = 256;

impl Accounts {
    /// Returns those of `ids` that are entries of any account, with the domains that they are on:
    /// accounts choose IDs by themselves, so entries of several may have the same.
    pub async fn existing_entries(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Vec<String>>, AccountsError> {
        let mut existing: HashMap<Uuid, Vec<String>> = HashMap::new();
        for chunk in ids.chunks(IDS_PER_STATEMENT) {
            let statement = format!(
                "SELECT DISTINCT id, domain FROM entries WHERE id IN ({})",
                placeholders(IDS_PER_STATEMENT, 1)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            // The last ID fills the placeholders that are left.
            for id in padded(chunk, IDS_PER_STATEMENT) {
                query = query.bind(id.to_string());
            }
            let work = async { Ok(query.fetch_all(&self.pool).await?) };
            for row in self.timed("existing_entries", work).await? {
                existing
                    .entry(row.parsed("id")?)
                    .or_default()
                    .push(row.value("domain")?);
            }
        }
        Ok(existing)
    }
}
