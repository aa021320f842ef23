//! Existence of entries, whatever account lists them.

use std::collections::HashMap;

use uuid::Uuid;

use crate::row::RowValues;
use crate::{Accounts, AccountsError};

impl Accounts {
    /// Returns those of `ids` that are entries of any account, with the domains that they are on:
    /// accounts choose IDs by themselves, so entries of several may have the same.
    pub async fn existing_entries(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Vec<String>>, AccountsError> {
        let statement = "SELECT DISTINCT id, domain FROM entries WHERE id IN ({keys})";
        let texts = |id: &Uuid| [id.to_string()];
        let mut existing: HashMap<Uuid, Vec<String>> = HashMap::new();
        for row in self.keyed_rows("existing_entries", statement, ids, texts).await? {
            existing
                .entry(row.parsed("id")?)
                .or_default()
                .push(row.value("domain")?);
        }
        Ok(existing)
    }
}
