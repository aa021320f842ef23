//! `receipts-rollout`: replays a `helm upgrade` on real engines under load, with the timings of the
//! rendered chart.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use load_tests::rollout;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rolls two replicas of each service under load, and checks that nothing is lost and that no
/// request fails which an ordinary client retries.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  helm/timings > timings.json && receipts-rollout --timings timings.json

Exit codes: 0 exact, 1 not, 2 wrong usage."
)]
struct Arguments {
    /// File that helm/timings wrote.
    #[arg(long, value_name = "FILE")]
    timings: PathBuf,
    /// Receipts a second.
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// Scrapes every replica with a real Prometheus, which evaluates the rules in these files, and
    /// holds what it finds against the list of metrics.
    #[arg(long, value_name = "PATTERN")]
    rules: Option<PathBuf>,
    /// The folder with the services' programs; by default this program's own.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("receipts-rollout: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let text = std::fs::read_to_string(&arguments.timings).context("--timings")?;
    let timings = serde_json::from_str(&text).context("--timings")?;
    let programs = match arguments.programs {
        Some(programs) => programs,
        None => std::env::current_exe()?
            .parent()
            .context("this program has no folder")?
            .to_owned(),
    };
    let outcome = rollout::run(&programs, &timings, arguments.rate, arguments.rules.as_deref()).await?;
    anstream::println!(
        "exact: every pod replaced in {:.1} s, {}",
        outcome.took.as_secs_f64(),
        outcome.report.summary()
    );
    if let Some(metrics) = outcome.metrics {
        anstream::println!("  Prometheus found {metrics} metrics, all of the list");
    }
    for (service, drain) in outcome.drains {
        anstream::println!(
            "  {service:<14} ended at most {:.2} s after SIGTERM",
            drain.as_secs_f64()
        );
    }
    for reading in outcome.readings {
        anstream::println!(
            "  {} answers, {} tries repeated, the slowest {:.2} s: {}",
            reading.answered,
            reading.repeated,
            reading.slowest.as_secs_f64(),
            reading.url
        );
    }
    Ok(())
}
