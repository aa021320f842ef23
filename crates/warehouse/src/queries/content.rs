//! One entry's usage.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, Filter, Scope, Usage, UsageByPurpose, receipts_condition, scoped};
use crate::WarehouseError;

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

#[derive(Row, Deserialize)]
struct TotalsRow {
    receipts: u64,
    clients: u64,
    training: u64,
    inference: u64,
    research: u64,
    first_ms: i64,
    last_ms: i64,
    urls: Vec<String>,
}

#[derive(Row, Deserialize)]
struct ClientRow {
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
    newest_name: String,
    newest_organization: String,
    receipts: u64,
}

impl Usage<'_> {
    /// Usage of one entry, with at most `top_max` clients.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn content(
        &self,
        scope: &Scope,
        filter: &Filter,
        entry_id: Uuid,
        top_max: u32,
    ) -> Result<ContentStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(ContentStats::default());
        }
        let filter = Filter {
            entry_id: Some(entry_id),
            ..filter.clone()
        };
        let condition = receipts_condition(scope, &filter);
        let sql = format!(
            "SELECT count() AS receipts, uniqExact(client_id) AS clients, countIf(purpose = 'training') AS training,
                countIf(purpose = 'inference') AS inference, countIf(purpose = 'research') AS research,
                toUnixTimestamp64Milli(min(timestamp)) AS first_ms, toUnixTimestamp64Milli(max(timestamp)) AS last_ms,
                arraySort(groupUniqArray(100)(url)) AS urls
             FROM receipts FINAL WHERE {condition} {FINAL_SETTINGS}"
        );
        let totals: TotalsRow = self.warehouse.one("content", scoped(sql, scope, &filter)).await?;
        if totals.receipts == 0 {
            return Ok(ContentStats::default());
        }
        let sql = format!(
            "SELECT CAST(client_id AS UUID) AS client, argMax(client_name, (timestamp, client_name)) AS newest_name,
                argMax(organization, (timestamp, organization)) AS newest_organization, count() AS receipts
             FROM receipts FINAL WHERE {condition}
             GROUP BY client ORDER BY receipts DESC, toString(client) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let clients: Vec<ClientRow> = self
            .warehouse
            .rows("content_clients", scoped(sql, scope, &filter).with("top_max", top_max))
            .await?;
        let top_client = |row: ClientRow| TopClient {
            client_id: row.client,
            name: row.newest_name,
            organization: row.newest_organization,
            receipt_count: row.receipts,
        };
        Ok(ContentStats {
            total_receipts: totals.receipts,
            unique_clients: totals.clients,
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
            top_clients: clients.into_iter().map(top_client).collect(),
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
            urls: totals.urls,
        })
    }
}
