//! The command line of `compare`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::analytics;
use crate::server::ServeArguments;

/// Measures every figure of the project against its reference, in one run and in turn, and writes
/// the run down
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  cargo run --release -p benches --bin compare
  cargo run --release -p benches --bin compare -- --quick --only verify
  cargo run --release -p benches --bin compare -- --only gateway --only log --out /tmp

Exit codes: 0 the run was made, whatever its figures; 2 it could not be made or written."
)]
pub struct Arguments {
    /// Another program than the measurement of figures.
    #[command(subcommand)]
    pub program: Option<Program>,
    /// Measurements to make.
    #[command(flatten)]
    pub run: RunArguments,
}

/// Measurements, their duration, and the folder of the results.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Measure only what has this in its name; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Few and short rounds: says that it works, not how fast it is.
    #[arg(long)]
    pub quick: bool,
    /// The folder for the run.
    #[arg(long, value_name = "DIR", default_value = "benches/runs")]
    pub out: PathBuf,
    /// The folder for logs and data while measuring; by default one beside this program.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// The folder with the programs `receipts` and `receipts-load`; by default the one of this
    /// program.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// List the names and stop.
    #[arg(long)]
    pub list: bool,
}

/// Measures what one receipt costs, and compares it with the last run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  compare cost
  compare cost --only up/batches-1000/ed25519 --out /tmp
  compare cost --quick --only stages/singles

Exit codes: 0 the run was made, whatever its figures; 2 it could not be made or written.")]
pub struct CostArguments {
    /// Cells to measure.
    #[command(flatten)]
    pub run: RunArguments,
    /// Measure every cell: about 40 minutes.
    #[arg(long, conflicts_with = "only")]
    pub all: bool,
}

/// Other programs than the measurement of figures.
#[derive(Debug, Subcommand)]
pub enum Program {
    /// The cost ledger.
    Cost(CostArguments),
    /// The analytics API over tens of millions of receipts.
    Analytics(analytics::Arguments),
    /// A server to be measured, until its standard input ends.
    #[command(hide = true)]
    Serve(ServeArguments),
}
