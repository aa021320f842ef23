//! A rebuild of `usage`: by the running writer on request, or here if nothing else has the data
//! directory open.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use usage::{Mismatch, RebuildRequest, Usage};
use uuid::Uuid;
use warehouse::QueryScope;

use crate::failure::CommandFailure;
use crate::inspection::Inspection;

/// The longest wait for the writer.
const WAIT_MAX: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(200);

/// Result of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuild {
    /// The aggregates are equal to the receipts.
    Done,
    /// The request is stored, and the writer hasn't executed it in time.
    Pending,
}

/// Mismatches of all days between two instants, in milliseconds. `progress` receives the days that
/// are checked, and all.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn check(
    usage: &Usage,
    (from_ms, to_ms): (i64, i64),
    progress: impl Fn(u64, u64),
) -> Result<(u64, Vec<Mismatch>), CommandFailure> {
    let days = usage.days(from_ms, to_ms).await.map_err(CommandFailure::unavailable)?;
    let mut mismatches = Vec::new();
    for (checked, &day) in (0..).zip(&days) {
        progress(checked, days.len() as u64);
        mismatches.extend(usage.check_day(day).await.map_err(CommandFailure::unavailable)?);
    }
    mismatches.sort();
    Ok((days.len() as u64, mismatches))
}

/// Rebuilds the usage of a scope on all days up to that of `before_ms`.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn rebuild(inspection: &Inspection, scope: &QueryScope, before_ms: i64) -> Result<Rebuild, CommandFailure> {
    let usage = Usage::new(inspection.warehouse.clone());
    if !inspection.live {
        let request = RebuildRequest {
            id: Uuid::new_v4(),
            scope: scope.clone(),
            before_ms,
        };
        let executed = usage.execute_rebuild(&request, None).await;
        return executed.map(|_| Rebuild::Done).map_err(CommandFailure::unavailable);
    }
    let requested = usage.request_rebuild(scope, before_ms).await;
    let id = requested.map_err(CommandFailure::unavailable)?;
    let deadline = Instant::now() + WAIT_MAX;
    while !usage.is_rebuilt(id).await.map_err(CommandFailure::unavailable)? {
        if Instant::now() >= deadline {
            return Ok(Rebuild::Pending);
        }
        sleep(POLL).await;
    }
    Ok(Rebuild::Done)
}
