//! `analytics`: what a publisher waits for, with tens of millions of receipts behind it and more
//! coming in.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use benches::analytics::{self, Arguments};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match analytics::run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("analytics: {error:#}");
            ExitCode::from(2)
        }
    }
}
