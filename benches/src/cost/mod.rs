//! The cost ledger: what one receipt costs, by stage, thread and function, beside references.
//!
//! - [`cell`]: the measurements to choose from
//! - [`installation`]: the service under test
//! - [`measured`]: a cell's load and its cost
//! - [`meter`]: CPU time, switches, written bytes and memory, from `/proc`
//! - [`functions`]: CPU time by group of functions, from `perf`
//! - [`stored`]: tables, parts, merges and columns, from the engine's system tables
//! - [`mod@reference`]: references beside a cell
//! - [`comparison`]: figures beside those of the last run
//! - [`document`]: the run as Markdown

pub mod cell;
pub mod comparison;
pub mod document;
pub mod functions;
pub mod installation;
pub mod measured;
pub mod meter;
pub mod reference;
pub mod stored;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use serde::Serialize;
use tokio::time::timeout;

use crate::arguments::{CostArguments, RunArguments};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::{new_file, slug};
use crate::scratch::Scratch;
use cell::Cell;
use comparison::{Figures, Worse};
use measured::{Effort, Loaded, Measured};

/// Seconds of a cell's counted load, and of a quick one's.
const SECONDS: usize = 12;
const QUICK_SECONDS: usize = 2;
/// Whatever hangs, the others of a long run are measured.
const CELL_TIME_MAX: Duration = Duration::from_secs(300);

/// A whole run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// When it began, RFC 3339.
    pub at: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Machine of the run.
    pub machine: Machine,
    /// A quick run shows that it works, not what a receipt costs.
    pub quick: bool,
    /// Numbers to compare runs by; less is better.
    pub figures: Figures,
    /// Cells in the order of their measurement.
    pub cells: Vec<(String, Measured)>,
    /// Cells that couldn't be measured, and why.
    pub skipped: BTreeMap<String, String>,
    /// When the compared run began.
    pub compared_with: Option<String>,
    /// Figures that got worse by more than 10%.
    pub worse: Vec<Worse>,
}

/// Measures, prints, writes.
///
/// # Errors
/// No such cell, or no folder for the run. A cell that can't be measured is listed with its reason.
pub fn run(arguments: &CostArguments) -> Result<()> {
    let RunArguments { only, list, out, .. } = &arguments.run;
    let cells = Cell::chosen(only, arguments.all || *list);
    if *list {
        let defaults: Vec<String> = Cell::chosen(&[], false).iter().map(Cell::name).collect();
        for name in cells.iter().map(Cell::name) {
            let when = if defaults.contains(&name) { "default" } else { "--all" };
            anstream::println!("{name:<40} {when}");
        }
        return Ok(());
    }
    ensure!(!cells.is_empty(), "no cell's name contains that; --list lists them");
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    // An engine blocks one of its threads while it starts.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let run = runtime.block_on(measure(&arguments.run, &cells))?;
    let name = format!(
        "cost-{}-{}",
        run.at.split('T').next().unwrap_or_default(),
        slug(&run.machine.cpu)
    );
    let (json, document) = (new_file(out, &name, "json")?, document::write(&run));
    std::fs::write(&json, serde_json::to_string_pretty(&run)? + "\n").with_context(|| json.display().to_string())?;
    std::fs::write(json.with_extension("md"), &document)?;
    anstream::println!("{document}\nWritten to {} and .md", json.display());
    Ok(())
}

async fn measure(arguments: &RunArguments, cells: &[Cell]) -> Result<Run> {
    let at = service::instant::rfc3339_ms(service::instant::now_ms());
    let began = Instant::now();
    let scratch = Scratch::new(arguments.scratch.as_deref())?;
    let machine = Machine::look(scratch.path());
    let programs = programs(arguments.programs.as_deref())?;
    let bare_go = reference::build_bare_go(scratch.path())?;
    let progress = Progress::new(cells.len());
    let seconds = if arguments.quick { QUICK_SECONDS } else { SECONDS };
    let (mut figures, mut measured, mut skipped) = (Figures::new(), Vec::new(), BTreeMap::new());
    for (index, cell) in cells.iter().enumerate() {
        let name = cell.name();
        progress.begin(&name);
        let effort = Effort {
            programs: &programs,
            data: &scratch.folder(&index.to_string())?,
            seconds,
        };
        let one = Box::pin(one(cell, &effort, bare_go.as_deref()));
        match timeout(CELL_TIME_MAX, one).await.map_err(Error::from).flatten() {
            Ok(cost) => {
                figures.extend(comparison::figures(cell, &cost));
                measured.push((name, cost));
            }
            Err(error) => {
                skipped.insert(name, format!("{error:#}"));
            }
        }
        progress.end();
        // The next cell's disk is as empty as this one's was.
        let _ = std::fs::remove_dir_all(effort.data);
    }
    progress.finish();
    let last = match arguments.quick {
        true => None,
        false => comparison::last(&arguments.out, &machine.cpu)?,
    };
    Ok(Run {
        at,
        seconds: began.elapsed().as_secs_f64(),
        machine,
        quick: arguments.quick,
        worse: last
            .as_ref()
            .map(|last| comparison::worse(&last.figures, &figures))
            .unwrap_or_default(),
        compared_with: last.map(|last| last.at),
        figures,
        cells: measured,
        skipped,
    })
}

async fn one(cell: &Cell, effort: &Effort<'_>, bare_go: Option<&Path>) -> Result<Measured> {
    let loaded = Loaded::start(cell, effort).await?;
    let mut measured = loaded.measure().await?;
    loaded.explain(&mut measured, bare_go).await?;
    Ok(measured)
}

/// The folder of the programs under test: this program's unless another one is named.
///
/// # Errors
/// This program has no folder.
pub fn programs(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let program = std::env::current_exe()?;
    Ok(program.parent().context("this program has no folder")?.to_owned())
}
