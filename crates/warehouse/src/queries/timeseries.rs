//! Values over time.

use super::{Filter, Scope};
use crate::{Warehouse, WarehouseError};

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
}

/// One bucket's value, of one group if there is a grouping. Empty buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeseriesPoint {
    /// One of the boundaries that were asked for, milliseconds since the Unix epoch.
    pub bucket_start_ms: i64,
    /// The purpose, or the client's or entry's id in its text form.
    pub group: Option<String>,
    /// The value.
    pub value: u64,
}

impl Warehouse {
    /// `boundaries_ms` are the starts of the buckets in rising order, made by the caller in its time zone: the one
    /// truth about daylight saving is the caller's. A bucket ends where the next begins, the last one at
    /// `filter.to_ms`; what lies before the first is left out. With a grouping, only the `groups_max` groups with
    /// the most receipts are returned.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn timeseries(
        &self,
        _scope: &Scope,
        _filter: &Filter,
        _metric: Metric,
        _boundaries_ms: &[i64],
        _group_by: GroupBy,
        _groups_max: u32,
    ) -> Result<Vec<TimeseriesPoint>, WarehouseError> {
        Err(WarehouseError::Unavailable("not built yet".to_owned()))
    }
}
