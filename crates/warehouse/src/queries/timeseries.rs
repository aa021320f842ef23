//! Values over time.

use clickhouse::Row;
use serde::Deserialize;

use super::source::{Column, Cube};
use super::summed::Summed;
use super::{FINAL_SETTINGS, Filter, Scope, Usage};
use crate::WarehouseError;
use crate::rollup::{SlotSum, Sum};

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

/// `training`, `inference`, `research`.
const PURPOSES: u32 = 3;

/// Buckets of one question: 31 days of minutes.
const BOUNDARIES_MAX: usize = 44_640;

impl Metric {
    fn sql(self) -> &'static str {
        match self {
            Self::Receipts => "sum(n)",
            Self::Clients => "uniqExact(client)",
            Self::Content => "uniqExact(entry)",
        }
    }

    fn column(self) -> Column {
        match self {
            Self::Receipts => Column::Count,
            Self::Clients => Column::Client,
            Self::Content => Column::Entry,
        }
    }
}

impl GroupBy {
    fn column(self) -> Option<(Column, &'static str)> {
        match self {
            Self::None => None,
            Self::Purpose => Some((Column::Purpose, "usage")),
            Self::Client => Some((Column::Client, "client")),
            Self::Entry => Some((Column::Entry, "entry")),
            Self::Model => Some((Column::Model, "model")),
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
        // There are three purposes, the interface's.
        let by_purpose = group_by == GroupBy::Purpose && groups_max >= PURPOSES;
        // The first may be where the range begins.
        let are_half_hours = boundaries_ms
            .iter()
            .skip(1)
            .all(|boundary| boundary.rem_euclid(SlotSum::SPAN_MS) == 0);
        if metric == Metric::Receipts && (by_purpose || group_by == GroupBy::None) && are_half_hours {
            let summed = self
                .summed::<SlotSum>("timeseries", scope, &filter, boundaries_ms)
                .await?;
            if let Some(summed) = summed {
                let (boundaries, from_ms, to_ms) = (boundaries_ms.to_vec(), filter.from_ms, filter.to_ms);
                let points = move |summed: &Summed<SlotSum>| summed.points(&boundaries, by_purpose, from_ms, to_ms);
                return summed.into(points).await;
            }
        }
        let cube = if metric == Metric::Content || group_by == GroupBy::Entry {
            Cube::Entries
        } else {
            Cube::Clients
        };
        let source = self.source(scope, &filter, boundaries_ms, cube).await?;
        let mut columns = vec![Column::Bucket, metric.column()];
        let (key, top) = match group_by.column() {
            None => ("''", String::new()),
            Some((column, key)) if by_purpose => {
                columns.push(column);
                (key, String::new())
            }
            Some((column, key)) => {
                columns.push(column);
                let top = format!(
                    " WHERE {key} IN (SELECT {key} FROM {} GROUP BY {key}
                        ORDER BY sum(n) DESC, toString({key}) LIMIT {{groups_max:UInt32}})",
                    source.rows(&[Column::Count, column])
                );
                (key, top)
            }
        };
        columns.dedup();
        let sql = format!(
            "SELECT bucket, toString(key) AS part, value FROM
             (SELECT bucket, {key} AS key, {} AS value FROM {}{top} GROUP BY bucket, key)
             ORDER BY bucket, part {FINAL_SETTINGS}",
            metric.sql(),
            source.rows(&columns),
        );
        let call = source.call(sql).with("groups_max", groups_max);
        let rows: Vec<PointRow> = self.warehouse.rows("timeseries", call).await?;
        let point = |row: PointRow| TimeseriesPoint {
            bucket_start_ms: row.bucket,
            group: (group_by != GroupBy::None).then_some(row.part),
            value: row.value,
        };
        Ok(rows.into_iter().map(point).collect())
    }
}
