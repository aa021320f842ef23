//! The dashboard, the time series, the refusals and the audit against what was sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use parking_lot::Mutex;
use receipt::Purpose;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::expected::Expected;
use crate::http::{HttpClient, client};
use crate::plan::Plan;

/// The dashboard's answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dashboard {
    /// Counted receipts.
    pub total_receipts: u64,
    unique_clients: u64,
    top_content: Vec<TopContent>,
    usage_by_purpose: BTreeMap<String, u64>,
    complete_through: Timestamp,
}

impl Dashboard {
    /// Everything acknowledged before is counted.
    #[must_use]
    pub fn complete_through(&self) -> Timestamp {
        self.complete_through
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopContent {
    entry_id: uuid::Uuid,
    receipt_count: u64,
}

#[derive(Debug, Deserialize)]
struct TimeSeries {
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    value: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refusals {
    by_reason: BTreeMap<String, u64>,
}

/// Totals of the ledger and the tables, by the audit.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct AuditTotals {
    /// Accepted occurrences.
    pub accepted: u64,
    /// Rejected receipts.
    pub rejected: u64,
}

/// A number: its least and greatest right value, and its actual one.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Finding {
    /// Quantity.
    pub what: String,
    /// The least it may be.
    pub at_least: u64,
    /// The most it may be; above `at_least` only where a try went unanswered or a request was given
    /// up.
    pub at_most: u64,
    /// Actual value.
    pub is: u64,
}

impl Finding {
    fn range(what: impl Into<String>, at_least: u64, at_most: u64, is: u64) -> Self {
        Self {
            what: what.into(),
            at_least,
            at_most,
            is,
        }
    }

    /// The number is right.
    #[must_use]
    pub fn right(&self) -> bool {
        (self.at_least..=self.at_most).contains(&self.is)
    }
}

/// Result of the comparison.
#[derive(Debug)]
pub struct Checked {
    /// Every number.
    pub findings: Vec<Finding>,
    /// When everything acknowledged was seen to be counted; `None` where nobody may ask.
    pub complete_at: Option<Instant>,
}

/// Waits until the watermark has passed the last acknowledgement, then compares every number.
///
/// # Errors
/// The service can't be asked, or its watermark doesn't get there in time.
pub async fn run(plan: &Arc<Plan>, expected: &Mutex<Expected>, before: Option<AuditTotals>) -> Result<Checked> {
    let mut findings = Vec::new();
    let mut complete_at = None;
    if plan.api_key.is_some() {
        let http = client(1);
        let seen = wait_for_watermark(&http, plan, Timestamp::now()).await?;
        complete_at = Some(Instant::now());
        let expected = expected.lock().clone();
        compare_dashboard(&mut findings, &expected, &seen);
        compare_time_series(&mut findings, &expected, &http, plan).await?;
        compare_refusals(&mut findings, &expected, &http, plan).await?;
    }
    if let Some(before) = before {
        let after = audit_totals(plan).await?.context("the audit of the end is missing")?;
        let expected = expected.lock();
        let accepted = expected.occurrences;
        let rejected = expected.rejected_sum();
        findings.push(Finding::range(
            "ledger: accepted occurrences",
            accepted,
            accepted + expected.open_occurrences + expected.given_up,
            after.accepted - before.accepted,
        ));
        findings.push(Finding::range(
            "ledger: rejected",
            rejected,
            rejected + expected.open_rejected + expected.given_up,
            after.rejected - before.rejected,
        ));
    }
    Ok(Checked { findings, complete_at })
}

fn compare_dashboard(findings: &mut Vec<Finding>, expected: &Expected, seen: &Dashboard) {
    let slack = expected.given_up;
    let total = expected.verified.len() as u64;
    findings.push(Finding::range(
        "dashboard: totalReceipts",
        total,
        total + slack,
        seen.total_receipts,
    ));
    let clients = expected.clients.len() as u64;
    findings.push(Finding::range(
        "dashboard: uniqueClients",
        clients,
        clients + slack,
        seen.unique_clients,
    ));
    for purpose in Purpose::ALL.map(Purpose::as_str) {
        let count = expected.by_purpose.get(purpose).copied().unwrap_or(0);
        let is = seen.usage_by_purpose.get(purpose).copied().unwrap_or(0);
        findings.push(Finding::range(
            format!("dashboard: {purpose}"),
            count,
            count + slack,
            is,
        ));
    }
    for top in &seen.top_content {
        let count = expected.by_entry.get(&top.entry_id).copied().unwrap_or(0);
        findings.push(Finding::range(
            format!("topContent: {}", top.entry_id),
            count,
            count + slack,
            top.receipt_count,
        ));
    }
}

async fn compare_time_series(
    findings: &mut Vec<Finding>,
    expected: &Expected,
    http: &HttpClient,
    plan: &Plan,
) -> Result<()> {
    let series: TimeSeries = ask(http, plan, "/api/v1/analytics/timeseries?metric=receipts&interval=hour").await?;
    let total = expected.verified.len() as u64;
    let sum = series.points.iter().map(|point| point.value).sum();
    findings.push(Finding::range(
        "timeseries: sum of hours",
        total,
        total + expected.given_up,
        sum,
    ));
    Ok(())
}

async fn compare_refusals(
    findings: &mut Vec<Finding>,
    expected: &Expected,
    http: &HttpClient,
    plan: &Plan,
) -> Result<()> {
    let refusals: Refusals = ask(http, plan, "/api/v1/analytics/refusals").await?;
    let open = expected.open_rejected + expected.given_up;
    for (reason, count) in &expected.rejected {
        let is = refusals.by_reason.get(*reason).copied().unwrap_or(0);
        findings.push(Finding::range(format!("refusals: {reason}"), *count, count + open, is));
    }
    for (reason, count) in &refusals.by_reason {
        if *count > 0 && !expected.rejected.contains_key(reason.as_str()) {
            findings.push(Finding::range(format!("refusals: {reason}"), 0, 0, *count));
        }
    }
    Ok(())
}

async fn wait_for_watermark(http: &HttpClient, plan: &Plan, acknowledged: Timestamp) -> Result<Dashboard> {
    let deadline = Instant::now() + plan.wait_max;
    let mut last = "no answer".to_owned();
    while Instant::now() < deadline {
        match dashboard(http, plan).await {
            Ok(Some(seen)) if seen.complete_through > acknowledged => return Ok(seen),
            Ok(Some(seen)) => last = format!("complete through {}", seen.complete_through),
            Ok(None) => last = "rate limited or not ready".to_owned(),
            Err(error) => last = format!("{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!(
        "the watermark didn't pass the last acknowledgement ({acknowledged}) in {:?}: {last}",
        plan.wait_max
    )
}

/// The dashboard; `None` while the service says to try again later.
///
/// # Errors
/// Any other answer.
pub async fn dashboard(http: &HttpClient, plan: &Plan) -> Result<Option<Dashboard>> {
    match get(http, plan, "/api/v1/analytics/dashboard").await? {
        (StatusCode::OK, body) => Ok(Some(serde_json::from_slice(&body)?)),
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => Ok(None),
        (status, body) => bail!("the dashboard answered {status}: {}", String::from_utf8_lossy(&body)),
    }
}

/// The status a dashboard is answered with to `key`; `None` where nothing answers.
pub async fn dashboard_status(http: &HttpClient, analytics: &str, key: &str) -> Option<StatusCode> {
    let request = http::Request::get(format!("{analytics}/api/v1/analytics/dashboard"))
        .header(header::AUTHORIZATION, format!("Bearer {key}"))
        .body(Full::default())
        .ok()?;
    let answer = tokio::time::timeout(Duration::from_secs(10), http.request(request)).await;
    Some(answer.ok()?.ok()?.status())
}

async fn ask<T: DeserializeOwned>(http: &HttpClient, plan: &Plan, path: &str) -> Result<T> {
    let deadline = Instant::now() + plan.wait_max;
    loop {
        match get(http, plan, path).await? {
            (StatusCode::OK, body) => return serde_json::from_slice(&body).with_context(|| format!("{path} answered")),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            (status, body) => bail!("{path} answered {status}: {}", String::from_utf8_lossy(&body)),
        }
    }
}

async fn get(http: &HttpClient, plan: &Plan, path: &str) -> Result<(StatusCode, Bytes)> {
    let request = http::Request::builder()
        .method(Method::GET)
        .uri(format!("{}{path}", plan.analytics))
        .header(
            header::AUTHORIZATION,
            format!("Bearer {}", plan.api_key.as_deref().unwrap_or_default()),
        )
        .body(Full::default())?;
    let response = http.request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// Runs `receipts audit`; `None` where it isn't requested.
///
/// # Errors
/// The audit can't be run, or it found that something doesn't add up.
pub async fn audit_totals(plan: &Plan) -> Result<Option<AuditTotals>> {
    if !plan.audit {
        return Ok(None);
    }
    let mut audit = tokio::process::Command::new(&plan.receipts);
    audit.args(["audit", "--json"]);
    if let Some(data) = &plan.data {
        audit.arg("--data").arg(data);
    }
    let output = audit
        .envs(plan.audit_environment.iter().map(|(key, value)| (key, value)))
        .output()
        .await
        .with_context(|| format!("running {}", plan.receipts.display()))?;
    if !output.status.success() {
        bail!(
            "receipts audit ended with {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    #[derive(Deserialize)]
    struct Audit {
        totals: AuditTotals,
    }
    let audit: Audit = serde_json::from_slice(&output.stdout).context("the audit's JSON")?;
    Ok(Some(audit.totals))
}
