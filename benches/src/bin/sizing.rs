//! `sizing`: what `receipts size` says against what is measured on this machine.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use benches::sizing::{Arguments, run};
use clap::Parser;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(&arguments)));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("sizing: {error:#}");
            ExitCode::from(2)
        }
    }
}
