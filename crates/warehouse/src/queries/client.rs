//! One client's activity.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, Filter, Scope, TopContent, Usage, UsageByPurpose, receipts_condition, scoped};
use crate::WarehouseError;

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

#[derive(Row, Deserialize)]
struct TotalsRow {
    receipts: u64,
    entries: u64,
    training: u64,
    inference: u64,
    research: u64,
    first_ms: i64,
    last_ms: i64,
    newest_name: String,
    newest_organization: String,
    versions: Vec<String>,
}

impl Usage<'_> {
    /// Activity of one client, with at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn client(
        &self,
        scope: &Scope,
        filter: &Filter,
        client_id: Uuid,
        top_max: u32,
    ) -> Result<ClientStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(ClientStats::default());
        }
        let filter = Filter {
            client_id: Some(client_id),
            ..filter.clone()
        };
        let condition = receipts_condition(scope, &filter);
        let sql = format!(
            "SELECT count() AS receipts, uniqExact(entry_id) AS entries, countIf(purpose = 'training') AS training,
                countIf(purpose = 'inference') AS inference, countIf(purpose = 'research') AS research,
                toUnixTimestamp64Milli(min(timestamp)) AS first_ms, toUnixTimestamp64Milli(max(timestamp)) AS last_ms,
                argMax(client_name, (timestamp, client_name)) AS newest_name,
                argMax(organization, (timestamp, organization)) AS newest_organization,
                arraySort(groupUniqArray(100)(toString(client_version))) AS versions
             FROM receipts FINAL WHERE {condition} {FINAL_SETTINGS}"
        );
        let totals: TotalsRow = self.warehouse.one("client", scoped(sql, scope, &filter)).await?;
        if totals.receipts == 0 {
            return Ok(ClientStats::default());
        }
        Ok(ClientStats {
            name: totals.newest_name,
            organization: totals.newest_organization,
            versions: totals.versions,
            total_receipts: totals.receipts,
            unique_content: totals.entries,
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
            top_content: self.most_used("client_top", scope, &filter, top_max).await?,
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
        })
    }
}
