//! One client's activity.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::dashboard::PER_PURPOSE;
use super::source::{Column, Cube, least_texts};
use super::{FINAL_SETTINGS, Filter, Scope, TopContent, Usage, UsageByPurpose};
use crate::{RollupView, WarehouseError};

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
    receipts: u64,
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
        // Rolled rows of an entry don't name its clients.
        let nothing = RollupView::none();
        let of_clients = match filter.entry_id {
            None => *self,
            Some(_) => self.warehouse.usage(&nothing),
        };
        let source = of_clients.source(scope, &filter, &[], Cube::Clients).await?;
        let rows = source.rows(&[
            Column::Count,
            Column::Purpose,
            Column::First,
            Column::Last,
            Column::Name,
            Column::Organization,
            Column::ClientVersions,
        ]);
        let sql = format!(
            "SELECT sum(n) AS receipts, {PER_PURPOSE}, min(first_at) AS first_ms, max(last_at) AS last_ms,
                argMax(title, (last_at, title)) AS newest_name,
                argMax(body, (last_at, body)) AS newest_organization, {} AS versions
             FROM {rows} {FINAL_SETTINGS}",
            least_texts("release")
        );
        let totals: TotalsRow = self.warehouse.one("client", source.call(sql)).await?;
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
            total_receipts: totals.receipts,
            unique_content,
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
            top_content,
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
        })
    }
}
