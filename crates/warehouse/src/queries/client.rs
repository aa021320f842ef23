//! One client's activity.

use uuid::Uuid;

use super::{Filter, Scope, TopContent, UsageByPurpose};
use crate::{Warehouse, WarehouseError};

/// One client's activity. All zero and empty if it never sent a receipt in the scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// `client.name` of its newest receipt.
    pub name: String,
    /// `client.organization` of its newest receipt.
    pub organization: String,
    /// Its versions in text order, at most 100.
    pub versions: Vec<String>,
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct entries.
    pub unique_content: u64,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
    /// What it used most.
    pub top_content: Vec<TopContent>,
    /// The first receipt's timestamp, milliseconds since the Unix epoch.
    pub first_seen_ms: Option<i64>,
    /// The last receipt's timestamp.
    pub last_seen_ms: Option<i64>,
}

impl Warehouse {
    /// Activity of one client, with at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn client(
        &self,
        _scope: &Scope,
        _filter: &Filter,
        _client_id: Uuid,
        _top_max: u32,
    ) -> Result<ClientStats, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
