//! The most used entries and the busiest clients, as lists of their own.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Filter, QueryScope, SqlStatement, WarehouseError};

use super::column::QueryColumn;
use super::dashboard::TopContent;
use super::newest::NewestTexts;
use super::page::RankingPage;
use super::ranking::{By, ItemId};
use super::source::RowSource;
use super::{ByTrust, Ranking};
use crate::{Grain, Usage};

/// Entry and how it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryUsage {
    /// The entry with its receipts.
    pub content: TopContent,
    /// Distinct clients.
    pub unique_clients: u64,
}

/// A key of a client and how much it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUsage {
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
    /// Receipts.
    pub receipt_count: u64,
    /// Receipts by trust.
    pub by_trust: ByTrust,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

#[derive(Row, Deserialize)]
struct EntryRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_id: Uuid,
}

#[derive(Row, Deserialize)]
struct ClientsRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_id: Uuid,
    clients: u64,
}

impl Usage {
    /// A page of the entries; of `only` those, if it is given.
    pub async fn top_content(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
        only: Option<&[Uuid]>,
    ) -> Result<Ranking<EntryUsage>, WarehouseError> {
        if scope.is_empty() || page.rows_max == 0 || only.is_some_and(<[Uuid]>::is_empty) {
            return Ok(Ranking::default());
        }
        let top = self.ranked("top_content", By::Entry, scope, filter, page, only).await?;
        let ids: Vec<Uuid> = top.items.iter().map(|entry| entry.id).collect();
        let clients = Box::pin(self.clients_of_entries(scope, filter, &ids));
        let top = Box::pin(self.with_urls(scope, filter, top));
        let (clients, top) = tokio::try_join!(clients, top)?;
        Ok(top.map(|content| EntryUsage {
            unique_clients: clients.get(&content.entry_id).copied().unwrap_or(0),
            content,
        }))
    }

    /// Entries that receipts of the scope name by a URL which contains a text, whatever its case;
    /// at most `entries_max`. The filter of a query plays no part.
    pub async fn entries_with_url(
        &self,
        scope: &QueryScope,
        text: &str,
        entries_max: u32,
    ) -> Result<Vec<Uuid>, WarehouseError> {
        if scope.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT stored.entry_id AS entry_id FROM usage AS stored
             WHERE stored.grain = '{}' AND {} AND {}
             GROUP BY entry_id HAVING sum(stored.receipts) > 0 LIMIT {{entries_max:UInt32}}",
            Grain::Entry.name(),
            scope.condition(),
            RankingPage::found_in("stored.url"),
        );
        let call = scope.bind(SqlStatement::new(sql)).with("search", text.to_owned());
        let call = call.with("entries_max", entries_max);
        let rows: Vec<EntryRow> = self.warehouse.rows("entries_with_url", call).await?;
        Ok(rows.into_iter().map(|row| row.entry_id).collect())
    }

    /// Numbers of distinct clients of these entries.
    async fn clients_of_entries(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        entries: &[Uuid],
    ) -> Result<HashMap<Uuid, u64>, WarehouseError> {
        if entries.is_empty() {
            return Ok(HashMap::new());
        }
        let columns = [QueryColumn::Entry, QueryColumn::Client, QueryColumn::Key];
        let source = RowSource::new(scope, filter, &[], &columns).only("entry_id", entries.iter().copied());
        let sql = format!(
            "SELECT client.entry_id AS entry_id, count() AS clients
             FROM (SELECT piece.entry_id AS entry_id
                FROM {} GROUP BY piece.entry_id, piece.client_id, piece.key_fingerprint
                HAVING sum(piece.receipts) > 0) AS client
             GROUP BY client.entry_id",
            source.rows()
        );
        let rows: Vec<ClientsRow> = self.warehouse.rows("top_content_clients", source.call(&sql)).await?;
        Ok(rows.into_iter().map(|row| (row.entry_id, row.clients)).collect())
    }

    /// A page of the keys of clients; of `only` those IDs, if it is given.
    pub async fn top_clients(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        page: &RankingPage,
        only: Option<&[Uuid]>,
    ) -> Result<Ranking<ClientUsage>, WarehouseError> {
        if scope.is_empty() || page.rows_max == 0 || only.is_some_and(<[Uuid]>::is_empty) {
            return Ok(Ranking::default());
        }
        let top = self
            .ranked("top_clients", By::Client, scope, filter, page, only)
            .await?;
        let newest: Vec<(ItemId, i64)> = top.items.iter().map(|client| (client.item(), client.last_ms)).collect();
        let mut names = self.newest(scope, filter, NewestTexts::ClientNames, &newest).await?;
        Ok(top.map(|client| {
            // Absent only if it was erased since.
            let mut texts = names.remove(&client.item()).unwrap_or_default().into_iter();
            ClientUsage {
                client_id: client.id,
                key_fingerprint: client.key,
                receipt_count: client.by_trust().total(),
                by_trust: client.by_trust(),
                operator: client.last_operator,
                name: texts.next().unwrap_or_default(),
                organization: texts.next().unwrap_or_default(),
                last_seen_ms: client.last_ms,
            }
        }))
    }
}
