//! Status of a client's key in the registry.

use std::collections::{BTreeSet, HashMap};

use receipt::RejectReason;

use crate::row::RowValues;
use crate::{Accounts, AccountsError, ClientKey};

/// Status of a key for a client ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// The key is registered.
    Registered,
    /// The key is revoked for everything received from this time on, in milliseconds since the
    /// Unix epoch.
    RevokedFrom(i64),
    /// The registry has no such key.
    Unregistered,
}

impl KeyStatus {
    /// Returns why a receipt with the key is rejected where clients must be registered, if it
    /// arrived at `received_at_ms`, in milliseconds since the Unix epoch; `None` if it counts.
    #[must_use]
    pub fn rejection(self, received_at_ms: i64) -> Option<RejectReason> {
        match self {
            Self::Registered => None,
            Self::RevokedFrom(from_ms) => (received_at_ms >= from_ms).then_some(RejectReason::ClientKeyRevoked),
            Self::Unregistered => Some(RejectReason::ClientKeyUnknown),
        }
    }
}

impl Accounts {
    /// Reads the status of each of `keys`, in their order.
    pub async fn client_key_statuses(&self, keys: &[ClientKey]) -> Result<Vec<KeyStatus>, AccountsError> {
        let distinct: Vec<ClientKey> = keys.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let statement = "SELECT client_id, fingerprint, revoked_from_ms FROM client_keys
             WHERE (client_id, fingerprint) IN (VALUES {keys})";
        let texts = |key: &ClientKey| [key.client_id.to_string(), key.fingerprint.to_string()];
        let mut found = HashMap::new();
        for row in self
            .keyed_rows("client_key_statuses", statement, &distinct, texts)
            .await?
        {
            let key = ClientKey {
                client_id: row.parsed("client_id")?,
                fingerprint: row.parsed("fingerprint")?,
            };
            let status = match row.value::<Option<i64>>("revoked_from_ms")? {
                None => KeyStatus::Registered,
                Some(from_ms) => KeyStatus::RevokedFrom(from_ms),
            };
            found.insert(key, status);
        }
        let status = |key| found.get(key).copied().unwrap_or(KeyStatus::Unregistered);
        Ok(keys.iter().map(status).collect())
    }
}
