//! IDs by number of receipts: the most used entries, or the busiest clients.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, Scope, WarehouseError};

use super::column::Column;
use super::source::{Source, count};
use crate::Usage;

/// The first items of a list by number of receipts, largest first, equal ones in text order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking<T> {
    /// At most as many as were requested.
    pub items: Vec<T>,
    /// Number of all items.
    pub total: u64,
}

impl<T> Default for Ranking<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
        }
    }
}

/// An entry or client and how much it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    pub(super) id: Uuid,
    pub(super) receipts: u64,
    /// The last receipt's timestamp.
    pub(super) last_ms: i64,
}

#[derive(Row, Deserialize)]
struct RankedRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    receipts: i64,
    last_ms: i64,
    least: i64,
    total: u64,
}

#[derive(Row, Deserialize)]
struct LastRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    last_ms: i64,
}

impl Usage {
    /// The IDs of a column with the most receipts, at most `top_max`; equal ones in order of their
    /// text. `id` is the column's name.
    pub(super) async fn ranked(
        &self,
        name: &'static str,
        (column, id): (Column, &'static str),
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Ranked>, WarehouseError> {
        let columns = [column, Column::Last];
        let source = Source::new(scope, filter, &[], &columns);
        let sql = format!(
            "SELECT piece.{id} AS id, sum(piece.receipts) AS receipts, max(piece.last_ms) AS last_ms,
                min(piece.receipts) AS least, count() OVER () AS total
             FROM {} GROUP BY piece.{id} HAVING sum(piece.receipts) > 0
             ORDER BY receipts DESC, toString(id) LIMIT {{top_max:UInt32}}",
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max);
        let rows: Vec<RankedRow> = self.warehouse.rows(name, call).await?;
        // Keys that add up to 0 have a row without receipts, and their times don't count. Summing
        // all rows by key would take several times as long, and only erasures leave such keys.
        let compensated = rows.iter().filter(|row| row.least <= 0).map(|row| row.id);
        let mut last_ms = HashMap::new();
        if compensated.clone().next().is_some() {
            let source = Source::new(scope, filter, &[], &columns).only(id, compensated).by_key();
            let sql = format!(
                "SELECT piece.{id} AS id, max(piece.last_ms) AS last_ms FROM {} GROUP BY piece.{id}",
                source.rows()
            );
            let rows: Vec<LastRow> = self.warehouse.rows(name, source.call(&sql)).await?;
            last_ms.extend(rows.into_iter().map(|row| (row.id, row.last_ms)));
        }
        let total = rows.first().map_or(0, |row| row.total);
        let ranked = |row: RankedRow| Ranked {
            id: row.id,
            receipts: count(row.receipts),
            last_ms: last_ms.get(&row.id).copied().unwrap_or(row.last_ms),
        };
        Ok(Ranking {
            items: rows.into_iter().map(ranked).collect(),
            total,
        })
    }
}
