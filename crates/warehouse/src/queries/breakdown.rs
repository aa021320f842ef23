//! Usage by purpose and by model.

use clickhouse::Row;
use serde::Deserialize;

use super::source::{Column, Cube};
use super::{FINAL_SETTINGS, Filter, Ranking, Scope, Usage};
use crate::WarehouseError;
use crate::rollup::{ClientSum, ModelSum};

/// One purpose or model and how much it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// `usage.purpose`, or `usage.modelId`; of receipts that name no model the empty text.
    pub key: String,
    /// Receipts.
    pub receipt_count: u64,
    /// Distinct clients.
    pub unique_clients: u64,
}

#[derive(Row, Deserialize)]
struct ShareRow {
    part: String,
    receipts: u64,
    clients: u64,
    total: u64,
}

impl Usage<'_> {
    /// Usage by purpose; purposes without receipts are left out.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn by_purpose(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Share>, WarehouseError> {
        if let Some(summed) = self.summed::<ClientSum>("by_purpose", scope, filter, &[]).await? {
            return Ok(summed.into(|summed| summed.by_purpose(u32::MAX)).await?.items);
        }
        let all = self
            .shares("by_purpose", (Column::Purpose, "usage"), scope, filter, u32::MAX)
            .await?;
        Ok(all.items)
    }

    /// Usage by model, at most `top_max` models.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn by_model(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Share>, WarehouseError> {
        if let Some(summed) = self.summed::<ModelSum>("by_model", scope, filter, &[]).await? {
            return summed.into(move |summed| summed.by_model(top_max)).await;
        }
        self.shares("by_model", (Column::Model, "model"), scope, filter, top_max)
            .await
    }

    async fn shares(
        &self,
        name: &'static str,
        (column, key): (Column, &'static str),
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Share>, WarehouseError> {
        if scope.is_empty() {
            return Ok(Ranking::default());
        }
        let source = self.source(scope, filter, &[], Cube::Clients).await?;
        let rows = source.rows(&[Column::Count, Column::Client, column]);
        let sql = format!(
            "SELECT toString({key}) AS part, sum(n) AS receipts, uniqExact(client) AS clients, count() OVER () AS total
             FROM {rows} GROUP BY {key} ORDER BY receipts DESC, part LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let rows: Vec<ShareRow> = self
            .warehouse
            .rows(name, source.call(sql).with("top_max", top_max))
            .await?;
        let total = rows.first().map_or(0, |row| row.total);
        let share = |row: ShareRow| Share {
            key: row.part,
            receipt_count: row.receipts,
            unique_clients: row.clients,
        };
        Ok(Ranking {
            items: rows.into_iter().map(share).collect(),
            total,
        })
    }
}
