//! Usage by purpose and by model.

use clickhouse::Row;
use serde::Deserialize;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::source::{PROVEN, RowSource};
use super::{ByTrust, Ranking};
use crate::Usage;

/// A purpose or model and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// `usage.purpose`, or `usage.modelId`; of receipts that name no model the empty text.
    pub key: String,
    /// Receipts.
    pub receipt_count: u64,
    /// Receipts by trust.
    pub by_trust: ByTrust,
    /// Distinct clients.
    pub unique_clients: u64,
}

#[derive(Row, Deserialize)]
struct ShareRow {
    part: String,
    receipts: i64,
    proven: i64,
    clients: u64,
    total: u64,
}

impl Usage {
    /// Usage by purpose; purposes without receipts are left out.
    pub async fn by_purpose(&self, scope: &QueryScope, filter: &Filter) -> Result<Vec<Share>, WarehouseError> {
        let by = (QueryColumn::Purpose, "purpose");
        Ok(self.shares("by_purpose", by, scope, filter, u32::MAX).await?.items)
    }

    /// Usage by model, at most `top_max` models.
    pub async fn by_model(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Share>, WarehouseError> {
        self.shares("by_model", (QueryColumn::Model, "model_id"), scope, filter, top_max)
            .await
    }

    async fn shares(
        &self,
        name: &'static str,
        (column, key): (QueryColumn, &'static str),
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Share>, WarehouseError> {
        if scope.is_empty() {
            return Ok(Ranking::default());
        }
        let source = RowSource::new(
            scope,
            filter,
            &[],
            &[column, QueryColumn::Client, QueryColumn::Key, QueryColumn::Operator],
        );
        let sql = format!(
            "SELECT toString(client.{key}) AS part, sum(client.receipts) AS receipts,
                sum(client.proven) AS proven, count() AS clients, count() OVER () AS total
             FROM (SELECT piece.{key} AS {key}, sum(piece.receipts) AS receipts, {PROVEN}
                FROM {} GROUP BY piece.{key}, piece.client_id, piece.key_fingerprint
                HAVING sum(piece.receipts) > 0) AS client
             GROUP BY client.{key} ORDER BY receipts DESC, part LIMIT {{top_max:UInt32}}",
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max);
        let rows: Vec<ShareRow> = self.warehouse.rows(name, call).await?;
        let total = rows.first().map_or(0, |row| row.total);
        let share = |row: ShareRow| {
            let by_trust = ByTrust::of_sums(row.receipts, row.proven);
            Share {
                key: row.part,
                receipt_count: by_trust.total(),
                by_trust,
                unique_clients: row.clients,
            }
        };
        Ok(Ranking {
            items: rows.into_iter().map(share).collect(),
            total,
        })
    }
}
