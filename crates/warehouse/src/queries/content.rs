//! One entry's usage.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::dashboard::PER_PURPOSE;
use super::newest::Of;
use super::source::{Column, Cube, least_texts};
use super::{FINAL_SETTINGS, Filter, Scope, Usage, UsageByPurpose};
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
    /// The URLs it was used under, the first 100 in text order (of at most 10,000).
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
    client_of: Uuid,
    receipts: u64,
    last_ms: i64,
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
        let source = self.source(scope, &filter, &[], Cube::Entries).await?;
        let rows = source.rows(&[
            Column::Count,
            Column::Client,
            Column::Purpose,
            Column::First,
            Column::Last,
            Column::Urls,
        ]);
        let sql = format!(
            "SELECT sum(n) AS receipts, uniqExact(client) AS clients, {PER_PURPOSE}, min(first_at) AS first_ms,
                max(last_at) AS last_ms, {} AS urls
             FROM {rows} {FINAL_SETTINGS}",
            least_texts("link")
        );
        let totals: TotalsRow = self.warehouse.one("content", source.call(sql)).await?;
        if totals.receipts == 0 {
            return Ok(ContentStats::default());
        }
        let rows = source.rows(&[Column::Count, Column::Client, Column::Last]);
        let sql = format!(
            "SELECT client AS client_of, sum(n) AS receipts, max(last_at) AS last_ms FROM {rows}
             GROUP BY client ORDER BY receipts DESC, toString(client_of) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let call = source.call(sql).with("top_max", top_max);
        let clients: Vec<ClientRow> = self.warehouse.rows("content_clients", call).await?;
        let found = clients.iter().map(|row| (row.client_of, row.last_ms));
        let mut names = self.newest(scope, &filter, Of::Clients, found).await?;
        let mut top_client = |row: ClientRow| {
            // Not there only if it was erased since.
            let mut texts = names.remove(&row.client_of).unwrap_or_default().into_iter();
            TopClient {
                client_id: row.client_of,
                name: texts.next().unwrap_or_default(),
                organization: texts.next().unwrap_or_default(),
                receipt_count: row.receipts,
            }
        };
        Ok(ContentStats {
            total_receipts: totals.receipts,
            unique_clients: totals.clients,
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
            top_clients: clients.into_iter().map(&mut top_client).collect(),
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
            urls: totals.urls,
        })
    }
}
