//! `receipts-drills`: breaks a fleet of the services on real engines under load, and proves that
//! nothing is lost and nothing counts twice.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use load_tests::drills::{Setting, show};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fault drills on Kafka, ClickHouse's protocol, PostgreSQL and Redis, each ending in an exact
/// audit.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 every drill ended exact, 1 one didn't, 2 wrong usage."
)]
struct Arguments {
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
    /// The folder with the services' programs; by default this program's own.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("receipts-drills: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool> {
    if arguments.list {
        show::list();
        return Ok(true);
    }
    let programs = match arguments.programs {
        Some(programs) => programs,
        None => std::env::current_exe()?
            .parent()
            .context("this program has no folder")?
            .to_owned(),
    };
    let setting = Setting {
        programs,
        short: arguments.short,
        seed: arguments.seed.unwrap_or_else(rand::random),
        verbose: true,
    };
    Ok(show::run(show::chosen(&arguments.only)?, &setting).await)
}
