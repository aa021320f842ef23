//! Rolled rows held against the receipts.

use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use super::pieces::{CLIENT_KEY, ENTRY_KEY, NICE, Piece, client_columns, entry_columns};
use super::plan::{Budget, rows_in};
use super::view::RollupView;
use crate::client::Call;
use crate::queries::FINAL_SETTINGS;
use crate::{Warehouse, WarehouseError};

/// Hours of one check.
const HOURS_MAX: u32 = 24;
/// Differences that are looked at of one range of hours.
const OFF_MAX: u32 = 100_000;

/// A publisher's hour that the rolled rows don't tell as the receipts do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffBucket {
    /// The publisher.
    pub publisher: String,
    /// Its hour, since the Unix epoch.
    pub hour: u32,
    /// The table: `usage_by_client` or `usage_by_entry`.
    pub table: &'static str,
    /// How many receipts the rolled rows have more; 0 if they differ in something else.
    pub more: i64,
}

#[derive(Row, Deserialize)]
struct Off {
    publisher: String,
    hour: u32,
    more: i64,
}

impl Warehouse {
    /// The hours from `from` on that have about `rows_max` receipts, at least one hour and at most a day: what one check may well look at.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn hours_to_check(&self, from: u32, rows_max: u64) -> Result<Range<u32>, WarehouseError> {
        let rows = self.rows_of_hours(from..from.saturating_add(HOURS_MAX)).await?;
        let mut budget = Budget::of(rows_max);
        let mut end = from;
        while end < from.saturating_add(HOURS_MAX) && budget.take(rows_in(&rows, end)) {
            end += 1;
        }
        Ok(from..end)
    }

    /// Which of a view's clean hours are off within a range: in counts, or in anything else that the rolled rows tell.
    ///
    /// What came in since the view was made, or isn't committed yet, differs without being off: look again, with a newer view, before
    /// believing it.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn check_rollups(&self, view: &RollupView, hours: Range<u32>) -> Result<Vec<OffBucket>, WarehouseError> {
        let Some(window) = view.window() else {
            return Ok(Vec::new());
        };
        let hours = hours.start.max(window.start)..hours.end.min(window.end);
        let mut off = Vec::new();
        if hours.is_empty() {
            return Ok(off);
        }
        for (table, sql) in [
            ("usage_by_client", by_client(&hours, view)),
            ("usage_by_entry", by_entry(&hours, view)),
        ] {
            let call = Piece::all(hours.clone())
                .bind(Call::new(sql))
                .set(NICE.0, NICE.1)
                .set("max_threads", "1")
                .set("max_bytes_before_external_group_by", "67108864")
                .slow();
            let found: Vec<Off> = self.rows("rollup_check", call).await?;
            let clean = found.into_iter().filter(|row| view.is_clean(&row.publisher, row.hour));
            off.extend(clean.map(|row| OffBucket {
                publisher: row.publisher,
                hour: row.hour,
                table,
                more: row.more,
            }));
        }
        off.sort_unstable();
        Ok(off)
    }
}

fn by_client(hours: &Range<u32>, view: &RollupView) -> String {
    let receipts = format!(
        "SELECT publisher, made_hour AS hour, cityHash64(at, client_id, toString(purpose), model_id, made_receipts,
            made_first_ms, made_last_ms, toString(client_name), toString(organization), toString(client_version)) AS hash, made_receipts AS rows
         FROM ({} FROM receipts FINAL WHERE {} GROUP BY {CLIENT_KEY})",
        client_columns("0"),
        Piece::all(hours.clone()).condition()
    );
    let rolled = "SELECT publisher, hour, cityHash64(slot, client_id, toString(purpose), model_id, receipts, first_ms,
            last_ms, toString(name), toString(organization), toString(client_version)) AS hash, receipts AS rows
         FROM usage_by_client";
    difference(rolled, &receipts, view)
}

fn by_entry(hours: &Range<u32>, view: &RollupView) -> String {
    let receipts = format!(
        "SELECT publisher, at AS hour, cityHash64(entry_id, client_id, toString(purpose), model_id, made_receipts,
            made_first_ms, made_last_ms, toString(url)) AS hash, made_receipts AS rows
         FROM ({} FROM receipts FINAL WHERE {} GROUP BY {ENTRY_KEY})",
        entry_columns("0"),
        Piece::all(hours.clone()).condition()
    );
    let rolled =
        "SELECT publisher, hour, cityHash64(entry_id, client_id, toString(purpose), model_id, receipts, first_ms,
            last_ms, url) AS hash, receipts AS rows
         FROM usage_by_entry";
    difference(rolled, &receipts, view)
}

/// Sums of hashes of rows, those over the receipts with the other sign: 0 where the rows are the same.
fn difference(rolled: &str, receipts: &str, view: &RollupView) -> String {
    let counts = view.versions_condition();
    format!(
        "SELECT publisher, hour, sum(rows_more) AS more FROM
         (
            SELECT publisher, hour, reinterpretAsInt64(hash) AS hash_more, toInt64(rows) AS rows_more FROM
            (
                {rolled} WHERE hour >= {{from_hour:UInt32}} AND hour < {{to_hour:UInt32}}
                    AND (publisher, hour, version) IN
                    (
                        SELECT publisher, hour, max(version) FROM rollup_buckets
                        WHERE hour >= {{from_hour:UInt32}} AND hour < {{to_hour:UInt32}} AND {counts}
                        GROUP BY publisher, hour
                    )
            )
            UNION ALL
            SELECT publisher, hour, -reinterpretAsInt64(hash), -toInt64(rows) FROM ({receipts})
         )
         GROUP BY publisher, hour HAVING sum(hash_more) != 0 OR more != 0 ORDER BY publisher, hour LIMIT {OFF_MAX}
         {FINAL_SETTINGS}"
    )
}
