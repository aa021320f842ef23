//! Reports for a person, and for a program.

use anstream::println;
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

use crate::check::Finding;
use crate::expected::Expected;
use crate::pace::Paced;
use crate::plan::Plan;

/// Percentiles of a histogram, in its own unit.
#[derive(Debug, Serialize)]
pub struct Percentiles {
    pub(crate) p50: u64,
    p90: u64,
    pub(crate) p99: u64,
    p999: u64,
    max: u64,
}

impl From<&Histogram<u64>> for Percentiles {
    fn from(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// The whole run in numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    requests: u64,
    pub(crate) receipts: u64,
    seconds: f64,
    pub(crate) receipts_per_second: f64,
    /// Rate until everything acknowledged was counted.
    pub(crate) counted_per_second: Option<f64>,
    mode: &'static str,
    batch: usize,
    latency_us: Percentiles,
    pub(crate) freshness_ms: Option<Percentiles>,
    unique: u64,
    occurrences: u64,
    rejected: u64,
    refused: u64,
    pub(crate) repeated_tries: u64,
    /// Answers 503, and how long the slowest took.
    pub(crate) unavailable: u64,
    pub(crate) slowest_unavailable_ms: u64,
    without_retry_after: u64,
    pub(crate) given_up: u64,
    wrong_answers: Vec<String>,
    findings: Vec<Finding>,
    passed: bool,
}

impl Report {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        plan: &Plan,
        paced: Paced,
        freshness: Option<Histogram<u64>>,
        expected: Expected,
        findings: Vec<Finding>,
        counted_in: Option<Duration>,
    ) -> Self {
        let mut findings = findings;
        findings.push(Finding {
            what: "429 and 503 without Retry-After".to_owned(),
            at_least: 0,
            at_most: 0,
            is: paced.met.without_retry_after,
        });
        let passed = expected.wrong_answers.is_empty() && findings.iter().all(Finding::right);
        let seconds = paced.elapsed.as_secs_f64();
        Self {
            requests: paced.requests,
            receipts: paced.receipts,
            seconds,
            receipts_per_second: paced.receipts as f64 / seconds,
            counted_per_second: counted_in.map(|time| paced.receipts as f64 / time.as_secs_f64()),
            mode: if plan.rate.is_some() {
                "open loop"
            } else {
                "closed loop"
            },
            batch: plan.batch,
            latency_us: Percentiles::from(&paced.latency_us),
            freshness_ms: freshness
                .as_ref()
                .filter(|delays| !delays.is_empty())
                .map(Percentiles::from),
            unique: expected.verified.len() as u64,
            occurrences: expected.occurrences,
            rejected: expected.rejected_sum(),
            refused: expected.refused,
            repeated_tries: paced.met.repeated,
            unavailable: paced.met.unavailable,
            slowest_unavailable_ms: u64::try_from(paced.met.slowest_unavailable.as_millis()).unwrap_or(u64::MAX),
            without_retry_after: paced.met.without_retry_after,
            given_up: expected.given_up,
            wrong_answers: expected.wrong_answers,
            findings,
            passed,
        }
    }

    /// Every number is right and every answer was.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.passed
    }

    /// Times of acknowledgements, in a line.
    #[must_use]
    pub fn latency_line(&self) -> String {
        let ms = |us: u64| us as f64 / 1000.0;
        format!(
            "p50 {:.1} ms, p99 {:.1} ms",
            ms(self.latency_us.p50),
            ms(self.latency_us.p99)
        )
    }

    /// Each thing that is wrong, in words.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let wrong = self.findings.iter().filter(|finding| !finding.right());
        let differ = wrong.map(|finding| {
            format!(
                "{}: {} instead of {}..={}",
                finding.what, finding.is, finding.at_least, finding.at_most
            )
        });
        self.wrong_answers.iter().cloned().chain(differ).collect()
    }

    /// Prints it.
    ///
    /// # Errors
    /// Never in practice: the report is plain data.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        let bold = Style::new().bold();
        let good = AnsiColor::Green.on_default().bold();
        let bad = AnsiColor::Red.on_default().bold();
        println!(
            "{bold}{} receipts{bold:#} in {} requests, {:.1} s: {:.0} receipts/s ({}, {} a request)",
            self.receipts, self.requests, self.seconds, self.receipts_per_second, self.mode, self.batch
        );
        println!("  latency    {}", self.latency_us.line(1000.0));
        if let Some(freshness) = &self.freshness_ms {
            println!("  freshness  {}   (acknowledged to counted)", freshness.line(1.0));
        }
        println!(
            "  sent       {} unique, {} occurrences, {} to be rejected, {} malformed refused, {} tries repeated",
            self.unique, self.occurrences, self.rejected, self.refused, self.repeated_tries
        );
        for wrong in &self.wrong_answers {
            println!("  {bad}wrong answer{bad:#} {wrong}");
        }
        let wrong: Vec<_> = self.findings.iter().filter(|finding| !finding.right()).collect();
        for finding in &wrong {
            println!(
                "  {bad}differs{bad:#}    {}: {} instead of {}..={}",
                finding.what, finding.is, finding.at_least, finding.at_most
            );
        }
        if self.passed {
            println!(
                "  {good}exact{good:#}      all {} numbers are right",
                self.findings.len()
            );
        } else {
            println!(
                "  {bad}NOT exact{bad:#}  {} of {} numbers differ",
                wrong.len(),
                self.findings.len()
            );
        }
        Ok(())
    }
}

impl Percentiles {
    fn line(&self, per_ms: f64) -> String {
        let ms = |value: u64| value as f64 / per_ms;
        format!(
            "p50 {:.1} ms  p90 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1}",
            ms(self.p50),
            ms(self.p90),
            ms(self.p99),
            ms(self.p999),
            ms(self.max)
        )
    }
}
