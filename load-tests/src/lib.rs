//! The load generator with an exact end-to-end check.
//!
//! - [`plan`]: the arguments, and what they come to
//! - [`workload`]: client keys, signed bodies, and what each one must lead to
//! - [`expected`]: what the service must say in the end, kept as acknowledgements come in
//! - [`submit`]: one request, with the retries an ordinary client makes
//! - [`pace`]: open loop at a rate, or closed loop at a concurrency
//! - [`freshness`]: from acknowledged to counted in the dashboard
//! - [`check`]: the dashboard, the refusals and the audit against what was sent
//! - [`stack`]: a `receipts up` process under test
//! - [`report`]: what a person reads, and what a program reads

#![forbid(unsafe_code)]

pub mod check;
pub mod expected;
pub mod freshness;
pub mod pace;
pub mod plan;
pub mod report;
pub mod stack;
pub mod submit;
pub mod workload;

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;

use crate::expected::Expected;
use crate::plan::{Arguments, Plan};
use crate::report::Report;

/// Runs the whole plan: load, wait, check, report.
///
/// # Errors
/// What kept the run from being made at all. `Ok(false)` says that it was made and a number differs.
pub async fn run(arguments: Arguments) -> Result<bool> {
    let plan = Arc::new(Plan::from_arguments(arguments)?);
    let expected = Arc::new(Mutex::new(Expected::default()));
    let before = check::audit_totals(&plan).await?;
    let (requests, signing) = workload::start(Arc::clone(&plan))?;
    let sampler = freshness::start(Arc::clone(&plan), Arc::clone(&expected))?;
    let paced = pace::run(Arc::clone(&plan), requests, Arc::clone(&expected)).await?;
    signing
        .join()
        .map_err(|_| anyhow::anyhow!("the signing thread panicked"))??;
    let findings = check::run(&plan, &expected, before).await?;
    let freshness = sampler.finish().await?;
    let expected = expected.lock().clone();
    let report = Report::new(&plan, paced, freshness, expected, findings);
    report.print(plan.json)?;
    Ok(report.passed())
}
