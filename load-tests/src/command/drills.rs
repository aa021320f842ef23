//! `receipts-load drills`: breaks a fleet of the services on real engines under load, and proves
//! that nothing is lost and nothing counts twice.

use anyhow::Result;

use super::ProgramsArg;
use crate::drills::{Setting, show};

/// Fault drills on Kafka, ClickHouse's protocol, PostgreSQL and Redis, each ending in an exact
/// audit
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 every drill ended exact, 1 one didn't, 2 wrong usage.")]
pub struct Drills {
    /// Only the drills whose names hold this; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Seconds instead of minutes, at a small rate.
    #[arg(long)]
    short: bool,
    /// List the drills and end.
    #[arg(long)]
    list: bool,
    /// The seed of every instant and victim [default: random].
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    programs: ProgramsArg,
}

impl Drills {
    /// Runs the command.
    ///
    /// # Errors
    /// A name is no drill's.
    pub async fn run(self) -> Result<bool> {
        if self.list {
            show::list();
            return Ok(true);
        }
        let setting = Setting {
            programs: self.programs.folder()?,
            short: self.short,
            seed: self.seed.unwrap_or_else(rand::random),
            verbose: true,
        };
        Ok(show::run(show::chosen(&self.only)?, &setting).await)
    }
}
