//! Activity of a client.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::ranking::{By, Ranked};
use super::source::{PER_PURPOSE, RowSource, count, least_texts};
use super::{ByTrust, PartTotals, TopContent, UsageByPurpose};
use crate::Usage;

/// Activity of a client. All zero and empty if it never sent a receipt in the scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// `client.name` of its newest receipt, of a proven one if it has any: anybody can claim a
    /// client's ID.
    pub name: String,
    /// `client.organization` of the same receipt.
    pub organization: String,
    /// Keys of the client with the most receipts, at most 100.
    pub keys: Vec<ClientKeyUsage>,
    /// Versions of the client, the first 100 in text order (of at most 10,000).
    pub versions: Vec<String>,
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct entries.
    pub unique_content: u64,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
    /// Totals of the proven receipts.
    pub proven: PartTotals,
    /// Totals of the unproven receipts.
    pub unproven: PartTotals,
    /// Entries that it used most.
    pub top_content: Vec<TopContent>,
    /// The first receipt's timestamp, milliseconds since the Unix epoch.
    pub first_seen_ms: Option<i64>,
    /// The last receipt's timestamp.
    pub last_seen_ms: Option<i64>,
}

/// A key that signed with a client's ID, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientKeyUsage {
    /// SHA-256 of the key's SPKI; zeros for erased clients.
    pub key_fingerprint: [u8; 32],
    /// The operator of the key's newest receipt, a domain; empty if that is unproven.
    pub operator: String,
    /// Receipts.
    pub by_trust: ByTrust,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

/// Keys of a client that are listed.
const KEYS_MAX: u32 = 100;

#[derive(Row, Deserialize)]
struct ClientTotalsRow {
    receipts: i64,
    training: i64,
    inference: i64,
    research: i64,
    proven_training: i64,
    proven_inference: i64,
    proven_research: i64,
    first_ms: i64,
    last_ms: i64,
    newest_name: String,
    newest_organization: String,
    versions: Vec<String>,
}

impl From<Ranked> for ClientKeyUsage {
    fn from(ranked: Ranked) -> Self {
        Self {
            key_fingerprint: ranked.id.key,
            operator: ranked.operator,
            by_trust: ranked.receipts,
            last_seen_ms: ranked.last_ms,
        }
    }
}

impl Usage {
    /// Activity of one client, with at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn client(
        &self,
        scope: &QueryScope,
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
            QueryColumn::Purpose,
            QueryColumn::Operator,
            QueryColumn::First,
            QueryColumn::Last,
            QueryColumn::ClientName,
            QueryColumn::Organization,
            QueryColumn::ClientVersion,
        ];
        let source = RowSource::new(scope, &filter, &[], &columns).by_key();
        let sql = format!(
            "SELECT sum(piece.receipts) AS receipts, {PER_PURPOSE}, min(piece.first_ms) AS first_ms,
                max(piece.last_ms) AS last_ms,
                argMax(piece.client_name, (piece.operator != '', piece.last_ms, piece.client_name)) AS newest_name,
                argMax(piece.organization, (piece.operator != '', piece.last_ms, piece.organization))
                    AS newest_organization,
                {} AS versions
             FROM {}",
            least_texts("piece.client_version"),
            source.rows()
        );
        let totals: ClientTotalsRow = self.warehouse.one("client", source.call(&sql)).await?;
        if totals.receipts == 0 {
            return Ok(ClientStats::default());
        }
        let keys = self.ranked("client_keys", By::Client, scope, &filter, KEYS_MAX).await?;
        let top = self.most_used("client_top", scope, &filter, top_max).await?;
        let unique_content = top.total;
        let mut top_content = top.into_top_content();
        top_content.truncate(usize::try_from(top_max).unwrap_or(usize::MAX));
        let all = UsageByPurpose::of_sums(totals.training, totals.inference, totals.research);
        let proven = UsageByPurpose::of_sums(totals.proven_training, totals.proven_inference, totals.proven_research);
        let one_if = |receipts: u64| u64::from(receipts > 0);
        Ok(ClientStats {
            name: totals.newest_name,
            organization: totals.newest_organization,
            versions: totals.versions,
            total_receipts: count(totals.receipts),
            unique_content,
            usage_by_purpose: all,
            proven: PartTotals::proven(proven, one_if(proven.total())),
            unproven: PartTotals::unproven(all, proven, one_if(all.total() - proven.total())),
            keys: keys.items.into_iter().map(ClientKeyUsage::from).collect(),
            top_content,
            first_seen_ms: Some(totals.first_ms),
            last_seen_ms: Some(totals.last_ms),
        })
    }
}
