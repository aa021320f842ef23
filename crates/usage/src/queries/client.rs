//! Activity of a client ID: of each key that signed with it, and of all together.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, MemberFilter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::purposes::per_purpose;
use super::ranking::LAST_OPERATOR;
use super::source::{PROVEN, RowSource, least_texts};
use super::trust::{TrustSums, trust_sums};
use super::{ByTrust, PartTotals, TopContent, UsageByPurpose};
use crate::Usage;

/// Activity under a client ID. All zero and empty if no receipt in the scope has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Clients with this ID, one for each key: those with the most receipts, at most 100.
    pub keys: Vec<ClientKeyUsage>,
    /// Number of all such clients.
    pub unique_clients: u64,
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
    /// Entries that were used most.
    pub top_content: Vec<TopContent>,
    /// The first receipt's timestamp, milliseconds since the Unix epoch.
    pub first_seen_ms: Option<i64>,
    /// The last receipt's timestamp.
    pub last_seen_ms: Option<i64>,
}

/// A key that signed with a client's ID, what it calls itself, and how much it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientKeyUsage {
    /// SHA-256 of the key's SPKI; zeros for erased clients.
    pub key_fingerprint: [u8; 32],
    /// The operator of the key's newest receipt, a domain; empty if it has none.
    pub operator: String,
    /// `client.name` of the key's newest receipt.
    pub name: String,
    /// `client.organization` of the key's newest receipt.
    pub organization: String,
    /// Versions, the first 100 in text order (of at most 10,000).
    pub versions: Vec<String>,
    /// Receipts.
    pub by_trust: ByTrust,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

/// Keys of a client that are listed.
const KEYS_MAX: u32 = 100;

/// A key, and the sums over all of them.
#[derive(Row, Deserialize)]
struct ClientKeyRow {
    key: [u8; 32],
    receipts: i64,
    proven: i64,
    last_ms: i64,
    last_operator: String,
    newest_name: String,
    newest_organization: String,
    versions: Vec<String>,
    clients: u64,
    sums: TrustSums,
    first_seen_ms: i64,
    last_seen_ms: i64,
}

impl From<ClientKeyRow> for ClientKeyUsage {
    fn from(row: ClientKeyRow) -> Self {
        Self {
            key_fingerprint: row.key,
            operator: row.last_operator,
            name: row.newest_name,
            organization: row.newest_organization,
            versions: row.versions,
            by_trust: ByTrust::of_sums(row.receipts, row.proven),
            last_seen_ms: row.last_ms,
        }
    }
}

impl Usage {
    /// Activity under one client ID, with at most `top_max` entries.
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
            client_id: MemberFilter::among(vec![client_id]),
            ..filter.clone()
        };
        let keys = self.client_keys(scope, &filter).await?;
        let Some(totals) = keys.first() else {
            return Ok(ClientStats::default());
        };
        let all = totals.sums.totals();
        let stats = ClientStats {
            unique_clients: totals.clients,
            total_receipts: all.receipts,
            usage_by_purpose: all.by_purpose,
            proven: all.proven,
            unproven: all.unproven,
            first_seen_ms: Some(totals.first_seen_ms),
            last_seen_ms: Some(totals.last_seen_ms),
            ..ClientStats::default()
        };
        let top = self.most_used("client_top", scope, &filter, top_max).await?;
        let unique_content = top.total;
        let mut top_content = top.items;
        top_content.truncate(usize::try_from(top_max).unwrap_or(usize::MAX));
        Ok(ClientStats {
            keys: keys.into_iter().map(ClientKeyUsage::from).collect(),
            unique_content,
            top_content,
            ..stats
        })
    }

    /// The keys of a client with the most receipts, at most [`KEYS_MAX`].
    async fn client_keys(&self, scope: &QueryScope, filter: &Filter) -> Result<Vec<ClientKeyRow>, WarehouseError> {
        let columns = [
            QueryColumn::Key,
            QueryColumn::Purpose,
            QueryColumn::Operator,
            QueryColumn::First,
            QueryColumn::Last,
            QueryColumn::ClientName,
            QueryColumn::Organization,
            QueryColumn::ClientVersion,
        ];
        let source = RowSource::new(scope, filter, &[], &columns).by_key();
        let sql = format!(
            "SELECT client.key AS key, client.receipts AS receipts, client.proven AS proven, client.last_ms AS last_ms,
                client.last_operator AS last_operator, client.newest_name AS newest_name,
                client.newest_organization AS newest_organization, client.versions AS versions,
                count() OVER () AS clients, {},
                min(client.first_ms) OVER () AS first_seen_ms, max(client.last_ms) OVER () AS last_seen_ms
             FROM (SELECT CAST(piece.key_fingerprint AS FixedString(32)) AS key, sum(piece.receipts) AS receipts,
                    {PROVEN}, {}, min(piece.first_ms) AS first_ms, max(piece.last_ms) AS last_ms,
                    {LAST_OPERATOR} AS last_operator,
                    argMax(piece.client_name, (piece.last_ms, piece.client_name)) AS newest_name,
                    argMax(piece.organization, (piece.last_ms, piece.organization)) AS newest_organization,
                    {} AS versions
                FROM {} GROUP BY piece.key_fingerprint) AS client
             ORDER BY receipts DESC, key LIMIT {{keys_max:UInt32}}",
            trust_sums(" OVER ()"),
            per_purpose(),
            least_texts("piece.client_version"),
            source.rows()
        );
        let call = source.call(&sql).with("keys_max", KEYS_MAX);
        self.warehouse.rows("client", call).await
    }
}
