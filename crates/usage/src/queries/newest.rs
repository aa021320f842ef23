//! Texts of the newest receipts of some entries or clients, once the instants of those are found.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{FINAL_SETTINGS, Filter, QueryScope, SqlStatement, WarehouseError};

use super::column::{QueryColumn, key};
use super::ranking::{By, ItemId};
use super::source::{STAMP_OF_RECEIPTS, STAMP_OF_USAGE};
use crate::calendar::day_of;
use crate::{Grain, Usage};

/// Texts of a newest receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewestTexts {
    /// An entry's URL.
    EntryUrl,
    /// A client's name and organization.
    ClientNames,
}

#[derive(Row, Deserialize)]
struct NewestRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    key: [u8; 32],
    last_ms: i64,
    texts: Vec<String>,
}

impl NewestRow {
    fn item(&self) -> ItemId {
        let Self { id, key, .. } = *self;
        ItemId { id, key }
    }
}

impl NewestTexts {
    /// The grain that has the texts.
    fn grain(self) -> Grain {
        match self {
            Self::EntryUrl => Grain::Entry,
            Self::ClientNames => Grain::Client,
        }
    }

    fn by(self) -> By {
        match self {
            Self::EntryUrl => By::Entry,
            Self::ClientNames => By::Client,
        }
    }

    /// A condition that an item of a row called `stored` at `time` is one of those with `times`.
    fn condition(self, time: &str, times: &str) -> String {
        match self {
            Self::EntryUrl => format!("(stored.entry_id, {time}) IN arrayZip({{ids:Array(UUID)}}, {times})"),
            Self::ClientNames => format!(
                "(stored.client_id, CAST(stored.key_fingerprint AS FixedString(32)), {time}) IN arrayZip(
                    {{ids:Array(UUID)}}, arrayMap(one -> toFixedString(unhex(one), 32), {{keys:Array(String)}}), {times})"
            ),
        }
    }

    /// The call with the items of [`condition`](Self::condition) bound.
    fn bind(self, call: SqlStatement, newest: &[(ItemId, i64)]) -> SqlStatement {
        let ids: Vec<String> = newest.iter().map(|(item, _)| item.id.to_string()).collect();
        let call = call.with("ids", ids);
        match self {
            Self::EntryUrl => call,
            Self::ClientNames => {
                let keys: Vec<String> = newest.iter().map(|(item, _)| hex::encode(item.key)).collect();
                call.with("keys", keys)
            }
        }
    }

    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::EntryUrl => &["url"],
            Self::ClientNames => &["client_name", "organization"],
        }
    }

    /// An array of the texts of the newest row, each in this expression.
    fn array(self, expression: impl Fn(&str) -> String) -> String {
        let texts: Vec<String> = self.columns().iter().map(|column| expression(column)).collect();
        format!("[{}]", texts.join(", "))
    }
}

impl Usage {
    /// Texts of the newest receipts of these items, whose timestamps are given in milliseconds; of
    /// several receipts of an item and timestamp the greatest of each text.
    pub(super) async fn newest(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        texts: NewestTexts,
        newest: &[(ItemId, i64)],
    ) -> Result<HashMap<ItemId, Vec<String>>, WarehouseError> {
        let mut found = HashMap::with_capacity(newest.len());
        if QueryColumn::of_filter(filter).all(|column| column.is_in(texts.grain())) {
            let wanted: HashMap<ItemId, i64> = newest.iter().copied().collect();
            let days = self.newest_of_days(scope, filter, texts, newest).await?;
            // A range that leaves out later receipts of the day needs the receipts themselves.
            let is_wanted = |row: &NewestRow| wanted.get(&row.item()) == Some(&row.last_ms);
            let rows = days.into_iter().filter(is_wanted);
            found.extend(rows.map(|row| (row.item(), row.texts)));
        }
        let missing = newest.iter().filter(|(item, _)| !found.contains_key(item));
        let missing: Vec<(ItemId, i64)> = missing.copied().collect();
        let rest = self.newest_of_receipts(scope, filter, texts, &missing).await?;
        found.extend(rest.into_iter().map(|row| (row.item(), row.texts)));
        Ok(found)
    }

    /// The newest rows of the days of these instants.
    async fn newest_of_days(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        texts: NewestTexts,
        newest: &[(ItemId, i64)],
    ) -> Result<Vec<NewestRow>, WarehouseError> {
        if newest.is_empty() {
            return Ok(Vec::new());
        }
        let day = |ms: i64| u32::try_from(ms / 1_000).map_or(0, day_of);
        let days: Vec<u32> = newest.iter().map(|(_, ms)| day(*ms)).collect();
        let (by, grain) = (texts.by(), texts.grain());
        let (id, key_of_item) = (by.id(), by.key("stored"));
        let columns = texts.columns().iter();
        let columns: Vec<String> = columns
            .map(|column| format!("toString(stored.{column}) AS {column}"))
            .collect();
        let sql = format!(
            "SELECT day.id AS id, day.item_key AS key, max(day.last_ms) AS last_ms, {} AS texts
             FROM (SELECT stored.{id} AS id, {key_of_item} AS item_key, max(stored.last_ms) AS last_ms, {}
                FROM usage AS stored WHERE stored.grain = '{}' AND {} AND stored.time IN {{days:Array(UInt32)}}
                    AND stored.{id} IN {{ids:Array(UUID)}}
                    AND {}{}
                GROUP BY {} HAVING sum(stored.receipts) > 0) AS day
             GROUP BY day.id, day.item_key",
            texts.array(|column| format!("argMax(day.{column}, (day.last_ms, day.{column}))")),
            columns.join(", "),
            grain.name(),
            scope.condition(),
            texts.condition("stored.time", "{days:Array(UInt32)}"),
            and(&filter.conditions("stored.", STAMP_OF_USAGE)),
            key(grain),
        );
        let call = texts
            .bind(scope.bind(SqlStatement::new(sql)), newest)
            .with("days", days);
        self.warehouse.rows("newest", filter.bind(call)).await
    }

    /// Texts of the receipts of these instants. The cost is that of the instants' hours, of these
    /// entries.
    async fn newest_of_receipts(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        texts: NewestTexts,
        newest: &[(ItemId, i64)],
    ) -> Result<Vec<NewestRow>, WarehouseError> {
        let times_ms: Vec<i64> = newest.iter().map(|(_, ms)| *ms).collect();
        let (Some(first_ms), Some(last_ms)) = (times_ms.iter().min(), times_ms.iter().max()) else {
            return Ok(Vec::new());
        };
        let (first_ms, last_ms) = (*first_ms, *last_ms);
        let entries = match texts {
            NewestTexts::EntryUrl => " AND stored.entry_id IN {ids:Array(UUID)}",
            NewestTexts::ClientNames => "",
        };
        let (id, key_of_item) = (texts.by().id(), texts.by().key("stored"));
        let sql = format!(
            "SELECT CAST(stored.{id} AS UUID) AS id, {key_of_item} AS key, max(toUnixTimestamp64Milli(stored.timestamp)) AS last_ms,
                {} AS texts
             FROM receipts AS stored FINAL WHERE {}{entries}
                AND stored.timestamp >= fromUnixTimestamp64Milli({{first_ms:Int64}}, 'UTC')
                AND stored.timestamp <= fromUnixTimestamp64Milli({{last_ms:Int64}}, 'UTC')
                AND stored.timestamp IN arrayMap(ms -> fromUnixTimestamp64Milli(ms, 'UTC'), {{times_ms:Array(Int64)}})
                AND {}{}
             GROUP BY id, key {FINAL_SETTINGS}",
            texts.array(|column| format!("max(toString(stored.{column}))")),
            scope.condition(),
            texts.condition("toUnixTimestamp64Milli(stored.timestamp)", "{times_ms:Array(Int64)}"),
            and(&filter.conditions("stored.", STAMP_OF_RECEIPTS)),
        );
        let call = texts
            .bind(scope.bind(SqlStatement::new(sql)), newest)
            .with("times_ms", times_ms);
        let call = call.with("first_ms", first_ms).with("last_ms", last_ms);
        self.warehouse.rows("newest", filter.bind(call)).await
    }
}

fn and(conditions: &[String]) -> String {
    conditions.iter().map(|condition| format!(" AND {condition}")).collect()
}
