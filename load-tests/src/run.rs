//! A whole run: load, wait, check, report.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::check::{self, AuditTotals};
use crate::expected::Expected;
use crate::freshness::{self, Sampler};
use crate::pace::{self, Paced};
use crate::plan::{Arguments, Plan};
use crate::report::Report;
use crate::workload;

/// A run in progress.
pub struct Run {
    plan: Arc<Plan>,
    expected: Arc<Mutex<Expected>>,
    before: Option<AuditTotals>,
    signing: JoinHandle<Result<()>>,
    sending: tokio::task::JoinHandle<Result<Paced>>,
    sampler: Sampler,
    stop: CancellationToken,
    began: Instant,
}

impl Run {
    /// Takes the audit that the last one is compared with, and starts sending.
    ///
    /// # Errors
    /// The arguments are wrong, or the first audit failed.
    pub async fn start(arguments: Arguments) -> Result<Self> {
        let plan = Arc::new(Plan::from_arguments(arguments)?);
        let expected = Arc::new(Mutex::new(Expected::default()));
        let stop = CancellationToken::new();
        let before = check::audit_totals(&plan).await?;
        let (requests, signing) = workload::start(Arc::clone(&plan), stop.clone())?;
        let sampler = freshness::start(Arc::clone(&plan), Arc::clone(&expected))?;
        let sending = pace::run(Arc::clone(&plan), requests, Arc::clone(&expected), stop.clone());
        Ok(Self {
            plan,
            expected,
            before,
            signing,
            sending: tokio::spawn(sending),
            sampler,
            stop,
            began: Instant::now(),
        })
    }

    /// Receipts acknowledged so far, whatever must become of them.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let expected = self.expected.lock();
        expected.occurrences + expected.rejected_sum()
    }

    /// Starts no further request.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for the last answer, then compares every number.
    ///
    /// # Errors
    /// A fault that prevented the run at all.
    pub async fn finish(self) -> Result<Report> {
        let paced = self.sending.await.context("the sending task")??;
        self.signing
            .join()
            .map_err(|_| anyhow::anyhow!("the signing thread panicked"))??;
        let checked = check::run(&self.plan, &self.expected, self.before).await?;
        let counted_in = checked.complete_at.map(|at| at - self.began);
        let freshness = self.sampler.finish().await?;
        let expected = self.expected.lock().clone();
        Ok(Report::new(
            &self.plan,
            paced,
            freshness,
            expected,
            checked.findings,
            counted_in,
        ))
    }
}

/// Runs the whole plan and prints its report.
///
/// # Errors
/// A fault that prevented the run at all. `Ok(false)` says that it was made and a number
/// differs.
pub async fn run(arguments: Arguments) -> Result<bool> {
    let run = Run::start(arguments).await?;
    let json = run.plan.json;
    let report = run.finish().await?;
    report.print(json)?;
    Ok(report.passed())
}
