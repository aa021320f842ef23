//! The most used entries and the busiest clients, as lists of their own.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, Filter, Ranking, Scope, Usage, receipts_condition, scoped};
use crate::WarehouseError;

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
struct EntryRow {
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    newest_url: String,
    receipts: u64,
    clients: u64,
    last_ms: i64,
    total: u64,
}

#[derive(Row, Deserialize)]
struct ClientRow {
    #[serde(with = "clickhouse::serde::uuid")]
    client: Uuid,
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
        if scope.is_empty() {
            return Ok(Ranking::default());
        }
        let condition = receipts_condition(scope, filter);
        let sql = format!(
            "SELECT entry_id AS entry, argMax(url, (timestamp, url)) AS newest_url, count() AS receipts,
                uniqExact(client_id) AS clients, toUnixTimestamp64Milli(max(timestamp)) AS last_ms, count() OVER () AS total
             FROM receipts FINAL WHERE {condition}
             GROUP BY entry_id ORDER BY receipts DESC, toString(entry) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let rows: Vec<EntryRow> = self
            .warehouse
            .rows("top_content", scoped(sql, scope, filter).with("top_max", top_max))
            .await?;
        let total = rows.first().map_or(0, |row| row.total);
        let entry = |row: EntryRow| EntryUsage {
            entry_id: row.entry,
            url: row.newest_url,
            receipt_count: row.receipts,
            unique_clients: row.clients,
            last_seen_ms: row.last_ms,
        };
        Ok(Ranking {
            items: rows.into_iter().map(entry).collect(),
            total,
        })
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
        if scope.is_empty() {
            return Ok(Ranking::default());
        }
        let condition = receipts_condition(scope, filter);
        let sql = format!(
            "SELECT CAST(client_id AS UUID) AS client, argMax(client_name, (timestamp, client_name)) AS newest_name,
                argMax(organization, (timestamp, organization)) AS newest_organization, count() AS receipts,
                toUnixTimestamp64Milli(max(timestamp)) AS last_ms, count() OVER () AS total
             FROM receipts FINAL WHERE {condition}
             GROUP BY client ORDER BY receipts DESC, toString(client) LIMIT {{top_max:UInt32}} {FINAL_SETTINGS}"
        );
        let rows: Vec<ClientRow> = self
            .warehouse
            .rows("top_clients", scoped(sql, scope, filter).with("top_max", top_max))
            .await?;
        let total = rows.first().map_or(0, |row| row.total);
        let client = |row: ClientRow| ClientUsage {
            client_id: row.client,
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
