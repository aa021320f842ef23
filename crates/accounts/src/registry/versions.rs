//! Versions of the registry: counters for the invalidation of caches.

use sqlx::{Any, Transaction};

use crate::{Accounts, AccountsError};

/// Part of the registry with a version of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrySection {
    /// Client keys.
    Clients,
    /// Entries.
    Entries,
    /// Operators, their keys and claims, and domains.
    Operators,
}

impl RegistrySection {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Entries => "entries",
            Self::Operators => "operators",
        }
    }
}

/// Numbers of the last committed changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegistryVersions {
    /// Changes of client keys.
    pub clients: i64,
    /// Creations and deletions of entries.
    pub entries: i64,
    /// Changes of operators' keys and claims, and of verified domains.
    pub operators: i64,
}

impl RegistryVersions {
    /// The version of a section.
    pub(crate) fn of(&self, section: RegistrySection) -> i64 {
        match section {
            RegistrySection::Clients => self.clients,
            RegistrySection::Entries => self.entries,
            RegistrySection::Operators => self.operators,
        }
    }
}

impl Accounts {
    /// Reads the present versions.
    pub async fn registry_versions(&self) -> Result<RegistryVersions, AccountsError> {
        let query = sqlx::query_as("SELECT subject, number FROM registry_versions");
        let work = async { Ok(query.fetch_all(&self.pool).await?) };
        let mut versions = RegistryVersions::default();
        let rows: Vec<(String, i64)> = self.timed("registry_versions", work).await?;
        for (subject, number) in rows {
            if subject == RegistrySection::Clients.as_str() {
                versions.clients = number;
            } else if subject == RegistrySection::Entries.as_str() {
                versions.entries = number;
            } else if subject == RegistrySection::Operators.as_str() {
                versions.operators = number;
            }
        }
        Ok(versions)
    }
}

/// Takes the subject's next version for a change in this transaction. Until the transaction ends,
/// it holds a lock on the subject: other changes wait, and readers see the new version together
/// with the change.
pub(crate) async fn increment(
    transaction: &mut Transaction<'static, Any>,
    subject: RegistrySection,
) -> Result<(), AccountsError> {
    let update = "UPDATE registry_versions SET number = number + 1 WHERE subject = $1";
    let update = sqlx::query(update).bind(subject.as_str());
    update.execute(&mut **transaction).await?;
    Ok(())
}
