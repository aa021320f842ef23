//! The books held against the tables, again and again: rows lost with a damaged file would otherwise show only to who
//! runs an audit, and the numbers over what is left would be served as complete.
//!
//! It asks log and warehouse only, so it holds for any number of verifiers, and any number of these APIs may run it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};
use warehouse::{AuditSums, CommittedOffset, LedgerRow};

use crate::app::App;

/// A check may take so much of the time, in percent: the pause after it grows with it.
const PERCENT_MAX: u32 = 2;

/// What the last check found; answers say it.
#[derive(Debug, Default)]
pub(crate) struct Books {
    off: AtomicBool,
}

impl Books {
    /// Whether receipts are known to be missing from the tables (or to be there too often).
    pub(crate) fn are_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
enum NotChecked {
    #[error(transparent)]
    Log(#[from] receipt_log::InspectError),
    #[error(transparent)]
    Warehouse(#[from] warehouse::WarehouseError),
}

/// Checks at once, and then again and again.
pub(crate) async fn watch(app: Arc<App>) {
    let pause = Duration::from_millis(app.config.audit_interval_ms);
    gauge!("receipts_audit_last_good_timestamp_seconds").set(0.0);
    loop {
        let started = Instant::now();
        match check(&app).await {
            Ok(sums) => tell(&app, &sums),
            // Readiness tells of an engine that is away or damaged.
            Err(error) => tracing::warn!(%error, "the ledger could not be held against the tables"),
        }
        let taken = started.elapsed();
        histogram!("receipts_audit_seconds").record(taken.as_secs_f64());
        tokio::time::sleep(pause.max(taken * (100 / PERCENT_MAX))).await;
    }
}

async fn check(app: &App) -> Result<AuditSums, NotChecked> {
    let partitions = app.deps.log.partitions(&app.config.group).await?;
    let settled = partitions.into_iter().filter_map(|state| {
        let committed = state.committed.filter(|committed| committed.epoch == state.epoch)?;
        // The row of the last commit may still be on its way; those before stand.
        let last_block: Option<LedgerRow> = serde_json::from_str(&committed.metadata).ok();
        Some(CommittedOffset {
            epoch: state.epoch,
            partition: state.partition,
            next_offset: last_block.map_or(committed.next_offset, |line| line.first_offset),
        })
    });
    let settled: Vec<_> = settled.collect();
    Ok(app.warehouse().balance(&settled).await?)
}

fn tell(app: &App, sums: &AuditSums) {
    let findings = sums.findings.len();
    #[allow(clippy::cast_precision_loss)] // Gauges; a difference above 2^53 is no less of one.
    {
        gauge!("receipts_audit_findings").set(findings as f64);
        gauge!("receipts_audit_off_by_receipts").set(sums.off_by as f64);
    }
    counter!("receipts_audit_checks_total").increment(1);
    app.books.off.store(findings > 0, Ordering::Relaxed);
    let Some(first) = sums.findings.first() else {
        let now_s = jiff::Timestamp::now().as_duration().as_secs_f64();
        gauge!("receipts_audit_last_good_timestamp_seconds").set(now_s);
        return;
    };
    tracing::error!(
        findings,
        off_by = sums.off_by,
        kind = first.kind,
        first = first.detail,
        "the tables don't hold what the ledger counts: `receipts audit` names all differences, `receipts repair` writes \
         lost rows again from the log; answers say `incomplete` until then"
    );
}
