//! Receipts of a scope, newest first, page by page.
//!
//! The table is sorted by hour and then by entry, so a page is looked for in windows of time that grow downwards from the newest
//! moment: what it costs is what stands in the hours it comes from, whatever stands below. Where it ends is found among stored rows
//! without merging them, then that range is read with `FINAL`.

use std::time::{SystemTime, UNIX_EPOCH};

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::export::{KEY, REST, ReceiptRow};
use super::{ExportedReceipt, FINAL_SETTINGS, Filter, Scope, TIME_MS_MAX, TIME_MS_MIN, receipts_condition, scoped};
use crate::client::Call;
use crate::{Warehouse, WarehouseError};

/// A place in the order from new to old: that of the last receipt seen. Nothing written later changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestCursor {
    /// `timestamp`, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
}

impl From<&ExportedReceipt> for NewestCursor {
    fn from(receipt: &ExportedReceipt) -> Self {
        Self {
            timestamp_ms: receipt.key.timestamp_ms,
            receipt_id: receipt.key.receipt_id,
            payload_hash: receipt.key.payload_hash,
        }
    }
}

#[derive(Row, Deserialize)]
struct PlaceRow {
    timestamp_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt: Uuid,
    hash: [u8; 32],
}

/// The first window; each further one is so many times as long.
const WINDOW_MS: i64 = 3_600_000;
const GROWTH: i64 = 8;

const ORDER: &str = "ORDER BY timestamp DESC, receipt_id DESC, payload_hash DESC";

/// Rows older than a place, or older or at it.
fn below(place: &str, last: &str) -> String {
    let time = format!("fromUnixTimestamp64Milli({{{place}_ms:Int64}}, 'UTC')");
    format!(
        " AND (timestamp < {time} OR timestamp = {time} AND (receipt_id, payload_hash) {last}
            ({{{place}_receipt:UUID}}, toFixedString(unhex({{{place}_hash:String}}), 32)))"
    )
}

/// The opposite of `below(place, "<")`: at the place or newer.
fn from_place_up(place: &str) -> String {
    let time = format!("fromUnixTimestamp64Milli({{{place}_ms:Int64}}, 'UTC')");
    format!(
        " AND (timestamp > {time} OR timestamp = {time} AND (receipt_id, payload_hash) >=
            ({{{place}_receipt:UUID}}, toFixedString(unhex({{{place}_hash:String}}), 32)))"
    )
}

fn with_place(call: Call, names: [&'static str; 3], place: &NewestCursor) -> Call {
    let [ms, receipt, hash] = names;
    let hex: String = place.payload_hash.iter().map(|byte| format!("{byte:02x}")).collect();
    call.with(ms, place.timestamp_ms)
        .with(receipt, place.receipt_id.to_string())
        .with(hash, hex)
}

const AFTER: [&str; 3] = ["after_ms", "after_receipt", "after_hash"];
const UPTO: [&str; 3] = ["upto_ms", "upto_receipt", "upto_hash"];

impl Warehouse {
    /// At most `rows_max` receipts older than `after`, or the newest ones; newest first, equally new ones by falling id and hash. That
    /// there are fewer doesn't mean that they are the last, that there are none does. Each receipt that stood there when the first page
    /// was asked for is in exactly one of them.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn receipts_page(
        &self,
        scope: &Scope,
        filter: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        if scope.is_empty() || rows_max == 0 {
            return Ok(Vec::new());
        }
        let mut after = after.copied();
        loop {
            let (found, upto) = self.some_receipts(scope, filter, after.as_ref(), rows_max).await?;
            match upto {
                // Stored rows of the filter that an erasure has taken out of it, once they are merged: the next ones are behind them.
                Some(upto) if found.is_empty() => after = Some(upto),
                _ => return Ok(found),
            }
        }
    }

    /// At most `rows_max` receipts behind `after`, and up to where they were looked for if there may be more.
    async fn some_receipts(
        &self,
        scope: &Scope,
        filter: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<(Vec<ExportedReceipt>, Option<NewestCursor>), WarehouseError> {
        let mut filter = filter.clone();
        filter.from_ms = filter.from_ms.max(TIME_MS_MIN);
        filter.to_ms = filter.to_ms.min(TIME_MS_MAX);
        if let Some(after) = after {
            filter.to_ms = filter.to_ms.min(after.timestamp_ms.saturating_add(1));
        }
        // What is newer than now is little: the first window has it all.
        let newest_ms = filter.to_ms.min(now_ms());
        let mut length_ms = WINDOW_MS;
        loop {
            let window = Filter {
                from_ms: newest_ms.saturating_sub(length_ms).max(filter.from_ms),
                ..filter.clone()
            };
            let is_last = window.from_ms <= filter.from_ms;
            let upto = self.page_end(scope, &window, after, rows_max).await?;
            if upto.is_some() || is_last {
                let found = self.page(scope, &window, after, upto.as_ref(), rows_max).await?;
                return Ok((found, upto));
            }
            length_ms = length_ms.saturating_mul(GROWTH);
        }
    }

    /// The place of the last of `rows_max` stored rows, if there are so many. They merge into at most as many receipts.
    async fn page_end(
        &self,
        scope: &Scope,
        window: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Option<NewestCursor>, WarehouseError> {
        let mut condition = receipts_condition(scope, window);
        if after.is_some() {
            condition.push_str(&below("after", "<"));
        }
        let sql = format!(
            "SELECT toUnixTimestamp64Milli(timestamp) AS timestamp_ms, receipt_id AS receipt, payload_hash AS hash
             FROM receipts WHERE {condition} {ORDER} LIMIT 1 OFFSET {{skipped:UInt32}}"
        );
        let mut call = scoped(sql, scope, window).with("skipped", rows_max - 1);
        if let Some(after) = after {
            call = with_place(call, AFTER, after);
        }
        let found: Vec<PlaceRow> = self.rows("receipts_page_end", call).await?;
        Ok(found.into_iter().next().map(|row| NewestCursor {
            timestamp_ms: row.timestamp_ms,
            receipt_id: row.receipt,
            payload_hash: row.hash,
        }))
    }

    async fn page(
        &self,
        scope: &Scope,
        window: &Filter,
        after: Option<&NewestCursor>,
        upto: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        let mut window = window.clone();
        if let Some(upto) = upto {
            window.from_ms = upto.timestamp_ms;
        }
        let mut condition = receipts_condition(scope, &window);
        if after.is_some() {
            condition.push_str(&below("after", "<"));
        }
        if upto.is_some() {
            condition.push_str(&from_place_up("upto"));
        }
        // More than so many only if some came in since the end was looked for.
        let sql = format!(
            "SELECT {KEY}, {REST} FROM receipts FINAL WHERE {condition} {ORDER} LIMIT {{rows_max:UInt32}} {FINAL_SETTINGS}"
        );
        let mut call = scoped(sql, scope, &window).with("rows_max", rows_max);
        if let Some(after) = after {
            call = with_place(call, AFTER, after);
        }
        if let Some(upto) = upto {
            call = with_place(call, UPTO, upto);
        }
        let rows: Vec<ReceiptRow> = self.rows("receipts_page", call).await?;
        Ok(rows.into_iter().map(ExportedReceipt::from).collect())
    }
}

/// Where pages are looked for first; what they hold doesn't depend on it.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
