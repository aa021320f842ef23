//! The dashboard's totals.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, Filter, Scope, Usage, receipts_condition, scoped};
use crate::WarehouseError;

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

#[derive(Row, Deserialize)]
struct TotalsRow {
    receipts: u64,
    clients: u64,
    training: u64,
    inference: u64,
    research: u64,
}

#[derive(Row, Deserialize)]
struct EntryRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    newest_url: String,
    receipts: u64,
}

impl Usage<'_> {
    /// Totals, and at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn dashboard(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<DashboardStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(DashboardStats::default());
        }
        let condition = receipts_condition(scope, filter);
        let sql = format!(
            "SELECT count() AS receipts, uniqExact(client_id) AS clients, countIf(purpose = 'training') AS training,
                countIf(purpose = 'inference') AS inference, countIf(purpose = 'research') AS research
             FROM receipts FINAL WHERE {condition} {FINAL_SETTINGS}"
        );
        let totals: TotalsRow = self.warehouse.one("dashboard", scoped(sql, scope, filter)).await?;
        Ok(DashboardStats {
            total_receipts: totals.receipts,
            unique_clients: totals.clients,
            top_content: self.most_used("dashboard_top", scope, filter, top_max).await?,
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
        })
    }

    /// The most used entries.
    pub(super) async fn most_used(
        &self,
        name: &'static str,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Vec<TopContent>, WarehouseError> {
        if top_max == 0 {
            return Ok(Vec::new());
        }
        let condition = receipts_condition(scope, filter);
        let sql = format!(
            "SELECT entry_id AS entry, argMax(url, (timestamp, url)) AS newest_url, count() AS receipts
             FROM receipts FINAL WHERE {condition}
             GROUP BY entry_id ORDER BY receipts DESC, toString(entry) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let rows: Vec<EntryRow> = self
            .warehouse
            .rows(name, scoped(sql, scope, filter).with("top_max", top_max))
            .await?;
        let entry = |row: EntryRow| TopContent {
            entry_id: row.entry,
            url: row.newest_url,
            receipt_count: row.receipts,
        };
        Ok(rows.into_iter().map(entry).collect())
    }
}
