//! The command line of `receipts-load`.
//!
//! - [`drills`]: faults under load
//! - [`endpoint`]: ClickHouse's protocol over the embedded engine
//! - [`prod_like`]: the services on real engines, for a trial

pub mod drills;
pub mod endpoint;
pub mod prod_like;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::plan::Arguments;

/// Loads, drills and trials of the services on real engines
#[derive(Debug, Parser)]
#[command(name = "receipts-load", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<Arguments>),
    Drills(drills::Drills),
    ProdLike(prod_like::ProdLike),
    Endpoint(endpoint::Endpoint),
}

/// The programs under test.
#[derive(Debug, clap::Args)]
pub struct ProgramsArg {
    /// The folder with `receipts` and `receipts-load`; by default this program's own.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl ProgramsArg {
    fn folder(self) -> Result<PathBuf> {
        if let Some(programs) = self.programs {
            return Ok(programs);
        }
        let program = std::env::current_exe()?;
        Ok(program.parent().context("this program has no folder")?.to_owned())
    }
}

/// Parses the command line and runs the command. Exit codes: 0 all is exact, 1 something isn't, 2
/// the command couldn't run.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("load")
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(cli.run()),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("receipts-load: {error:#}");
            ExitCode::from(2)
        }
    }
}

impl Cli {
    async fn run(self) -> Result<bool> {
        match self.command {
            Command::Run(arguments) => Box::pin(crate::run(*arguments)).await,
            Command::Drills(command) => Box::pin(command.run()).await,
            Command::ProdLike(command) => Box::pin(command.run()).await.map(|()| true),
            Command::Endpoint(command) => Box::pin(command.run()).await.map(|()| true),
        }
    }
}
