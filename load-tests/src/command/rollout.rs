//! `receipts-load rollout`: replays a `helm upgrade` on real engines under load, with the timings
//! of the rendered chart.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::ProgramsArg;
use crate::rollout::{self, Outcome};

/// Rolls two replicas of each service under load, and checks that nothing is lost and that no
/// request fails which an ordinary client retries
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  helm/timings > timings.json && receipts-load rollout --timings timings.json

Exit codes: 0 exact, 1 not, 2 wrong usage.")]
pub struct Rollout {
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
    #[command(flatten)]
    programs: ProgramsArg,
}

impl Rollout {
    /// Runs the command.
    ///
    /// # Errors
    /// The timings can't be read.
    pub async fn run(self) -> Result<bool> {
        let text = std::fs::read_to_string(&self.timings).context("--timings")?;
        let timings = serde_json::from_str(&text).context("--timings")?;
        let programs = self.programs.folder()?;
        match rollout::run(&programs, &timings, self.rate, self.rules.as_deref()).await {
            Ok(outcome) => print(outcome),
            Err(error) => {
                anstream::eprintln!("receipts-load rollout: {error:#}");
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn print(outcome: Outcome) {
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
}
