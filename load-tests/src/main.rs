//! `receipts-load`: sends receipts at a rate or at a concurrency, then proves that every number
//! adds up.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use load_tests::plan::Arguments;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("load")
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no runtime: {error}")),
    };
    match runtime.block_on(load_tests::run(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&format!("{error:#}")),
    }
}

fn fail(reason: &str) -> ExitCode {
    anstream::eprintln!("receipts-load: {reason}");
    ExitCode::from(2)
}
