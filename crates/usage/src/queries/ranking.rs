//! Entries or clients by number of receipts: the most used entries, or the busiest clients.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::ByTrust;
use super::column::QueryColumn;
use super::source::{PROVEN, RowSource};
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

/// Kind of a ranking's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Each entry.
    Entry,
    /// Each key of each client: whoever uses another's client ID has another key.
    Client,
}

/// An entry, whose key is zero, or a client's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ItemId {
    pub(super) id: Uuid,
    pub(super) key: [u8; 32],
}

impl By {
    /// The column of the ID.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Entry => "entry_id",
            Self::Client => "client_id",
        }
    }

    /// An item's key in a table called `rows`.
    pub(super) fn key(self, rows: &str) -> String {
        match self {
            Self::Entry => "toFixedString('', 32)".to_owned(),
            Self::Client => format!("CAST({rows}.key_fingerprint AS FixedString(32))"),
        }
    }

    fn columns(self) -> &'static [QueryColumn] {
        match self {
            Self::Entry => &[QueryColumn::Entry, QueryColumn::Last, QueryColumn::Operator],
            Self::Client => &[
                QueryColumn::Client,
                QueryColumn::Key,
                QueryColumn::Last,
                QueryColumn::Operator,
            ],
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Entry => "piece.entry_id",
            Self::Client => "piece.client_id, piece.key_fingerprint",
        }
    }

    fn operator(self) -> &'static str {
        match self {
            Self::Entry => "''",
            Self::Client => LAST_OPERATOR,
        }
    }
}

/// The operator of the last receipt, over rows called `piece`.
pub(super) const LAST_OPERATOR: &str = "argMax(toString(piece.operator), (piece.last_ms, piece.operator))";

/// An entry or client and how much it was.
#[derive(Debug, Clone, Row, Deserialize)]
pub(super) struct Ranked {
    #[serde(with = "clickhouse::serde::uuid")]
    pub(super) id: Uuid,
    pub(super) key: [u8; 32],
    receipts: i64,
    proven: i64,
    /// The last receipt's timestamp.
    pub(super) last_ms: i64,
    /// The operator of a client's last receipt; empty if it has none.
    pub(super) last_operator: String,
    least: i64,
    total: u64,
}

impl Ranked {
    pub(super) fn item(&self) -> ItemId {
        ItemId {
            id: self.id,
            key: self.key,
        }
    }

    pub(super) fn by_trust(&self) -> ByTrust {
        ByTrust::of_sums(self.receipts, self.proven)
    }
}

#[derive(Row, Deserialize)]
struct LastRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    key: [u8; 32],
    last_ms: i64,
    last_operator: String,
}

impl Usage {
    /// The items with the most receipts, at most `top_max`; equal ones in order of their text.
    pub(super) async fn ranked(
        &self,
        name: &'static str,
        by: By,
        scope: &QueryScope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<Ranked>, WarehouseError> {
        let source = RowSource::new(scope, filter, &[], by.columns());
        let (id, key, group) = (by.id(), by.key("piece"), by.group());
        let operator = by.operator();
        let sql = format!(
            "SELECT piece.{id} AS id, {key} AS key, sum(piece.receipts) AS receipts, {PROVEN},
                max(piece.last_ms) AS last_ms, {operator} AS last_operator, min(piece.receipts) AS least,
                count() OVER () AS total
             FROM {} GROUP BY {group} HAVING sum(piece.receipts) > 0
             ORDER BY receipts DESC, toString(id), key LIMIT {{top_max:UInt32}}",
            source.rows()
        );
        let call = source.call(&sql).with("top_max", top_max);
        let mut items: Vec<Ranked> = self.warehouse.rows(name, call).await?;
        // Keys that add up to 0 have a row without receipts, and their times don't count. Summing
        // all rows by key would take several times as long, and only erasures leave such keys.
        let compensated = items.iter().filter(|row| row.least <= 0).map(|row| row.id);
        let compensated: Vec<Uuid> = compensated.collect();
        if !compensated.is_empty() {
            let source = RowSource::new(scope, filter, &[], by.columns());
            let source = source.only(id, compensated.into_iter()).by_key();
            let sql = format!(
                "SELECT piece.{id} AS id, {key} AS key, max(piece.last_ms) AS last_ms, {operator} AS last_operator
                 FROM {} GROUP BY {group}",
                source.rows()
            );
            let rows: Vec<LastRow> = self.warehouse.rows(name, source.call(&sql)).await?;
            let last = rows
                .into_iter()
                .map(|row| ((row.id, row.key), (row.last_ms, row.last_operator)));
            let mut last: HashMap<_, _> = last.collect();
            for item in &mut items {
                if let Some(found) = last.remove(&(item.id, item.key)) {
                    (item.last_ms, item.last_operator) = found;
                }
            }
        }
        let total = items.first().map_or(0, |item| item.total);
        Ok(Ranking { items, total })
    }
}
