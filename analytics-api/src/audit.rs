//! The books held against the tables, again and again: rows lost with a damaged file would otherwise show only to who
//! runs an audit, and the numbers over what is left would be served as complete.
//!
//! The check reads the warehouse only, so it holds for any number of writers, and any number of
//! these APIs may run it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};
use warehouse::{AuditSums, WarehouseError};

use crate::app::App;
use crate::progress::committed;

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

/// Compares ledger and tables below the published positions. Progress is read first: a writer
/// publishes it after the ledger row, so everything below it must be in both.
async fn check(app: &App) -> Result<AuditSums, WarehouseError> {
    let shards = app.deps.progress.shards().await?;
    app.warehouse().balance(&committed(&shards)).await
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
