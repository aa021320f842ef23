//! Comparison of `receipts size` with measurements: `receipts up` under open loops, its CPU and
//! its bytes a receipt.
//!
//! Each load is sent at a fixed rate until it is over and every receipt is counted, exactly, by the
//! generator's own check. CPU is that of the service's process from the first request to the last
//! count; the log's bytes are its counter's; ClickHouse's are those of the active parts after one
//! merge of all, so that they don't depend on how far merges had come.

#![allow(clippy::print_stdout)] // A program for people.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use load_tests::stack::Stack;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::machine::Machine;
use crate::process;

const PUBLISHER: &str = "sizing.example";
/// Largest relative error of a prediction.
const OFF_MAX: f64 = 0.25;

/// Measures what `receipts size` predicts.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Seconds of each load
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// The folder of `receipts` and `receipts-load`; by default this program's
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Folder of the results
    #[arg(long, default_value = "benches/runs")]
    pub out: PathBuf,
    /// Folder of data directories: a real disk; by default beside this program
    #[arg(long)]
    pub scratch: Option<PathBuf>,
}

/// A load: receipts a second, receipts a request, `receipts size`'s algorithm and the
/// generator's.
struct Load {
    name: &'static str,
    /// Whether the command's constants were fitted to it; where they weren't, the prediction is put
    /// to the test.
    fitted: bool,
    rate: u32,
    batch: u32,
    algorithm: &'static str,
    algorithms: &'static str,
}

const LOADS: [Load; 6] = [
    Load {
        name: "ed25519 in batches of 100",
        fitted: true,
        rate: 5_000,
        batch: 100,
        algorithm: "ed25519",
        algorithms: "Ed25519",
    },
    Load {
        name: "single ed25519",
        fitted: true,
        rate: 2_500,
        batch: 1,
        algorithm: "ed25519",
        algorithms: "Ed25519",
    },
    Load {
        name: "a mix in batches of 20",
        fitted: false,
        rate: 4_000,
        batch: 20,
        algorithm: "mix",
        algorithms: "Ed25519=8,RSA-2048=1,ECDSA-P256=1",
    },
    Load {
        name: "ecdsa in batches of 500",
        fitted: false,
        rate: 5_000,
        batch: 500,
        algorithm: "ecdsa",
        algorithms: "ECDSA-P256",
    },
    Load {
        name: "rsa in batches of 50",
        fitted: false,
        rate: 3_000,
        batch: 50,
        algorithm: "rsa",
        algorithms: "RSA-2048",
    },
    Load {
        name: "a trickle of single receipts",
        fitted: true,
        rate: 500,
        batch: 1,
        algorithm: "mix",
        algorithms: "Ed25519=8,RSA-2048=1,ECDSA-P256=1",
    },
];

/// A figure as measured and as predicted.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Name of the figure.
    pub what: &'static str,
    /// As measured.
    pub measured: f64,
    /// As `receipts size` says.
    pub predicted: f64,
    /// The prediction against the measurement, less 1.
    pub off: f64,
    /// Whether that is within 25 %.
    pub within: bool,
}

/// Figures of a load.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Name of the load.
    pub load: &'static str,
    /// Whether the command's constants were fitted to it.
    pub fitted: bool,
    /// Receipts a second, receipts a request, receipts in all.
    pub rate: u32,
    /// Receipts a request.
    pub batch: u32,
    /// Receipts in all.
    pub receipts: u64,
    /// Inserts into the table of receipts: what a block's cost is divided by.
    pub inserts: f64,
    /// The process's peak memory.
    pub memory_mb: f64,
    /// Measured against predicted.
    pub figures: Vec<Compared>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    at: String,
    machine: Machine,
    seconds: u64,
    loads: Vec<Measured>,
    within: bool,
}

/// Runs all loads, prints and writes what came out; whether every prediction is within 25 %.
///
/// # Errors
/// A program is missing, a load failed, or its numbers weren't exact.
pub async fn run(arguments: &Arguments) -> Result<bool> {
    let beside = std::env::current_exe()?
        .parent()
        .context("this program has no folder")?
        .to_owned();
    let programs = arguments.programs.clone().unwrap_or_else(|| beside.clone());
    let scratch = arguments.scratch.clone().unwrap_or(beside);
    let mut loads = Vec::new();
    for load in LOADS {
        let folder = tempfile::Builder::new().prefix("sizing-").tempdir_in(&scratch)?;
        let measured = measure(&load, &programs, &folder.path().join("data"), arguments.seconds)
            .await
            .with_context(|| load.name)?;
        println!(
            "{} ({}/s, {} receipts, {} inserts, peak memory {:.0} MB{})",
            load.name,
            load.rate,
            measured.receipts,
            measured.inserts,
            measured.memory_mb,
            if load.fitted { "" } else { ", not fitted" }
        );
        for figure in &measured.figures {
            let verdict = if figure.within { "" } else { "  OFF BY MORE THAN 25 %" };
            let (what, measured, predicted, off) = (figure.what, figure.measured, figure.predicted, 100.0 * figure.off);
            println!("  {what:<28} measured {measured:>9.1}  predicted {predicted:>9.1}  {off:>+6.1} %{verdict}");
        }
        loads.push(measured);
    }
    let within = loads.iter().flat_map(|load| &load.figures).all(|figure| figure.within);
    let report = Report {
        at: jiff::Timestamp::now().to_string(),
        machine: Machine::look(&scratch),
        seconds: arguments.seconds,
        loads,
        within,
    };
    let day = report.at.split('T').next().unwrap_or_default().to_owned();
    std::fs::create_dir_all(&arguments.out)?;
    let path = arguments.out.join(format!("{day}-sizing.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")?;
    println!("written to {}", path.display());
    Ok(within)
}

async fn measure(load: &Load, programs: &Path, data: &Path, seconds: u64) -> Result<Measured> {
    let (receipts, generator) = (programs.join("receipts"), programs.join("receipts-load"));
    for program in [&receipts, &generator] {
        ensure!(program.is_file(), "{} isn't built", program.display());
    }
    // The queries that would tell freshness are left out: what is measured is what receipts cost.
    let mut stack = Stack::new(&receipts, data, &[("RECEIPTS_TELEMETRY_LOG_LEVEL", "warn")])?;
    stack.start()?;
    stack.ready().await?;
    let process = stack.process_id().context("the service has no process")?;
    let key = stack.create_key(PUBLISHER).await?;
    let before = process::cpu_seconds(process)?;
    let output = Command::new(&generator)
        .args(["--gateway", &stack.gateway(), "--analytics", &stack.analytics()])
        .args([
            "--publisher",
            PUBLISHER,
            "--api-key",
            &key,
            "--json",
            "--sample-ms",
            "0",
        ])
        .args([
            "--duplicates",
            "0",
            "--tampered",
            "0",
            "--malformed",
            "0",
            "--concurrency",
            "256",
        ])
        .args(["--rate", &load.rate.to_string(), "--batch", &load.batch.to_string()])
        .args(["--algorithms", load.algorithms, "--duration", &seconds.to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .output()
        .await?;
    let cpu_s = process::cpu_seconds(process)? - before;
    let report: Value = serde_json::from_slice(&output.stdout).context("the generator's report")?;
    ensure!(report["passed"] == true, "the numbers weren't exact: {report}");
    let sent = report["receipts"]
        .as_u64()
        .context("receipts in the generator's report")?;
    let text = metrics(&stack.metrics()).await?;
    let log_bytes = sum(&text, "receipts_log_append_bytes_total{log=\"receipts\"");
    let inserts = sum(&text, "receipts_warehouse_insert_seconds_count{table=\"receipts\"");
    ensure!(
        sum(&text, "receipts_gateway_receipts_total") >= sent as f64,
        "the gateway's counter is behind"
    );
    let memory_mb = process::memory_peak_bytes(process)? as f64 / 1e6;
    let socket = data.join("warehouse.sock");
    ask(&socket, "OPTIMIZE TABLE receipts FINAL").await?;
    let parts = "SELECT toString(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = 'receipts' AND table = 'receipts'";
    let table_bytes: f64 = ask(&socket, parts).await?.trim().parse()?;
    stack.stop().await?;

    let plan = predicted(load, &receipts).await?;
    let number = |path: &str| {
        plan.pointer(path)
            .and_then(Value::as_f64)
            .with_context(|| format!("{path} of receipts size"))
    };
    let receipts_sent = sent as f64;
    let compared = |what, measured: f64, predicted: f64| {
        let off = predicted / measured - 1.0;
        Compared {
            what,
            measured,
            predicted,
            off,
            within: off.abs() <= OFF_MAX,
        }
    };
    let rate = f64::from(load.rate);
    Ok(Measured {
        load: load.name,
        fitted: load.fitted,
        rate: load.rate,
        batch: load.batch,
        receipts: sent,
        inserts,
        memory_mb,
        figures: vec![
            compared(
                "CPU us a receipt",
                cpu_s * 1e6 / receipts_sent,
                number("/plan/cores/total")? * 1e6 / rate,
            ),
            compared(
                "log bytes a receipt",
                log_bytes / receipts_sent,
                number("/plan/perReceipt/logBytes")?,
            ),
            compared(
                "ClickHouse bytes a receipt",
                table_bytes / receipts_sent,
                number("/plan/perReceipt/clickhouseBytes")?,
            ),
        ],
    })
}

async fn predicted(load: &Load, receipts: &Path) -> Result<Value> {
    let output = Command::new(receipts)
        .args(["size", "--engines", "embedded", "--json", "--algorithm", load.algorithm])
        .args(["--rate", &load.rate.to_string(), "--batch", &load.batch.to_string()])
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "receipts size: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

async fn metrics(base: &str) -> Result<String> {
    let answer = load_tests::http::client(1)
        .get(format!("{base}/metrics").parse()?)
        .await?;
    let body = http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}

/// The sum of the series that begin so.
fn sum(text: &str, prefix: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(prefix));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// A statement to the running engine, through its socket.
async fn ask(socket: &Path, statement: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    let length = statement.len();
    let head = format!("POST /?database=receipts HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{statement}");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("no answer to {statement}")
    };
    ensure!(head.split(' ').nth(1) == Some("200"), "{statement}: {answer}");
    Ok(body.to_owned())
}
