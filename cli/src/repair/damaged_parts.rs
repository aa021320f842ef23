//! Damaged parts of the warehouse: found by reading everything, and set aside.

use indicatif::ProgressBar;
use serde::Serialize;
use warehouse::{DataPart, LogBegin, Warehouse};

use crate::failure::CommandFailure;

/// Damage of a part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DamagedPart {
    /// Table of the part.
    pub table: &'static str,
    /// ClickHouse's name of it.
    pub part: String,
    /// Rows in it.
    pub rows: u64,
    /// ClickHouse's words.
    pub fault: String,
    /// Number of its rows that come from records whose verdicts are no longer in the log, in words;
    /// none if all can be rebuilt.
    pub cannot_be_rebuilt: Option<String>,
    /// Whether it was set aside.
    pub detached: bool,
}

/// Checks every part. A damaged one is detached if its rows can be rebuilt from verdicts, which
/// begin at `begins`, or if `accept_loss`.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn set_aside(
    warehouse: &Warehouse,
    begins: &[LogBegin],
    accept_loss: bool,
    bar: &ProgressBar,
) -> Result<Vec<DamagedPart>, CommandFailure> {
    let parts = warehouse.parts().await.map_err(CommandFailure::unavailable)?;
    bar.set_length(parts.len() as u64);
    let mut damaged = Vec::new();
    for part in parts {
        let fault = warehouse.check_part(&part).await.map_err(CommandFailure::unavailable)?;
        bar.inc(1);
        let Some(fault) = fault else { continue };
        let lost = warehouse
            .irreplaceable(&part, begins)
            .await
            .map_err(CommandFailure::unavailable)?;
        let detached = lost.is_none() || accept_loss;
        if detached {
            warehouse
                .detach_part(&part)
                .await
                .map_err(CommandFailure::unavailable)?;
        }
        let DataPart { table, name, rows } = part;
        damaged.push(DamagedPart {
            table,
            part: name,
            rows,
            fault,
            cannot_be_rebuilt: (!lost.is_none()).then(|| lost.to_string()),
            detached,
        });
    }
    Ok(damaged)
}
