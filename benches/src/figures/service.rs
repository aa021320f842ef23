//! Everything in one process, on two cores.

use anyhow::{Context, Result, bail};
use load_tests::stack::Stack;
use serde_json::Value;
use tokio::process::Command;
use tokio::runtime::Runtime;

use super::Setting;
use crate::cost::cell::Cell;
use crate::cost::installation::{SETTINGS, keep_on_two_cores};
use crate::cost::measured::{Effort, Loaded, Measured};
use crate::cost::programs;
use crate::process;
use crate::row::{Row, Target, number};

const PUBLISHER: &str = "bench.example";
const FRESHNESS_MS_MAX: f64 = 700.0;
const MEMORY_MB_MAX: f64 = 500.0;

/// An engine blocks one of its threads while it starts.
fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(1).enable_all().build()?)
}

/// A load of the cost ledger, without its explanations.
async fn measured(setting: &Setting<'_>, name: &str, cell: &Cell) -> Result<Measured> {
    let effort = Effort {
        programs: &programs(setting.arguments.programs.as_deref())?,
        data: &setting.scratch.folder(name)?,
        seconds: usize::try_from(setting.effort.service_time.as_secs())?,
    };
    Loaded::start(cell, &effort).await?.measure().await
}

pub(super) fn sustained(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let loads = [
        ("service-sustained", "up/batches-1000/ed25519/saturation", 40_000.0),
        ("service-sustained-mixed", "up/batches-1000/mix/saturation", 30_000.0),
        ("service-sustained-singles", "up/singles/ed25519/saturation", 20_000.0),
    ];
    let mut rows = Vec::new();
    for (name, cell, least) in loads {
        setting.progress.step("service-sustained", cell);
        let chosen = Cell::chosen(&[cell.to_owned()], false);
        let chosen = chosen.first().with_context(|| format!("no cell {cell}"))?;
        let measured = match runtime()?.block_on(measured(setting, name, chosen)) {
            Ok(measured) => measured,
            Err(error) => {
                rows.push(Row::skipped(name, format!("{error:#}")));
                continue;
            }
        };
        let what = format!("all in one, two cores with the client, from the first request until all is stored, {cell}");
        let note = format!(
            "{} receipts, each of them in the table; {} us of CPU each",
            number(measured.receipts),
            number(measured.cpu_us())
        );
        rows.push(
            Row::alone(name, what, "stored receipts/s", measured.receipts / measured.seconds)
                .target(Target::AtLeast(least))
                .note(note),
        );
        let memory = Row::alone(
            &name.replace("sustained", "memory"),
            "receipts up: peak memory meanwhile",
            "MB",
            measured.sum(|stage| stage.memory_peak_mb),
        );
        rows.push(memory.target(Target::Below(MEMORY_MB_MAX)));
    }
    Ok(rows)
}

/// Report of the generator, which queries the dashboard meanwhile, and the service's peak memory in
/// MB.
async fn fresh(setting: &Setting<'_>) -> Result<(Value, f64)> {
    let programs = programs(setting.arguments.programs.as_deref())?;
    let data = setting.scratch.folder("service-freshness")?;
    let mut stack = Stack::new(&programs.join("receipts"), &data, &SETTINGS)?;
    stack.start()?;
    stack.ready().await?;
    let process = stack.process_id().context("the service has no process")?;
    keep_on_two_cores(process)?;
    let key = stack.create_key(PUBLISHER).await?;
    let seconds = setting.effort.service_time.as_secs().to_string();
    let mut generator = Command::new(programs.join("receipts-load"));
    generator
        .args([
            "run",
            "--json",
            "--rate",
            "2000",
            "--concurrency",
            "256",
            "--duration",
            &seconds,
        ])
        .args(["--gateway", &stack.gateway(), "--analytics", &stack.analytics()])
        .args(["--publisher", PUBLISHER, "--api-key", &key])
        // Tampered receipts cost the same to reject.
        .args(["--duplicates", "0", "--tampered", "0", "--malformed", "0"]);
    let output = generator.kill_on_drop(true).output().await?;
    let report = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("receipts-load: {}", String::from_utf8_lossy(&output.stderr)))?;
    let memory_mb = process::memory_peak_bytes(process)? as f64 / 1e6;
    stack.stop().await?;
    Ok((report, memory_mb))
}

fn exactness(report: &Value) -> String {
    let exact = report.get("passed").and_then(Value::as_bool) == Some(true);
    let receipts = report.get("receipts").and_then(Value::as_u64).unwrap_or(0);
    let exact = if exact {
        "every number exact"
    } else {
        "NOT exact: see the generator's findings"
    };
    format!("{} receipts sent, {exact}", number(receipts as f64))
}

pub(super) fn freshness(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let (report, memory_mb) = runtime()?.block_on(fresh(setting))?;
    let milliseconds = |what: &str, quantile: &str| {
        let percentiles = report.get(what)?;
        percentiles.get(quantile)?.as_f64()
    };
    let Some(p99) = milliseconds("freshnessMs", "p99") else {
        bail!("the generator saw no receipt counted")
    };
    let rest = format!(
        "p50 {} ms, max {} ms; the gateway's answers p99 {} ms; {}",
        milliseconds("freshnessMs", "p50").map_or_else(String::new, number),
        milliseconds("freshnessMs", "max").map_or_else(String::new, number),
        milliseconds("latencyUs", "p99").map_or_else(String::new, |us| number(us / 1_000.0)),
        exactness(&report)
    );
    let row = Row::alone(
        "service-freshness",
        "2,000 receipts/s: from ack to counted, p99",
        "ms",
        p99,
    );
    Ok(vec![
        row.target(Target::Below(FRESHNESS_MS_MAX))
            .note(rest)
            .note(format!("peak memory {} MB", number(memory_mb))),
    ])
}
