//! Receipts of a scope, newest first, page by page.
//!
//! The table is sorted by hour and then by entry, so a page is searched for in windows of time that
//! grow downwards from the newest moment: what it costs is what is in the hours it comes from,
//! whatever stands below. Where it ends is found among stored rows without merging them, then that
//! range is read with `FINAL`.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::export::{REST, ReceiptRow};
use super::receipt_key::KEY;
use super::{
    ExportedReceipt, FINAL_SETTINGS, Filter, QueryScope, TIME_MS_MAX, TIME_MS_MIN, receipts_condition, scoped,
};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// A cursor in the order from new to old: that of the last receipt seen. Nothing written later
/// changes it.
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

/// The first window; each further one is so many times as long.
const WINDOW_MS: i64 = 3_600_000;
const GROWTH: i64 = 8;

const ORDER: &str = "ORDER BY timestamp DESC, receipt_id DESC, payload_hash DESC";

/// Rows older than the cursor that [`with_cursor`] binds.
const OLDER: &str = " AND (timestamp < fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
    OR timestamp = fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC') AND
        (receipt_id, payload_hash) < ({after_receipt:UUID}, toFixedString(unhex({after_hash:String}), 32)))";

fn with_cursor(call: SqlStatement, cursor: &NewestCursor) -> SqlStatement {
    call.with("after_ms", cursor.timestamp_ms)
        .with("after_receipt", cursor.receipt_id.to_string())
        .with("after_hash", hex::encode(cursor.payload_hash))
}

impl Warehouse {
    /// At most `rows_max` receipts older than `after`, or the newest ones; newest first, equally
    /// new ones by falling id and hash. That there are fewer doesn't mean that they are the last,
    /// that there are none does. Each receipt that stood there when the first page was requested is
    /// in exactly one of them.
    pub async fn receipts_page(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        if scope.is_empty() || rows_max == 0 {
            return Ok(Vec::new());
        }
        let mut after = after.copied();
        loop {
            let (found, down_to) = self.some_receipts(scope, filter, after.as_ref(), rows_max).await?;
            match down_to {
                // Stored rows of the filter that an erasure has taken out of it, once they are
                // merged: the next ones are behind them.
                Some(down_to) if found.is_empty() => after = Some(down_to),
                _ => return Ok(found),
            }
        }
    }

    /// At most `rows_max` receipts behind `after`, and down to where they were searched for if
    /// there may be more.
    async fn some_receipts(
        &self,
        scope: &QueryScope,
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
            let mut window = Filter {
                from_ms: newest_ms.saturating_sub(length_ms).max(filter.from_ms),
                ..filter.clone()
            };
            let is_last = window.from_ms <= filter.from_ms;
            let down_to_ms = self.page_end(scope, &window, after, rows_max).await?;
            if down_to_ms.is_some() || is_last {
                window.from_ms = down_to_ms.unwrap_or(window.from_ms);
                let found = self.page(scope, &window, after, rows_max).await?;
                let down_to = down_to_ms.map(|timestamp_ms| NewestCursor {
                    timestamp_ms,
                    receipt_id: Uuid::nil(),
                    payload_hash: [0; 32],
                });
                return Ok((found, down_to));
            }
            length_ms = length_ms.saturating_mul(GROWTH);
        }
    }

    /// The timestamp of the last of `rows_max` stored rows, if there are so many. They merge into
    /// at most as many receipts. It reads the timestamps and, of a first page, nothing else.
    async fn page_end(
        &self,
        scope: &QueryScope,
        window: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Option<i64>, WarehouseError> {
        let mut condition = receipts_condition(scope, window);
        if after.is_some() {
            condition.push_str(OLDER);
        }
        let sql = format!(
            "SELECT toUnixTimestamp64Milli(timestamp) AS timestamp_ms FROM receipts WHERE {condition}
             ORDER BY timestamp DESC LIMIT 1 OFFSET {{skipped:UInt32}}"
        );
        let mut call = scoped(sql, scope, window).with("skipped", rows_max - 1);
        if let Some(after) = after {
            call = with_cursor(call, after);
        }
        let found: Vec<i64> = self.rows("receipts_page_end", call).await?;
        Ok(found.into_iter().next())
    }

    async fn page(
        &self,
        scope: &QueryScope,
        window: &Filter,
        after: Option<&NewestCursor>,
        rows_max: u32,
    ) -> Result<Vec<ExportedReceipt>, WarehouseError> {
        let mut condition = receipts_condition(scope, window);
        if after.is_some() {
            condition.push_str(OLDER);
        }
        let sql = format!(
            "SELECT {KEY}, {REST} FROM receipts FINAL WHERE {condition} {ORDER} LIMIT {{rows_max:UInt32}} {FINAL_SETTINGS}"
        );
        let mut call = scoped(sql, scope, window).with("rows_max", rows_max);
        if let Some(after) = after {
            call = with_cursor(call, after);
        }
        let rows: Vec<ReceiptRow> = self.rows("receipts_page", call).await?;
        Ok(rows.into_iter().map(ExportedReceipt::from).collect())
    }
}

/// Instant around which pages are searched first; their content doesn't depend on it.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
