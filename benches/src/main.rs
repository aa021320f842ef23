//! `compare`: every figure of the project beside its reference, measured in one run.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use benches::arguments::{Arguments, Program};
use benches::{analytics, cost, figures, server};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match arguments.program {
        Some(Program::Cost(arguments)) => cost::run(&arguments),
        Some(Program::Analytics(arguments)) => analytics::run(&arguments),
        Some(Program::Serve(serve)) => server::run(&serve),
        None => figures::run(&arguments.run),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("compare: {error:#}");
            ExitCode::from(2)
        }
    }
}
