//! Values over time.

use clickhouse::Row;
use serde::Deserialize;
use warehouse::{Filter, QueryScope, SqlStatement, WarehouseError};

use super::ByTrust;
use super::column::QueryColumn;
use super::source::{PROVEN, RowSource, count};
use crate::Usage;

/// Quantity that is counted in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Distinct receipts.
    Receipts,
    /// Distinct clients.
    Clients,
    /// Distinct entries.
    Content,
}

/// Dimension that a bucket is split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// No dimension.
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

/// Value of a bucket, of one group if there is a grouping. Empty buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeseriesPoint {
    /// The bucket's boundary, milliseconds since the Unix epoch.
    pub bucket_start_ms: i64,
    /// The purpose or model, or the client's or entry's id in its text form.
    pub group: Option<String>,
    /// The value.
    pub value: u64,
    /// The value over the proven receipts, and over the unproven ones. Clients and entries can be
    /// in both.
    pub by_trust: ByTrust,
}

/// Number of purposes: `training`, `inference`, `research`.
const PURPOSES: u32 = 3;

/// Buckets of one query: 31 days of minutes.
const BOUNDARIES_MAX: usize = 44_640;

impl Metric {
    /// The column whose distinct values are counted; `None` for receipts.
    fn column(self) -> Option<(QueryColumn, &'static str)> {
        match self {
            Self::Receipts => None,
            Self::Clients => Some((QueryColumn::Client, "client_id")),
            Self::Content => Some((QueryColumn::Entry, "entry_id")),
        }
    }
}

impl GroupBy {
    fn column(self) -> Option<(QueryColumn, &'static str)> {
        match self {
            Self::None => None,
            Self::Purpose => Some((QueryColumn::Purpose, "purpose")),
            Self::Client => Some((QueryColumn::Client, "client_id")),
            Self::Entry => Some((QueryColumn::Entry, "entry_id")),
            Self::Model => Some((QueryColumn::Model, "model_id")),
        }
    }
}

#[derive(Row, Deserialize)]
struct PointRow {
    bucket: i64,
    part: String,
    value: i64,
    proven: i64,
    unproven: i64,
}

impl Usage {
    /// Values in buckets. `boundaries_ms` are the starts of the buckets in rising order, made by
    /// the caller in its time zone: only the caller has the rules of daylight saving. A bucket
    /// ends where the next begins, the last one at `filter.to_ms`; receipts before the first are
    /// left out. With a grouping, only the `groups_max` groups with the most receipts are
    /// returned. Points come in order of bucket, then group.
    ///
    /// # Errors
    /// [`WarehouseError`]; too large with more than 44,640 boundaries.
    pub async fn timeseries(
        &self,
        scope: &QueryScope,
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
        // `roundDown` would put earlier receipts into the first bucket.
        let filter = Filter {
            from_ms: filter.from_ms.max(first),
            ..filter.clone()
        };
        let call = series(scope, &filter, metric, boundaries_ms, group_by, groups_max);
        let rows: Vec<PointRow> = self.warehouse.rows("timeseries", call).await?;
        let point = |row: PointRow| TimeseriesPoint {
            bucket_start_ms: row.bucket,
            group: (group_by != GroupBy::None).then_some(row.part),
            value: count(row.value),
            by_trust: ByTrust {
                proven: count(row.proven),
                unproven: count(row.unproven),
            },
        };
        Ok(rows.into_iter().map(point).collect())
    }
}

/// The statement of a series.
fn series(
    scope: &QueryScope,
    filter: &Filter,
    metric: Metric,
    boundaries_ms: &[i64],
    group_by: GroupBy,
    groups_max: u32,
) -> SqlStatement {
    let (group, counted) = (group_by.column(), metric.column());
    let columns = [
        Some(QueryColumn::Bucket),
        Some(QueryColumn::Operator),
        group.map(|group| group.0),
        counted.map(|counted| counted.0),
    ];
    let columns: Vec<QueryColumn> = columns.into_iter().flatten().collect();
    let source = RowSource::new(scope, filter, boundaries_ms, &columns);
    let part = group.map_or("''".to_owned(), |(_, group)| format!("toString(piece.{group})"));
    let has_all_groups = group_by == GroupBy::Purpose && groups_max >= PURPOSES;
    let largest = group.filter(|_| !has_all_groups).map(|(column, group)| {
        // Without buckets, whole days may be enough.
        let source = RowSource::new(scope, filter, &[], &[column]).nested();
        // An array, because ClickHouse loses the set of `IN` where it pushes the condition down to
        // the shards.
        let condition = format!(
            " WHERE has((SELECT groupArray(wanted) FROM (SELECT piece.{group} AS wanted FROM {}
                GROUP BY wanted HAVING sum(piece.receipts) > 0
                ORDER BY sum(piece.receipts) DESC, toString(wanted) LIMIT {{groups_max:UInt32}})), piece.{group})",
            source.rows()
        );
        (condition, source)
    });
    let (condition, nested) = largest.unzip();
    let condition = condition.unwrap_or_default();
    let rows = source.rows();
    let sql = match counted {
        None => format!(
            "SELECT piece.bucket AS bucket, {part} AS part, sum(piece.receipts) AS value, {PROVEN},
                value - proven AS unproven
             FROM {rows}{condition} GROUP BY bucket, part HAVING value > 0
             ORDER BY bucket, part"
        ),
        Some((_, counted)) => format!(
            "SELECT point.bucket AS bucket, point.part AS part, toInt64(count()) AS value,
                toInt64(countIf(point.proven > 0)) AS proven,
                toInt64(countIf(point.receipts > point.proven)) AS unproven
             FROM (SELECT piece.bucket AS bucket, {part} AS part, piece.{counted} AS counted,
                    sum(piece.receipts) AS receipts, {PROVEN}
                FROM {rows}{condition} GROUP BY bucket, part, counted HAVING sum(piece.receipts) > 0) AS point
             GROUP BY bucket, part ORDER BY bucket, part"
        ),
    };
    let mut call = source.call(&sql).with("groups_max", groups_max);
    if let Some(nested) = nested {
        call = nested.bind_plan(call);
    }
    call
}
