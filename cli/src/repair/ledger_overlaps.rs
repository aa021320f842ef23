//! Ledger lines that overlap. The writer refuses overlaps, so only foreign or damaged lines can.

use warehouse::{LogBegin, Warehouse};

use crate::failure::CommandFailure;

/// Deletes all lines that overlap others, where the log still has the verdicts that the right ones
/// are made from, and returns how many. The right ones are missing then.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn delete(warehouse: &Warehouse, begins: &[LogBegin]) -> Result<u64, CommandFailure> {
    let mut deleted = 0;
    for &LogBegin {
        epoch,
        partition,
        offset,
    } in begins
    {
        let groups = warehouse.ledger_overlaps(epoch, partition).await;
        for group in groups.map_err(CommandFailure::unavailable)? {
            if group.start < offset {
                continue;
            }
            let lines = warehouse.ledger_bounds(epoch, partition, group).await;
            let firsts: Vec<u64> = lines
                .map_err(CommandFailure::unavailable)?
                .iter()
                .map(|line| line.start)
                .collect();
            let done = warehouse.delete_ledger_lines(epoch, partition, &firsts).await;
            done.map_err(CommandFailure::unavailable)?;
            deleted += firsts.len() as u64;
        }
    }
    Ok(deleted)
}
