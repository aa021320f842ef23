//! Rebuild: `usage` of a publisher and day made equal to `receipts` again, by one insert of the
//! difference.
//!
//! A receipt that isn't counted gets its counted row and its contributions. Contributions of a
//! client whose names were erased move to the blank client: a negative row compensates the old key.
//! A single statement reads both tables and inserts one part, so a crash leaves all of the
//! difference or none, and repeating it adds nothing. Only the shard's writer may run it: a receipt
//! that is being counted at the same time would be counted twice.

mod erased_clients;
mod requests;
mod statement;

pub use requests::{RebuildRequest, RebuildStep};

use warehouse::{SqlStatement, WarehouseError, WriterEpoch};

use crate::Usage;
use crate::calendar::{DAY_S, day_of};
use statement::{changes, counting, inserting, orphaned_keys};

/// Days before the end of retention that aren't checked: parts of the tables expire at different
/// times.
const EXPIRING_DAYS: u64 = 2;

impl Usage {
    /// Executes a step of a request, as the shard's writer if `epoch` is given, and returns how
    /// many rows were missing for it.
    ///
    /// # Errors
    /// As [`Self::rebuild_day`].
    pub async fn rebuild_step(&self, step: &RebuildStep, epoch: Option<&WriterEpoch>) -> Result<u64, WarehouseError> {
        match step {
            RebuildStep::Day(day, publisher) => self.rebuild_day(publisher, *day, epoch).await,
            RebuildStep::Keys(day) => self.remove_orphaned_keys(*day, epoch).await,
        }
    }

    /// Makes the aggregates of a publisher and UTC day equal to `receipts`, as the shard's writer
    /// if `epoch` is given. Returns how many rows were missing. `Ok` also means that a later writer
    /// has superseded this one ([`warehouse::Warehouse::holds_epoch`]).
    ///
    /// # Errors
    /// [`WarehouseError`]. After an unknown result, take a new epoch before another attempt.
    pub async fn rebuild_day(
        &self,
        publisher: &str,
        day: u32,
        epoch: Option<&WriterEpoch>,
    ) -> Result<u64, WarehouseError> {
        let changes = changes();
        let bind = |sql: String| bind_day(SqlStatement::new(sql), day).with("publisher", publisher.to_owned());
        let count = self.warehouse.one("usage_rebuild_changes", bind(counting(&changes)));
        let count: u64 = count.await?;
        if count > 0 {
            let insert = bind(inserting(&changes));
            self.warehouse.insert_select("usage_rebuild", insert, epoch).await?;
        }
        Ok(count)
    }

    /// Removes counted keys of a UTC day that no publisher has a receipt for, as the shard's writer
    /// if `epoch` is given, and returns how many. They can exist only after rows of `receipts` were
    /// lost. Call it after the day's publishers were rebuilt.
    async fn remove_orphaned_keys(&self, day: u32, epoch: Option<&WriterEpoch>) -> Result<u64, WarehouseError> {
        let sums = "SELECT sumIf(receipts, grain = 'counted') - sumIf(receipts, grain = 'entry') FROM usage
             WHERE grain IN ('counted', 'entry') AND time >= {day:UInt32} AND time < {end:UInt32}";
        let more: i64 = self
            .warehouse
            .one("usage_counted_sum", bind_day(SqlStatement::new(sums), day))
            .await?;
        if more == 0 {
            return Ok(0);
        }
        let orphaned = orphaned_keys();
        let count = bind_day(SqlStatement::new(counting(&orphaned)), day);
        let count: u64 = self.warehouse.one("usage_orphaned_keys", count).await?;
        if count > 0 {
            let insert = bind_day(SqlStatement::new(inserting(&orphaned)), day);
            self.warehouse.insert_select("usage_remove_keys", insert, epoch).await?;
        }
        Ok(count)
    }

    /// The oldest UTC day that is checked: rows of earlier ones may be expiring.
    pub(crate) fn oldest_day(&self) -> u32 {
        let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_s = now_s.map_or(0, |now| now.as_secs());
        let days = self.warehouse.receipts_days_max().saturating_sub(EXPIRING_DAYS);
        let oldest_s = now_s.saturating_sub(days * u64::from(DAY_S));
        day_of(u32::try_from(oldest_s).unwrap_or(u32::MAX))
    }
}

pub(crate) fn bind_day(call: SqlStatement, day: u32) -> SqlStatement {
    call.slow().with("day", day).with("end", day.saturating_add(DAY_S))
}
