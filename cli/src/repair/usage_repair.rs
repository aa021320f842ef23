//! Aggregates of usage after a repair: compared with the receipts, and rebuilt where they differ.

use std::collections::BTreeSet;

use serde::Serialize;
use usage::Usage;
use warehouse::QueryScope;

use crate::failure::CommandFailure;
use crate::inspection::Inspection;
use crate::terminal::mark;
use crate::usage::ShownMismatch;
use crate::usage::rebuilding::{Rebuild, check, rebuild};

const DAY_MS: i64 = 86_400_000;

/// Result of the comparison and the rebuild.
#[derive(Debug, Serialize)]
pub struct UsageRepair {
    days: u64,
    mismatches: Vec<ShownMismatch>,
    /// Whether aggregates and receipts are equal now.
    pub(super) rebuilt: bool,
}

/// Checks all days, and rebuilds the publishers that differ.
///
/// # Errors
/// The warehouse is unavailable.
pub async fn repair(inspection: &Inspection) -> Result<UsageRepair, CommandFailure> {
    let usage = Usage::new(inspection.warehouse.clone());
    let (days, mismatches) = check(&usage, (0, i64::MAX), |_, _| {}).await?;
    let Some(last) = mismatches.iter().map(|mismatch| mismatch.day).max() else {
        return Ok(UsageRepair {
            days,
            mismatches: Vec::new(),
            rebuilt: true,
        });
    };
    // Counted keys have the empty publisher.
    let publishers: BTreeSet<String> = mismatches.iter().map(|mismatch| mismatch.publisher.clone()).collect();
    let scope = QueryScope::of(publishers.into_iter().collect());
    let end_ms = i64::from(last) * 1_000 + DAY_MS - 1;
    let rebuild = rebuild(inspection, &scope, end_ms).await?;
    Ok(UsageRepair {
        days,
        mismatches: mismatches.iter().map(ShownMismatch::of).collect(),
        rebuilt: rebuild == Rebuild::Done,
    })
}

impl UsageRepair {
    pub(super) fn to_lines(&self) -> Option<String> {
        let found = self.mismatches.len();
        if found == 0 {
            return None;
        }
        Some(if self.rebuilt {
            format!(
                "{} aggregates of usage differed from the receipts in {found} ways, and were rebuilt",
                mark(true)
            )
        } else {
            format!(
                "{} aggregates of usage differ from the receipts in {found} ways; the writer rebuilds them as soon as it runs",
                mark(false)
            )
        })
    }
}
