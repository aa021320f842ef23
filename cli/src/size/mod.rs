//! `receipts size`: what a load needs.
//!
//! - [`load`]: what is to be carried
//! - [`constants`]: what one receipt costs, as measured, with the runs
//! - [`model`]: from the one to the other
//! - [`table`]: as a person reads it

pub mod constants;
pub mod load;
pub mod model;
pub mod table;

use serde::Serialize;

use crate::failure::{Answer, Failure};
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
Reckoned from measured constants (cli/src/size/constants.rs names their runs), for the cores they were measured on. \
`--engines embedded` is `receipts up`: one process, one copy.

Examples:
  receipts size --rate 10k
  receipts size --rate 1M --algorithm ed25519 --batch 1000 --days 365 --publishers 20000
  receipts size --rate 2500 --batch 1 --engines embedded --json

Exit codes:
  0  ok
  2  wrong usage";

/// Say what a load needs: pods, partitions, disks, and what it costs most
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Size {
    #[command(flatten)]
    load: load::Load,
    /// Write the plan as JSON
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Sizing<'a> {
    load: &'a load::Load,
    plan: &'a model::Plan,
}

impl Size {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let plan = model::plan(&self.load);
        let mut out = RawOutput::stdout();
        if self.json {
            out.json(&Sizing {
                load: &self.load,
                plan: &plan,
            })?;
        } else {
            for line in table::lines(&self.load, &plan) {
                out.bytes(format!("{line}\n").as_bytes())?;
            }
        }
        out.flush()?;
        Ok(Answer::Good)
    }
}
