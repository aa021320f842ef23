//! Texts of the newest receipts of some entries or clients, once the instants of those are found.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;
use warehouse::{Call, FINAL_SETTINGS, Filter, Scope, WarehouseError};

use super::column::{Column, key};
use super::source::{bind_filter, narrowing};
use crate::calendar::day_of;
use crate::{Grain, Usage};

/// Texts of a newest receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    /// An entry's URL.
    EntryUrl,
    /// A client's name and organization.
    ClientNames,
}

#[derive(Row, Deserialize)]
struct NewestRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    last_ms: i64,
    texts: Vec<String>,
}

impl Texts {
    /// The grain that has the texts.
    fn grain(self) -> Grain {
        match self {
            Self::EntryUrl => Grain::Entry,
            Self::ClientNames => Grain::Client,
        }
    }

    fn id(self) -> &'static str {
        match self {
            Self::EntryUrl => "entry_id",
            Self::ClientNames => "client_id",
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
    /// Texts of the newest receipts with these IDs, whose timestamps are given in milliseconds; of
    /// several receipts of an ID and timestamp the greatest of each text.
    pub(super) async fn newest(
        &self,
        scope: &Scope,
        filter: &Filter,
        texts: Texts,
        newest: &[(Uuid, i64)],
    ) -> Result<HashMap<Uuid, Vec<String>>, WarehouseError> {
        let mut found = HashMap::with_capacity(newest.len());
        if Column::of_filter(filter).all(|column| column.is_in(texts.grain())) {
            let wanted: HashMap<Uuid, i64> = newest.iter().copied().collect();
            let days = self.newest_of_days(scope, filter, texts, newest).await?;
            // A range that leaves out later receipts of the day needs the receipts themselves.
            let is_wanted = |row: &NewestRow| wanted.get(&row.id) == Some(&row.last_ms);
            let rows = days.into_iter().filter(is_wanted);
            found.extend(rows.map(|row| (row.id, row.texts)));
        }
        let missing = newest.iter().filter(|(id, _)| !found.contains_key(id));
        let missing: Vec<(Uuid, i64)> = missing.copied().collect();
        let rest = self.newest_of_receipts(scope, filter, texts, &missing).await?;
        found.extend(rest.into_iter().map(|row| (row.id, row.texts)));
        Ok(found)
    }

    /// The newest rows of the days of these instants.
    async fn newest_of_days(
        &self,
        scope: &Scope,
        filter: &Filter,
        texts: Texts,
        newest: &[(Uuid, i64)],
    ) -> Result<Vec<NewestRow>, WarehouseError> {
        if newest.is_empty() {
            return Ok(Vec::new());
        }
        let day = |ms: i64| u32::try_from(ms / 1_000).map_or(0, day_of);
        let (ids, days): (Vec<String>, Vec<u32>) = newest.iter().map(|(id, ms)| (id.to_string(), day(*ms))).unzip();
        let (id, grain) = (texts.id(), texts.grain());
        let columns = texts.columns().iter();
        let columns: Vec<String> = columns
            .map(|column| format!("toString(stored.{column}) AS {column}"))
            .collect();
        let sql = format!(
            "SELECT day.id AS id, max(day.last_ms) AS last_ms, {} AS texts
             FROM (SELECT stored.{id} AS id, max(stored.last_ms) AS last_ms, {}
                FROM usage AS stored WHERE stored.grain = '{}' AND {} AND stored.time IN {{days:Array(UInt32)}}
                    AND stored.{id} IN {{ids:Array(UUID)}}
                    AND (stored.{id}, stored.time) IN arrayZip({{ids:Array(UUID)}}, {{days:Array(UInt32)}}){}
                GROUP BY {} HAVING sum(stored.receipts) > 0) AS day
             GROUP BY day.id",
            texts.array(|column| format!("argMax(day.{column}, (day.last_ms, day.{column}))")),
            columns.join(", "),
            grain.name(),
            scope.condition(),
            and_narrowing(filter),
            key(grain),
        );
        let call = scope.bind(Call::new(sql)).with("ids", ids).with("days", days);
        self.warehouse.rows("newest", bind_filter(call, filter)).await
    }

    /// Texts of the receipts of these instants. The cost is that of the instants' hours, of these
    /// entries.
    async fn newest_of_receipts(
        &self,
        scope: &Scope,
        filter: &Filter,
        texts: Texts,
        newest: &[(Uuid, i64)],
    ) -> Result<Vec<NewestRow>, WarehouseError> {
        let (ids, times_ms): (Vec<String>, Vec<i64>) = newest.iter().map(|(id, ms)| (id.to_string(), *ms)).unzip();
        let (Some(first_ms), Some(last_ms)) = (times_ms.iter().min(), times_ms.iter().max()) else {
            return Ok(Vec::new());
        };
        let (first_ms, last_ms) = (*first_ms, *last_ms);
        let entries = match texts {
            Texts::EntryUrl => " AND stored.entry_id IN {ids:Array(UUID)}",
            Texts::ClientNames => "",
        };
        let id = texts.id();
        let sql = format!(
            "SELECT CAST(stored.{id} AS UUID) AS id, max(toUnixTimestamp64Milli(stored.timestamp)) AS last_ms,
                {} AS texts
             FROM receipts AS stored FINAL WHERE {}{entries}
                AND stored.timestamp >= fromUnixTimestamp64Milli({{first_ms:Int64}}, 'UTC')
                AND stored.timestamp <= fromUnixTimestamp64Milli({{last_ms:Int64}}, 'UTC')
                AND stored.timestamp IN arrayMap(ms -> fromUnixTimestamp64Milli(ms, 'UTC'), {{times_ms:Array(Int64)}})
                AND (id, toUnixTimestamp64Milli(stored.timestamp))
                    IN arrayZip({{ids:Array(UUID)}}, {{times_ms:Array(Int64)}}){}
             GROUP BY id {FINAL_SETTINGS}",
            texts.array(|column| format!("max(toString(stored.{column}))")),
            scope.condition(),
            and_narrowing(filter),
        );
        let call = scope.bind(Call::new(sql)).with("ids", ids).with("times_ms", times_ms);
        let call = call.with("first_ms", first_ms).with("last_ms", last_ms);
        self.warehouse.rows("newest", bind_filter(call, filter)).await
    }
}

fn and_narrowing(filter: &Filter) -> String {
    let conditions = narrowing(filter).into_iter();
    conditions.map(|condition| format!(" AND {condition}")).collect()
}
