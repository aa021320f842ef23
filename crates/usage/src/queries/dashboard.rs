//! The dashboard's totals.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{BeforeVerification, Filter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::newest::NewestTexts;
use super::page::{Ranking, RankingPage};
use super::purposes::per_purpose;
use super::ranking::{By, ItemId, Ranked};
use super::source::{PROVEN, RowSource, count};
use super::trust::{TrustSums, trust_sums};
use super::{ByTrust, PartTotals, UsageByPurpose};
use crate::Usage;

/// Entry and how often it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopContent {
    /// The entry.
    pub entry_id: Uuid,
    /// URL of the entry, as the newest receipt gives it.
    pub url: String,
    /// Receipts.
    pub receipt_count: u64,
    /// Receipts by trust.
    pub by_trust: ByTrust,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

/// Operator and its proven receipts.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct OperatorUsage {
    /// The operator's domain.
    pub operator_domain: String,
    /// Proven receipts.
    pub receipt_count: u64,
}

/// The totals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DashboardStats {
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Receipts that arrived before anybody had verified the publisher's domain, whether or not the
    /// filter counts them.
    pub receipts_before_verification: u64,
    /// Distinct clients.
    pub unique_clients: u64,
    /// The most used entries, most first; entries with equal counts in order of their id.
    pub top_content: Vec<TopContent>,
    /// The operators of the proven receipts, most first; equal ones by domain.
    pub top_operators: Vec<OperatorUsage>,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
    /// Totals of the proven receipts.
    pub proven: PartTotals,
    /// Totals of the unproven receipts.
    pub unproven: PartTotals,
}

#[derive(Row, Deserialize)]
struct TotalsRow {
    clients: u64,
    sums: TrustSums,
}

impl Usage {
    /// Totals, and at most `top_max` entries and operators.
    pub async fn dashboard(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<DashboardStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(DashboardStats::default());
        }
        let totals = Box::pin(self.totals(scope, filter));
        let top = Box::pin(async {
            match top_max {
                0 => Ok(Ranking::default()),
                _ => self.most_used("dashboard_top", scope, filter, top_max).await,
            }
        });
        let operators = Box::pin(self.top_operators(scope, filter, top_max));
        let before_verification = Box::pin(self.before_verification(scope, filter));
        let (totals, top, top_operators, before_verification) =
            tokio::try_join!(totals, top, operators, before_verification)?;
        Ok(DashboardStats {
            top_content: top.items,
            top_operators,
            receipts_before_verification: before_verification,
            ..totals
        })
    }

    /// Totals, without entries.
    async fn totals(&self, scope: &QueryScope, filter: &Filter) -> Result<DashboardStats, WarehouseError> {
        let source = RowSource::new(
            scope,
            filter,
            &[],
            &[
                QueryColumn::Client,
                QueryColumn::Key,
                QueryColumn::Purpose,
                QueryColumn::Operator,
            ],
        );
        let sql = format!(
            "SELECT countIf(client.receipts > 0) AS clients, {}
             FROM (SELECT sum(piece.receipts) AS receipts, {PROVEN}, {}
                FROM {} GROUP BY piece.client_id, piece.key_fingerprint) AS client",
            trust_sums(""),
            per_purpose(),
            source.rows()
        );
        let totals: TotalsRow = self.warehouse.one("dashboard", source.call(&sql)).await?;
        let all = totals.sums.totals();
        Ok(DashboardStats {
            total_receipts: all.receipts,
            receipts_before_verification: 0,
            unique_clients: totals.clients,
            top_content: Vec::new(),
            top_operators: Vec::new(),
            usage_by_purpose: all.by_purpose,
            proven: all.proven,
            unproven: all.unproven,
        })
    }

    /// The operators with the most proven receipts, at most `top_max`.
    async fn top_operators(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Vec<OperatorUsage>, WarehouseError> {
        if top_max == 0 {
            return Ok(Vec::new());
        }
        let source = RowSource::new(scope, filter, &[], &[QueryColumn::Operator]);
        let sql = format!(
            "SELECT toString(piece.operator) AS operator_domain, toUInt64(sum(piece.receipts)) AS receipt_count
             FROM {} WHERE piece.is_proven GROUP BY operator_domain HAVING sum(piece.receipts) > 0
             ORDER BY receipt_count DESC, operator_domain LIMIT {{top_max:UInt32}}",
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max);
        self.warehouse.rows("dashboard_operators", call).await
    }

    /// Receipts of the selection that arrived before the publisher was verified.
    async fn before_verification(&self, scope: &QueryScope, filter: &Filter) -> Result<u64, WarehouseError> {
        let filter = Filter {
            before_verification: BeforeVerification::Only,
            ..filter.clone()
        };
        let source = RowSource::new(scope, &filter, &[], &[]);
        let sql = format!("SELECT sum(piece.receipts) FROM {}", source.rows());
        let receipts: i64 = self.warehouse.one("before_verification", source.call(&sql)).await?;
        Ok(count(receipts))
    }

    /// The most used entries, at most `top_max` and at least one.
    pub(super) async fn most_used(
        &self,
        name: &'static str,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<TopContent>, WarehouseError> {
        let page = RankingPage::top(top_max.max(1));
        let top = self.ranked(name, By::Entry, scope, filter, &page, None).await?;
        self.with_urls(scope, filter, top).await
    }

    /// Ranked entries with their URLs.
    pub(super) async fn with_urls(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        top: Ranking<Ranked>,
    ) -> Result<Ranking<TopContent>, WarehouseError> {
        let newest: Vec<(ItemId, i64)> = top.items.iter().map(|entry| (entry.item(), entry.last_ms)).collect();
        let mut urls = self.newest(scope, filter, NewestTexts::EntryUrl, &newest).await?;
        Ok(top.map(|entry| TopContent {
            entry_id: entry.id,
            // Absent only if it was erased since.
            url: urls.remove(&entry.item()).unwrap_or_default().pop().unwrap_or_default(),
            receipt_count: entry.by_trust().total(),
            by_trust: entry.by_trust(),
            last_seen_ms: entry.last_ms,
        }))
    }
}
