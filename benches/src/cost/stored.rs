//! Tables as the engine's system tables describe them: parts, merges, and bytes by column.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::sql;

/// Counters of the whole engine. `system.part_log` doesn't exist in the embedded one.
const EVENTS: &str = "SELECT event, value FROM system.events WHERE event IN ('InsertQuery', 'InsertedRows', \
    'InsertedBytes', 'Merge', 'MergedRows', 'MergeTotalMilliseconds', 'SelectQuery', 'FileSync') ORDER BY event";
/// A part that an insert made has a block number of its own.
const TABLES: &str = "SELECT table, sum(inserted), sum(read), sum(replaced), sum(remaining), sum(bytes), max(merges) FROM ( \
    SELECT table, partition_id, max(max_block_number) AS inserted, countIf(active) AS read, \
    countIf(NOT active) AS replaced, sumIf(rows, active) AS remaining, sumIf(bytes_on_disk, active) AS bytes, \
    max(level) AS merges FROM system.parts WHERE database = 'receipts' GROUP BY table, partition_id) \
    GROUP BY table ORDER BY table";
/// Small parts don't know the sizes of their columns.
const COLUMNS: &str = "SELECT concat(table, '.', column), sum(column_data_compressed_bytes) / sum(rows) AS bytes \
    FROM system.parts_columns WHERE active AND column_data_compressed_bytes > 0 AND database = 'receipts' \
    GROUP BY table, column ORDER BY bytes DESC";

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Parts that inserts made.
    pub inserts: f64,
    /// Parts that queries read.
    pub parts: f64,
    /// Parts that merges replaced and that wait for their deletion.
    pub inactive_parts: f64,
    /// Rows of the active parts.
    pub rows: f64,
    /// Bytes of the active parts.
    pub bytes: f64,
    /// Merges that the most merged part went through.
    pub level: f64,
}

/// The engine's counters so far.
///
/// # Errors
/// The engine doesn't answer.
pub async fn events(socket: &Path) -> Result<BTreeMap<String, f64>> {
    let text = sql::run(socket, EVENTS).await?;
    numbers(&text, |name, values| Ok((name, *values.first().context("no value")?)))
}

/// Tables by name.
///
/// # Errors
/// The engine doesn't answer.
pub async fn tables(socket: &Path) -> Result<BTreeMap<String, Table>> {
    let text = sql::run(socket, TABLES).await?;
    numbers(&text, |name, values| {
        let [inserts, parts, inactive_parts, rows, bytes, level] =
            values.try_into().ok().context("a table has six numbers")?;
        let table = Table {
            inserts,
            parts,
            inactive_parts,
            rows,
            bytes,
            level,
        };
        Ok((name, table))
    })
}

/// Compressed bytes of a row by `table.column`, in the parts that know them.
///
/// # Errors
/// The engine doesn't answer.
pub async fn columns(socket: &Path) -> Result<BTreeMap<String, f64>> {
    let text = sql::run(socket, COLUMNS).await?;
    numbers(&text, |name, values| Ok((name, *values.first().context("no value")?)))
}

/// Lines of a name and numbers.
fn numbers<V>(text: &str, read: impl Fn(String, &[f64]) -> Result<(String, V)>) -> Result<BTreeMap<String, V>> {
    let lines = text.lines().map(|line| {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default().to_owned();
        let values = fields.map(str::parse).collect::<Result<Vec<f64>, _>>();
        read(name, &values.with_context(|| line.to_owned())?)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_are_names_and_numbers() {
        let first = |name, values: &[f64]| Ok((name, values.first().copied().unwrap_or_default()));
        let read = numbers("Merge\t12\nFileSync\t3", first).unwrap();
        assert_eq!(read, [("FileSync".to_owned(), 3.0), ("Merge".to_owned(), 12.0)].into());
        assert!(numbers("Merge\ttwelve", first).is_err());
    }
}
