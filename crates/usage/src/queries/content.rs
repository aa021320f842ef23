//! Usage of an entry.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, MemberFilter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::newest::NewestTexts;
use super::purposes::per_purpose;
use super::ranking::{ItemId, LAST_OPERATOR};
use super::source::{PROVEN, RowSource, count, least_texts};
use super::trust::{TrustSums, trust_sums};
use super::{ByTrust, PartTotals, UsageByPurpose};
use crate::Usage;

/// A key of a client and how much it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopClient {
    /// `client.id`.
    pub client_id: Uuid,
    /// SHA-256 of the key's SPKI; zeros for erased clients.
    pub key_fingerprint: [u8; 32],
    /// The operator of the key's newest receipt, a domain; empty if it has none.
    pub operator: String,
    /// `client.name` of the key's newest receipt.
    pub name: String,
    /// `client.organization` of the key's newest receipt.
    pub organization: String,
    /// Receipts.
    pub receipt_count: u64,
    /// Receipts by trust.
    pub by_trust: ByTrust,
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
    /// Totals of the proven receipts.
    pub proven: PartTotals,
    /// Totals of the unproven receipts.
    pub unproven: PartTotals,
    /// The keys of clients that used it most.
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
    key: [u8; 32],
    receipts: i64,
    proven: i64,
    last_ms: i64,
    last_operator: String,
    total_clients: u64,
    sums: TrustSums,
    first_seen_ms: i64,
    last_seen_ms: i64,
}

impl ClientRow {
    fn item(&self) -> ItemId {
        ItemId {
            id: self.client_id,
            key: self.key,
        }
    }
}

impl Usage {
    /// Usage of one entry, with at most `top_max` clients.
    pub async fn content(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        entry_id: Uuid,
        top_max: u32,
    ) -> Result<ContentStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(ContentStats::default());
        }
        let filter = Filter {
            entry_id: MemberFilter::among(vec![entry_id]),
            ..filter.clone()
        };
        let mut clients = self.content_clients(scope, &filter, top_max).await?;
        let Some(totals) = clients.first() else {
            return Ok(ContentStats::default());
        };
        let all = totals.sums.totals();
        let mut stats = ContentStats {
            total_receipts: all.receipts,
            unique_clients: totals.total_clients,
            usage_by_purpose: all.by_purpose,
            proven: all.proven,
            unproven: all.unproven,
            first_seen_ms: Some(totals.first_seen_ms),
            last_seen_ms: Some(totals.last_seen_ms),
            ..ContentStats::default()
        };
        clients.truncate(usize::try_from(top_max).unwrap_or(usize::MAX));
        let newest: Vec<(ItemId, i64)> = clients.iter().map(|row| (row.item(), row.last_ms)).collect();
        let mut names = self.newest(scope, &filter, NewestTexts::ClientNames, &newest).await?;
        let top_client = |row: ClientRow| {
            // Absent only if it was erased since.
            let mut texts = names.remove(&row.item()).unwrap_or_default().into_iter();
            TopClient {
                client_id: row.client_id,
                key_fingerprint: row.key,
                name: texts.next().unwrap_or_default(),
                organization: texts.next().unwrap_or_default(),
                receipt_count: count(row.receipts),
                by_trust: ByTrust::of_sums(row.receipts, row.proven),
                operator: row.last_operator,
            }
        };
        stats.top_clients = clients.into_iter().map(top_client).collect();
        stats.urls = self.content_urls(scope, &filter).await?;
        Ok(stats)
    }

    /// The clients that used an entry most, at most `top_max` and at least one.
    async fn content_clients(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Vec<ClientRow>, WarehouseError> {
        let columns = [
            QueryColumn::Client,
            QueryColumn::Key,
            QueryColumn::Operator,
            QueryColumn::Purpose,
            QueryColumn::First,
            QueryColumn::Last,
        ];
        let source = RowSource::new(scope, filter, &[], &columns).by_key();
        let sql = format!(
            "SELECT client.client_id AS client_id, client.key AS key, client.receipts AS receipts,
                client.proven AS proven, client.last_ms AS last_ms, client.last_operator AS last_operator,
                count() OVER () AS total_clients, {},
                min(client.first_ms) OVER () AS first_seen_ms, max(client.last_ms) OVER () AS last_seen_ms
             FROM (SELECT piece.client_id AS client_id, CAST(piece.key_fingerprint AS FixedString(32)) AS key,
                    sum(piece.receipts) AS receipts, {PROVEN}, {}, {LAST_OPERATOR} AS last_operator,
                    min(piece.first_ms) AS first_ms, max(piece.last_ms) AS last_ms
                FROM {} GROUP BY piece.client_id, piece.key_fingerprint HAVING sum(piece.receipts) > 0) AS client
             ORDER BY receipts DESC, toString(client_id), key LIMIT {{top_max:UInt32}}",
            trust_sums(" OVER ()"),
            per_purpose(),
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max.max(1));
        self.warehouse.rows("content", call).await
    }

    /// The first URLs of an entry in text order.
    async fn content_urls(&self, scope: &QueryScope, filter: &Filter) -> Result<Vec<String>, WarehouseError> {
        let source = RowSource::new(scope, filter, &[], &[QueryColumn::Url]).by_key();
        let urls = least_texts("piece.url");
        let sql = format!("SELECT {urls} AS urls FROM {}", source.rows());
        self.warehouse.one("content_urls", source.call(&sql)).await
    }
}
