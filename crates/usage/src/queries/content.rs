//! Usage of an entry.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, Scope, WarehouseError};

use super::UsageByPurpose;
use super::column::Column;
use super::newest::Texts;
use super::source::{PER_PURPOSE, Source, count, least_texts};
use crate::Usage;

/// Client and how much it used.
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

/// Usage of an entry. All zero and empty if it was never used.
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

/// A client, and the sums over all of them.
#[derive(Row, Deserialize)]
struct ClientRow {
    #[serde(with = "clickhouse::serde::uuid")]
    client_id: Uuid,
    receipts: i64,
    last_ms: i64,
    total_receipts: i64,
    total_clients: u64,
    training: i64,
    inference: i64,
    research: i64,
    first_seen_ms: i64,
    last_seen_ms: i64,
}

impl Usage {
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
        let mut clients = self.content_clients(scope, &filter, top_max).await?;
        let Some(totals) = clients.first() else {
            return Ok(ContentStats::default());
        };
        let mut stats = ContentStats {
            total_receipts: count(totals.total_receipts),
            unique_clients: totals.total_clients,
            usage_by_purpose: UsageByPurpose::of_sums(totals.training, totals.inference, totals.research),
            first_seen_ms: Some(totals.first_seen_ms),
            last_seen_ms: Some(totals.last_seen_ms),
            ..ContentStats::default()
        };
        clients.truncate(usize::try_from(top_max).unwrap_or(usize::MAX));
        let newest: Vec<(Uuid, i64)> = clients.iter().map(|row| (row.client_id, row.last_ms)).collect();
        let mut names = self.newest(scope, &filter, Texts::ClientNames, &newest).await?;
        let top_client = |row: ClientRow| {
            // Absent only if it was erased since.
            let mut texts = names.remove(&row.client_id).unwrap_or_default().into_iter();
            TopClient {
                client_id: row.client_id,
                name: texts.next().unwrap_or_default(),
                organization: texts.next().unwrap_or_default(),
                receipt_count: count(row.receipts),
            }
        };
        stats.top_clients = clients.into_iter().map(top_client).collect();
        stats.urls = self.content_urls(scope, &filter).await?;
        Ok(stats)
    }

    /// The clients that used an entry most, at most `top_max` and at least one.
    async fn content_clients(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Vec<ClientRow>, WarehouseError> {
        let columns = [Column::Client, Column::Purpose, Column::First, Column::Last];
        let source = Source::new(scope, filter, &[], &columns).by_key();
        let sql = format!(
            "SELECT client.client_id AS client_id, client.receipts AS receipts, client.last_ms AS last_ms,
                sum(client.receipts) OVER () AS total_receipts, count() OVER () AS total_clients,
                sum(client.training) OVER () AS training, sum(client.inference) OVER () AS inference,
                sum(client.research) OVER () AS research, min(client.first_ms) OVER () AS first_seen_ms,
                max(client.last_ms) OVER () AS last_seen_ms
             FROM (SELECT piece.client_id AS client_id, sum(piece.receipts) AS receipts, {PER_PURPOSE},
                    min(piece.first_ms) AS first_ms, max(piece.last_ms) AS last_ms
                FROM {} GROUP BY piece.client_id HAVING sum(piece.receipts) > 0) AS client
             ORDER BY receipts DESC, toString(client_id) LIMIT {{top_max:UInt32}}",
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max.max(1));
        self.warehouse.rows("content", call).await
    }

    /// The first URLs of an entry in text order.
    async fn content_urls(&self, scope: &Scope, filter: &Filter) -> Result<Vec<String>, WarehouseError> {
        let source = Source::new(scope, filter, &[], &[Column::Url]).by_key();
        let urls = least_texts("piece.url");
        let sql = format!("SELECT {urls} AS urls FROM {}", source.rows());
        self.warehouse.one("content_urls", source.call(&sql)).await
    }
}
