//! The dashboard's totals.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::source::{Column, Cube};
use super::summed::Summed;
use super::{FINAL_SETTINGS, Filter, Scope, Usage};
use crate::WarehouseError;
use crate::rollup::{ClientSum, EntrySum};

/// Receipts per purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageByPurpose {
    /// `training`.
    pub training: u64,
    /// `inference`.
    pub inference: u64,
    /// `research`.
    pub research: u64,
}

/// One entry and how often it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopContent {
    /// The entry.
    pub entry_id: Uuid,
    /// Its URL, as the newest receipt gives it.
    pub url: String,
    /// Receipts.
    pub receipt_count: u64,
}

/// The totals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DashboardStats {
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct `client.id`s.
    pub unique_clients: u64,
    /// The most used entries, most first; entries with equal counts in order of their id.
    pub top_content: Vec<TopContent>,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
}

#[derive(Row, Deserialize)]
struct TotalsRow {
    receipts: u64,
    clients: u64,
    training: u64,
    inference: u64,
    research: u64,
}

#[derive(Row, Deserialize)]
struct EntryRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_of: Uuid,
    receipts: u64,
    last_ms: i64,
    total: u64,
}

/// Receipts per purpose, over the columns `n` and `usage`.
pub(super) const PER_PURPOSE: &str = "sumIf(n, usage = 'training') AS training,
    sumIf(n, usage = 'inference') AS inference, sumIf(n, usage = 'research') AS research";

impl Usage<'_> {
    /// Totals, and at most `top_max` entries.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn dashboard(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<DashboardStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(DashboardStats::default());
        }
        let totals = Box::pin(self.totals_of(scope, filter));
        let top = Box::pin(async {
            match top_max {
                0 => Ok(MostUsed::default()),
                _ => self.most_used("dashboard_top", scope, filter, top_max).await,
            }
        });
        let (totals, top) = tokio::try_join!(totals, top)?;
        Ok(DashboardStats {
            top_content: top.into_top_content(),
            ..totals
        })
    }

    /// Totals, without entries.
    async fn totals_of(&self, scope: &Scope, filter: &Filter) -> Result<DashboardStats, WarehouseError> {
        if let Some(summed) = self.summed::<ClientSum>("dashboard", scope, filter, &[]).await? {
            return summed.into(Summed::totals).await;
        }
        let source = self.source(scope, filter, &[], Cube::Clients).await?;
        let rows = source.rows(&[Column::Count, Column::Client, Column::Purpose]);
        let sql = format!(
            "SELECT sum(n) AS receipts, uniqExact(client) AS clients, {PER_PURPOSE} FROM {rows} {FINAL_SETTINGS}"
        );
        let totals: TotalsRow = self.warehouse.one("dashboard", source.call(sql)).await?;
        Ok(DashboardStats {
            total_receipts: totals.receipts,
            unique_clients: totals.clients,
            top_content: Vec::new(),
            usage_by_purpose: UsageByPurpose {
                training: totals.training,
                inference: totals.inference,
                research: totals.research,
            },
        })
    }

    /// The most used entries, at most `top_max` and at least one.
    pub(super) async fn most_used(
        &self,
        name: &'static str,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<MostUsed, WarehouseError> {
        let top_max = top_max.max(1);
        let mut used = match self.summed::<EntrySum>(name, scope, filter, &[]).await? {
            Some(summed) => summed.into(move |summed| summed.most_used(top_max)).await?,
            None => self.most_used_in_sql(name, scope, filter, top_max).await?,
        };
        let found: Vec<(Uuid, i64)> = used
            .entries
            .iter()
            .map(|entry| (entry.entry_id, entry.last_ms))
            .collect();
        let urls = self.newest_urls(scope, filter, &found).await?;
        for (entry, url) in used.entries.iter_mut().zip(urls) {
            entry.url = url;
        }
        Ok(used)
    }

    async fn most_used_in_sql(
        &self,
        name: &'static str,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<MostUsed, WarehouseError> {
        let source = self.source(scope, filter, &[], Cube::Entries).await?;
        let rows = source.rows(&[Column::Entry, Column::Count, Column::Last]);
        let sql = format!(
            "SELECT entry AS entry_of, sum(n) AS receipts, max(last_at) AS last_ms, count() OVER () AS total FROM {rows}
             GROUP BY entry ORDER BY receipts DESC, toString(entry_of) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let call = source.call(sql).with("top_max", top_max);
        let rows: Vec<EntryRow> = self.warehouse.rows(name, call).await?;
        let total = rows.first().map_or(0, |row| row.total);
        let entry = |row: EntryRow| UsedEntry {
            url: String::new(),
            entry_id: row.entry_of,
            receipts: row.receipts,
            last_ms: row.last_ms,
        };
        Ok(MostUsed {
            entries: rows.into_iter().map(entry).collect(),
            total,
        })
    }
}

/// The most used entries, and how many there are.
#[derive(Debug, Default)]
pub(super) struct MostUsed {
    pub(super) entries: Vec<UsedEntry>,
    pub(super) total: u64,
}

#[derive(Debug)]
pub(super) struct UsedEntry {
    pub(super) entry_id: Uuid,
    pub(super) url: String,
    pub(super) receipts: u64,
    pub(super) last_ms: i64,
}

impl MostUsed {
    pub(super) fn into_top_content(self) -> Vec<TopContent> {
        let top = self.entries.into_iter().map(|entry| TopContent {
            entry_id: entry.entry_id,
            url: entry.url,
            receipt_count: entry.receipts,
        });
        top.collect()
    }
}
