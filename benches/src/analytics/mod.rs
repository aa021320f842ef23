//! Analytics over tens of millions of receipts: how fast and how fresh. One `receipts up` is
//! measured from outside, over HTTP; only the reference, the same queries over `receipts FINAL`,
//! goes to its engine directly.
//!
//! - [`arguments`]: the command line
//! - `loading`: receipts made and counted inside the engine
//! - `service`: the process under test
//! - `speed`: answers from `usage` beside `FINAL`, in turn
//! - `stream`: receipts that come in meanwhile
//! - `mix`: what dashboards ask meanwhile
//! - `fresh`: from acknowledged to sent in the live feed

pub mod arguments;
mod fresh;
mod get;
mod loading;
mod mix;
mod service;
mod speed;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Instant;

use anyhow::{Result, ensure};

pub use arguments::Arguments;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::Report;
use crate::row::Row;
use crate::scratch::Scratch;
use service::Service;

/// Bytes that a loaded receipt takes at most: its row and the merge that rewrites it, its rows of
/// `usage` and theirs.
const RECEIPT_BYTES_MAX: u64 = 400;

/// Loads, measures, prints, writes.
///
/// # Errors
/// The measurement is impossible: no programs, no room, a service that doesn't start.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let at = ::service::instant::rfc3339_ms(::service::instant::now_ms());
    let began = Instant::now();
    let scratch = Scratch::new(arguments.scratch.as_deref())?;
    let data = match &arguments.data {
        Some(data) => data.clone(),
        None => scratch.path().join("data"),
    };
    let machine = Machine::look(scratch.path());
    let progress = Progress::new(3);
    let mut rows = Vec::new();

    let loaded = loading::Load::of(arguments);
    let filled = data.join("warehouse").exists();
    if filled {
        progress.step("loading", "the data directory is there already");
    } else {
        std::fs::create_dir_all(&data)?;
        let free = free_bytes(&data)?;
        let needed = arguments.receipts.saturating_mul(RECEIPT_BYTES_MAX);
        ensure!(free > needed, "{needed} bytes of disk are needed, {free} are free");
        progress.begin("loading");
        let mut service = Service::start(arguments, &data).await?;
        rows.extend(loaded.run(&service, &progress).await?);
        service.stop().await?;
        progress.end();
    }

    let mut service = Service::start(arguments, &data).await?;

    progress.begin("speed");
    let speed = speed::measure(arguments, &service, &loaded).await?;
    progress.found(&speed);
    progress.end();

    progress.begin("mix");
    let mix = mix::measure(arguments, &mut service, &loaded).await?;
    progress.found(&mix);
    progress.end();
    rows.extend(speed.into_iter().chain(mix));
    service.stop().await?;
    progress.finish();

    let notes = loaded.notes();
    if let Some(first) = rows.first_mut() {
        first.notes.extend(notes);
    }
    let report = Report {
        at,
        seconds: began.elapsed().as_secs_f64(),
        machine,
        load_after: crate::machine::load(),
        rounds: arguments.rounds,
        quick: arguments.is_quick(),
        rows,
    };
    report.print();
    let name = format!("analytics-{}m", (arguments.receipts / 1_000_000).max(1));
    let path = report.write_as(&arguments.out, &name)?;
    anstream::println!("Written to {}", path.display());
    Ok(())
}

/// A row that couldn't be measured instead of an end of the run.
fn or_skipped(name: &str, row: Result<Row>) -> Row {
    row.unwrap_or_else(|error| Row::skipped(name, format!("{error:#}")))
}

fn free_bytes(folder: &std::path::Path) -> Result<u64> {
    let output = std::process::Command::new("df")
        .args(["--output=avail", "-B1"])
        .arg(folder)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().nth(1).unwrap_or_default().trim().parse()?)
}
