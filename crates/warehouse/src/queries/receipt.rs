//! What became of one receipt.

use uuid::Uuid;

use super::Scope;
use crate::{Warehouse, WarehouseError};

/// One payload stored under a receipt's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// In how many places of the log it stands: 1 is `verified`, each further one a `duplicate`.
    pub occurrences: u64,
    /// The first of those places.
    pub first_position: u128,
    /// When the gateway first took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The receipt's own timestamp, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `content.publisher`.
    pub publisher: String,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `client.id`.
    pub client_id: Uuid,
    /// `usage.purpose`.
    pub purpose: String,
    /// `signatureAlgorithm`.
    pub algorithm: String,
}

/// One refusal of something that carries a receipt's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedReceipt {
    /// The reason, from the closed list in ARCHITECTURE.md.
    pub reason: String,
    /// What exactly was found.
    pub detail: String,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// Where in the log it stands.
    pub position: u128,
    /// The publisher it names.
    pub publisher: String,
}

/// All that is known of a receipt's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptFacts {
    /// Valid payloads in order of their first position, at most 100. More than one hash is a conflict.
    pub stored: Vec<StoredReceipt>,
    /// Refusals in log order, at most 100.
    pub rejected: Vec<RejectedReceipt>,
}

impl ReceiptFacts {
    /// Whether two different payloads carry this id.
    #[must_use]
    pub fn conflict(&self) -> bool {
        self.stored
            .iter()
            .any(|one| one.payload_hash != self.stored[0].payload_hash)
    }
}

impl Warehouse {
    /// Everything stored or refused under one receipt id.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn receipt(&self, _scope: &Scope, _receipt_id: Uuid) -> Result<ReceiptFacts, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
