//! Queries of the biggest publisher over all days: from `usage` over HTTP, and over
//! `receipts FINAL` in the engine itself, in turn.

use std::time::Instant;

use anyhow::{Context, Result};
use load_tests::http::client;
use serde_json::Value;
use warehouse::{FINAL_SETTINGS, SqlStatement, Target as At, Warehouse, WarehouseConfig};

use super::get::get;
use super::loading::{Load, publisher};
use super::service::Service;
use super::{Arguments, or_skipped};
use crate::rounds::Samples;
use crate::row::{Row, Target, number};

/// Ours over the reference, at most.
const RATIO_MAX: f64 = 0.1;
/// `FINAL` over everything may take its time.
const FINAL_WAIT_MS_MAX: u64 = 600_000;

/// A query in both forms.
#[derive(Debug, Clone, Copy)]
pub(super) enum Query {
    Dashboard,
    /// Interval, its milliseconds, and whether by purpose.
    Series(&'static str, i64, bool),
    TopContent,
    TopClients,
}

struct Sides<'a> {
    service: &'a Service,
    key: String,
    reference: Reference,
}

/// Queries over `receipts FINAL` for a publisher and a range.
pub(super) struct Reference {
    pub(super) warehouse: Warehouse,
    pub(super) publisher: String,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

pub(super) async fn measure(arguments: &Arguments, service: &Service, load: &Load) -> Result<Vec<Row>> {
    let config = WarehouseConfig {
        query_wait_ms_max: FINAL_WAIT_MS_MAX,
        ..WarehouseConfig::default()
    };
    let name = publisher(0);
    let sides = Sides {
        service,
        key: service.create_key(&name).await?,
        reference: Reference {
            warehouse: Warehouse::connect(&At::Socket(service.socket().to_owned()), &config).await?,
            publisher: name,
            from_ms: load.begin_ms(),
            to_ms: load.end_ms(),
        },
    };
    let days = load.days();
    let queries = [
        ("analytics-dashboard", "dashboard", Query::Dashboard),
        (
            "analytics-timeseries-day",
            "timeseries by day",
            Query::Series("day", 86_400_000, false),
        ),
        (
            "analytics-timeseries-purpose",
            "timeseries by day and purpose",
            Query::Series("day", 86_400_000, true),
        ),
        (
            "analytics-timeseries-hour",
            "timeseries by hour",
            Query::Series("hour", 3_600_000, false),
        ),
        ("analytics-content", "top content", Query::TopContent),
        ("analytics-clients", "top clients", Query::TopClients),
    ];
    let mut rows = Vec::new();
    for (name, what, query) in queries {
        let what = format!("{what} of the biggest publisher over {days} days");
        rows.push(or_skipped(
            name,
            row(name, &what, &sides, query, arguments.rounds).await,
        ));
    }
    Ok(rows)
}

async fn row(name: &str, what: &str, sides: &Sides<'_>, query: Query, rounds: usize) -> Result<Row> {
    let mut samples = Samples::default();
    let mut sums = (0, 0);
    let mut first_ms = 0.0;
    for round in 0..=rounds {
        let (ours, our_sum) = sides.usage(query).await?;
        let (reference, sum) = sides.reference.answer(query).await?;
        if round == 0 {
            first_ms = ours;
        } else {
            samples.ours.push(ours);
            samples.reference.push(reference);
        }
        sums = (our_sum, sum);
    }
    let same = if sums.0 == sums.1 {
        format!("both have {}", number(sums.0 as f64))
    } else {
        format!("THEY DIFFER: {} from usage, {} over FINAL", sums.0, sums.1)
    };
    Ok(Row::measured(name, what, "ms", samples)
        .against("the same over receipts FINAL, in the engine directly")
        .target(Target::RatioAtMost(RATIO_MAX))
        .note(same)
        .note(format!(
            "the first answer, before what it is of was in memory: {} ms",
            number(first_ms)
        )))
}

impl Sides<'_> {
    /// Milliseconds over HTTP, and what it adds up to.
    async fn usage(&self, query: Query) -> Result<(f64, u64)> {
        let text = ::service::instant::rfc3339_ms;
        let range = format!(
            "from={}&to={}",
            text(self.reference.from_ms),
            text(self.reference.to_ms)
        );
        let path = match query {
            Query::Dashboard => format!("dashboard?{range}"),
            Query::Series(interval, _, false) => format!("timeseries?interval={interval}&{range}"),
            Query::Series(interval, _, _) => format!("timeseries?interval={interval}&groupBy=purpose&{range}"),
            Query::TopContent => format!("content?{range}&limit=10"),
            Query::TopClients => format!("clients?{range}&limit=10"),
        };
        let address = format!("{}/api/v1/analytics/{path}", self.service.analytics());
        // Each question on a connection of its own, as the reference's: what a connection costs is
        // ours to bear.
        let http = client(1);
        let began = Instant::now();
        let body = get(&http, &address, &self.key).await?;
        let elapsed_ms = began.elapsed().as_secs_f64() * 1_000.0;
        let answer: Value = serde_json::from_slice(&body)?;
        let sum = match query {
            Query::Dashboard => answer["totalReceipts"].as_u64().context("no total")?,
            Query::Series(_, _, false) => values(&answer["points"]),
            Query::Series(..) => answer["series"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| values(&one["points"]))
                .sum(),
            Query::TopContent => counts(&answer["content"]),
            Query::TopClients => counts(&answer["clients"]),
        };
        Ok((elapsed_ms, sum))
    }
}

impl Reference {
    /// Milliseconds in the engine over its socket, and what it adds up to.
    pub(super) async fn answer(&self, query: Query) -> Result<(f64, u64)> {
        let began = Instant::now();
        let mut sum = 0;
        let step_ms = match query {
            Query::Series(_, step_ms, _) => step_ms,
            _ => 1,
        };
        for statement in statements(query) {
            let sql = statement.replace("{selection}", SELECTION);
            let call = SqlStatement::new(format!("{sql} {FINAL_SETTINGS}"))
                .with("publisher", self.publisher.clone())
                .with("from_ms", self.from_ms)
                .with("to_ms", self.to_ms)
                .with("step_ms", step_ms);
            let rows: Vec<(u64, String)> = self.warehouse.rows("reference", call).await?;
            sum = rows.iter().map(|(receipts, _)| receipts).sum();
        }
        Ok((began.elapsed().as_secs_f64() * 1_000.0, sum))
    }
}

const SELECTION: &str = "FROM receipts FINAL WHERE publisher = {publisher:String}
    AND timestamp >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')";
const TOTALS: &str = "SELECT count(), toString((uniqExact(client_id), uniqExact(entry_id), min(timestamp), \
    max(timestamp))) {selection}";
const PURPOSES: &str = "SELECT count(), toString(purpose) {selection} GROUP BY purpose";
const SERIES: &str =
    "SELECT count(), toString(intDiv(toUnixTimestamp64Milli(timestamp) - {from_ms:Int64}, {step_ms:Int64}) AS step)
    {selection} GROUP BY step";
const SERIES_BY_PURPOSE: &str =
    "SELECT count(), toString((intDiv(toUnixTimestamp64Milli(timestamp) - {from_ms:Int64}, {step_ms:Int64}) AS step,
    purpose)) {selection} GROUP BY step, purpose";
const TOP_CONTENT: &str =
    "SELECT count() AS receipts, toString((entry_id, argMax(url, timestamp), uniqExact(client_id)))
    {selection} GROUP BY entry_id ORDER BY receipts DESC, entry_id LIMIT 10";
const TOP_CLIENTS: &str = "SELECT count() AS receipts,
        toString((client_id, argMax((client_name, organization), timestamp), uniqExact(entry_id)))
    {selection} GROUP BY client_id ORDER BY receipts DESC, client_id LIMIT 10";

/// The reference: rows of receipts and the rest of the answer. The last statement's receipts are
/// those of the answer.
fn statements(query: Query) -> &'static [&'static str] {
    match query {
        Query::Dashboard => &[TOP_CONTENT, PURPOSES, TOTALS],
        Query::Series(_, _, false) => &[SERIES],
        Query::Series(_, _, true) => &[SERIES_BY_PURPOSE],
        Query::TopContent => &[TOP_CONTENT],
        Query::TopClients => &[TOP_CLIENTS],
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
