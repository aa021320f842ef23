//! Uses of each entry by each client, all of them, page by page.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, QueryScope, WarehouseError};

use super::ByTrust;
use super::column::QueryColumn;
use super::newest::NewestTexts;
use super::page::{PageColumn, Ranking, RankingPage};
use super::ranking::{CLIENT_TEXT, ItemId, LAST_OPERATOR};
use super::source::{PROVEN, RowSource};
use crate::Usage;

/// A key of a client and how much it used an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryClientUsage {
    /// The entry.
    pub entry_id: Uuid,
    /// URL of the entry, as its newest receipt gives it.
    pub url: String,
    /// `client.id`.
    pub client_id: Uuid,
    /// SHA-256 of the key's SPKI; zeros for erased clients.
    pub key_fingerprint: [u8; 32],
    /// The operator of the key's newest receipt, a domain; empty if it has none.
    pub operator: String,
    /// `client.name` of the key's newest receipt.
    pub name: String,
    /// `client.organization` of the key's newest receipt.
    pub organization: String,
    /// Receipts by trust.
    pub by_trust: ByTrust,
}

#[derive(Row, Deserialize)]
struct PairRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_id: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    client_id: Uuid,
    key: [u8; 32],
    receipts: i64,
    proven: i64,
    operator: String,
    entry_last_ms: i64,
    client_last_ms: i64,
    page: PageColumn,
}

impl AsRef<PageColumn> for PairRow {
    fn as_ref(&self) -> &PageColumn {
        &self.page
    }
}

impl PairRow {
    fn entry(&self) -> ItemId {
        ItemId {
            id: self.entry_id,
            key: [0; 32],
        }
    }

    fn client(&self) -> ItemId {
        ItemId {
            id: self.client_id,
            key: self.key,
        }
    }
}

impl Usage {
    /// A page of the pairs of an entry and a client that used it, by their IDs: `page` has that
    /// order. Names and URLs are those of the newest receipts in the selection, as lists of clients
    /// and entries have them.
    pub async fn entry_clients(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
    ) -> Result<Ranking<EntryClientUsage>, WarehouseError> {
        if scope.is_empty() || page.rows_max == 0 {
            return Ok(Ranking::default());
        }
        let columns = [
            QueryColumn::Entry,
            QueryColumn::Client,
            QueryColumn::Key,
            QueryColumn::Operator,
            QueryColumn::Last,
        ];
        let source = RowSource::new(scope, filter, &[], &columns).by_key();
        let of_client = "OVER (PARTITION BY pair.client_id, pair.key)";
        let sql = format!(
            "SELECT pair.entry_id AS entry_id, pair.client_id AS client_id, pair.key AS key,
                pair.receipts AS receipts, pair.proven AS proven,
                argMax(pair.last_operator, (pair.last_ms, pair.last_operator)) {of_client} AS operator,
                max(pair.last_ms) OVER (PARTITION BY pair.entry_id) AS entry_last_ms,
                max(pair.last_ms) {of_client} AS client_last_ms, {}
             FROM (SELECT piece.entry_id AS entry_id, piece.client_id AS client_id,
                    CAST(piece.key_fingerprint AS FixedString(32)) AS key,
                    concat(toString(piece.entry_id), {CLIENT_TEXT}) AS pair_text,
                    sum(piece.receipts) AS receipts, {PROVEN}, {LAST_OPERATOR} AS last_operator,
                    max(piece.last_ms) AS last_ms
                FROM {} GROUP BY piece.entry_id, piece.client_id, piece.key_fingerprint
                HAVING sum(piece.receipts) > 0) AS pair
             {}",
            page.column("pair.pair_text"),
            source.rows(),
            page.end(),
        );
        let rows: Vec<PairRow> = self
            .warehouse
            .rows("entry_clients", page.bind(source.call(&sql)))
            .await?;
        let pairs = page.ranking(rows);
        let last = |item: fn(&PairRow) -> ItemId, last_ms: fn(&PairRow) -> i64| {
            let mut newest: Vec<(ItemId, i64)> = pairs.items.iter().map(|row| (item(row), last_ms(row))).collect();
            newest.sort_unstable_by_key(|(item, _)| (item.id, item.key));
            newest.dedup();
            newest
        };
        let entries = last(PairRow::entry, |row| row.entry_last_ms);
        let clients = last(PairRow::client, |row| row.client_last_ms);
        let urls = Box::pin(self.newest(scope, filter, NewestTexts::EntryUrl, &entries));
        let names = Box::pin(self.newest(scope, filter, NewestTexts::ClientNames, &clients));
        let (urls, names) = tokio::try_join!(urls, names)?;
        // Absent only if they were erased since.
        let text = |texts: Option<&Vec<String>>, number: usize| {
            let text = texts.and_then(|texts| texts.get(number));
            text.cloned().unwrap_or_default()
        };
        Ok(pairs.map(|row| EntryClientUsage {
            entry_id: row.entry_id,
            url: text(urls.get(&row.entry()), 0),
            client_id: row.client_id,
            key_fingerprint: row.key,
            name: text(names.get(&row.client()), 0),
            organization: text(names.get(&row.client()), 1),
            by_trust: ByTrust::of_sums(row.receipts, row.proven),
            operator: row.operator,
        }))
    }
}
