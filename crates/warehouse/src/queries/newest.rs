//! What the newest receipts of some entries or clients say, once it is known when those were.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, Filter, Scope, Usage, receipts_condition, scoped};
use crate::WarehouseError;

#[derive(Row, Deserialize)]
struct NewestRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    texts: Vec<String>,
}

/// Whose newest receipts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// Entries; one text, the URL.
    Entries,
    /// Clients; two texts, name and organization.
    Clients,
}

impl Usage<'_> {
    /// The texts of the receipts with these ids and timestamps (milliseconds); of several of one id and timestamp the greatest of
    /// each. It costs the hours that the timestamps lie in, of these entries.
    pub(super) async fn newest(
        &self,
        scope: &Scope,
        filter: &Filter,
        of: Of,
        found: impl Iterator<Item = (Uuid, i64)>,
    ) -> Result<HashMap<Uuid, Vec<String>>, WarehouseError> {
        let (ids, times_ms): (Vec<String>, Vec<i64>) = found.map(|(id, last_ms)| (id.to_string(), last_ms)).unzip();
        let (Some(first), Some(last)) = (times_ms.iter().min(), times_ms.iter().max()) else {
            return Ok(HashMap::new());
        };
        let filter = Filter {
            from_ms: *first,
            to_ms: last.saturating_add(1),
            ..filter.clone()
        };
        let (column, texts, key) = match of {
            Of::Entries => ("entry_id", "[max(toString(url))]", " AND entry_id IN {ids:Array(UUID)}"),
            Of::Clients => (
                "client_id",
                "[max(toString(client_name)), max(toString(organization))]",
                "",
            ),
        };
        let condition = receipts_condition(scope, &filter);
        let sql = format!(
            "SELECT CAST({column} AS UUID) AS id, {texts} AS texts
             FROM receipts FINAL WHERE {condition}{key}
                AND timestamp IN arrayMap(ms -> fromUnixTimestamp64Milli(ms, 'UTC'), {{times_ms:Array(Int64)}})
                AND (id, toUnixTimestamp64Milli(timestamp)) IN arrayZip({{ids:Array(UUID)}}, {{times_ms:Array(Int64)}})
             GROUP BY id {FINAL_SETTINGS}"
        );
        let call = scoped(sql, scope, &filter).with("ids", ids).with("times_ms", times_ms);
        let rows: Vec<NewestRow> = self.warehouse.rows("newest", call).await?;
        Ok(rows.into_iter().map(|row| (row.id, row.texts)).collect())
    }
}
