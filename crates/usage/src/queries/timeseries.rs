//! Values over time.

use clickhouse::Row;
use receipt::Purpose;
use serde::Deserialize;
use warehouse::{Filter, QueryScope, SqlStatement, WarehouseError};

use super::ByTrust;
use super::column::QueryColumn;
use super::ranking::CLIENT_TEXT;
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
    /// `usage.purpose`.
    Purpose,
    /// Clients: `client.id` and key.
    Client,
    /// `content.entryId`.
    Entry,
    /// `usage.modelId`; of receipts that name none the empty text.
    Model,
    /// The operator, a domain; of receipts without one the empty text.
    Operator,
}

/// Value of a bucket, of a group in each dimension. Empty buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeseriesPoint {
    /// The bucket's boundary, milliseconds since the Unix epoch.
    pub bucket_start_ms: i64,
    /// The groups, one of each dimension.
    pub groups: Vec<SeriesGroup>,
    /// The value.
    pub value: u64,
    /// The value over the proven receipts, and over the unproven ones. Clients and entries can be
    /// in both.
    pub by_trust: ByTrust,
}

/// Group of a series.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesGroup {
    /// The purpose, model or operator, or the client's or entry's ID in its text form.
    pub id: String,
    /// A client's key: SHA-256 of its SPKI in hexadecimal, zeros for erased clients. Empty for
    /// other groups.
    pub key_fingerprint: String,
}

/// Buckets of one query: 31 days of minutes.
const BOUNDARIES_MAX: usize = 44_640;

impl Metric {
    /// The columns whose distinct values are counted, and their names; `None` for receipts.
    fn columns(self) -> Option<(&'static [QueryColumn], &'static str)> {
        match self {
            Self::Receipts => None,
            Self::Clients => Some((CLIENT, "piece.client_id, piece.key_fingerprint")),
            Self::Content => Some((&[QueryColumn::Entry], "piece.entry_id")),
        }
    }
}

impl GroupBy {
    /// The columns of a group, and an expression over them.
    fn columns(self) -> (&'static [QueryColumn], &'static str) {
        match self {
            Self::Purpose => (&[QueryColumn::Purpose], "piece.purpose"),
            Self::Client => (CLIENT, CLIENT_TEXT),
            Self::Entry => (&[QueryColumn::Entry], "piece.entry_id"),
            Self::Model => (&[QueryColumn::Model], "piece.model_id"),
            Self::Operator => (&[QueryColumn::Operator], "piece.operator"),
        }
    }

    /// The group of a row's text.
    fn group(self, mut text: String) -> SeriesGroup {
        let key_fingerprint = match self {
            Self::Client => text.split_off(UUID_CHARS.min(text.len())),
            Self::Purpose | Self::Entry | Self::Model | Self::Operator => String::new(),
        };
        SeriesGroup {
            id: text,
            key_fingerprint,
        }
    }
}

/// The columns of a client.
const CLIENT: &[QueryColumn] = &[QueryColumn::Client, QueryColumn::Key];
/// Length of a UUID's text.
const UUID_CHARS: usize = 36;

#[derive(Row, Deserialize)]
struct PointRow {
    bucket: i64,
    parts: Vec<String>,
    value: i64,
    proven: i64,
    unproven: i64,
}

impl Usage {
    /// Values in buckets. `boundaries_ms` are the starts of the buckets in rising order, made by
    /// the caller in its time zone: only the caller has the rules of daylight saving. A bucket
    /// ends where the next begins, the last one at `filter.to_ms`; receipts before the first are
    /// left out. With one dimension or two in `group_by`, only the `groups_max` groups or pairs of
    /// groups with the most receipts are returned. Points come in order of bucket, then group.
    ///
    /// # Errors
    /// [`WarehouseError`]; too large with more than 44,640 boundaries.
    pub async fn timeseries(
        &self,
        scope: &QueryScope,
        filter: &Filter,
        metric: Metric,
        boundaries_ms: &[i64],
        group_by: &[GroupBy],
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
            groups: group_by
                .iter()
                .zip(row.parts)
                .map(|(by, part)| by.group(part))
                .collect(),
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
    group_by: &[GroupBy],
    groups_max: u32,
) -> SqlStatement {
    let counted = metric.columns();
    let (grouped, groups): (Vec<_>, Vec<_>) = group_by.iter().map(|by| by.columns()).unzip();
    let grouped: Vec<QueryColumn> = grouped.into_iter().flatten().copied().collect();
    let mut columns = vec![QueryColumn::Bucket, QueryColumn::Operator];
    columns.extend(
        grouped
            .iter()
            .chain(counted.into_iter().flat_map(|(columns, _)| columns)),
    );
    let source = RowSource::new(scope, filter, boundaries_ms, &columns);
    let texts: Vec<String> = groups.iter().map(|group| format!("toString({group})")).collect();
    let parts = format!("CAST([{}] AS Array(String))", texts.join(", "));
    let has_all_groups = match group_by {
        [] => true,
        [GroupBy::Purpose] => groups_max as usize >= Purpose::ALL.len(),
        _ => false,
    };
    let largest = (!has_all_groups).then(|| {
        let group = match groups.as_slice() {
            [group] => (*group).to_owned(),
            // At most one of them, a model, may have a NUL.
            _ => format!("concat({})", texts.join(", char(0), ")),
        };
        // Without buckets, whole days may be enough.
        let source = RowSource::new(scope, filter, &[], &grouped).nested();
        // An array, because ClickHouse loses the set of `IN` where it pushes the condition down to
        // the shards.
        let condition = format!(
            " WHERE has((SELECT groupArray(wanted) FROM (SELECT {group} AS wanted FROM {}
                GROUP BY wanted HAVING sum(piece.receipts) > 0
                ORDER BY sum(piece.receipts) DESC, toString(wanted) LIMIT {{groups_max:UInt32}})), {group})",
            source.rows()
        );
        (condition, source)
    });
    let (condition, nested) = largest.unzip();
    let condition = condition.unwrap_or_default();
    let rows = source.rows();
    let sql = match counted {
        None => format!(
            "SELECT piece.bucket AS bucket, {parts} AS parts, sum(piece.receipts) AS value, {PROVEN},
                value - proven AS unproven
             FROM {rows}{condition} GROUP BY bucket, parts HAVING value > 0
             ORDER BY bucket, parts"
        ),
        Some((_, counted)) => format!(
            "SELECT point.bucket AS bucket, point.parts AS parts, toInt64(count()) AS value,
                toInt64(countIf(point.proven > 0)) AS proven,
                toInt64(countIf(point.receipts > point.proven)) AS unproven
             FROM (SELECT piece.bucket AS bucket, {parts} AS parts, sum(piece.receipts) AS receipts, {PROVEN}
                FROM {rows}{condition} GROUP BY bucket, parts, {counted} HAVING sum(piece.receipts) > 0) AS point
             GROUP BY bucket, parts ORDER BY bucket, parts"
        ),
    };
    let mut call = source.call(&sql).with("groups_max", groups_max);
    if let Some(nested) = nested {
        call = nested.bind_plan(call);
    }
    call
}
