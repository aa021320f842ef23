//! One client's activity.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, Scope, WarehouseError};

use super::column::Column;
use super::source::{PER_PURPOSE, Source, count, least_texts};
use super::{TopContent, UsageByPurpose};
use crate::Usage;

/// One client's activity. All zero and empty if it never sent a receipt in the scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// `client.name` of its newest receipt.
    pub name: String,
    /// `client.organization` of its newest receipt.
    pub organization: String,
    /// Its versions, the first 100 in text order (of at most 10,000).
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
    receipts: i64,
    training: i64,
    inference: i64,
    research: i64,
    first_ms: i64,
    last_ms: i64,
    newest_name: String,
    newest_organization: String,
    versions: Vec<String>,
}

impl Usage {
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
        let columns = [
            Column::Purpose,
            Column::First,
            Column::Last,
            Column::ClientName,
            Column::Organization,
            Column::ClientVersion,
        ];
        let source = Source::new(scope, &filter, &[], &columns).by_key();
        let sql = format!(
            "SELECT sum(piece.receipts) AS receipts, {PER_PURPOSE}, min(piece.first_ms) AS first_ms,
                max(piece.last_ms) AS last_ms,
                argMax(piece.client_name, (piece.last_ms, piece.client_name)) AS newest_name,
                argMax(piece.organization, (piece.last_ms, piece.organization)) AS newest_organization,
                {} AS versions
             FROM {}",
            least_texts("piece.client_version"),
            source.rows()
        );
        let totals: TotalsRow = self.warehouse.one("client", source.call(&sql)).await?;
        if totals.receipts == 0 {
            return Ok(ClientStats::default());
        }
        let top = self.most_used("client_top", scope, &filter, top_max).await?;
        let unique_content = top.total;
        let mut top_content = top.into_top_content();
        top_content.truncate(usize::try_from(top_max).unwrap_or(usize::MAX));
        Ok(ClientStats {
            name: totals.newest_name,
            organization: totals.newest_organization,
            versions: totals.versions,
            total_receipts: count(totals.receipts),
            unique_content,
            usage_by_purpose: UsageByPurpose::of_sums(totals.training, totals.inference, totals.research),
            top_content,
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
        })
    }
}
