//! Rankings of entries and of clients.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::ByTrust;
use super::column::QueryColumn;
use super::page::{PageColumn, Ranking, RankingPage, RankingSort, tie};
use super::source::{PROVEN, RowSource};
use crate::Usage;

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

    /// Columns of the names that a page needs.
    fn names(self, page: &RankingPage) -> &'static [QueryColumn] {
        match self {
            Self::Client if page.search.is_some() => &[QueryColumn::ClientName, QueryColumn::Organization],
            Self::Client if page.sort == RankingSort::Name => &[QueryColumn::ClientName],
            Self::Client | Self::Entry => &[],
        }
    }

    /// A condition on a group that it is searched for: a client by any of its receipts' names.
    fn found(self, page: &RankingPage) -> String {
        if page.search.is_none() || self == Self::Entry {
            return String::new();
        }
        let names = ["piece.client_name", "piece.organization", "toString(piece.operator)"];
        let names = names.map(RankingPage::found_in).join(" OR ");
        format!(" AND sumIf(piece.receipts, {names}) > 0")
    }

    /// An expression over a group that orders items and distinguishes them.
    fn tie(self, page: &RankingPage) -> String {
        match self {
            Self::Entry => "toString(piece.entry_id)".to_owned(),
            Self::Client if page.sort == RankingSort::Name => {
                let name = "lowerUTF8(argMax(piece.client_name, (piece.last_ms, piece.client_name)))";
                format!("concat({}, char(0), {CLIENT_TEXT})", tie(name))
            }
            Self::Client => CLIENT_TEXT.to_owned(),
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

/// A client as a text, over rows called `piece`: the ID, then the key.
pub(super) const CLIENT_TEXT: &str =
    "concat(toString(piece.client_id), lower(hex(CAST(piece.key_fingerprint AS FixedString(32)))))";

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
    page: PageColumn,
}

impl AsRef<PageColumn> for Ranked {
    fn as_ref(&self) -> &PageColumn {
        &self.page
    }
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
    /// A page of the items; of `only` those, if it is given.
    pub(super) async fn ranked(
        &self,
        name: &'static str,
        by: By,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
        only: Option<&[Uuid]>,
    ) -> Result<Ranking<Ranked>, WarehouseError> {
        let columns: Vec<QueryColumn> = by.columns().iter().chain(by.names(page)).copied().collect();
        let mut source = RowSource::new(scope, filter, &[], &columns);
        let (id, key, group) = (by.id(), by.key("piece"), by.group());
        if let Some(only) = only {
            source = source.only(id, only.iter().copied());
        }
        if page.is_by_newest() {
            source = source.by_key();
        }
        let operator = by.operator();
        let sql = format!(
            "SELECT piece.{id} AS id, {key} AS key, sum(piece.receipts) AS receipts, {PROVEN},
                max(piece.last_ms) AS last_ms, {operator} AS last_operator, min(piece.receipts) AS least, {}
             FROM {} GROUP BY {group} HAVING sum(piece.receipts) > 0{} {}",
            page.column(&by.tie(page)),
            source.rows(),
            by.found(page),
            page.end(),
        );
        let rows: Vec<Ranked> = self.warehouse.rows(name, page.bind(source.call(&sql))).await?;
        let mut ranking = page.ranking(rows);
        let items = &mut ranking.items;
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
            for item in items {
                if let Some(found) = last.remove(&(item.id, item.key)) {
                    (item.last_ms, item.last_operator) = found;
                }
            }
        }
        Ok(ranking)
    }
}
