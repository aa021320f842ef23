//! Usage by purpose, by model and by operator.

use clickhouse::Row;
use serde::Deserialize;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::column::QueryColumn;
use super::page::{PageColumn, RankingPage, tie};
use super::source::{PROVEN, RowSource};
use super::{ByTrust, Ranking};
use crate::Usage;

/// A purpose, model or operator and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// `usage.purpose`, `usage.modelId` or the operator's domain; the empty text for receipts that
    /// name no model, or have no operator.
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
    page: PageColumn,
}

impl AsRef<PageColumn> for ShareRow {
    fn as_ref(&self) -> &PageColumn {
        &self.page
    }
}

impl Usage {
    /// Usage by purpose; purposes without receipts are left out.
    pub async fn by_purpose(&self, scope: &QueryScope, filter: &Filter) -> Result<Vec<Share>, WarehouseError> {
        let all = RankingPage::top(u32::MAX);
        let by = (QueryColumn::Purpose, "purpose");
        Ok(self.shares("by_purpose", by, scope, filter, &all).await?.items)
    }

    /// A page of usage by model.
    pub async fn by_model(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
    ) -> Result<Ranking<Share>, WarehouseError> {
        let by = (QueryColumn::Model, "model_id");
        self.shares("by_model", by, scope, filter, page).await
    }

    /// A page of usage by operator.
    pub async fn by_operator(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
    ) -> Result<Ranking<Share>, WarehouseError> {
        let by = (QueryColumn::Operator, "operator");
        self.shares("by_operator", by, scope, filter, page).await
    }

    async fn shares(
        &self,
        name: &'static str,
        (column, key): (QueryColumn, &'static str),
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
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
        let part = format!("toString(client.{key})");
        let found = match &page.search {
            Some(_) => format!("WHERE {}", RankingPage::found_in(&part)),
            None => String::new(),
        };
        let sql = format!(
            "SELECT {part} AS part, sum(client.receipts) AS receipts,
                sum(client.proven) AS proven, count() AS clients, {}
             FROM (SELECT piece.{key} AS {key}, sum(piece.receipts) AS receipts, {PROVEN}
                FROM {} GROUP BY piece.{key}, piece.client_id, piece.key_fingerprint
                HAVING sum(piece.receipts) > 0) AS client {found}
             GROUP BY client.{key} {}",
            page.column(&tie(&part)),
            source.rows(),
            page.end(),
        );
        let rows: Vec<ShareRow> = self.warehouse.rows(name, page.bind(source.call(&sql))).await?;
        Ok(page.ranking(rows).map(|row| {
            let by_trust = ByTrust::of_sums(row.receipts, row.proven);
            Share {
                key: row.part,
                receipt_count: by_trust.total(),
                by_trust,
                unique_clients: row.clients,
            }
        }))
    }
}
