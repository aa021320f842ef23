//! What was refused and why.

use uuid::Uuid;

use super::Scope;
use crate::{Warehouse, WarehouseError};

/// One refused receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Where in the log it stands.
    pub position: u128,
    /// The reason, from the closed list in ARCHITECTURE.md.
    pub reason: String,
    /// What exactly was found.
    pub detail: String,
    /// The publisher it names.
    pub publisher: String,
    /// The id it names.
    pub receipt_id: Option<Uuid>,
    /// The client it names.
    pub client_id: Option<Uuid>,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The request's id.
    pub request_id: String,
}

/// Refusals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusalStats {
    /// Counts per reason, most first, then by name.
    pub by_reason: Vec<(String, u64)>,
    /// The newest, newest first.
    pub newest: Vec<Refusal>,
}

impl Warehouse {
    /// Refusals received in `[from_ms, to_ms)`, and at most `newest_max` of them in full.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn refusals(
        &self,
        _scope: &Scope,
        _from_ms: i64,
        _to_ms: i64,
        _newest_max: u32,
    ) -> Result<RefusalStats, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
