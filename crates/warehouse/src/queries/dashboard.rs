//! The dashboard's totals.

use uuid::Uuid;

use super::{Filter, Scope};
use crate::{Warehouse, WarehouseError};

/// Receipts per purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageByPurpose {
    /// `training`.
    pub training: u64,
    /// `inference`.
    pub inference: u64,
    /// `research`.
    pub research: u64,
}

/// One entry and how often it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopContent {
    /// The entry.
    pub entry_id: Uuid,
    /// Its URL, as the newest receipt gives it.
    pub url: String,
    /// Receipts.
    pub receipt_count: u64,
}

/// The totals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DashboardStats {
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct `client.id`s.
    pub unique_clients: u64,
    /// The most used entries, most first; entries with equal counts in order of their id.
    pub top_content: Vec<TopContent>,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
}

impl Warehouse {
    /// Totals, and at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn dashboard(
        &self,
        _scope: &Scope,
        _filter: &Filter,
        _top_max: u32,
    ) -> Result<DashboardStats, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
