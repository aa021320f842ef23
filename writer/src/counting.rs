//! Counting: which accepted rows of a batch aren't in the table `usage` yet.
//!
//! The lookup and the insert are repeated together: after an attempt whose result is unknown, the
//! lookup finds what it stored.

use arrow_array::RecordBatch;
use service::cpu::{CpuError, CpuPool};
use usage::{NewReceipts, Usage};
use warehouse::WarehouseError;

/// Rows of `usage` that count the receipts of accepted rows that aren't counted yet.
pub async fn uncounted(
    usage: &Usage,
    cpu: &CpuPool,
    accepted: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>, WarehouseError> {
    if accepted.is_empty() {
        return Ok(Vec::new());
    }
    let distinct = move || {
        let new = NewReceipts::of(&accepted).map_err(|_| WarehouseError::BadRows("they aren't verdicts"))?;
        let keys = new.keys();
        Ok::<_, WarehouseError>((new, keys))
    };
    let (new, keys) = cpu.run_waiting(distinct).await.map_err(|error| failed(&error))??;
    let counted = usage.counted(&keys).await?;
    let (rows_max, _) = usage.warehouse().insert_limits();
    let rows = move || new.without(&counted).rows(rows_max);
    cpu.run_waiting(rows).await.map_err(|error| failed(&error))?
}

fn failed(error: &CpuError) -> WarehouseError {
    WarehouseError::Unavailable(format!("rows of usage weren't made: {error}"))
}
