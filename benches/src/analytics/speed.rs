//! The biggest publisher's questions over all days, from rollups over HTTP and over `receipts FINAL` in the engine itself, in turn.

use std::time::Instant;

use anyhow::{Context, Result};
use load_tests::http::client;
use serde_json::Value;
use warehouse::{Filter, GroupBy, Metric, RollupView, Scope, Target as At, Warehouse, WarehouseConfig};

use super::loading::{Load, publisher};
use super::mix::get;
use super::service::Service;
use super::{Arguments, or_skipped};
use crate::rounds::Samples;
use crate::row::{Row, Target, number};

/// Ours over the reference, at most.
const RATIO_MAX: f64 = 0.1;
/// `FINAL` over everything may take its time.
const FINAL_WAIT_MS_MAX: u64 = 600_000;

/// A question in both forms.
#[derive(Clone, Copy)]
enum Asked {
    Dashboard,
    Series(&'static str, i64, GroupBy),
    TopContent,
    TopClients,
}

struct Sides<'a> {
    service: &'a Service,
    reference: Warehouse,
    key: String,
    scope: Scope,
    filter: Filter,
}

pub(super) async fn measure(arguments: &Arguments, service: &Service, load: &Load) -> Result<Vec<Row>> {
    let config = WarehouseConfig {
        query_wait_ms_max: FINAL_WAIT_MS_MAX,
        ..WarehouseConfig::default()
    };
    let name = publisher(0);
    let sides = Sides {
        service,
        reference: Warehouse::connect(&At::Socket(service.socket().to_owned()), &config).await?,
        key: service.create_key(&name).await?,
        scope: Scope::of(vec![name]),
        filter: Filter {
            from_ms: load.begin_ms(),
            to_ms: load.end_ms(),
            ..Filter::default()
        },
    };
    let days = load.days();
    let asked = [
        ("analytics-dashboard", "dashboard", Asked::Dashboard),
        (
            "analytics-timeseries-day",
            "timeseries by day",
            Asked::Series("day", 86_400_000, GroupBy::None),
        ),
        (
            "analytics-timeseries-purpose",
            "timeseries by day and purpose",
            Asked::Series("day", 86_400_000, GroupBy::Purpose),
        ),
        (
            "analytics-timeseries-hour",
            "timeseries by hour",
            Asked::Series("hour", 3_600_000, GroupBy::None),
        ),
        ("analytics-content", "top content", Asked::TopContent),
        ("analytics-clients", "top clients", Asked::TopClients),
    ];
    let mut rows = Vec::new();
    for (name, what, asked) in asked {
        let what = format!("{what} of the biggest publisher over {days} days");
        rows.push(or_skipped(
            name,
            row(name, &what, &sides, asked, arguments.rounds).await,
        ));
    }
    Ok(rows)
}

async fn row(name: &str, what: &str, sides: &Sides<'_>, asked: Asked, rounds: usize) -> Result<Row> {
    let mut samples = Samples::default();
    let mut sums = (0, 0);
    let mut first_ms = 0.0;
    for round in 0..=rounds {
        let (ours, our_sum) = sides.rolled(asked).await?;
        let (reference, sum) = sides.final_only(asked).await?;
        if round == 0 {
            first_ms = ours;
        } else {
            samples.ours.push(ours);
            samples.reference.push(reference);
        }
        sums = (our_sum, sum);
    }
    let same = if sums.0 == sums.1 {
        format!("both say {}", number(sums.0 as f64))
    } else {
        format!("THEY DIFFER: {} rolled, {} FINAL", sums.0, sums.1)
    };
    Ok(Row::measured(name, what, "ms", samples)
        .against("the same over receipts FINAL, asked of the engine directly")
        .target(Target::RatioAtMost(RATIO_MAX))
        .note(same)
        .note(format!(
            "the first answer, before what it is of was in memory: {} ms",
            number(first_ms)
        )))
}

impl Sides<'_> {
    /// Milliseconds over HTTP, and what it adds up to.
    async fn rolled(&self, asked: Asked) -> Result<(f64, u64)> {
        let text = ::service::instant::rfc3339_ms;
        let range = format!("from={}&to={}", text(self.filter.from_ms), text(self.filter.to_ms));
        let path = match asked {
            Asked::Dashboard => format!("dashboard?{range}"),
            Asked::Series(interval, _, GroupBy::None) => format!("timeseries?interval={interval}&{range}"),
            Asked::Series(interval, _, _) => format!("timeseries?interval={interval}&groupBy=purpose&{range}"),
            Asked::TopContent => format!("content?{range}&limit=10"),
            Asked::TopClients => format!("clients?{range}&limit=10"),
        };
        let address = format!("{}/api/v1/analytics/{path}", self.service.analytics());
        // Each question on a connection of its own, as the reference's: what a connection costs is ours to bear.
        let http = client(1);
        let began = Instant::now();
        let body = get(&http, &address, &self.key).await?;
        let elapsed_ms = began.elapsed().as_secs_f64() * 1_000.0;
        let answer: Value = serde_json::from_slice(&body)?;
        let sum = match asked {
            Asked::Dashboard => answer["totalReceipts"].as_u64().context("no total")?,
            Asked::Series(_, _, GroupBy::None) => values(&answer["points"]),
            Asked::Series(..) => answer["series"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| values(&one["points"]))
                .sum(),
            Asked::TopContent => counts(&answer["content"]),
            Asked::TopClients => counts(&answer["clients"]),
        };
        Ok((elapsed_ms, sum))
    }

    /// Milliseconds in the engine over its socket, and what it adds up to.
    async fn final_only(&self, asked: Asked) -> Result<(f64, u64)> {
        let view = RollupView::none();
        let usage = self.reference.usage(&view);
        let (scope, filter) = (&self.scope, &self.filter);
        let began = Instant::now();
        let sum = match asked {
            Asked::Dashboard => usage.dashboard(scope, filter, 10).await?.total_receipts,
            Asked::Series(_, length_ms, group) => {
                let starts: Vec<i64> = (filter.from_ms..filter.to_ms)
                    .step_by(usize::try_from(length_ms)?)
                    .collect();
                let points = usage
                    .timeseries(scope, filter, Metric::Receipts, &starts, group, 3)
                    .await?;
                points.iter().map(|point| point.value).sum()
            }
            Asked::TopContent => {
                let top = usage.top_content(scope, filter, 10).await?;
                top.items.iter().map(|one| one.receipt_count).sum()
            }
            Asked::TopClients => {
                let top = usage.top_clients(scope, filter, 10).await?;
                top.items.iter().map(|one| one.receipt_count).sum()
            }
        };
        Ok((began.elapsed().as_secs_f64() * 1_000.0, sum))
    }
}

fn values(points: &Value) -> u64 {
    let values = points.as_array().into_iter().flatten();
    values.filter_map(|point| point["value"].as_u64()).sum()
}

fn counts(items: &Value) -> u64 {
    let items = items.as_array().into_iter().flatten();
    items.filter_map(|one| one["receiptCount"].as_u64()).sum()
}
