//! The most used entries and the busiest clients, as lists of their own.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::dashboard::UsedEntry;
use super::source::{Column, Cube};
use super::{FINAL_SETTINGS, Filter, Ranking, Scope, Usage};
use crate::rollup::ClientSum;
use crate::{RollupView, WarehouseError};

/// One entry and how it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryUsage {
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// Its URL, as the newest receipt gives it.
    pub url: String,
    /// Receipts.
    pub receipt_count: u64,
    /// Distinct clients.
    pub unique_clients: u64,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

/// One client and how much it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUsage {
    /// `client.id`.
    pub client_id: Uuid,
    /// `client.name` of its newest receipt.
    pub name: String,
    /// `client.organization` of its newest receipt.
    pub organization: String,
    /// Receipts.
    pub receipt_count: u64,
    /// The last receipt's timestamp, milliseconds since the Unix epoch.
    pub last_seen_ms: i64,
}

#[derive(Row, Deserialize)]
struct ClientsRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry_of: Uuid,
    clients: u64,
}

#[derive(Row, Deserialize)]
struct ClientRow {
    #[serde(with = "clickhouse::serde::uuid")]
    client_of: Uuid,
    newest_name: String,
    newest_organization: String,
    receipts: u64,
    last_ms: i64,
    total: u64,
}

impl Usage<'_> {
    /// The most used entries, at most `top_max`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn top_content(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<EntryUsage>, WarehouseError> {
        if scope.is_empty() || top_max == 0 {
            return Ok(Ranking::default());
        }
        let top = self.most_used("top_content", scope, filter, top_max).await?;
        let ids: Vec<Uuid> = top.entries.iter().map(|entry| entry.entry_id).collect();
        let clients = match self
            .clients_of_entries("top_content_clients", scope, filter, &ids)
            .await?
        {
            Some(clients) => clients,
            None => self.clients_of_entries_in_sql(scope, filter, &ids).await?,
        };
        let entry = |entry: UsedEntry| EntryUsage {
            unique_clients: clients.get(&entry.entry_id).copied().unwrap_or(0),
            entry_id: entry.entry_id,
            url: entry.url,
            receipt_count: entry.receipts,
            last_seen_ms: entry.last_ms,
        };
        Ok(Ranking {
            items: top.entries.into_iter().map(entry).collect(),
            total: top.total,
        })
    }

    async fn clients_of_entries_in_sql(
        &self,
        scope: &Scope,
        filter: &Filter,
        entries: &[Uuid],
    ) -> Result<HashMap<Uuid, u64>, WarehouseError> {
        let source = self.source(scope, filter, &[], Cube::Entries).await?;
        let rows = source.rows(&[Column::Entry, Column::Client]);
        let sql = format!(
            "SELECT entry AS entry_of, uniqExact(client) AS clients FROM {rows} WHERE entry IN {{entries:Array(UUID)}}
             GROUP BY entry {FINAL_SETTINGS}"
        );
        let entries: Vec<String> = entries.iter().map(Uuid::to_string).collect();
        let call = source.call(sql).with("entries", entries);
        let rows: Vec<ClientsRow> = self.warehouse.rows("top_content_clients", call).await?;
        Ok(rows.into_iter().map(|row| (row.entry_of, row.clients)).collect())
    }

    /// The busiest clients, at most `top_max`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn top_clients(
        &self,
        scope: &Scope,
        filter: &Filter,
        top_max: u32,
    ) -> Result<Ranking<ClientUsage>, WarehouseError> {
        if scope.is_empty() || top_max == 0 {
            return Ok(Ranking::default());
        }
        // Rolled rows of an entry don't name its clients.
        let nothing = RollupView::none();
        let of_clients = match filter.entry_id {
            None => *self,
            Some(_) => self.warehouse.usage(&nothing),
        };
        if let Some(summed) = of_clients
            .summed::<ClientSum>("top_clients", scope, filter, &[])
            .await?
        {
            return summed.into(move |summed| summed.top_clients(top_max)).await;
        }
        let source = of_clients.source(scope, filter, &[], Cube::Clients).await?;
        let rows = source.rows(&[
            Column::Count,
            Column::Client,
            Column::Last,
            Column::Name,
            Column::Organization,
        ]);
        let sql = format!(
            "SELECT client AS client_of, argMax(title, (last_at, title)) AS newest_name,
                argMax(body, (last_at, body)) AS newest_organization, sum(n) AS receipts,
                max(last_at) AS last_ms, count() OVER () AS total
             FROM {rows}
             GROUP BY client ORDER BY receipts DESC, toString(client_of) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let call = source.call(sql).with("top_max", top_max);
        let rows: Vec<ClientRow> = self.warehouse.rows("top_clients", call).await?;
        let total = rows.first().map_or(0, |row| row.total);
        let client = |row: ClientRow| ClientUsage {
            client_id: row.client_of,
            name: row.newest_name,
            organization: row.newest_organization,
            receipt_count: row.receipts,
            last_seen_ms: row.last_ms,
        };
        Ok(Ranking {
            items: rows.into_iter().map(client).collect(),
            total,
        })
    }
}
