//! Background check of the aggregates: one day of `usage` at a time is compared with `receipts`,
//! from the newest to the oldest and again from the newest.
//!
//! The check reads the warehouse only, so any number of these APIs may run it. Days with mismatches
//! are checked again before the next day, so that the metric falls soon after a repair.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, gauge};
use usage::{Mismatch, Usage};
use warehouse::WarehouseError;

use crate::state::AnalyticsState;

/// The shortest pause between two days.
const PAUSE_MIN: Duration = Duration::from_secs(30);
/// Mismatches of one day that are logged.
const LOGGED_MAX: usize = 10;

/// State of the check.
#[derive(Debug, Default)]
struct CheckPass {
    /// Days that are still to be checked, the newest last.
    days: Vec<u32>,
    /// Days on which the last check found a mismatch.
    wrong: BTreeSet<u32>,
}

/// Checks one day after another, until it is aborted.
pub(crate) async fn watch(app: Arc<AnalyticsState>) {
    let percent = app.config.usage_check_percent_max;
    gauge!("receipts_usage_mismatches").set(0.0);
    if percent == 0 {
        return;
    }
    let usage = Usage::new(app.warehouse().clone());
    let mut pass = CheckPass::default();
    loop {
        let started = Instant::now();
        if let Err(error) = pass.step(&usage).await {
            // Readiness reports an engine that is unavailable or damaged.
            tracing::warn!(%error, "usage can't be checked now");
        }
        let pause = started.elapsed() * (100 / percent);
        tokio::time::sleep(pause.max(PAUSE_MIN)).await;
    }
}

impl CheckPass {
    /// Checks days with mismatches again, then the next day.
    async fn step(&mut self, usage: &Usage) -> Result<(), WarehouseError> {
        let wrong: Vec<u32> = self.wrong.iter().copied().collect();
        for day in wrong {
            self.check(usage, day).await?;
        }
        if self.days.is_empty() {
            self.days = usage.days(i64::MIN, i64::MAX).await?;
            self.days.reverse();
        }
        if let Some(&day) = self.days.last() {
            self.check(usage, day).await?;
            self.days.pop();
        }
        Ok(())
    }

    async fn check(&mut self, usage: &Usage, day: u32) -> Result<(), WarehouseError> {
        let mismatches = usage.check_day(day).await?;
        counter!("receipts_usage_checks_total").increment(1);
        if mismatches.is_empty() {
            self.wrong.remove(&day);
        } else if self.wrong.insert(day) {
            report(day, &mismatches);
        }
        #[allow(clippy::cast_precision_loss)] // A gauge of days.
        gauge!("receipts_usage_mismatches").set(self.wrong.len() as f64);
        Ok(())
    }
}

fn report(day: u32, mismatches: &[Mismatch]) {
    let texts: Vec<String> = mismatches.iter().take(LOGGED_MAX).map(ToString::to_string).collect();
    tracing::error!(
        day = jiff::Timestamp::from_second(i64::from(day))
            .map(|at| at.to_string())
            .unwrap_or_default(),
        findings = mismatches.len(),
        first = texts.join("; "),
        "aggregates of usage differ from the receipts: `receipts usage check` lists the differences, `receipts usage \
         rebuild` corrects them"
    );
}
