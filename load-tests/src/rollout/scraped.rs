//! A real Prometheus beside the fleet, which scrapes every replica as the chart's ServiceMonitor
//! has it done: each service by itself records what the list of metrics says, rules are evaluated
//! over all of them, and the autoscaler's questions have answers.

#![allow(clippy::disallowed_methods)] // Starting and asking Prometheus waits, it doesn't compute.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use service::metrics::MetricDoc;
use test_engines::Prometheus;
use tokio::task::spawn_blocking;

/// Time within which the last new pod has work and was scraped.
const TAKEN_OVER: Duration = Duration::from_secs(60);
/// Until the next try.
const AGAIN: Duration = Duration::from_millis(500);

/// Metrics that only this service's replicas can have recorded, or that they need for an alert.
const OWN: [(&str, &[&str]); 5] = [
    (
        "gateway",
        &[
            "receipts_gateway_receipts_total",
            "receipts_gateway_requests_total{route=\"webhook\",status=\"503\"}",
            "receipts_kafka_delivery_seconds_count",
            "receipts_log_writable",
        ],
    ),
    (
        "verifier",
        &[
            "receipts_verifier_receipts_total",
            "receipts_verifier_records_total",
            "receipts_kafka_lag_records{log=\"receipts\"}",
            "receipts_kafka_transactions_total{outcome=\"committed\"}",
            "receipts_log_appends_total{log=\"verdicts\"}",
        ],
    ),
    (
        "writer",
        &[
            "receipts_writer_receipts_total",
            "receipts_writer_batch_seconds_count",
            "receipts_kafka_lag_records{log=\"verdicts\"}",
        ],
    ),
    (
        "analytics-api",
        &[
            "receipts_api_requests_total{api=\"analytics\"}",
            "receipts_watermark_timestamp_seconds",
            "receipts_audit_findings",
        ],
    ),
    (
        "publisher-api",
        &[
            "receipts_api_requests_total{api=\"publisher\"}",
            "receipts_publisher_task_good_timestamp_seconds",
            "receipts_accounts_query_seconds_count",
        ],
    ),
];

/// The questions by which KEDA scales, as the chart has them.
const QUESTIONS: &str = include_str!("../../../helm/receipts/templates/_seconds_to_drain.tpl");

/// Labels that Prometheus puts to every series.
const ADDED: [&str; 4] = ["__name__", "job", "instance", "le"];

/// The server, and who is scraped.
pub struct Scraped {
    server: Arc<Prometheus>,
}

impl Scraped {
    /// Scrapes these from now on (the service's name, the base address of its metrics), and
    /// evaluates the files that match `rules`.
    ///
    /// # Errors
    /// Prometheus isn't in the cache, or doesn't start.
    pub async fn start(targets: Vec<(&'static str, String)>, rules: &Path) -> Result<Self> {
        let rules: PathBuf = std::path::absolute(rules)?;
        let server = spawn_blocking(move || {
            let targets: Vec<_> = targets
                .iter()
                .map(|(job, base)| (*job, base.trim_start_matches("http://")))
                .collect();
            Prometheus::start(&targets, &rules)
        });
        Ok(Self {
            server: Arc::new(server.await??),
        })
    }

    /// Compares what was found with the list of metrics; the number of different ones. Waits for
    /// pods that have just taken over: they record what they have done, and are scraped later.
    ///
    /// # Errors
    /// A series that the list doesn't have so, a service without its own, or a rule that can't be
    /// evaluated.
    pub async fn check(&self) -> Result<usize> {
        let began = Instant::now();
        loop {
            let server = Arc::clone(&self.server);
            match spawn_blocking(move || check(&server)).await? {
                Err(_) if began.elapsed() < TAKEN_OVER => tokio::time::sleep(AGAIN).await,
                checked => return checked,
            }
        }
    }
}

fn check(server: &Prometheus) -> Result<usize> {
    for (job, own) in OWN {
        let up = server.query(&format!("up{{job=\"{job}\"}} == 1"))?;
        ensure!(!up.is_empty(), "no {job} is scraped");
        for series in own {
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let asked = format!("{name}{{job=\"{job}\",{labels}");
            ensure!(!server.query(&asked)?.is_empty(), "{job} has no {series}");
        }
        let served = server.query(&format!("count(receipts_build_info{{job=\"{job}\"}})"))?;
        ensure!(!served.is_empty(), "{job} doesn't say its version");
    }
    for (name, matchers) in [
        ("receipts.secondsToDrain", "job=\"verifier\""),
        ("receipts.secondsBehind", "job=~\"verifier|writer\""),
    ] {
        let question = question(QUESTIONS, name, matchers).context("the chart's question has another form")?;
        let seconds = server.query(&question)?;
        let [answer] = &seconds[..] else {
            anyhow::bail!("{question}: {seconds:?}");
        };
        let seconds: f64 = answer["value"][1].as_str().unwrap_or_default().parse()?;
        ensure!(
            (0.0..60.0).contains(&seconds),
            "replicas that keep up: {name} is {seconds} s"
        );
    }

    let rules = server.json("/api/v1/rules")?;
    let groups = rules["data"]["groups"].as_array().context("no groups")?;
    let rules: Vec<_> = groups
        .iter()
        .filter_map(|group| group["rules"].as_array())
        .flatten()
        .collect();
    ensure!(rules.len() > 30, "{} rules", rules.len());
    for rule in rules {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    listed(server)
}

/// Every series is of the list, with no label that isn't.
fn listed(server: &Prometheus) -> Result<usize> {
    let mut seen = std::collections::BTreeSet::new();
    for series in server.series("{__name__=~\"receipts_.+\"}")? {
        let name = series["__name__"].as_str().context("a series without a name")?;
        let row = MetricDoc::of_series(name).with_context(|| format!("{name} isn't in METRICS as what it is"))?;
        let labels = series.as_object().context("no labels")?.keys();
        for label in labels.filter(|label| !ADDED.contains(&label.as_str())) {
            ensure!(row.labels.contains(&label.as_str()), "{name} has a label {label}");
        }
        seen.insert(row.name);
    }
    Ok(seen.len())
}

/// The one line of a template, with these label matchers.
fn question(templates: &str, name: &str, matchers: &str) -> Option<String> {
    let (_, body) = templates.split_once(&format!("\"{name}\" -}}}}"))?;
    let (body, _) = body.split_once("{{- end")?;
    Some(body.trim().replace(" {{- . -}} ", matchers))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_charts_questions_are_found_in_their_template() {
        for (name, log) in [
            ("receipts.secondsToDrain", "receipts"),
            ("receipts.secondsBehind", "verdicts"),
        ] {
            let question = question(QUESTIONS, name, "job=\"a\"").unwrap();
            let start = format!("sum(receipts_kafka_lag_records{{log=\"{log}\",job=\"a\"}}) / ");
            assert!(question.starts_with(&start), "{question}");
            assert!(!question.contains("{{"), "{question}");
        }
    }
}
