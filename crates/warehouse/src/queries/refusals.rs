//! Rejected receipts and their reasons.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, QueryScope, TIME_MS_MAX, TIME_MS_MIN};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Clients of which refusals are counted.
pub const REFUSED_CLIENTS_MAX: usize = 100;

/// A rejected receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Position in the log.
    pub position: u128,
    /// The reason, one of `receipt::RejectReason`.
    pub reason: String,
    /// Finding in detail.
    pub detail: String,
    /// The publisher it names.
    pub publisher: String,
    /// The id it names.
    pub receipt_id: Option<Uuid>,
    /// The client it names.
    pub client_id: Option<Uuid>,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The request's id.
    pub request_id: String,
}

/// Filter of rejections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusalFilter {
    /// When the gateway took it: inclusive, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Exclusive, milliseconds since the Unix epoch.
    pub to_ms: i64,
    /// Only for this reason.
    pub reason: Option<String>,
    /// Of those in full, only what comes behind this one.
    pub after: Option<RefusalCursor>,
}

/// A cursor in the order from new to old: that of the last refusal seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalCursor {
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// Position in the log.
    pub position: u128,
}

impl From<&Refusal> for RefusalCursor {
    fn from(refusal: &Refusal) -> Self {
        Self {
            received_at_ms: refusal.received_at_ms,
            position: refusal.position,
        }
    }
}

/// Refusals of a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusalStats {
    /// Counts per reason, most first, then by name.
    pub by_reason: Vec<(String, u64)>,
    /// Counts per client that they name, most first, then by its identifier; `None` where it
    /// couldn't be read. At most [`REFUSED_CLIENTS_MAX`].
    pub by_client: Vec<(Option<Uuid>, u64)>,
    /// The newest, newest first.
    pub newest: Vec<Refusal>,
}

#[derive(Row, Deserialize)]
struct ReasonCountRow {
    reason_text: String,
    counted: u64,
}

#[derive(Row, Deserialize)]
struct ClientCountRow {
    #[serde(with = "clickhouse::serde::uuid::option")]
    client_id: Option<Uuid>,
    counted: u64,
}

#[derive(Row, Deserialize)]
struct RefusalRow {
    position: u128,
    reason_text: String,
    detail: String,
    publisher: String,
    #[serde(with = "clickhouse::serde::uuid::option")]
    receipt_id: Option<Uuid>,
    #[serde(with = "clickhouse::serde::uuid::option")]
    client_id: Option<Uuid>,
    received_ms: i64,
    request_id: String,
}

impl Warehouse {
    /// Refusals received in `[from_ms, to_ms)`, and at most `newest_max` of them in full.
    pub async fn refusals(
        &self,
        scope: &QueryScope,
        from_ms: i64,
        to_ms: i64,
        newest_max: u32,
    ) -> Result<RefusalStats, WarehouseError> {
        let filter = RefusalFilter {
            from_ms,
            to_ms,
            ..RefusalFilter::default()
        };
        self.refusals_of(scope, &filter, newest_max).await
    }

    /// Returns refusals of a narrower choice; the counts are of the whole choice, wherever `after`
    /// is.
    pub async fn refusals_of(
        &self,
        scope: &QueryScope,
        filter: &RefusalFilter,
        newest_max: u32,
    ) -> Result<RefusalStats, WarehouseError> {
        if scope.is_empty() {
            return Ok(RefusalStats::default());
        }
        let mut condition = format!(
            "{}
            AND received_at >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
            AND received_at < fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')",
            scope.condition()
        );
        if filter.reason.is_some() {
            condition.push_str(" AND reason = {reason:String}");
        }
        let call = |sql: String| {
            let mut call = scope
                .bind(SqlStatement::new(sql))
                .with("from_ms", filter.from_ms.clamp(TIME_MS_MIN, TIME_MS_MAX))
                .with("to_ms", filter.to_ms.clamp(TIME_MS_MIN, TIME_MS_MAX));
            if let Some(reason) = &filter.reason {
                call = call.with("reason", reason.clone());
            }
            call
        };
        let sql = format!(
            "SELECT toString(reason) AS reason_text, sum(receipts) AS counted FROM rejected FINAL WHERE {condition}
             GROUP BY reason_text ORDER BY counted DESC, reason_text {FINAL_SETTINGS}"
        );
        let reasons: Vec<ReasonCountRow> = self.rows("refusals", call(sql)).await?;
        if reasons.is_empty() {
            return Ok(RefusalStats::default());
        }
        let sql = format!(
            "SELECT client_id, sum(receipts) AS counted FROM rejected FINAL WHERE {condition}
             GROUP BY client_id ORDER BY counted DESC, toString(client_id) LIMIT {REFUSED_CLIENTS_MAX} {FINAL_SETTINGS}"
        );
        let clients: Vec<ClientCountRow> = self.rows("refusals_clients", call(sql)).await?;
        if filter.after.is_some() {
            condition.push_str(
                " AND (received_at, position) < (fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC'), {after:UInt128})",
            );
        }
        let sql = format!(
            "SELECT position, toString(reason) AS reason_text, detail, publisher, receipt_id, client_id,
                toUnixTimestamp64Milli(received_at) AS received_ms, request_id
             FROM rejected FINAL WHERE {condition}
             ORDER BY received_at DESC, position DESC LIMIT {{newest_max:UInt32}} {FINAL_SETTINGS}"
        );
        let mut call = call(sql).with("newest_max", newest_max);
        if let Some(after) = filter.after {
            call = call
                .with("after_ms", after.received_at_ms.clamp(TIME_MS_MIN, TIME_MS_MAX))
                .with("after", after.position.to_string());
        }
        let newest: Vec<RefusalRow> = self.rows("refusals_newest", call).await?;
        Ok(RefusalStats {
            by_reason: reasons.into_iter().map(|row| (row.reason_text, row.counted)).collect(),
            by_client: clients.into_iter().map(|row| (row.client_id, row.counted)).collect(),
            newest: newest.into_iter().map(refusal).collect(),
        })
    }
}

fn refusal(row: RefusalRow) -> Refusal {
    Refusal {
        position: row.position,
        reason: row.reason_text,
        detail: row.detail,
        publisher: row.publisher,
        receipt_id: row.receipt_id,
        client_id: row.client_id,
        received_at_ms: row.received_ms,
        request_id: row.request_id,
    }
}
