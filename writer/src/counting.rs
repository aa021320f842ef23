//! Counting: accepted rows of a batch, in the table `usage`.
//!
//! The lookup and the insert are repeated together: after an attempt whose result is unknown, the
//! lookup finds what it stored.

use arrow_array::RecordBatch;
use service::cpu::{CpuError, CpuPool};
use usage::{NewReceipts, Usage};
use warehouse::{WarehouseError, WriterEpoch};

/// Counts the receipts of accepted rows that aren't counted yet, as the shard's writer if `epoch`
/// is given. Returns how many were new.
///
/// # Errors
/// [`WarehouseError`].
pub async fn count(
    usage: &Usage,
    cpu: &CpuPool,
    accepted: Vec<RecordBatch>,
    epoch: Option<&WriterEpoch>,
) -> Result<u64, WarehouseError> {
    if accepted.is_empty() {
        return Ok(0);
    }
    let distinct = move || {
        let new = NewReceipts::of(&accepted).map_err(|_| WarehouseError::BadRows("they aren't verdicts"))?;
        let keys = new.keys();
        Ok::<_, WarehouseError>((new, keys))
    };
    let (new, keys) = cpu.run_waiting(distinct).await.map_err(|error| failed(&error))??;
    let counted = usage.counted(&keys).await?;
    let (rows_max, _) = usage.warehouse().insert_limits();
    let rows = move || {
        let new = new.without(&counted);
        Ok::<_, WarehouseError>((new.len() as u64, new.rows(rows_max)?))
    };
    let (count, rows) = cpu.run_waiting(rows).await.map_err(|error| failed(&error))??;
    usage.insert(&rows, epoch).await?;
    Ok(count)
}

fn failed(error: &CpuError) -> WarehouseError {
    WarehouseError::Unavailable(format!("rows of usage weren't made: {error}"))
}
