//! One entry's usage.

use uuid::Uuid;

use super::{Filter, Scope, UsageByPurpose};
use crate::{Warehouse, WarehouseError};

/// One client and how much it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopClient {
    /// `client.id`.
    pub client_id: Uuid,
    /// `client.name` of its newest receipt.
    pub name: String,
    /// `client.organization` of its newest receipt.
    pub organization: String,
    /// Receipts.
    pub receipt_count: u64,
}

/// One entry's usage. All zero and empty if it was never used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentStats {
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct clients.
    pub unique_clients: u64,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
    /// The clients that used it most.
    pub top_clients: Vec<TopClient>,
    /// The first receipt's timestamp, milliseconds since the Unix epoch.
    pub first_seen_ms: Option<i64>,
    /// The last receipt's timestamp.
    pub last_seen_ms: Option<i64>,
    /// The URLs it was used under, in text order, at most 100.
    pub urls: Vec<String>,
}

impl Warehouse {
    /// Usage of one entry, with at most `top_max` clients.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn content(
        &self,
        _scope: &Scope,
        _filter: &Filter,
        _entry_id: Uuid,
        _top_max: u32,
    ) -> Result<ContentStats, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
