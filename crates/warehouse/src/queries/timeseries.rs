//! Values over time.

use clickhouse::Row;
use serde::Deserialize;

use super::{FINAL_SETTINGS, Filter, Scope, Usage, receipts_condition, scoped};
use crate::WarehouseError;

/// What is counted in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Distinct receipts.
    Receipts,
    /// Distinct clients.
    Clients,
    /// Distinct entries.
    Content,
}

/// What a bucket is split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Nothing.
    None,
    /// `usage.purpose`.
    Purpose,
    /// `client.id`.
    Client,
    /// `content.entryId`.
    Entry,
    /// `usage.modelId`; of receipts that name none the empty text.
    Model,
}

/// One bucket's value, of one group if there is a grouping. Empty buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeseriesPoint {
    /// One of the boundaries that were asked for, milliseconds since the Unix epoch.
    pub bucket_start_ms: i64,
    /// The purpose or model, or the client's or entry's id in its text form.
    pub group: Option<String>,
    /// The value.
    pub value: u64,
}

/// Buckets of one question: 31 days of minutes.
const BOUNDARIES_MAX: usize = 44_640;

impl Metric {
    fn sql(self) -> &'static str {
        match self {
            Self::Receipts => "count()",
            Self::Clients => "uniqExact(client_id)",
            Self::Content => "uniqExact(entry_id)",
        }
    }
}

impl GroupBy {
    fn sql(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Purpose => Some("toString(purpose)"),
            Self::Client => Some("toString(client_id)"),
            Self::Entry => Some("toString(entry_id)"),
            Self::Model => Some("toString(model_id)"),
        }
    }
}

#[derive(Row, Deserialize)]
struct PointRow {
    bucket: i64,
    part: String,
    value: u64,
}

impl Usage<'_> {
    /// `boundaries_ms` are the starts of the buckets in rising order, made by the caller in its time zone: the one
    /// truth about daylight saving is the caller's. A bucket ends where the next begins, the last one at
    /// `filter.to_ms`; what lies before the first is left out. With a grouping, only the `groups_max` groups with
    /// the most receipts are returned. Points come in order of bucket, then group.
    ///
    /// # Errors
    /// [`WarehouseError`]; too large with more than 44,640 boundaries.
    pub async fn timeseries(
        &self,
        scope: &Scope,
        filter: &Filter,
        metric: Metric,
        boundaries_ms: &[i64],
        group_by: GroupBy,
        groups_max: u32,
    ) -> Result<Vec<TimeseriesPoint>, WarehouseError> {
        let Some(&first) = boundaries_ms.first() else {
            return Ok(Vec::new());
        };
        if scope.is_empty() {
            return Ok(Vec::new());
        }
        if boundaries_ms.len() > BOUNDARIES_MAX {
            let (size, max) = (boundaries_ms.len() as u64, BOUNDARIES_MAX as u64);
            return Err(WarehouseError::TooLarge {
                what: "the number of buckets",
                size,
                max,
            });
        }
        // `roundDown` would give what lies before the first boundary to the first bucket.
        let filter = Filter {
            from_ms: filter.from_ms.max(first),
            ..filter.clone()
        };
        let condition = receipts_condition(scope, &filter);
        let (part, top) = match group_by.sql() {
            None => ("''", String::new()),
            Some(part) => (
                part,
                format!(
                    " AND part IN (SELECT {part} AS part FROM receipts FINAL WHERE {condition}
                        GROUP BY part ORDER BY count() DESC, part LIMIT {{groups_max:UInt32}})"
                ),
            ),
        };
        let value = metric.sql();
        let sql = format!(
            "SELECT roundDown(toUnixTimestamp64Milli(timestamp), {{boundaries:Array(Int64)}}) AS bucket, {part} AS part,
                {value} AS value
             FROM receipts FINAL WHERE {condition}{top}
             GROUP BY bucket, part ORDER BY bucket, part {FINAL_SETTINGS}"
        );
        let call = scoped(sql, scope, &filter)
            .with("boundaries", boundaries_ms.to_vec())
            .with("groups_max", groups_max);
        let rows: Vec<PointRow> = self.warehouse.rows("timeseries", call).await?;
        let point = |row: PointRow| TimeseriesPoint {
            bucket_start_ms: row.bucket,
            group: (group_by != GroupBy::None).then_some(row.part),
            value: row.value,
        };
        Ok(rows.into_iter().map(point).collect())
    }
}
