//! Everything in one process, the generator beside it, on two cores.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use load_tests::stack::Stack;
use serde_json::Value;
use tokio::process::Command;

use super::Setting;
use crate::process;
use crate::rounds::Samples;
use crate::row::{Row, Target, number};

const PUBLISHER: &str = "bench.example";
/// The figures are for two cores: on larger machines everything is kept on the first two.
const CORES: &str = "0,1";
const MEMORY_MB_MAX: f64 = 1_500.0;
/// Interval between two readings of the writer's counter.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// The programs that run the service and load it.
struct Programs {
    receipts: PathBuf,
    load: PathBuf,
}

impl Programs {
    fn find(setting: &Setting<'_>) -> Result<Self> {
        let folder = match &setting.arguments.programs {
            Some(folder) => folder.clone(),
            None => std::env::current_exe()?
                .parent()
                .context("this program has no folder")?
                .to_owned(),
        };
        let program = |name: &str| {
            let path = folder.join(name);
            ensure!(path.is_file(), "{} isn't built: cargo build --release", path.display());
            Ok(path)
        };
        Ok(Self {
            receipts: program("receipts")?,
            load: program("receipts-load")?,
        })
    }
}

/// Result of a load.
struct Loaded {
    /// The generator's report.
    report: Value,
    /// Receipts with an outcome, over time.
    outcomes: Vec<(Duration, f64)>,
    /// The service's peak memory.
    memory_mb: f64,
    /// CPU seconds of the service and seconds it ran under load.
    cpu: (f64, f64),
}

async fn load(setting: &Setting<'_>, name: &str, arguments: &[String]) -> Result<Loaded> {
    let programs = Programs::find(setting)?;
    let data = setting.scratch.folder(name)?;
    // All comes from one address.
    let settings = [
        ("RECEIPTS_TELEMETRY_LOG_LEVEL", "warn"),
        ("RECEIPTS_GATEWAY_RATE_ADDRESS_VERIFICATIONS_PER_S", "0"),
    ];
    let mut stack = Stack::new(&programs.receipts, &data, &settings)?;
    stack.start()?;
    stack.ready().await?;
    let process = stack.process_id().context("the service has no process")?;
    keep_on_two_cores(process).await?;
    let key = stack.create_key(PUBLISHER).await?;
    let cpu = process::cpu_seconds(process)?;
    let began = Instant::now();
    let mut generator = generator(&programs.load);
    generator.arg("run");
    generator.args(["--gateway", &stack.gateway(), "--analytics", &stack.analytics()]);
    generator
        .args(["--publisher", PUBLISHER, "--api-key", &key, "--json"])
        .args(arguments);
    let generator = generator
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = generator.wait_with_output();
    tokio::pin!(output);
    let mut outcomes = Vec::new();
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = tokio::time::sleep(SAMPLE_EVERY) => {
                if let Ok(count) = outcomes_so_far(&stack.metrics()).await {
                    outcomes.push((began.elapsed(), count));
                }
            }
        }
    };
    let report = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "receipts-load ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        )
    })?;
    let cpu = (process::cpu_seconds(process)? - cpu, began.elapsed().as_secs_f64());
    let memory_mb = process::memory_peak_bytes(process)? as f64 / 1e6;
    stack.stop().await?;
    Ok(Loaded {
        report,
        outcomes,
        memory_mb,
        cpu,
    })
}

fn more_than_two_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 2)
}

/// The service was started on all cores; its threads are moved to two.
async fn keep_on_two_cores(process: u32) -> Result<()> {
    if more_than_two_cores() {
        let arguments = ["--all-tasks", "--cpu-list", "--pid", CORES, &process.to_string()];
        let status = Command::new("taskset")
            .args(arguments)
            .stdout(std::process::Stdio::null())
            .status()
            .await;
        ensure!(
            status.is_ok_and(|status| status.success()),
            "taskset can't keep the service on two cores"
        );
    }
    Ok(())
}

fn generator(program: &Path) -> Command {
    if !more_than_two_cores() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", CORES]).arg(program);
    command
}

/// The writer's counter, all outcomes together: receipts that are stored.
async fn outcomes_so_far(metrics: &str) -> Result<f64> {
    let client = load_tests::http::client(1);
    let answer = client.get(format!("{metrics}/metrics").parse()?).await?;
    let text = http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes();
    let text = std::str::from_utf8(&text)?;
    let counts = text
        .lines()
        .filter(|line| line.starts_with("receipts_writer_receipts_total"));
    let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum())
}

/// Receipts a second between the first outcome and the last: the pace that was kept up, start and
/// waiting left out.
fn pace(outcomes: &[(Duration, f64)]) -> Result<f64> {
    let last = outcomes.last().context("the writer's counter was never read")?.1;
    let begin = outcomes
        .iter()
        .find(|(_, count)| *count > 0.0)
        .context("nothing was stored")?;
    let end = outcomes
        .iter()
        .find(|(_, count)| *count >= last)
        .context("nothing was stored")?;
    let seconds = (end.0 - begin.0).as_secs_f64();
    ensure!(seconds > 1.0, "it was over before it could be measured");
    Ok((end.1 - begin.1) / seconds)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn text(value: &str) -> String {
    value.to_owned()
}

/// Arguments for valid receipts only: the pace is measured, and tampered ones cost the same.
fn arguments(batch: usize, seconds: u64, more: &[&str]) -> Vec<String> {
    let mut arguments = vec![
        text("--batch"),
        batch.to_string(),
        text("--duration"),
        seconds.to_string(),
    ];
    for flag in ["--duplicates", "--tampered", "--malformed"] {
        arguments.extend([text(flag), text("0")]);
    }
    arguments.extend(more.iter().map(|argument| text(argument)));
    arguments
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

pub(super) fn sustained(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let seconds = setting.effort.service_time.as_secs();
    let mut rows = Vec::new();
    let loads = [
        (
            "service-sustained",
            "Ed25519 in batches of 100",
            arguments(
                100,
                seconds,
                &["--concurrency", "8", "--algorithms", "Ed25519", "--sample-ms", "0"],
            ),
        ),
        (
            "service-sustained-mixed",
            "three algorithms in batches of 100",
            arguments(100, seconds, &["--concurrency", "8", "--sample-ms", "0"]),
        ),
        (
            "service-sustained-singles",
            "Ed25519, single receipts",
            arguments(1, seconds, &["--algorithms", "Ed25519", "--sample-ms", "0"]),
        ),
    ];
    for (name, what, arguments) in loads {
        setting.progress.step("service-sustained", what);
        let loaded = match runtime()?.block_on(load(setting, name, &arguments)) {
            Ok(loaded) => loaded,
            Err(error) => {
                rows.push(Row::skipped(name, format!("{error:#}")));
                continue;
            }
        };
        let (cpu, wall) = loaded.cpu;
        let row = Row::alone(
            name,
            format!("all in one, two cores, generator included, {what}"),
            "stored receipts/s",
            pace(&loaded.outcomes)?,
        )
        .note(exactness(&loaded.report))
        .note(format!(
            "the service used {} of 2 cores, the generator the rest",
            number(cpu / wall)
        ));
        if name == "service-sustained" {
            rows.push(row.target(Target::AtLeast(15_000.0)));
            let memory = Row::alone(
                "service-memory",
                "receipts up: peak memory meanwhile",
                "MB",
                loaded.memory_mb,
            );
            rows.push(memory.target(Target::Below(MEMORY_MB_MAX)));
        } else {
            rows.push(row.note(format!("peak memory {} MB", number(loaded.memory_mb))));
        }
    }
    Ok(rows)
}

pub(super) fn freshness(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let seconds = setting.effort.service_time.as_secs();
    let arguments = arguments(1, seconds, &["--rate", "2000", "--concurrency", "256"]);
    let loaded = runtime()?.block_on(load(setting, "service-freshness", &arguments))?;
    let milliseconds = |what: &str, quantile: &str| {
        loaded
            .report
            .get(what)
            .and_then(|percentiles| percentiles.get(quantile))
            .and_then(Value::as_f64)
    };
    let Some(p99) = milliseconds("freshnessMs", "p99") else {
        bail!("the generator saw no receipt counted")
    };
    let samples = Samples {
        ours: vec![p99],
        reference: Vec::new(),
    };
    let rest = format!(
        "p50 {} ms, max {} ms; the gateway's answers p99 {} ms; {}",
        milliseconds("freshnessMs", "p50").map_or_else(String::new, number),
        milliseconds("freshnessMs", "max").map_or_else(String::new, number),
        milliseconds("latencyUs", "p99").map_or_else(String::new, |us| number(us / 1_000.0)),
        exactness(&loaded.report)
    );
    let row = Row::measured(
        "service-freshness",
        "2,000 receipts/s: from ack to counted, p99",
        "ms",
        samples,
    )
    .target(Target::Below(1_000.0))
    .note(rest)
    .note(format!("peak memory {} MB", number(loaded.memory_mb)));
    Ok(vec![row])
}
